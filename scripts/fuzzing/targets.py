"""What is fuzzed: each target takes bytes, and either gives an answer (True) or refuses with an error of ours (False).

Anything that it raises is a fault, and so is an answer that does not survive being written and read again.
"""

from collections.abc import Callable
from typing import Final

from ductor.definitions.compile import compile_text
from ductor.definitions.errors import DefinitionError
from ductor.definitions.expressions.errors import ExpressionError, ExpressionSyntaxError
from ductor.definitions.expressions.expression import compile_expression
from ductor.definitions.expressions.template import compile_template
from ductor.definitions.program import load_program
from ductor.definitions.values import JsonObject, JsonValue
from ductor.journal.codec import (
    checked_value,
    decode_events,
    decode_state,
    decode_value,
    encode_events,
    encode_state,
    encode_value,
)
from ductor.journal.errors import UnknownEventError, UnreadableSnapshotError, ValueRefusedError
from ductor.journal.events import (
    AnyEvent,
    AttemptDispatched,
    Message,
    MessageReceived,
    NodeParked,
    NodeSettled,
    RunStarted,
    ScatterStarted,
)
from ductor.journal.fold import fold_row
from ductor.journal.state import RunState

RUN_ID: Final = "01890000-0000-7000-8000-000000000000"

VARIABLES: Final[JsonObject] = {
    "trigger": {"sku": "a-1", "qty": 3, "note": None, "at": "2026-11-30T23:30:00Z", "items": [{"price": 1.5}, "é"]},
    "config": {"limit": 100},
    "context": {"deep": {"list": [[1, -2], {"": 0}]}},
}


JSON_TARGETS: Final = frozenset({"json_definition", "events", "state", "value"})


def _under_way() -> bytes:
    """A snapshot of a run in which much waits, for rows to be folded onto."""
    state = RunState(run_id=RUN_ID)
    start = RunStarted(tenant="t", definition="d", manifest_hash="m", entrypoints=("pay",), timeout_at_us=90)
    rows: tuple[tuple[AnyEvent, ...], ...] = (
        (start, AttemptDispatched(node="pay", generation=1, task="charge")),
        (ScatterStarted(node="each", total=3, items=[1, 2, 3], interval_ms=5),),
        (AttemptDispatched(node="each[0]", generation=1, task="t"), NodeSettled(node="each[0]", status="failed")),
        (NodeParked(node="wait", waiting="signal", names=("signal:paid",), until_us=70),),
        (NodeSettled(node="done", status="succeeded", is_undoable=True, taken=("pay",)),),
        (MessageReceived(message=Message(id="m-1", kind="signal", name="paid", position=1)),),
    )
    for version, row in enumerate(rows, 1):
        fold_row(state, version, version, b"hash", row)
    return encode_state(state)


_UNDER_WAY: Final = _under_way()


class UnfaithfulError(Exception):
    """An answer that is another one after it has been written and read again."""


def definition(data: bytes) -> bool:
    """A YAML file: whatever compiles has a program, and its manifest compiles to itself."""
    return _compiled(data, "fuzzed.yaml")


def json_definition(data: bytes) -> bool:
    """A JSON file."""
    return _compiled(data, "fuzzed.json")


def expression(data: bytes) -> bool:
    """An expression, evaluated over `VARIABLES`: the same value twice, and one that JSON can say."""
    try:
        compiled = compile_expression(data.decode(errors="replace"))
        value = compiled.evaluate(VARIABLES)
    except (ExpressionSyntaxError, ExpressionError):
        return False
    _check_repeats(value, compiled.evaluate(VARIABLES))
    return True


def template(data: bytes) -> bool:
    """A text with `${...}` in it, rendered over `VARIABLES`."""
    try:
        compiled = compile_template(data.decode(errors="replace"))
        value = compiled.render(VARIABLES)
    except (ExpressionSyntaxError, ExpressionError):
        return False
    _check_repeats(value, compiled.render(VARIABLES))
    return True


def events(data: bytes) -> bool:
    """A row of a journal; it folds, whatever it says, and gives a state that a snapshot can hold."""
    try:
        decoded = decode_events(data, run_id=RUN_ID, version=1)
    except UnknownEventError:
        return False
    written = encode_events(decoded)
    if encode_events(decode_events(written, run_id=RUN_ID, version=1)) != written:
        raise UnfaithfulError(written)
    folded = decode_state(_UNDER_WAY)
    fold_row(folded, folded.version + 1, folded.at_us + 1, b"hash", decoded)
    snapshot = encode_state(folded)
    if encode_state(decode_state(snapshot)) != snapshot:
        raise UnfaithfulError(snapshot)
    return True


def state(data: bytes) -> bool:
    """A snapshot."""
    try:
        decoded = decode_state(data)
    except UnreadableSnapshotError:
        return False
    written = encode_state(decoded)
    if encode_state(decode_state(written)) != written:
        raise UnfaithfulError(written)
    return True


def value(data: bytes) -> bool:
    """A value from outside."""
    try:
        checked = checked_value(decode_value(data), "fuzzed")
    except ValueRefusedError:
        return False
    written = encode_value(checked)
    if decode_value(written) != checked:
        raise UnfaithfulError(written)
    return True


TARGETS: Final[dict[str, Callable[[bytes], bool]]] = {
    target.__name__: target for target in (definition, json_definition, expression, template, events, state, value)
}


def _compiled(data: bytes, file: str) -> bool:
    try:
        compiled = compile_text(data, file=file)
    except DefinitionError:
        return False
    for one in compiled:
        load_program(one.manifest, places=one.places)
    return True


def _check_repeats(first: JsonValue, second: JsonValue) -> None:
    if encode_value(first) != encode_value(second):
        raise UnfaithfulError(first)
