"""Builders give the documents that YAML gives."""
# ruff: noqa: E501  (a case is one line)

from datetime import timedelta
from typing import get_type_hints

import pytest

from ductor.definitions import build
from ductor.definitions.build import (
    approval,
    chain,
    choice,
    conditional,
    connector,
    digest,
    event_set,
    gather,
    human_loop,
    interaction,
    route,
    rule,
    scatter,
    subworkflow,
    task,
    transform,
    wait,
    workflow,
)
from ductor.definitions.compile import compile_document, compile_text
from ductor.definitions.documents.report import ProblemList
from ductor.definitions.errors import DefinitionError
from ductor.definitions.limits import DEFAULT_LIMITS
from ductor.definitions.parse import definition_shape, parse_document
from ductor.definitions.parsing.struct_shapes import struct_shape
from ductor.definitions.steps import STEP_TYPES

POSITIONAL = {
    "task": {"task"}, "connector": {"connector", "operation"}, "rule": {"rules"}, "conditional": {"when"},
    "scatter": {"items_expr", "do"}, "gather": {"scatter_ref"}, "approval": {"approvers"}, "human_loop": {"title"},
    "event_set": {"events"}, "digest": {"key", "item", "window"}, "interaction": {"ask"}, "route": {"routable"},
}  # fmt: skip
FIELDS = {"conditional": build.StepFields, "digest": build.StepFields}


@pytest.mark.parametrize("name", STEP_TYPES)
def test_every_field_of_a_step_can_be_given(name):
    """The typed dictionaries are for type checkers; they must not fall behind the structs."""
    camel = "".join(part.capitalize() for part in name.split("_"))
    offered = set(get_type_hints(FIELDS.get(name) or getattr(build, f"{camel}Fields"))) | POSITIONAL.get(name, set())
    body = {"do"} if name in ("scatter", "subworkflow") else set()
    assert offered == (set(struct_shape(STEP_TYPES[name]).fields) - {"ref"}) | {"next"} | body


def test_every_field_of_a_definition_can_be_given():
    offered = set(get_type_hints(build.DefinitionFields))
    assert offered == (set(definition_shape().fields) - {"name"}) | {"defer", "defaults"}


def test_builders_and_yaml_give_the_same_hash():
    document = workflow(
        "order",
        task(
            "reserve",
            "inventory.reserve",
            input={"sku": "${trigger.sku}"},
            retry={"max_attempts": 5, "initial": timedelta(seconds=1), "except": ("OutOfStock",)},
            timeout={"attempt": timedelta(seconds=30), "total": "10m"},
            on_error="continue",
            next={"success": "review", "error": choice(('error.type == "OutOfStock"', "backorder"), default="sorry")},
        ),
        conditional(
            "review", "steps.reserve.output.total > config.limit", next={"true": "sorry", "false": "backorder"}
        ),
        task("backorder", "orders.backorder", join="any"),
        transform("sorry", end="failed", error={"type": "Refused"}, join="any"),
        config={"limit": 100},
        timeout=timedelta(days=7),
        defer=[task("tell", "mail.send", input={"status": "${run.status}"})],
    )
    (compiled,) = compile_text(
        """
name: order
config: {limit: 100}
timeout: 7d
steps:
  - ref: reserve
    type: task
    task: inventory.reserve
    input: {sku: "${trigger.sku}"}
    retry: {max_attempts: 5, initial: 1s, except: [OutOfStock]}
    timeout: {attempt: 30s, total: 10m}
    on_error: continue
    next: {success: review, error: {choice: [{when: error.type == "OutOfStock", to: backorder}, {to: sorry}]}}
  - {ref: review, type: conditional, when: steps.reserve.output.total > config.limit, next: {"true": sorry, "false": backorder}}
  - {ref: backorder, type: task, task: orders.backorder, join: any}
  - {ref: sorry, type: transform, end: failed, error: {type: Refused}, join: any}
defer:
  - {ref: tell, type: task, task: mail.send, input: {status: "${run.status}"}}
"""
    )
    assert compile_document(document).manifest_hash == compiled.manifest_hash


def test_every_builder_gives_a_valid_step():
    document = workflow(
        "all",
        task("a", "t"),
        connector("b", "stripe", "charge", params={"x": 1}),
        rule("c", [{"when": "true", "then": 1}], hit="all"),
        transform("d", value=1),
        conditional("e", "true"),
        scatter("f", "[1]", task("child", "t"), next="g"),
        gather("g", "f"),
        subworkflow("h", definition="other"),
        wait("i", duration="1s"),
        approval("j", ["x"]),
        human_loop("k", "case"),
        event_set("l", [{"name": "x"}]),
        digest("m", "k", 1, {"duration": "1m"}),
        interaction("n", "who?"),
        route("o", {"skill": "x"}),
    )
    assert {step.type_name for step in compile_document(document).manifest.steps} == set(STEP_TYPES)


def test_a_chain_leads_from_step_to_step():
    first, second, third = chain(task("a", "t"), task("b", "t", next={"done": "c"}), task("c", "t"))
    assert (first["next"], second["next"], "next" in third) == ("b", {"done": "c"}, False)
    assert chain() == ()


@pytest.mark.parametrize("value", [object(), {1, 2}, {3: 4}, b"x", float("nan"), 2**60])
def test_what_is_no_json_is_refused(value):
    with pytest.raises(DefinitionError):
        compile_document(workflow("a", task("a", "t", input={"x": value})))


def test_a_value_within_itself_is_refused():
    value: list[object] = []
    value.append(value)
    with pytest.raises(DefinitionError, match="limit `depth`"):
        parse_document(workflow("a", task("a", "t", input=value)), ProblemList(DEFAULT_LIMITS))


def test_problems_name_the_path():
    with pytest.raises(DefinitionError) as caught:
        compile_document(workflow("a", task("a", "t", input={"x": "${trigger.}"})))
    assert [problem.place.path for problem in caught.value.problems] == ["steps[0].input.x"]
