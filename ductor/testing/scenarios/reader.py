"""Reads a scenario file, or says everything that is wrong with it, with line and column.

What the language has and this version can't do yet (signals, events, approvals, child runs) is refused by name.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from ductor.definitions.documents.nodes import Node
from ductor.definitions.documents.report import INVALID, ProblemList, Report, in_document_order
from ductor.definitions.documents.yaml_reader import read_yaml
from ductor.definitions.errors import DefinitionError, Place
from ductor.definitions.expressions import (
    Expression,
    ExpressionSyntaxError,
    Template,
    compile_expression,
    compile_template,
)
from ductor.definitions.limits import DEFAULT_LIMITS
from ductor.definitions.parsing.shapes import (
    BooleanShape,
    ChoiceShape,
    JsonShape,
    ListShape,
    NumberShape,
    Shape,
    TextShape,
    TimeShape,
    UnionShape,
)
from ductor.definitions.parsing.struct_shapes import FieldShape, StructShape
from ductor.definitions.values import JsonObject, JsonValue
from ductor.testing.scenarios.model import (
    Answer,
    Expectation,
    Raised,
    Scenario,
    ScenarioFile,
    ScenarioFileError,
    Send,
)

ANSWER_VARIABLES: Final = frozenset({"input", "n"})
NOT_YET_SENT: Final = ("signal", "event", "approve", "reject", "reply", "case")
STATUSES: Final = ("completed", "failed", "cancelled", "terminated", "running", "waiting", "pending")
STEP_STATUSES: Final = ("pending", "running", "waiting", "succeeded", "failed", "skipped", "cancelled")

T = TypeVar("T")


def read_scenario_file(path: Path) -> ScenarioFile:
    """Read a file.

    Raises:
        ScenarioFileError: it is not valid; every problem is named.
        OSError: it can't be read.
    """
    return parse_scenarios(path.read_text(encoding="utf-8"), file=str(path))


def parse_scenarios(text: str, *, file: str) -> ScenarioFile:
    """Read the text of a scenario file.

    Args:
        file: its name, for errors and for definitions that lie beside it.

    Raises:
        ScenarioFileError: it is not valid.
    """
    problems = ProblemList(DEFAULT_LIMITS)
    try:
        documents = list(read_yaml(text, DEFAULT_LIMITS, file, problems))
        read = _read(documents, Report(file, problems))
        if problems or not isinstance(read, ScenarioFile):
            raise DefinitionError(in_document_order(problems))
    except DefinitionError as error:
        raise ScenarioFileError(file, error.problems) from None
    return msgspec.structs.replace(read, file=file)


def _read(documents: list[Node], report: Report) -> object:
    if len(documents) == 1:
        return _FILE.read(documents[0], "", report)
    return report.add("one_document", f"a scenario file is one document, found {len(documents)}", "", (1, 1))


@dataclass(frozen=True, slots=True)
class _MapShape:
    """A map of things by name."""

    item: Shape

    def accepts(self, node: Node) -> bool:
        return isinstance(node.value, dict)

    def read(self, node: Node, path: str, report: Report) -> object:
        if not isinstance(node.value, dict):
            return report.add("wrong_type", f"expected a map, found {node.kind()}", path, node.position)
        items = {key: self.item.read(child, f"{path}.{key}", report) for key, child in node.value.items()}
        return INVALID if any(item is INVALID for item in items.values()) else items

    def schema(self) -> JsonObject:
        return {"type": "object", "additionalProperties": self.item.schema()}


@dataclass(frozen=True, slots=True)
class _NullShape:
    """Nothing, said on purpose."""

    def accepts(self, node: Node) -> bool:
        return node.value is None

    def read(self, node: Node, path: str, report: Report) -> object:
        if node.value is None:
            return None
        return report.add("wrong_type", f"expected null, found {node.kind()}", path, node.position)

    def schema(self) -> JsonObject:
        return {"type": "null"}


@dataclass(frozen=True, slots=True)
class _BuiltShape:
    """A map read by `fields`, from whose values and place `build` makes the thing itself."""

    fields: StructShape
    build: "Callable[[Mapping[str, Any], Place, Report], object]"

    def accepts(self, node: Node) -> bool:
        return isinstance(node.value, dict)

    def read(self, node: Node, path: str, report: Report) -> object:
        if not isinstance(node.value, dict):
            return report.add("wrong_type", f"expected a map, found {node.kind()}", path, node.position)
        values, sound = self.fields.read_fields(node, path, report)
        sound = self.fields.report_missing(values, node, path, report) and sound
        return self.build(values, report.place(path, node.position), report) if sound else INVALID

    def schema(self) -> JsonObject:
        return self.fields.map_schema()


@dataclass(frozen=True, slots=True)
class _NotYetShape:
    """A part of the language that compiles to nothing in this version."""

    what: str

    def accepts(self, node: Node) -> bool:  # noqa: ARG002 - whatever it holds
        return True

    def read(self, node: Node, path: str, report: Report) -> object:
        return report.add("not_in_this_version", f"{self.what} can't be tested in this version", path, node.position)

    def schema(self) -> JsonObject:
        return {}


def _field(key: str, shape: Shape, *, attribute: str = "", required: bool = False) -> tuple[str, list[FieldShape]]:
    return key, [FieldShape(attribute or key, key, shape, required)]


def _expression(source: str, place: Place, report: Report) -> Expression | None:
    try:
        return compile_expression(source, place=place, variables=ANSWER_VARIABLES)
    except ExpressionSyntaxError as error:
        report.problems.append(error.problem())
        return None


def _template(value: JsonValue, place: Place, report: Report) -> Template | None:
    try:
        return compile_template(value, place=place, variables=ANSWER_VARIABLES)
    except ExpressionSyntaxError as error:
        for fault in (error, *error.others):
            report.problems.append(fault.problem())
        return None


def _build_answer(values: Mapping[str, Any], place: Place, report: Report) -> object:
    def compiled(key: str, compile_: Callable[[Any, Place, Report], T | None]) -> T | None:
        if key not in values:
            return None
        return compile_(values[key], msgspec.structs.replace(place, path=f"{place.path}.{key}"), report)

    companions = [key for key in ("message", "details", "retryable", "retry_after") if key in values]
    position = (place.line, place.column)
    if ("returns" in values) == ("raises" in values):
        message = "an answer has exactly one of `returns` and `raises`"
        return report.add("answer_needs_one", message, place.path, position, "Use `returns: null` for no value.")
    if companions and "raises" not in values:
        return report.add("needs_raises", f"`{companions[0]}` belongs to `raises`", place.path, position)
    raised = None
    if "raises" in values:
        texts = {"message": "", "details": None, **{key: values[key] for key in companions}}
        text, details = _template(texts["message"], place, report), _template(texts["details"], place, report)
        if text is None or details is None:
            return INVALID
        raised = Raised(
            type=values["raises"],
            message=text,
            details=details,
            retryable=values.get("retryable", True),
            retry_after_ms=values.get("retry_after"),
        )
    return Answer(
        place=place,
        when=compiled("when", _expression),
        takes_ms=values.get("takes", 0),
        returns=compiled("returns", _template),
        raises=raised,
    )


def _build_send(values: Mapping[str, Any], place: Place, report: Report) -> object:
    if "control" not in values:
        hint = "Valid in this version: `control: cancel` and `control: terminate`."
        return report.add("nothing_sent", "nothing is sent", place.path, (place.line, place.column), hint)
    return Send(
        place=place,
        at_ms=values["at"],
        control=values["control"],
        request_id=values.get("request_id"),
        by=values.get("by", ""),
        refused=values.get("refused", False),
    )


def _build_scenario(values: Mapping[str, Any], place: Place, report: Report) -> object:  # noqa: ARG001 - as the others
    return Scenario(place=place, **values)


def _build_file(values: Mapping[str, Any], place: Place, report: Report) -> object:  # noqa: ARG001 - as the others
    named: set[str] = set()
    for scenario in values["scenarios"]:
        if scenario.name in named:
            position = (scenario.place.line, scenario.place.column)
            message = f"two scenarios are called `{scenario.name}`"
            report.add("duplicate_name", message, scenario.place.path, position, "Rename one.")
        named.add(scenario.name)
    return ScenarioFile(
        file="", definitions=values["definitions"], handlers=values.get("handlers", {}), scenarios=values["scenarios"]
    )


_DURATION: Final = TimeShape("duration")
_TEXT: Final = TextShape(min_length=1)

_ANSWER: Final = _BuiltShape(
    StructShape(
        Answer,
        dict(
            [
                _field("when", TextShape("cel", min_length=1)),
                _field("takes", _DURATION),
                _field("returns", JsonShape()),
                _field("raises", _TEXT),
                _field("message", TextShape()),
                _field("details", JsonShape()),
                _field("retryable", BooleanShape()),
                _field("retry_after", _DURATION),
            ]
        ),
    ),
    _build_answer,
)
_HANDLERS: Final = _MapShape(ListShape(_ANSWER))
_SEND: Final = _BuiltShape(
    StructShape(
        Send,
        dict(
            [
                _field("at", _DURATION, required=True),
                _field("control", ChoiceShape(("cancel", "terminate"))),
                _field("request_id", _TEXT),
                _field("by", TextShape()),
                _field("refused", BooleanShape()),
                _field("run", _NotYetShape("sending to a child run")),
                *(_field(key, _NotYetShape(f"`{key}`")) for key in NOT_YET_SENT),
            ]
        ),
    ),
    _build_send,
)
_EXPECT: Final = StructShape(
    Expectation,
    dict(
        [
            _field("status", ChoiceShape(STATUSES)),
            _field("output", JsonShape()),
            _field("error", UnionShape((_NullShape(), _TEXT))),
            _field("duration", _DURATION, attribute="duration_ms"),
            _field("steps", _MapShape(ChoiceShape(STEP_STATUSES))),
            _field("calls", _MapShape(NumberShape(whole=True, minimum=0))),
            _field("context", JsonShape(is_object=True)),
            _field("compensations", ListShape(_TEXT)),
            _field("emitted", _NotYetShape("`emitted`")),
        ]
    ),
)
_SCENARIO: Final = _BuiltShape(
    StructShape(
        Scenario,
        dict(
            [
                _field("name", _TEXT, required=True),
                _field("start", TextShape("name", min_length=1), required=True),
                _field("input", JsonShape()),
                _field("key", _TEXT),
                _field("version", _TEXT),
                _field("handlers", _HANDLERS),
                _field("send", ListShape(_SEND)),
                _field("expect", _EXPECT, required=True),
                _field("expect_runs", _NotYetShape("`expect_runs`")),
                _field("limit", _DURATION, attribute="limit_ms"),
            ]
        ),
    ),
    _build_scenario,
)
_FILE: Final = _BuiltShape(
    StructShape(
        ScenarioFile,
        dict(
            [
                _field("definitions", ListShape(UnionShape((_TEXT, JsonShape(is_object=True)))), required=True),
                _field("handlers", _HANDLERS),
                _field("scenarios", ListShape(_SCENARIO), required=True),
            ]
        ),
    ),
    _build_file,
)
