"""Child runs in their own tick: what they tell their parent, and when."""

import msgspec
import pytest

from ductor.actors.tick.compute import TickInputs, compute
from ductor.definitions.values import JsonObject, JsonValue
from ductor.journal.codec import MAX_ERROR_DETAILS_BYTES, encode_value, stored_value
from ductor.journal.commit import Payload
from ductor.journal.events import AttemptFinished, ErrorInfo, PayloadRef
from tests.actors.tick.driver import Driver

CHILD = """
name: child
config: {rate: 2}
context: {seen: 0}
input: {type: object, properties: {n: {type: integer, default: 7}}}
timeout: 1h
steps: [{ref: work, type: task, task: t, checkpoint: half}]
"""


def child_run(waits_for: str = "terminal", text: str = CHILD) -> Driver:
    run = Driver(text, {"n": 1}, run_id="child-1", starts=False)
    begun = msgspec.structs.replace(
        run.started,
        parent_run_id="parent-1",
        parent_node="call",
        parent_generation=4,
        parent_waits_for=waits_for,
        root_run_id="root",
    )
    run.tick(started=begun)
    return run


def told(run: Driver) -> list[tuple[str, JsonValue]]:
    assert {sent.run_id for sent in run.sent} <= {"parent-1"}
    return [(sent.message.id, sent.message.payload) for sent in run.sent]


def test_a_child_tells_its_end_to_its_parent():
    run = child_run()
    run.finish("work", 5)
    report = {"run_id": "child-1", "status": "completed", "generation": 4, "output": {"work": 5}}
    assert told(run) == [("child:child-1", report)]
    assert run.sent[0].message.node == "call"


def test_a_child_tells_a_checkpoint_and_its_end():
    run = child_run(
        "checkpoint:half",
        CHILD.replace("checkpoint: half}", "checkpoint: half, next: b}, {ref: b, type: task, task: t}"),
    )
    run.finish("work", 5)
    run.finish("b", 6)
    assert [(id, payload["status"], payload["output"]) for id, payload in told(run)] == [  # type: ignore[index, call-overload]
        ("child:child-1:checkpoint", "checkpoint", 5),
        ("child:child-1", "completed", {"b": 6}),
    ]


def test_a_child_that_nobody_waits_for_tells_nothing():
    run = child_run("")
    run.finish("work", 5)
    assert told(run) == []


def test_the_error_of_a_child_says_which_run_failed_down_to_the_first():
    run = child_run()
    run.fail("work", "Declined")
    ((_, payload),) = told(run)
    assert isinstance(payload, dict)
    error = payload["error"]
    assert isinstance(error, dict)
    assert error["type"] == "Declined"
    assert error["details"] == {"child": {"run_id": "child-1", "definition": "child", "status": "failed"}}


@pytest.mark.parametrize(("kind", "type"), [("cancel", "ChildCancelled"), ("terminate", "ChildTerminated")])
def test_a_child_that_was_stopped_says_so(kind: str, type: str):
    run = child_run(text="name: child\nsteps: [{ref: w, type: wait, duration: 1h}]")
    run.request(kind)  # type: ignore[arg-type]
    ((_, payload),) = told(run)
    assert isinstance(payload, dict)
    assert payload["error"]["type"] == type  # type: ignore[index, call-overload]


def test_a_redriven_child_tells_nothing_more():
    run = child_run()
    run.fail("work")
    run.request("redrive")
    run.finish("work", 5)
    assert run.state.status == "completed"
    assert len(told(run)) == 1


def test_a_large_output_goes_with_the_report():
    run = child_run(text="name: child\noutput: ${steps.work.output}\nsteps: [{ref: work, type: task, task: t}]")
    stored = stored_value("x" * 40_000, "output")
    assert stored.ref is not None
    finished = msgspec.structs.replace(run.success("work"), output_ref=stored.ref)
    assert stored.payload is not None
    inputs = TickInputs(results=[finished], payloads=[(stored.payload, stored.value)])
    payload = compute(run.program, run.state, inputs, run.now_us)
    assert payload.outbox is not None
    (sent,) = payload.outbox.sent
    assert sent.message.payload_ref == PayloadRef(stored.ref.hash, stored.ref.size_bytes)
    assert sent.payload == Payload(stored.ref.hash, encode_value("x" * 40_000))


@pytest.mark.parametrize("too_many_bytes", [0, 1])
def test_details_that_are_too_long_with_the_childs_are_left_out(too_many_bytes: int):
    run = child_run()
    child: JsonValue = {"run_id": "child-1", "definition": "child", "status": "failed"}
    room = MAX_ERROR_DETAILS_BYTES - len(encode_value({"text": "", "child": child}))
    details: JsonObject = {"text": "a" * (room + too_many_bytes)}
    error = ErrorInfo(type="Boom", details=details, retryable=False)
    run.tick(results=[AttemptFinished(node="work", generation=1, outcome="failed", error=error)])
    ((_, report),) = told(run)
    assert isinstance(report, dict)
    kept = {} if too_many_bytes else details
    assert report["error"]["details"] == {**kept, "child": child}  # type: ignore[index, call-overload]


def test_details_that_are_no_map_are_those_of_the_child():
    run = child_run()
    error = ErrorInfo(type="Boom", details=["A1"], retryable=False)
    run.tick(results=[AttemptFinished(node="work", generation=1, outcome="failed", error=error)])
    ((_, report),) = told(run)
    assert isinstance(report, dict)
    child = {"run_id": "child-1", "definition": "child", "status": "failed", "details": ["A1"]}
    assert report["error"]["details"] == {"child": child}  # type: ignore[index, call-overload]


def test_the_run_that_failed_first_is_at_the_end_of_the_chain():
    run = child_run()
    error = ErrorInfo(type="Boom", details={"child": {"run_id": "grandchild"}, "sku": "A1"}, retryable=False)
    run.tick(results=[AttemptFinished(node="work", generation=1, outcome="failed", error=error)])
    ((_, report),) = told(run)
    assert isinstance(report, dict)
    child = {"run_id": "child-1", "definition": "child", "status": "failed", "child": {"run_id": "grandchild"}}
    assert report["error"]["details"] == {"sku": "A1", "child": child}  # type: ignore[index, call-overload]
