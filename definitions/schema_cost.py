"""How often a JSON Schema looks at one value.

A small schema can make its validator look at one value 2**64 times: by references that double (`a3: allOf [a2, a2]`,
and so on), or by a recursion that enters itself twice at one place. Schemas come from tenants and validation can't be
interrupted, so such schemas are refused beforehand. The judgement is on the safe side: of an `anyOf` every member
counts, so a recursion through several members that name the same key is refused too.

The subschemas that apply to one place of a value, with how often each does, are a *state*. From a state, each key or
index leads to the state of what lies below. The walk over all states that can come up is the powerset construction of
automata; it ends because counts are bounded by `VISITS_MAX` and the work by `WORK_MAX`. What ordinary schemas reach is
about one state for each of their subschemas.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from ductor.definitions.values import JsonObject, JsonValue

VISITS_MAX: Final = 1_000
"""Subschemas that may apply to one place of a value."""

WORK_MAX: Final = 250_000
"""Subschemas looked at before a schema counts as too complex to judge."""

_LISTS: Final = ("allOf", "anyOf", "oneOf")
_SINGLES: Final = ("not", "if", "then", "else")
_REFERENCES: Final = ("$ref", "$dynamicRef")
_BEYOND_KEYS: Final = ("additionalProperties", "unevaluatedProperties", "propertyNames")
_OPEN: Final = ("patternProperties", *_BEYOND_KEYS)
_BEYOND_INDEXES: Final = ("items", "unevaluatedItems", "contains")

_State: TypeAlias = frozenset[tuple[int, int]]


class _TooMuch(Exception):
    """The schema is refused; the text says why."""


def cost_fault(source: JsonObject | bool) -> str | None:
    """Return why a schema is refused for what it may cost, None when it is not."""
    if isinstance(source, bool):
        return None
    try:
        _Walk(source).run()
    except _TooMuch as refusal:
        return str(refusal)
    return None


class _Walk:
    """Goes through all states of a schema. Subschemas are known by number."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._schemas: list[JsonObject] = []
        self._numbers: dict[int, int] = {}
        self._anchors: dict[str, JsonObject] = {}
        self._work = 0
        for schema in _objects(root):
            for key in ("$anchor", "$dynamicAnchor"):
                anchor = schema.get(key)
                if isinstance(anchor, str):
                    self._anchors[anchor] = schema

    def run(self) -> None:
        start: _State = frozenset([(self._number(self._root), 1)])
        seen = {start}
        stack = [start]
        while stack:
            for below in self._below(self._closure(stack.pop())):
                if below not in seen:
                    seen.add(below)
                    stack.append(below)

    def _number(self, schema: JsonObject) -> int:
        number = self._numbers.get(id(schema))
        if number is None:
            number = self._numbers[id(schema)] = len(self._schemas)
            self._schemas.append(schema)
        return number

    def _closure(self, state: _State) -> Counter[int]:
        """Every subschema that applies at the place of a state, with how often."""
        closure: Counter[int] = Counter()
        stack = list(state)
        visits = 0
        while stack:
            number, times = stack.pop()
            visits += times
            self._spend(1)
            if visits > VISITS_MAX:
                raise _TooMuch(f"the schema may look at one value more than {VISITS_MAX:,} times")
            closure[number] += times
            stack.extend((self._number(one), times) for one in self._in_place(self._schemas[number]))
        return closure

    def _spend(self, work: int) -> None:
        self._work += work
        if self._work > WORK_MAX:
            raise _TooMuch("the schema is too complex: its subschemas combine in too many ways")

    def _in_place(self, schema: JsonObject) -> Iterator[JsonObject]:
        """The subschemas that apply to the same value."""
        for key in _LISTS:
            members = schema.get(key)
            yield from _schemas_in(members if isinstance(members, list) else [])
        yield from _schemas_in([schema.get(key) for key in _SINGLES])
        dependent = schema.get("dependentSchemas")
        yield from _schemas_in(list(dependent.values()) if isinstance(dependent, dict) else [])
        for key in _REFERENCES:
            reference = schema.get(key)
            if isinstance(reference, str):
                yield from _schemas_in([self._target(reference)])

    def _target(self, reference: str) -> JsonValue:
        pointer = reference.removeprefix("#")
        if pointer and not pointer.startswith("/"):
            return self._anchors.get(pointer)
        value: JsonValue = self._root
        for part in pointer.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(value, dict):
                value = value.get(key)
            elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
                value = value[int(key)]
            else:
                return None
        return value

    def _below(self, closure: Counter[int]) -> Iterator[_State]:
        """The states of the keys and indexes that the schemas of a place tell apart, and of all others."""
        by_key: dict[str, list[int]] = {}
        indexes = 0
        for number in closure:
            properties, prefix = self._schemas[number].get("properties"), self._schemas[number].get("prefixItems")
            for key in properties if isinstance(properties, dict) else ():
                by_key.setdefault(key, []).append(number)
            indexes = max(indexes, len(prefix) if isinstance(prefix, list) else 0)
        open_schemas = [number for number in closure if any(key in self._schemas[number] for key in _OPEN)]
        for key, holders in sorted(by_key.items()):
            yield from self._state(dict.fromkeys([*holders, *open_schemas]), key, closure)
        yield from self._state(open_schemas, None, closure)
        for index in (*range(indexes), -1):
            yield from self._state(closure, index, closure)

    def _state(self, numbers: Iterable[int], label: str | int | None, closure: Counter[int]) -> Iterator[_State]:
        state: Counter[int] = Counter()
        for number in numbers:
            self._spend(1)
            for one in _children(self._schemas[number], label):
                state[self._number(one)] += closure[number]
        if state:
            yield frozenset(state.items())


def _children(schema: JsonObject, label: str | int | None) -> Iterator[JsonObject]:
    """The subschemas for a key, for a key not told apart (None), for an index, for one beyond (-1)."""
    if isinstance(label, int):
        prefix = schema.get("prefixItems")
        if isinstance(prefix, list) and 0 <= label < len(prefix):
            yield from _schemas_in([prefix[label], schema.get("contains"), schema.get("unevaluatedItems")])
        else:
            yield from _schemas_in([schema.get(key) for key in _BEYOND_INDEXES])
        return
    patterns = schema.get("patternProperties")
    yield from _schemas_in(list(patterns.values()) if isinstance(patterns, dict) else [])
    properties = schema.get("properties")
    if isinstance(properties, dict) and label in properties:
        yield from _schemas_in([properties[label], schema.get("propertyNames")])
    else:
        yield from _schemas_in([schema.get(key) for key in _BEYOND_KEYS])


def _schemas_in(values: list[JsonValue]) -> Iterator[JsonObject]:
    for value in values:
        if isinstance(value, dict):
            yield value


def _objects(root: JsonObject) -> Iterator[JsonObject]:
    stack: list[JsonValue] = [root]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            yield value
            stack.extend(value.values())
        elif isinstance(value, list):
            stack.extend(value)
