"""What is fuzzed: each target takes bytes, and either gives an answer or refuses with an error of ours.

Anything else that it raises is a fault, and so is an answer that does not survive being written and read again.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
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

CHECKOUT: Final = Path(__file__).resolve().parents[2]

RUN_ID: Final = "01890000-0000-7000-8000-000000000000"

VARIABLES: Final[JsonObject] = {
    "trigger": {"sku": "a-1", "qty": 3, "note": None, "at": "2026-11-30T23:30:00Z", "items": [{"price": 1.5}, "é"]},
    "config": {"limit": 100},
    "context": {"deep": {"list": [[1, -2], {"": 0}]}},
}


class UnfaithfulError(Exception):
    """An answer that is another one after it has been written and read again."""


def definition(data: bytes) -> None:
    """A YAML file: whatever compiles has a program, and its manifest compiles to itself."""
    _compiled(data, "fuzzed.yaml")


def json_definition(data: bytes) -> None:
    """A JSON file."""
    _compiled(data, "fuzzed.json")


def expression(data: bytes) -> None:
    """An expression, evaluated over `VARIABLES`: the same value twice, and one that JSON can say."""
    try:
        compiled = compile_expression(data.decode(errors="replace"))
        value = compiled.evaluate(VARIABLES)
    except (ExpressionSyntaxError, ExpressionError):
        return
    _check_repeats(value, compiled.evaluate(VARIABLES))


def template(data: bytes) -> None:
    """A text with `${...}` in it, rendered over `VARIABLES`."""
    try:
        compiled = compile_template(data.decode(errors="replace"))
        value = compiled.render(VARIABLES)
    except (ExpressionSyntaxError, ExpressionError):
        return
    _check_repeats(value, compiled.render(VARIABLES))


def events(data: bytes) -> None:
    """A row of a journal."""
    try:
        decoded = decode_events(data, run_id=RUN_ID, version=1)
    except UnknownEventError:
        return
    written = encode_events(decoded)
    if encode_events(decode_events(written, run_id=RUN_ID, version=1)) != written:
        raise UnfaithfulError(written)


def state(data: bytes) -> None:
    """A snapshot."""
    try:
        decoded = decode_state(data)
    except UnreadableSnapshotError:
        return
    written = encode_state(decoded)
    if encode_state(decode_state(written)) != written:
        raise UnfaithfulError(written)


def value(data: bytes) -> None:
    """A value from outside."""
    try:
        checked = checked_value(decode_value(data), "fuzzed")
    except ValueRefusedError:
        return
    written = encode_value(checked)
    if decode_value(written) != checked:
        raise UnfaithfulError(written)


TARGETS: Final[dict[str, Callable[[bytes], None]]] = {
    target.__name__: target for target in (definition, json_definition, expression, template, events, state, value)
}


def seeds(name: str) -> Iterator[bytes]:
    """Good input to begin with."""
    examples = sorted((CHECKOUT / "examples").glob("*.yaml"))
    if name == "definition":
        yield from (
            path.read_bytes() for path in [*examples, CHECKOUT / "tests" / "definitions" / "whole_language.yaml"]
        )
    elif name == "json_definition":
        yield b'{"name": "a", "steps": [{"ref": "a", "type": "task", "task": "t", "input": {"x": "${trigger.x}"}}]}'
    elif name in ("expression", "template"):
        page = (CHECKOUT / "docs" / "reference" / "expressions.md").read_text()
        lines = [line.split(" => ")[0] for line in page.splitlines() if " => " in line]
        yield from (f"${{{line}}}".encode() if name == "template" else line.encode() for line in lines)
    elif name == "state":
        yield from (path.read_bytes() for path in sorted((CHECKOUT / "tests" / "corpus").glob("*.state.json")))
    else:
        for path in sorted((CHECKOUT / "tests" / "corpus").glob("*.jsonl")):
            yield from path.read_bytes().splitlines()


def _compiled(data: bytes, file: str) -> None:
    try:
        compiled = compile_text(data, file=file)
    except DefinitionError:
        return
    for one in compiled:
        load_program(one.manifest, places=one.places)


def _check_repeats(first: JsonValue, second: JsonValue) -> None:
    if encode_value(first) != encode_value(second):
        raise UnfaithfulError(first)
