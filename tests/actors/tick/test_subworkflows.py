"""`subworkflow` in the tick of the parent: which child is started with what, and what follows from what it tells."""

import msgspec
import pytest

from ductor.actors.tick.children import MAX_DEPTH
from ductor.definitions.values import JsonValue
from ductor.journal.codec import encode_value
from ductor.journal.events import ChildReported, ChildStarted, ErrorInfo, RunStarted
from tests.actors.tick.driver import SECOND_US, Driver, settlements

CHILD = """
name: child
config: {rate: 2}
context: {seen: 0}
input: {type: object, properties: {n: {type: integer, default: 7}}}
timeout: 1h
steps: [{ref: work, type: task, task: t, checkpoint: half}]
"""

PARENT = """
steps:
  - ref: call
    type: subworkflow
    definition: child
    input: {n: "${trigger.n}"}
    effects: {got: "${output}"}
    next: {success: after}
    MORE
  - {ref: after, type: task, task: t}
context: {got: null}
"""

WITH_ERROR_EDGE = (PARENT.replace("success: after}", "success: after, error: broken}")).replace(
    "context:", "  - {ref: broken, type: task, task: t}\ncontext:"
)


def parent(more: str = "", trigger: JsonValue = None, *, text: str = PARENT, **options: object) -> Driver:
    given = {"n": 3} if trigger is None else trigger
    return Driver(text.replace("MORE", more), given, others=[CHILD], **options)  # type: ignore[arg-type]


def asked(run: Driver) -> list[tuple[str, str]]:
    return [(control.run_id, control.kind) for control in run.asked]


# --- starting ---------------------------------------------------------------------------------------------------------


def test_a_child_is_started_with_all_that_a_normal_start_gives_and_its_place():
    run = parent()
    child = run.child("call")
    begun = child.started
    assert (begun.definition, begun.trigger, begun.config, begun.context) == (
        "child",
        {"n": 3},
        {"rate": 2},
        {"seen": 0},
    )
    assert (begun.parent_run_id, begun.root_run_id, begun.parent_node, begun.parent_generation, begun.depth) == (
        "run-1",
        "run-1",
        "call",
        1,
        1,
    )
    assert (begun.tenant, begun.parent_waits_for, begun.body, begun.scope) == ("t", "terminal", "", {})
    assert begun.timeout_at_us == run.now_us + 3_600 * SECOND_US
    node = run.state.nodes["call"]
    assert (node.status, node.waiting, node.child_run_id) == ("waiting", "child", child.run_id)
    assert run.state.open_children == {child.run_id: "call"}


def test_only_a_child_that_may_start_others_is_told_which_versions():
    assert parent().child("call").started.definitions == {}
    between = "name: between\nsteps: [{ref: a, type: subworkflow, definition: child}]\n"
    run = Driver(PARENT.replace("child", "between").replace("MORE", ""), {"n": 3}, others=[between, CHILD])
    assert run.child("call").started.definitions == run.state.definitions
    assert set(run.state.definitions) == {"subject", "between", "child"}


def test_the_same_tick_starts_the_same_child():
    assert parent().child("call").run_id == parent().child("call").run_id
    assert parent(run_id="run-2").child("call").run_id != parent().child("call").run_id


def test_the_trigger_is_checked_by_the_childs_schema_and_nothing_is_started():
    run = parent(trigger={"n": "many"})
    assert run.children == []
    error = run.state.nodes["call"].error
    assert error is not None
    assert error.type == "InvalidTrigger"
    assert "child" in error.message
    assert run.state.status == "failed"


def test_defaults_of_the_childs_schema_are_filled_in():
    run = parent(text=PARENT.replace('input: {n: "${trigger.n}"}', "input: {}"))
    assert run.child("call").started.trigger == {"n": 7}


def test_a_failing_input_fails_the_step():
    run = parent("on_error: continue", {}, text=WITH_ERROR_EDGE)
    assert run.children == []
    assert list(run.in_flight) == ["broken"]


def test_a_definition_that_was_not_known_when_the_run_began_fails_the_step():
    run = Driver(PARENT.replace("MORE", ""), {"n": 3})
    assert run.children == []
    assert run.state.error is not None
    assert (run.state.status, run.state.error.type) == ("failed", "DefinitionNotFound")


def test_a_definition_may_start_itself():
    run = Driver("steps: [{ref: again, type: subworkflow, definition: subject, input: {}}]")
    assert run.child("again").started.manifest_hash == run.program.manifest_hash


@pytest.mark.parametrize(("depth", "more", "child_depth"), [(15, "", 16), (16, "on_parent_close: abandon", 0)])
def test_depth_is_handed_down_and_begins_anew_with_an_abandoned_child(depth: int, more: str, child_depth: int):
    run = parent(more, starts=False)
    run.started = begun_at(run, depth)
    run.tick(started=run.started)
    begun = run.child("call").started
    assert (begun.depth, begun.root_run_id) == (child_depth, "root")


def test_a_run_at_the_greatest_depth_starts_no_child():
    run = parent(starts=False)
    run.tick(started=begun_at(run, MAX_DEPTH))
    assert run.children == []
    error = run.state.error
    assert error is not None
    assert error.type == "DepthExceeded"


def begun_at(run: Driver, depth: int) -> RunStarted:
    return msgspec.structs.replace(run.started, depth=depth, root_run_id="root", parent_run_id="above")


BODY = """
config: {rate: 2}
context: {seen: 5}
steps:
  - ref: part
    type: subworkflow
    input: {m: "${trigger.n}"}
    do:
      steps: [{ref: inner, type: task, task: t, input: "${trigger.m + config.rate + context.seen}"}]
      output: "${steps.inner.output}"
"""


def test_an_inline_body_is_carried_out_by_a_run_pinned_to_the_same_manifest():
    run = Driver(BODY, {"n": 1})
    begun = run.child("part").started
    assert (begun.definition, begun.body, begun.manifest_hash) == ("subject/part", "part", run.program.manifest_hash)
    assert (begun.trigger, begun.config, begun.context) == ({"m": 1}, {"rate": 2}, {"seen": 5})
    assert begun.entrypoints == ("inner",)


def test_a_body_for_each_item_sees_the_item_and_the_trigger_of_the_run_around_it():
    run = Driver(
        """
        steps:
          - ref: each
            type: scatter
            items_expr: "{'x': 7}"
            do: {steps: [{ref: inner, type: task, task: t, input: "${[key, index, item, trigger.n]}"}]}
        """,
        {"n": 1},
    )
    begun = run.child("each[0]").started
    child = Driver("steps: [{ref: inner, type: task, task: t}]", starts=False)
    child.program = run.program.bodies[begun.body]
    child.library = run.library
    child.tick(started=begun)
    assert child.state.nodes["inner"].input == ["x", 0, 7, 1]


def test_a_large_input_goes_beside_both_journals():
    text = "x" * 40_000
    run = Driver("steps: [{ref: call, type: subworkflow, definition: child, input: '${trigger}'}]", text, others=[
        "name: child\nsteps: [{ref: a, type: transform, value: 1}]"
    ])  # fmt: skip
    child = run.child("call")
    (event,) = [event for event in run.events() if isinstance(event, ChildStarted)]
    assert event.input_ref == child.started.trigger_ref
    assert [payload.text for payload in child.payloads] == [encode_value(text)]


# --- ends -------------------------------------------------------------------------------------------------------------


def test_the_childs_output_is_the_steps_output_once():
    run = parent()
    run.report("call", output={"sum": 5})
    assert run.state.nodes["call"].output == {"sum": 5}
    assert run.state.context == {"got": {"sum": 5}}
    assert list(run.in_flight) == ["after"]
    assert run.state.open_children == {}
    (settled,) = settlements(run.events(), "call")
    assert settled.output is None  # it stands in the report


def test_a_failed_child_gives_its_own_error():
    run = parent("on_error: continue", text=WITH_ERROR_EDGE)
    error = ErrorInfo(type="Declined", message="no", details={"child": {"run_id": "c"}})
    run.report("call", "failed", error=error)
    assert run.state.nodes["call"].error == error
    assert list(run.in_flight) == ["broken"]


def test_a_child_that_fails_without_an_error_is_named():
    run = parent()
    child = run.child("call")
    run.report("call", "failed")
    message = f"step call: its child run {child.run_id} ended as failed"
    assert run.state.error == ErrorInfo(type="ChildFailed", message=message, retryable=False)


def test_a_child_that_was_cancelled_from_outside_fails_the_step():
    run = parent()
    run.report("call", "cancelled", error=ErrorInfo(type="ChildCancelled"))
    assert run.state.error is not None
    assert (run.state.status, run.state.error.type) == ("failed", "ChildCancelled")


def test_a_refused_key_fails_the_step_and_names_the_owner():
    run = parent("key: '${trigger.n}'")
    assert run.child("call").started.key == "3"
    run.report("call", "refused", owner="other")
    error = run.state.error
    assert error is not None
    assert (error.type, error.details) == ("ChildKeyTaken", {"run_id": "other"})
    assert error.message == "step call: the key belongs to run other"
    assert run.state.open_children == {}
    assert [event.generation for event in run.events() if isinstance(event, ChildReported)] == [1]


def test_a_run_can_not_give_its_own_key_to_a_child():
    text = "steps: [{ref: again, type: subworkflow, definition: subject, key: k, input: {}}]"
    run = Driver(text, starts=False)
    run.tick(started=msgspec.structs.replace(run.started, key="k"))
    assert run.children == []
    assert run.state.error is not None
    assert run.state.error.type == "ChildKeyTaken"
    assert run.state.error.message == "step again: the key belongs to run run-1 of subject"


def test_a_key_is_the_childs_own_where_definition_or_key_is_another():
    run = parent("key: k", starts=False)
    run.tick(started=msgspec.structs.replace(run.started, key="k"))
    assert run.child("call").started.key == "k"
    text = "steps: [{ref: again, type: subworkflow, definition: subject, key: other, input: {}}]"
    again = Driver(text, starts=False)
    again.tick(started=msgspec.structs.replace(again.started, key="k"))
    assert again.child("again").started.key == "other"


def test_a_repeated_report_is_undelivered():
    run = parent()
    first, second = run.reported("call", output=1), run.reported("call", output=2)
    run.tick(messages=[first])
    run.dispositions.clear()  # ids are unique in the store; here the second one comes all the same
    run.tick(messages=[second])
    assert run.disposition(second.id) == "undelivered"
    assert run.state.nodes["call"].output == 1


def test_a_report_of_another_child_changes_nothing():
    run = parent()
    message = run.reported("call", output=1, run_id="stranger")
    run.tick(messages=[message])
    assert run.disposition(message.id) == "undelivered"
    assert run.state.nodes["call"].status == "waiting"


# --- async, checkpoints -----------------------------------------------------------------------------------------------


def test_an_async_step_goes_on_with_the_childs_id():
    run = parent("mode: async")
    child = run.child("call")
    assert run.state.nodes["call"].output == {"run_id": child.run_id}
    assert child.started.parent_waits_for == ""
    assert list(run.in_flight) == ["after"]
    assert run.state.open_children == {child.run_id: "call"}


def test_a_checkpoint_is_enough_for_who_waits_for_it():
    run = parent("wait_for: 'checkpoint:half'")
    run.report("call", "checkpoint", output="half")
    assert run.state.nodes["call"].output == "half"
    assert list(run.in_flight) == ["after"]
    child = run.state.nodes["call"].child_run_id
    assert run.state.open_children == {child: "call"}
    message = run.reported("call", output="whole")
    run.tick(messages=[message])
    assert run.disposition(message.id) == "consumed"
    assert run.state.open_children == {}
    assert run.state.nodes["call"].output == "half"


def test_a_child_that_ends_without_the_checkpoint_decides_by_its_end():
    run = parent("wait_for: 'checkpoint:half'")
    run.report("call", output="whole")
    assert run.state.nodes["call"].output == "whole"


# --- endings of the parent --------------------------------------------------------------------------------------------


def test_a_cancelled_parent_waits_for_the_child_that_it_asks_to_stop():
    run = parent()
    child = run.child("call")
    run.request("cancel")
    assert asked(run) == [(child.run_id, "cancel")]
    assert run.state.status == "waiting"
    run.report("call", "cancelled", error=ErrorInfo(type="ChildCancelled"))
    assert (run.state.status, run.state.nodes["call"].status) == ("cancelled", "cancelled")


def test_a_child_that_completes_all_the_same_counts():
    run = parent()
    run.request("cancel")
    run.report("call", output={"sum": 1})
    assert (run.state.status, run.state.nodes["call"].status) == ("cancelled", "succeeded")
    assert run.state.context == {"got": {"sum": 1}}


def test_a_parent_waits_for_the_grace_time_at_most():
    run = parent()
    run.request("cancel")
    run.advance(60)
    assert run.state.status == "cancelled"
    message = run.reported("call", "cancelled")
    run.tick(messages=[message])
    assert run.disposition(message.id) == "undelivered"


def test_terminate_ends_the_parent_at_once_and_terminates_the_child():
    run = parent()
    child = run.child("call")
    run.request("terminate")
    assert run.state.status == "terminated"
    assert asked(run) == [(child.run_id, "terminate")]


@pytest.mark.parametrize("kind", ["cancel", "terminate"])
def test_an_abandoned_child_is_left_alone(kind: str):
    run = parent("on_parent_close: abandon")
    run.request(kind)  # type: ignore[arg-type]
    assert asked(run) == []
    assert run.state.is_terminal


def test_a_parent_that_completes_leaves_async_children_alone_and_one_that_fails_does_not():
    run = parent("mode: async")
    run.finish("after")
    assert (run.state.status, asked(run)) == ("completed", [])
    other = parent("mode: async")
    other.fail("after")
    assert asked(other) == [(other.child("call").run_id, "cancel")]


TWO = """
steps:
  - {ref: call, type: subworkflow, definition: child, input: {}, next: done}
  - {ref: other, type: task, task: t, next: done, MORE}
  - {ref: done, type: task, task: t, join: any, cancel_rest: true}
"""


@pytest.mark.parametrize("more", ["cancels: [call]", "name: x"])
def test_a_cancelled_step_asks_its_child_to_stop_and_settles_at_once(more: str):
    run = parent(more, text=TWO)
    child = run.child("call")
    run.finish("other")
    assert asked(run) == [(child.run_id, "cancel")]
    node = run.state.nodes["call"]
    assert (node.status, node.outcome) == ("cancelled", "withdrawn")
    message = run.reported("call", "cancelled")
    run.tick(messages=[message])
    assert run.state.open_children == {}
    assert run.state.nodes["call"].status == "cancelled"


@pytest.mark.parametrize("fields", ["on_parent_close: abandon", "mode: async, repeat: {until: 'false', every: 1h}"])
def test_a_cancelled_step_leaves_a_child_alone_that_it_does_not_wait_for_or_that_outlives_it(fields: str):
    run = Driver(f"""
    steps:
      - {{ref: call, type: subworkflow, do: {{steps: [{{ref: work, type: task, task: t}}]}}, {fields}}}
      - {{ref: other, type: task, task: t, cancels: [call]}}
    """)
    assert len(run.children) == 1
    run.finish("other")
    assert (run.statuses()["call"], asked(run)) == ("cancelled", [])


def test_what_is_asked_twice_has_one_id_and_another_one_after_a_redrive():
    run = parent()
    run.request("cancel")
    (first,) = run.asked
    run.report("call", "cancelled")
    run.request("redrive", "r-1")
    run.request("cancel", "c-2")
    again = run.asked[-1]
    assert again.run_id != first.run_id
    assert again.request_id != first.request_id


def test_a_redriven_step_starts_a_child_anew():
    run = parent()
    first = run.child("call")
    run.report("call", "failed", error=ErrorInfo(type="Boom"))
    run.request("redrive")
    second = run.child("call")
    assert second.run_id != first.run_id
    assert second.started.parent_generation == 2
    late = run.reported("call", run_id=first.run_id, output=1)
    run.dispositions.clear()
    run.tick(messages=[late])
    assert run.disposition(late.id) in ("undelivered", "consumed")
    assert run.state.nodes["call"].status == "waiting"
    run.report("call", output=2)
    assert run.state.nodes["call"].output == 2


def test_a_paused_parent_takes_reports_when_it_is_resumed():
    run = parent()
    run.request("pause")
    run.report("call", output=1)
    assert run.state.nodes["call"].status == "waiting"
    run.request("resume", "c-2")
    assert run.state.nodes["call"].output == 1


def test_reports_stand_in_the_journal():
    run = parent()
    run.report("call", output=1)
    (event,) = [event for event in run.events() if isinstance(event, ChildReported)]
    assert (event.node, event.generation, event.status, event.output) == ("call", 1, "completed", 1)
