"""Reads a scenario file, or says everything that is wrong with it, with line and column."""

from collections.abc import Callable, Mapping
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
    TextShape,
    UnionShape,
)
from ductor.definitions.parsing.struct_shapes import FieldShape, StructShape
from ductor.definitions.values import JsonValue
from ductor.testing.scenarios.model import (
    Answer,
    Expectation,
    ExpectedEvent,
    Raised,
    Scenario,
    ScenarioFile,
    ScenarioFileError,
)
from ductor.testing.scenarios.sends import RUN_HINT, RUN_LABEL, SEND
from ductor.testing.scenarios.shapes import DURATION, TEXT, BuiltShape, MapShape, NullShape, field

ANSWER_VARIABLES: Final = frozenset({"input", "n"})
STATUSES: Final = ("completed", "failed", "cancelled", "terminated", "running", "waiting", "paused", "pending")
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


def _build_scenario(values: Mapping[str, Any], place: Place, report: Report) -> object:
    scenario = Scenario(place=place, **values)
    sound = True

    def problem(code: str, message: str, at: Place, hint: str = "") -> None:
        nonlocal sound
        sound = False
        report.add(code, message, at.path, (at.line, at.column), hint)

    if "expect" not in values and "expect_runs" not in values:
        problem("nothing_expected", "nothing is expected", place, "Give `expect`, or `expect_runs`.")
    for label in scenario.expect_runs:
        if not RUN_LABEL.fullmatch(label):
            problem("invalid_run", f"`{label}` names no run", place, RUN_HINT)
    if scenario.start is None:
        if "limit" not in {key.removesuffix("_ms") for key in values}:
            problem("limit_missing", "a scenario that starts nothing needs a `limit`", place, "It lasts so long.")
        if not scenario.expect.is_of_no_run:
            problem("no_run", "nothing is started whose end could be expected", place, "Name it in `expect_runs`.")
        for sent in scenario.send:
            if sent.kind != "event" and sent.run is None:
                problem("no_run", f"there is no run to which `{sent.kind}` could go", sent.place, RUN_HINT)
    return scenario if sound else INVALID


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


_ANSWER: Final = BuiltShape(
    StructShape(
        Answer,
        dict(
            [
                field("when", TextShape("cel", min_length=1)),
                field("takes", DURATION),
                field("returns", JsonShape()),
                field("raises", TEXT),
                field("message", TextShape()),
                field("details", JsonShape()),
                field("retryable", BooleanShape()),
                field("retry_after", DURATION),
            ]
        ),
    ),
    _build_answer,
)
_HANDLERS: Final = MapShape(ListShape(_ANSWER))
_EMITTED: Final = StructShape(
    ExpectedEvent,
    dict([field("event", TEXT, required=True), field("payload", JsonShape())]),
    short=FieldShape("event", "event", TEXT, True),
)
_EXPECT: Final = StructShape(
    Expectation,
    dict(
        [
            field("status", ChoiceShape(STATUSES)),
            field("output", JsonShape()),
            field("error", UnionShape((NullShape(), TEXT))),
            field("duration", DURATION, attribute="duration_ms"),
            field("steps", MapShape(ChoiceShape(STEP_STATUSES))),
            field("calls", MapShape(NumberShape(whole=True, minimum=0))),
            field("context", JsonShape(is_object=True)),
            field("compensations", ListShape(TEXT)),
            field("compensated", UnionShape((BooleanShape(), ChoiceShape(("partial",))))),
            field("emitted", ListShape(_EMITTED)),
        ]
    ),
)
_SCENARIO: Final = BuiltShape(
    StructShape(
        Scenario,
        dict(
            [
                field("name", TEXT, required=True),
                field("start", TextShape("name", min_length=1)),
                field("input", JsonShape()),
                field("key", TEXT),
                field("version", TEXT),
                field("handlers", _HANDLERS),
                field("send", ListShape(SEND)),
                field("expect", _EXPECT),
                field("expect_runs", MapShape(_EXPECT)),
                field("limit", DURATION, attribute="limit_ms"),
            ]
        ),
    ),
    _build_scenario,
)
_FILE: Final = BuiltShape(
    StructShape(
        ScenarioFile,
        dict(
            [
                field("definitions", ListShape(UnionShape((TEXT, JsonShape(is_object=True)))), required=True),
                field("handlers", _HANDLERS),
                field("scenarios", ListShape(_SCENARIO), required=True),
            ]
        ),
    ),
    _build_file,
)
