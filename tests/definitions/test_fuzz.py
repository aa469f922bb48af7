"""Whatever comes in, either it compiles or a `DefinitionError` says why."""
# ruff: noqa: E501  (a case is one line)

import json
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from ductor.definitions.compile import compile_document, compile_text
from ductor.definitions.errors import DefinitionError
from ductor.definitions.program import load_program
from tests.definitions.test_compile import WHOLE_LANGUAGE, documents_of

WHOLE_TEXT = Path(WHOLE_LANGUAGE).read_text()
(WHOLE,) = documents_of(WHOLE_TEXT)

JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
    | st.sampled_from(["${trigger.x}", "${", "1s", "a", "any", "steps.a.output", "$${x}", "${steps.reserve.output}"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4) | st.sampled_from(["ref", "type", "next", "do", "steps", "choice"]), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


def compiles_or_is_refused(compiling):
    try:
        compiled = compiling()
    except DefinitionError as error:
        refusal = error
    else:
        for one in compiled:
            load_program(one.manifest, places=one.places)
        return
    assert refusal.problems
    assert str(refusal)


@given(st.text(st.characters(exclude_categories=())) | st.text(alphabet="abc:-[]{},&*!|>'\"%@`#? \n\t\\01"))
@settings(max_examples=150)
def test_any_text(text):
    compiles_or_is_refused(lambda: compile_text(text))
    compiles_or_is_refused(lambda: compile_text(text, file="x.json"))


@given(st.binary())
def test_any_bytes(data):
    compiles_or_is_refused(lambda: compile_text(data))


@given(
    st.dictionaries(st.sampled_from(["name", "steps", "input", "defaults", "on", "triggers", "defer", "output"]), JUNK)
)
def test_any_document(document):
    compiles_or_is_refused(lambda: [compile_document(document)])


@st.composite
def damaged(draw):
    """The whole language with one value replaced, removed or added somewhere."""
    document = json.loads(json.dumps(WHOLE))
    holder = document
    for _ in range(draw(st.integers(0, 6))):
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        if not keys:
            break
        key = draw(st.sampled_from(keys))
        if not isinstance(holder[key], (dict, list)):
            holder[key] = draw(JUNK)
            break
        holder = holder[key]
    if isinstance(holder, dict):
        holder[draw(st.sampled_from(["ref", "next", "type", "when", "join", "x", *holder]))] = draw(JUNK)
    elif holder:
        holder[draw(st.integers(0, len(holder) - 1))] = draw(JUNK)
    return document


@given(damaged())
@settings(max_examples=80)
def test_a_damaged_document(document):
    compiles_or_is_refused(lambda: [compile_document(document)])


@given(st.integers(0, len(WHOLE_TEXT) - 1), st.text(max_size=3), st.integers(0, 5))
@settings(max_examples=80)
def test_a_damaged_text(offset, inserted, removed):
    text = WHOLE_TEXT[:offset] + inserted + WHOLE_TEXT[offset + removed :]
    compiles_or_is_refused(lambda: compile_text(text))
