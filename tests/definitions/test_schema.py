"""The JSON Schema for editors: up to date, and of one mind with the reader."""

import json
from pathlib import Path

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ductor.definitions
from ductor.definitions.documents.report import ProblemList
from ductor.definitions.limits import DEFAULT_LIMITS
from ductor.definitions.parse import parse_document
from ductor.definitions.schema import language_schema
from tests.definitions.marked import unmark
from tests.definitions.test_compile import documents_of, texts
from tests.definitions.test_refusals import STRUCTURE

COMMITTED = Path(ductor.definitions.__path__[0]) / "ductor.schema.json"

BEYOND_SCHEMAS = {
    "duplicate_ref": "uniqueness of a field across items",
    "duplicate_name": "two documents",
    "duplicate_edge": "uniqueness across targets",
    "invalid_duration": "the schema knows only how a duration begins",
    "invalid_timestamp": "formats are notes to editors",
    "empty_document": "there is no document",
}
"""What the reader refuses and a JSON Schema can't say."""

VALIDATOR = jsonschema_rs.Draft202012Validator(language_schema())


def test_the_committed_file_is_up_to_date():
    assert json.loads(COMMITTED.read_text()) == language_schema(), "run: python -m ductor.definitions.schema"


def test_it_is_a_json_schema():
    assert jsonschema_rs.meta.is_valid(language_schema())


@pytest.mark.parametrize("text", texts())
def test_it_accepts_what_compiles(text):
    for document in documents_of(text):
        assert [error.message for error in VALIDATOR.iter_errors(document)] == []


@pytest.mark.parametrize(("code", "marked"), [case for case in STRUCTURE if case[0] not in BEYOND_SCHEMAS])
def test_it_rejects_what_the_reader_rejects(code, marked):
    (document,) = documents_of(unmark(marked)[0])
    assert not VALIDATOR.is_valid(document)


STEP_TYPES = st.sampled_from(["task", "transform", "conditional", "wait", "rule", "tsk"])
SCALARS = st.sampled_from([None, True, 0, 1, 2.5, "a", "b", "any", "1s", "continue", "stop", "", "${x}"])
VALUES = (
    SCALARS
    | st.lists(SCALARS, max_size=2)
    | st.dictionaries(
        st.sampled_from(
            ["choice", "when", "to", "success", "error", "max_attempts", "attempt", "key", "until", "event"]
        ),
        SCALARS | st.lists(st.fixed_dictionaries({"to": SCALARS}, optional={"when": SCALARS}), max_size=2),
        max_size=3,
    )
)
FIELDS = st.sampled_from(
    ["ref", "task", "when", "value", "rules", "next", "retry", "timeout", "join", "run_if", "tags", "lease", "emit",
     "signal", "repeat", "duration", "cancel_rest", "input", "error", "nonsense"]
)  # fmt: skip
STEPS = st.builds(
    lambda kind, given, rest: {"type": kind, **given, **rest},
    STEP_TYPES,
    st.fixed_dictionaries({}, optional={"ref": st.just("a"), "task": st.just("t"), "when": st.just("x")}),
    st.dictionaries(FIELDS, VALUES, max_size=3),
)


@given(STEPS)
def test_it_agrees_with_the_reader_on_steps(step):
    document = {"name": "a", "steps": [step]}
    problems = ProblemList(DEFAULT_LIMITS)
    parse_document(document, problems)
    told = {problem.code for problem in problems}
    if told <= BEYOND_SCHEMAS.keys():
        assert VALIDATOR.is_valid(document) or told
    else:
        assert not VALIDATOR.is_valid(document)
