"""`scatter`: makes the items; `ductor.actors.tick.fanout` starts a child for each and says when that is done."""

from ductor.actors.steps.behaviour import Parked, Unlistening
from ductor.actors.tick.settle import fail
from ductor.actors.tick.working import Tick
from ductor.definitions.fields import INLINE_CHILDREN_MAX
from ductor.definitions.program import ProgramNode
from ductor.definitions.steps.scatter import ScatterStep
from ductor.definitions.values import JsonObject, JsonValue
from ductor.journal.codec import MAX_KEY_BYTES, encode_value, safe_text
from ductor.journal.events import ErrorInfo, ScatterStarted

MAX_CHILDREN = INLINE_CHILDREN_MAX
"""Children of one scatter at most, in either mode."""

MAX_TOLD_CHARACTERS = 80
"""Of a value or key that an error's message tells."""


class ScatterBehaviour(Unlistening, Parked):
    """Waits for its children; its timer is the pause before the next of them starts."""

    def start(self, tick: Tick, node: ProgramNode) -> None:
        """Make items and keys, or go on with those of before a redrive."""
        fanout = tick.node_state(node).fanout
        if fanout is not None:
            tick.emit(ScatterStarted(node=node.ref, total=fanout.total, is_resumed=True))
            return
        given = node.expressions["items_expr"].evaluate(tick.variables(node))
        if not isinstance(given, list | dict):
            message = f"step {node.ref}: `items_expr` gives {_told(given)}, not a list or a map"
            fail(tick, node, ErrorInfo(type="InvalidItems", message=message, retryable=False))
            return
        refusal = _refusal(node, len(given))
        if refusal is not None:
            fail(tick, node, refusal)
            return
        keys = _keys(tick, node, given)
        if isinstance(keys, ErrorInfo):
            fail(tick, node, keys)
            return
        step = _step(node)
        items = list(given.values()) if isinstance(given, dict) else given
        inline, ref = tick.keep(items, f"items of step {node.ref}")
        tick.value_bytes += sum(map(len, keys))
        tick.emit(
            ScatterStarted(
                node=node.ref,
                total=len(given),
                items=inline,
                items_ref=ref,
                keys=keys,
                is_map=isinstance(given, dict),
                interval_ms=step.interval_ms,
            )
        )

    def on_timer(self, tick: Tick, node: ProgramNode) -> None:
        """The pause is over: the next child may start."""


def _step(node: ProgramNode) -> ScatterStep:
    assert isinstance(node.step, ScatterStep)
    return node.step


def _told(value: JsonValue) -> str:
    """A value for an error's message, as people write it in definitions."""
    return safe_text(encode_value(value).decode(), MAX_TOLD_CHARACTERS)


def _refusal(node: ProgramNode, count: int) -> ErrorInfo | None:
    """Why there can't be so many items."""
    step = _step(node)
    limit = step.max_inline_children if step.mode == "inline" else MAX_CHILDREN
    if count <= limit:
        return None
    name = f"a scatter has at most {MAX_CHILDREN}"
    if limit < MAX_CHILDREN:
        name = f"its `max_inline_children` is {limit}, and may be {MAX_CHILDREN} at most"
    details: JsonValue = {"items": count, "limit": limit}
    message = f"step {node.ref}: {count} items; {name}"
    return ErrorInfo(type="TooManyItems", message=message, details=details, retryable=False)


def _keys(tick: Tick, node: ProgramNode, items: list[JsonValue] | JsonObject) -> tuple[str, ...] | ErrorInfo:
    """The key of each item; none where it is the index. An error for keys that are not unique, or can't be keys."""
    expression = node.expressions.get("key_expr")
    if expression is None:
        given: list[JsonValue] = list(items) if isinstance(items, dict) else []
    else:
        pairs: list[tuple[JsonValue, JsonValue]] = []
        pairs.extend(items.items() if isinstance(items, dict) else enumerate(items))
        given = []
        for index, (key, item) in enumerate(pairs):
            own: JsonObject = {"item": item, "index": index, "key": key}
            given.append(expression.evaluate(tick.activation.with_own(own)))
    seen: dict[str, int] = {}
    for index, value in enumerate(given):
        if isinstance(value, bool) or not isinstance(value, str | int):
            return _bad_key(node, index, f"{_told(value)} is not a text or an integer")
        key = str(value)
        if not 0 < len(key.encode("utf-8", "surrogatepass")) <= MAX_KEY_BYTES:
            told = safe_text(key, MAX_TOLD_CHARACTERS)
            return _bad_key(node, index, f"a key has between 1 and {MAX_KEY_BYTES} bytes, not {told!r}")
        if key in seen:
            return _duplicate(node, key, seen[key], index)
        seen[key] = index
    return tuple(seen)


def _bad_key(node: ProgramNode, index: int, why: str) -> ErrorInfo:
    message = f"step {node.ref}: the key of item {index} can't be one: {why}"
    return ErrorInfo(type="InvalidKey", message=message, details={"index": index}, retryable=False)


def _duplicate(node: ProgramNode, key: str, first: int, second: int) -> ErrorInfo:
    message = f"step {node.ref}: items {first} and {second} have the same key {key!r}; keys must be unique"
    details: JsonValue = {"key": key, "indexes": [first, second]}
    return ErrorInfo(type="DuplicateKey", message=message, details=details, retryable=False)
