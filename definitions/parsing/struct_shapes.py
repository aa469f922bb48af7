"""The shapes of maps, derived from the structs of the language.

`struct_shape` makes the shape of a struct from its annotations, so that a field is written down once, in its struct.
What documents write differently follows three rules: a duration or timestamp loses its unit in the key (`timeout_ms` is
`timeout`), a tuple may be given as its one item, and the structs of `SHORT_FORMS` may be given as their main field.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import cache
from inspect import getdoc
from typing import Final

import msgspec
from msgspec import inspect as types

from ductor.definitions.documents.nodes import Node, shorten
from ductor.definitions.documents.report import INVALID, Report, valid_names_hint
from ductor.definitions.parsing.shapes import (
    BooleanShape,
    ChoiceShape,
    JsonShape,
    ListShape,
    NumberShape,
    Shape,
    TextKind,
    TextShape,
    TimeShape,
    UnionShape,
)
from ductor.definitions.policies import Part, Retry, Timeouts
from ductor.definitions.values import JsonObject

SHORT_FORMS: Final[dict[type[Part], str]] = {Retry: "max_attempts", Timeouts: "attempt_ms"}
"""Structs that may be given as one value: `retry: 5`, `timeout: 30s`."""


def complete_retry(values: dict[str, object]) -> None:
    """Let the first pause be as long as it says: `max`, where it is left out, is never shorter than `initial`."""
    initial_ms = values.get("initial_ms")
    if "max_ms" not in values and isinstance(initial_ms, int) and initial_ms > Retry().max_ms:
        values["max_ms"] = initial_ms


COMPLETIONS: Final[dict[type[Part], Callable[[dict[str, object]], None]]] = {Retry: complete_retry}
"""What a struct derives from the values given for those that are left out."""

OWN_READERS: Final = frozenset({"do"})
"""Fields that the reader of steps reads itself, because they may hold steps."""


@dataclass(frozen=True, slots=True)
class FieldShape:
    """A field of a struct.

    Attributes:
        attribute: its name in the struct.
        key: its key in documents.
        about: what it is, for editors.
    """

    attribute: str
    key: str
    shape: Shape
    required: bool
    about: str = ""


@dataclass(slots=True)
class StructShape:
    """A map that becomes a struct.

    Attributes:
        fields: by key; two fields may share a key and are told apart by the kind of the value.
        short: the field that stands for the whole when the node is no map, as `retry: 5`.
    """

    struct: type[Part]
    fields: dict[str, list[FieldShape]] = field(default_factory=dict)
    short: FieldShape | None = None

    def accepts(self, node: Node) -> bool:
        return isinstance(node.value, dict) or (self.short is not None and self.short.shape.accepts(node))

    def read(self, node: Node, path: str, report: Report) -> object:
        if self.short is not None and not isinstance(node.value, dict):
            value = self.short.shape.read(node, path, report)
            return INVALID if value is INVALID else self.struct(**{self.short.attribute: value})
        if not isinstance(node.value, dict):
            return report.add("wrong_type", f"expected a map, found {node.kind()}", path, node.position)
        values, sound = self.read_fields(node, path, report)
        sound = self.report_missing(values, node, path, report) and sound
        if self.struct in COMPLETIONS:
            COMPLETIONS[self.struct](values)
        return self.struct(**values) if sound else INVALID

    def read_fields(
        self, node: Node, path: str, report: Report, other_keys: Collection[str] = ()
    ) -> tuple[dict[str, object], bool]:
        """Read what is there. Gives values by attribute, and whether all keys and values were valid.

        Args:
            other_keys: keys of the map that somebody else reads.
        """
        values: dict[str, object] = {}
        sound = True
        for key, child in node.value.items() if isinstance(node.value, dict) else ():
            if key in other_keys:
                continue
            candidates = self.fields.get(key)
            if candidates is None:
                hint = valid_names_hint(key, {*self.fields, *other_keys})
                report.add(
                    "unknown_key", f"unknown key `{shorten(key)}`", _join(path, key), node.key_position(key), hint
                )
                sound = False
                continue
            chosen = next((one for one in candidates if one.shape.accepts(child)), candidates[0])
            value = chosen.shape.read(child, _join(path, key), report)
            if value is INVALID:
                sound = False
            else:
                values[chosen.attribute] = value
        return values, sound

    def report_missing(self, values: Collection[str], node: Node, path: str, report: Report) -> bool:
        """Report required fields that are not given; true when none is missing."""
        given = node.value if isinstance(node.value, dict) else {}
        complete = True
        for key, candidates in self.fields.items():
            if not any(one.required for one in candidates) or any(one.attribute in values for one in candidates):
                continue
            complete = False
            if key not in given:
                report.add("missing_key", f"`{key}` is missing", path, node.position)
        return complete

    def schema(self) -> JsonObject:
        return {"$ref": f"#/$defs/{self.struct.__name__}"}

    def named_schema(self) -> JsonObject:
        """What the reference that `schema` gives stands for: the map form, and the short one."""
        whole = self.map_schema()
        return {"anyOf": [whole, self.short.shape.schema()]} if self.short is not None else whole

    def nested(self) -> Iterator["StructShape"]:
        """The shapes of structs among the fields."""
        for one in (one for candidates in self.fields.values() for one in candidates):
            inner = one.shape.item if isinstance(one.shape, ListShape) else one.shape
            if isinstance(inner, StructShape):
                yield inner
                yield from inner.nested()

    def map_schema(self) -> JsonObject:
        """The schema of the map form."""
        properties: JsonObject = {}
        for key, candidates in self.fields.items():
            schemas = [one.shape.schema() for one in candidates]
            schema: JsonObject = schemas[0] if len(schemas) == 1 else {"anyOf": [*schemas]}
            about = next((one.about for one in candidates if one.about), "")
            if about:
                schema["description"] = about
            properties[key] = schema
        required = [key for key, candidates in self.fields.items() if any(one.required for one in candidates)]
        result: JsonObject = {"type": "object", "properties": properties, "additionalProperties": False}
        if required:
            result["required"] = [*required]
        return result


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


@cache
def struct_shape(struct: type[Part], *, without: frozenset[str] = OWN_READERS) -> StructShape:
    """Return the shape of a struct.

    Args:
        without: attributes that somebody else reads.
    """
    shape = StructShape(struct)
    about = _attribute_docs(struct)
    for one in msgspec.structs.fields(struct):
        if one.name in without:
            continue
        attribute = FieldShape(
            attribute=one.name,
            key=_key(one.name, one.encode_name, types.type_info(one.type)),
            shape=_shape(types.type_info(one.type)),
            required=one.required,
            about=about.get(one.name, ""),
        )
        shape.fields.setdefault(attribute.key, []).append(attribute)
        if SHORT_FORMS.get(struct) == one.name:
            shape.short = attribute
    return shape


def _key(name: str, encoded: str, kind: types.Type) -> str:
    extra = _extra(kind)
    if "key" in extra:
        return str(extra["key"])
    if extra.get("kind") == "duration":
        return name.removesuffix("_ms")
    if extra.get("kind") == "timestamp":
        return name.removesuffix("_us")
    return encoded


def _extra(kind: types.Type) -> dict[str, object]:
    """What annotations add to a type, those of the members of a union included."""
    gathered: dict[str, object] = {}
    if isinstance(kind, types.Metadata):
        gathered = {**_extra(kind.type), **(kind.extra or {})}
    elif isinstance(kind, types.UnionType):
        for member in kind.types:
            gathered.update(_extra(member))
    return gathered


def _shape(kind: types.Type, text_kind: str = "text") -> Shape:
    """The shape of an annotated type; `text_kind` is what annotations around it said."""
    if isinstance(kind, types.Metadata):
        return _shape(kind.type, str((kind.extra or {}).get("kind", text_kind)))
    if isinstance(kind, types.UnionType):
        members = [_shape(member, text_kind) for member in kind.types if not isinstance(member, types.NoneType)]
        return members[0] if len(members) == 1 else UnionShape(tuple(members))
    if isinstance(kind, types.VarTupleType):
        return ListShape(_shape(kind.item_type))
    if isinstance(kind, types.StructType):
        return struct_shape(kind.cls)
    if isinstance(kind, types.DictType):
        return JsonShape(is_object=True)
    return _scalar_shape(kind, text_kind)


def _scalar_shape(kind: types.Type, text_kind: str) -> Shape:
    if isinstance(kind, types.StrType):
        return TextShape(_TEXT_KINDS[text_kind], kind.min_length or 0, kind.max_length)
    if isinstance(kind, types.BoolType):
        return BooleanShape()
    if isinstance(kind, (types.IntType, types.FloatType)):
        if text_kind in ("duration", "timestamp"):
            return TimeShape("duration" if text_kind == "duration" else "timestamp", kind.ge, kind.le)
        return NumberShape(isinstance(kind, types.IntType), kind.ge, kind.le)
    if isinstance(kind, types.LiteralType):
        words = tuple(value for value in kind.values if isinstance(value, str) and value)
        numbers = [value for value in kind.values if isinstance(value, int)]
        return ChoiceShape(words) if words else NumberShape(True, min(numbers), max(numbers))
    if isinstance(kind, types.AnyType):
        return JsonShape()
    raise TypeError(f"no document shape for {kind!r}")


_TEXT_KINDS: Final[dict[str, TextKind]] = {
    "text": "text", "name": "name", "ref": "ref", "cel": "cel", "template": "template",
}  # fmt: skip


def _attribute_docs(struct: type[Part]) -> dict[str, str]:
    """What the docstrings of a struct and its bases say of each attribute (`name: meaning` under `Attributes:`)."""
    docs: dict[str, str] = {}
    for base in reversed(struct.__mro__):
        _, found, listed = (getdoc(base) or "").partition("Attributes:\n") if issubclass(base, Part) else ("", "", "")
        names: list[str] = []
        for line in listed.splitlines() if found else ():
            indent = len(line) - len(line.lstrip())
            name, colon, meaning = line.strip().partition(": ")
            if indent == 4 and colon:
                names = [one.strip() for one in name.split(",")]
                docs.update(dict.fromkeys(names, meaning))
            elif indent > 4:
                docs.update({one: f"{docs[one]} {line.strip()}" for one in names})
    return docs


def shape_of_annotation(annotation: object) -> Shape:
    """Return the shape of one annotated type, as `Ref`."""
    return _shape(types.type_info(annotation))
