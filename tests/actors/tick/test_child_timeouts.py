"""What becomes of a step, and of its child, when the child takes too long."""

import pytest

from tests.actors.tick.test_subworkflows import PARENT, WITH_ERROR_EDGE, asked, parent


@pytest.mark.parametrize(
    ("policy", "begun", "status"),
    [("fail_parent", [], "failed"), ("detach", ["after"], "succeeded"), ("continue_with_error", ["broken"], "failed")],
)
def test_a_timeout_leaves_the_child_running(policy: str, begun: list[str], status: str):
    text = WITH_ERROR_EDGE if policy == "continue_with_error" else PARENT
    run = parent(f"timeout: 10s\n    on_timeout: {policy}", text=text)
    child = run.child("call")
    assert run.advance(9.999999).events == []
    assert run.statuses()["call"] == "waiting"
    run.advance(0.000001)
    node = run.state.nodes["call"]
    assert list(run.in_flight) == begun
    assert node.status == status
    if policy == "fail_parent":
        assert asked(run) == [(child.run_id, "cancel")]  # the run ends, and its children with it
        return
    assert asked(run) == []
    assert run.state.open_children == {child.run_id: "call"}
    if policy == "detach":
        assert node.output == {"run_id": child.run_id}
    else:
        assert node.error is not None
        assert node.error.type == "ChildTimeout"
    message = run.reported("call", output="late")
    run.tick(messages=[message])
    assert run.state.open_children == {}
    assert run.state.nodes["call"].output != "late"


@pytest.mark.parametrize(
    ("fields", "what"), [("", "end"), ("    wait_for: 'checkpoint:half'", "reach the checkpoint `half`")]
)
def test_a_timeout_says_what_the_child_has_not_done(fields: str, what: str):
    run = parent(f"timeout: 10s\n{fields}")
    run.advance(10)
    assert run.state.error is not None
    expected = f"step call: its child run did not {what} within 10000 ms; it is not stopped for that"
    assert (run.state.error.type, run.state.error.message) == ("ChildTimeout", expected)


@pytest.mark.parametrize("policy", ["continue_with_error", "fail_parent"])
def test_a_redrive_calls_anew_only_where_the_timeout_ended_the_run(policy: str):
    goes_on = policy == "continue_with_error"
    run = parent(f"timeout: 10s\n    on_timeout: {policy}", text=WITH_ERROR_EDGE if goes_on else PARENT)
    run.advance(10)
    if goes_on:
        run.fail("broken")
    assert run.state.status == "failed"
    run.request("redrive")
    assert list(run.in_flight) == (["broken"] if goes_on else [])
    assert len(run.children) == (1 if goes_on else 2)


def test_a_timeout_edge_goes_before_the_policy():
    run = parent("timeout: 10s", text=WITH_ERROR_EDGE.replace("error: broken}", "timeout: broken}"))
    run.advance(10)
    assert (run.state.nodes["call"].outcome, list(run.in_flight)) == ("timeout", ["broken"])
