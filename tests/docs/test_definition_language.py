"""The reference of the language does what it says: its snippets compile, its tables are complete."""

import re
from pathlib import Path

import msgspec
import pytest

from ductor.actors.steps import RUNNABLE_TYPES
from ductor.definitions.compile import compile_text
from ductor.definitions.errors import DefinitionError
from ductor.definitions.limits import Limits
from ductor.definitions.parse import definition_shape
from ductor.definitions.parsing.struct_shapes import struct_shape
from ductor.definitions.policies import Compensation, EmittedEvent, Lease, Repeat, Retry, SentSignal, Timeouts
from ductor.definitions.steps import STEP_TYPES, Step

PAGE = Path(__file__).parents[2].joinpath("docs/reference/definition-language.md").read_text()
SNIPPETS = re.findall(r"^```(\w+)([^\n]*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def snippets(language, *, refused=False):
    return [
        text if not refused else (how.split()[1], text)
        for name, how, text in SNIPPETS
        if name == language and bool(how.strip()) == refused
    ]


def whole(text):
    """A snippet is a definition, or the steps of one."""
    return (
        text
        if "steps:" in text and not text.startswith("- ")
        else "name: snippet\nsteps:\n" + re.sub("^", "  ", text, flags=re.MULTILINE)
    )


def section(title):
    return PAGE.split(f"\n{title}\n", 1)[1].split("\n## ", 1)[0]


@pytest.mark.parametrize("text", snippets("yaml"))
def test_yaml_compiles(text):
    assert compile_text(whole(text))


@pytest.mark.parametrize(("code", "text"), snippets("yaml", refused=True))
def test_yaml_that_is_refused(code, text):
    with pytest.raises(DefinitionError) as caught:
        compile_text(text, file="order.yaml")
    (problem,) = caught.value.problems
    assert problem.code == code
    shown = snippets("text")
    assert code != "unknown_key" or f"{problem}\n" in shown


@pytest.mark.parametrize("text", snippets("python"))
def test_python_runs(text):
    exec(compile(text, "definition-language.md", "exec"), {})


@pytest.mark.parametrize("name", STEP_TYPES)
def test_every_field_of_every_step_type_is_told(name):
    told = section(f"### {name}").split("\n### ", 1)[0]
    common = set(struct_shape(Step).fields) | {"retry", "timeout", "queue", "priority", "credential", "repeat"}
    for key in set(struct_shape(STEP_TYPES[name]).fields) - common:
        assert re.search(rf"\b{key}\b", told), key


def test_common_fields_are_told():
    for key in struct_shape(Step).fields:
        assert f"`{key}`" in section("## Every step")
    for key in definition_shape().fields:
        assert f"`{key}`" in section("## A definition")


@pytest.mark.parametrize(
    ("struct", "title"),
    [
        (Retry, "### retry"),
        (Timeouts, "### timeout"),
        (Repeat, "### repeat"),
        (Lease, "### lease"),
        (Compensation, "### compensate"),
    ],
)
def test_fields_of_parts_are_told(struct, title):
    for key in struct_shape(struct).fields:
        assert re.search(rf"`{key}\b", section(title)), key


def test_fields_of_messages_are_told():
    for struct in (EmittedEvent, SentSignal):
        assert "{" + ", ".join(struct_shape(struct).fields) + "}" in PAGE


def test_the_table_of_limits_is_right():
    rows = dict(re.findall(r"^\| `(\w+)` \| ([0-9,]+) \|", section("## Limits"), re.MULTILINE))
    assert {name: int(value.replace(",", "")) for name, value in rows.items()} == msgspec.structs.asdict(Limits())


def test_what_can_not_run_is_told():
    told = section("## What this version runs")
    for step_type in set(STEP_TYPES) - RUNNABLE_TYPES:
        assert f"`{step_type}`" in told


def test_every_step_type_has_its_outcomes_told():
    table = section("## Every step").split("### Edges", 1)[1]
    for step_type in STEP_TYPES.values():
        if step_type.outcomes != Step.outcomes:
            row = next(
                line for line in table.splitlines() if line.startswith("|") and f"`{step_type.type_name}`" in line
            )
            assert set(re.findall(r"`(\w+)`", row.split("|")[2])) == set(step_type.outcomes)
