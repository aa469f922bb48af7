"""Leases in the tick: a node waits for its place before it starts, and has it until it has settled."""

import pytest

from ductor.actors.tick.working import MAX_STARTS_PER_TICK
from ductor.journal.events import ControlReceived, LeaseGranted, NodeParked
from tests.actors.tick.driver import Driver, settlements

PRINT = """
steps:
  - {ref: print, type: task, task: t, lease: {key: "printer-${trigger.n}", limit: 2}, next: after}
  - {ref: after, type: task, task: t}
"""


def leased(step: str, **driver: object) -> Driver:
    return Driver(f"steps: [{{ref: a, lease: {{key: k, timeout: 1m}}, {step}}}]", **driver)  # type: ignore[arg-type]


def parked(run: Driver) -> list[str]:
    return [ref for ref, node in run.state.nodes.items() if node.waiting == "lease"]


# --- one step ---------------------------------------------------------------------------------------------------------


def test_a_step_asks_waits_starts_and_gives_back():
    run = Driver(PRINT, {"n": 7})
    assert run.in_flight == {}
    asked = run.leases["print"]
    assert (asked.key, asked.limit, asked.generation) == ("printer-7", 2, 0)
    assert run.state.status == "waiting"
    assert run.state.nodes["print"].data == {"key": "printer-7", "limit": 2}
    grant = run.granted("print")
    run.tick(messages=[grant])
    assert run.disposition(grant.id) == "consumed"
    assert set(run.in_flight) == {"print"}
    assert run.state.nodes["print"].lease_fence == 1
    assert set(run.leases) == {"print"}
    run.finish("print")
    assert run.leases == {}
    assert set(run.in_flight) == {"after"}
    assert LeaseGranted(node="print", generation=0, fence=1) in run.events()


def test_a_step_that_is_cancelled_in_the_row_that_asks_never_asks():
    run = Driver("""
    steps:
      - {ref: a, type: task, task: t, lease: {key: k}}
      - {ref: b, type: transform, value: 1, cancels: [a]}
    """)
    assert (run.leases, run.statuses()) == ({}, {"a": "cancelled", "b": "succeeded"})


@pytest.mark.parametrize("length", [255, 256])
def test_a_key_that_fits_is_filed_as_it_stands_and_a_longer_one_by_its_hash(length: int):
    run = Driver("steps: [{ref: a, type: task, task: t, lease: {key: '${trigger}'}}]", "k" * length)
    assert (run.leases["a"].key == "k" * length) == (length == 255)


def test_its_guard_is_asked_before_and_never_again():
    run = leased("type: task, task: t, run_if: 'trigger.go'", trigger={"go": False})
    assert (run.state.status, run.leases) == ("completed", {})
    run = Driver(
        """
        context: {go: true}
        on: [{signal: stop, effects: {go: false}}]
        steps: [{ref: a, type: task, task: t, run_if: "context.go", lease: {key: k}}]
        """
    )
    run.signal("stop")
    run.grant("a")
    assert set(run.in_flight) == {"a"}


def test_its_input_is_rendered_after_the_grant():
    run = Driver(
        """
        context: {n: 1}
        on: [{signal: set, effects: {n: "${event.payload}"}}]
        steps: [{ref: a, type: task, task: t, input: {n: "${context.n}"}, lease: {key: k}}]
        """
    )
    run.signal("set", 2)
    run.grant("a")
    assert run.state.nodes["a"].input == {"n": 2}


def test_steps_that_get_their_leases_in_one_tick_start_in_it():
    steps = "\n".join(
        f"  - {{ref: s{n}, type: task, task: t, lease: {{key: k{n}}}}}" for n in range(MAX_STARTS_PER_TICK)
    )
    run = Driver(f"steps:\n{steps}")
    rows = len(run.rows)
    run.tick(messages=[run.granted(f"s{n}") for n in range(MAX_STARTS_PER_TICK)])
    assert (len(run.in_flight), len(run.rows)) == (MAX_STARTS_PER_TICK, rows + 1)


def test_retries_and_rounds_keep_it():
    run = leased("type: task, task: t, retry: {max_attempts: 2}, repeat: {until: 'output', every: 1s}")
    run.grant("a")
    run.fail("a")
    assert set(run.leases) == {"a"}
    run.advance(5)
    run.finish("a", False)
    run.advance(1)
    assert set(run.leases) == {"a"}
    assert run.state.nodes["a"].lease_fence == 1
    run.finish("a", True)
    assert (run.leases, run.state.status) == ({}, "completed")


@pytest.mark.parametrize(
    "step",
    [
        "type: transform",
        "type: wait, duration: 1s",
        "type: approval, approvers: [ann]",
        "type: event_set, events: [{name: e}]",
    ],
)
def test_any_type_of_step_has_it_until_it_settles(step: str):
    run = leased(step)
    assert run.inbox == {}
    run.vote("a", "approved", "ann")  # it has asked nobody yet
    run.grant("a")
    assert run.state.nodes["a"].waiting != "lease"
    run.vote("a", "approved", "ann")
    run.event("e")
    run.advance(1)
    assert (run.state.status, run.leases) == ("completed", {})


def test_a_signal_that_came_while_it_waited_is_taken_once_it_starts():
    run = leased("type: wait, signal: go")
    run.signal("go", 5)
    assert run.state.status == "waiting"
    run.grant("a")
    assert (run.state.status, run.state.output) == ("completed", {"a": 5})


def test_its_own_timeout_counts_from_the_grant():
    run = leased("type: wait, signal: go, timeout: 30s, on_timeout: skip")
    run.advance(29)
    run.grant("a")
    run.advance(29)
    assert run.statuses() == {"a": "waiting"}
    run.advance(1)
    assert run.statuses() == {"a": "skipped"}


# --- keys -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "key"),
    [("a b", "a b"), (5, "5"), (True, "true"), ({"b": 1, "a": [2]}, '{"a":[2],"b":1}')],
)  # fmt: skip
def test_a_key_may_be_any_value(value: object, key: str):
    run = Driver('steps: [{ref: a, type: transform, lease: {key: "${trigger}"}}]', value)  # type: ignore[arg-type]
    assert run.leases["a"].key == key


def test_a_long_key_goes_by_its_hash():
    run = Driver('steps: [{ref: a, type: transform, lease: {key: "${trigger}"}}]', "x" * 300)
    assert len(run.leases["a"].key) == 64
    other = Driver('steps: [{ref: a, type: transform, lease: {key: "${trigger}"}}]', "x" * 301)
    assert run.leases["a"].key != other.leases["a"].key


@pytest.mark.parametrize("trigger", [None, ""])
def test_nobody_shares_a_place_because_its_key_is_missing(trigger: None | str):
    run = Driver('steps: [{ref: a, type: task, task: t, lease: {key: "${trigger}"}}]', trigger)
    assert run.state.status == "failed"
    assert run.state.error is not None
    assert run.state.error.type == "ValueRefused"


def test_a_key_that_fails_to_evaluate_fails_the_step():
    run = Driver('steps: [{ref: a, type: task, task: t, lease: {key: "${trigger.no.such}"}}]', {})
    assert run.state.error is not None
    assert (run.state.status, run.state.error.type) == ("failed", "ExpressionError")


# --- the ways in which it ends ----------------------------------------------------------------------------------------


def test_the_wait_for_it_times_out():
    run = leased("type: task, task: t")
    run.advance(60)
    error = run.state.error
    assert error is not None
    assert (run.state.status, error.type) == ("failed", "LeaseTimeout")
    assert error.details == {"key": "k", "limit": 1, "timeout_ms": 60_000}
    assert run.leases == {}


def test_a_timeout_edge_is_taken_where_the_step_has_one():
    run = Driver(
        """
        steps:
          - {ref: a, type: wait, signal: go, timeout: 1h, lease: {key: k, timeout: 1m}, next: {timeout: late}}
          - {ref: late, type: transform}
        """
    )
    run.advance(60)
    assert run.state.status == "completed"
    assert run.statuses()["late"] == "succeeded"


def test_once_granted_it_does_not_time_out():
    run = leased("type: task, task: t")
    run.grant("a")
    run.advance(3_600)
    assert set(run.in_flight) == {"a"}


@pytest.mark.parametrize("is_granted", [False, True])
@pytest.mark.parametrize("kind", ["cancel", "terminate"])
def test_it_is_given_back_when_the_run_is_ended(kind: str, is_granted: bool):
    run = leased("type: task, task: t")
    if is_granted:
        run.grant("a")
    run.request(kind)  # type: ignore[arg-type]
    if is_granted and kind == "cancel":
        assert set(run.leases) == {"a"}  # the handler may still be at it
        run.stopped("a")
    assert (run.leases, run.state.is_terminal) == ({}, True)


def test_an_attempt_that_does_not_stop_loses_it_when_the_grace_is_over():
    run = leased("type: task, task: t")
    run.grant("a")
    run.request("cancel")
    run.advance(10)
    assert (run.leases, run.state.status) == ({}, "cancelled")


def test_it_is_given_back_when_another_step_withdraws_it_or_fails_the_run():
    text = """
    steps:
      - {{ref: a, type: wait, duration: 1h, lease: {{key: k}}}}
      - {{ref: b, type: task, task: t{more}}}
    """
    for more in (", cancels: [a]", ""):
        run = Driver(text.format(more=more))
        run.grant("a")
        if more:
            run.finish("b")
        else:
            run.fail("b")
        assert run.leases == {}


def test_a_grant_that_comes_when_the_node_has_left_starts_nothing():
    run = leased("type: task, task: t")
    granted = run.granted("a")
    run.request("cancel")
    run.tick(messages=[granted])
    assert run.disposition(granted.id) == "undelivered"
    assert run.in_flight == {}


def test_a_grant_and_the_cancel_of_the_run_in_one_tick():
    run = leased("type: task, task: t")
    granted = run.granted("a")
    run.tick(control=ControlReceived(request_id="c", kind="cancel"), messages=[granted])
    assert (run.leases, run.state.status, run.disposition(granted.id)) == ({}, "cancelled", "undelivered")


def test_a_grant_for_another_life_or_another_run_is_not_taken():
    run = leased("type: task, task: t")
    for told in ({"generation": 1}, {"run_id": "other"}):
        granted = run.granted("a")
        assert isinstance(granted.payload, dict)
        payload = {**granted.payload, **told}
        run.tick(messages=[run.message("lease", payload=payload, node="a", id=granted.id)])
        assert run.disposition(granted.id) == "undelivered"
    assert parked(run) == ["a"]


def test_told_twice_it_starts_once():
    run = leased("type: task, task: t")
    granted = run.granted("a")
    run.tick(messages=[granted])
    run.tick(messages=[run.message("lease", payload=granted.payload, node="a", id="again")])
    assert run.state.nodes["a"].generation == 1
    assert sum(isinstance(event, LeaseGranted) for event in run.events()) == 1


# --- pause, redrive ---------------------------------------------------------------------------------------------------


def test_a_paused_run_keeps_what_it_has_and_takes_up_a_grant_when_it_goes_on():
    run = leased("type: approval, approvers: [ann]")
    run.request("pause", "c-1")
    run.grant("a")
    assert parked(run) == ["a"]
    run.now_us += 3_600_000_000
    run.request("resume", "c-2")
    assert run.state.nodes["a"].waiting == "approval"
    assert set(run.leases) == {"a"}


def test_the_wait_does_not_time_out_while_the_run_is_paused():
    run = leased("type: task, task: t")
    run.advance(30)
    run.request("pause", "c-1")
    run.now_us += 3_600_000_000
    run.request("resume", "c-2")
    run.advance(29)
    assert parked(run) == ["a"]
    run.advance(1)
    assert run.state.status == "failed"


def test_a_redriven_step_asks_anew():
    run = leased("type: task, task: t")
    run.grant("a")
    run.fail("a")
    assert (run.state.status, run.leases) == ("failed", {})
    run.request("redrive")
    assert run.leases["a"].generation == 1
    run.grant("a")
    run.finish("a")
    assert run.state.status == "completed"


# --- scatter ----------------------------------------------------------------------------------------------------------


def test_each_child_of_a_scatter_has_a_place_of_its_own():
    run = Driver(
        """
        steps:
          - ref: each
            type: scatter
            items_expr: "['x', 'y', 'x']"
            do: {type: task, task: t, lease: {key: "line-${item}"}}
            next: all
          - {ref: all, type: gather, scatter_ref: each}
        """
    )
    assert {ref: wait.key for ref, wait in run.leases.items()} == {
        "each[0]": "line-x", "each[1]": "line-y", "each[2]": "line-x"
    }  # fmt: skip
    run.grant("each[1]")
    assert set(run.in_flight) == {"each[1]"}
    run.finish("each[1]", 1)
    run.grant("each[0]")
    run.finish("each[0]", 0)
    run.grant("each[2]")
    run.finish("each[2]", 2)
    assert (run.state.status, run.leases) == ("completed", {})


def test_children_that_wait_count_as_under_way():
    run = Driver(
        """
        steps:
          - ref: each
            type: scatter
            items_expr: "[1, 2, 3]"
            concurrency: 2
            do: {type: task, task: t, lease: {key: k}}
        """
    )
    assert set(run.leases) == {"each[0]", "each[1]"}
    run.grant("each[0]")
    run.finish("each[0]")
    assert set(run.leases) == {"each[1]", "each[2]"}


def test_a_child_whose_lease_does_not_come_fails_alone():
    run = Driver(
        """
        steps:
          - ref: each
            type: scatter
            items_expr: "[1, 2]"
            do: {type: task, task: t, lease: {key: k, timeout: 1m}}
        """
    )
    run.grant("each[0]")
    run.advance(60)
    assert run.statuses()["each[1]"] == "failed"
    assert set(run.leases) == {"each[0]"}
    run.finish("each[0]")
    assert (run.state.status, run.leases) == ("completed", {})


def test_parked_says_what_for():
    run = leased("type: task, task: t")
    (event,) = [event for event in run.events() if isinstance(event, NodeParked)]
    assert (event.waiting, event.until_us) == ("lease", run.now_us + 60_000_000)
    assert settlements(run.events(), "a") == []
