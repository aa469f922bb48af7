"""The lease of a whole run in the tick: it waits before anything starts, and has its place until it has ended."""

import pytest

from tests.actors.tick.driver import Driver
from tests.actors.tick.test_leasing import parked

WHOLE = """
lease: {key: "${trigger.n}", timeout: 1m}
defer: [{ref: tidy, type: task, task: t}]
steps: [{ref: a, type: task, task: t}]
"""


# --- the whole run ----------------------------------------------------------------------------------------------------


def test_a_run_waits_before_anything_starts():
    run = Driver(WHOLE, {"n": "x"})
    assert (run.state.status, parked(run)) == ("waiting", ["@run"])
    assert run.leases["@run"].key == "x"
    run.grant("@run")
    assert (set(run.in_flight), run.statuses()) == ({"a"}, {"a": "running"})
    assert (run.state.lease_key, run.state.lease_fence) == ("x", 1)
    run.finish("a")
    assert set(run.leases) == {"@run"}  # until the deferred steps are done
    run.finish("tidy")
    assert (run.leases, run.state.status) == ({}, "completed")
    assert run.state.lease_fence == 0


def test_a_run_without_its_lease_fails_and_still_runs_what_is_deferred():
    run = Driver(WHOLE, {"n": "x"})
    run.advance(60)
    assert run.leases == {}
    run.finish("tidy")
    error = run.state.error
    assert error is not None
    assert (run.state.status, error.type) == ("failed", "LeaseTimeout")


@pytest.mark.parametrize("kind", ["cancel", "terminate"])
def test_a_run_that_is_ended_while_it_waits_asks_no_longer(kind: str):
    run = Driver(WHOLE.replace("defer", "# defer"), {"n": "x"})
    run.request(kind)  # type: ignore[arg-type]
    assert (run.leases, run.state.is_terminal, run.statuses()) == ({}, True, {})


def test_a_run_that_waits_can_be_paused_and_resumed():
    run = Driver(WHOLE, {"n": "x"})
    run.request("pause", "c-1")
    assert run.state.status == "paused"
    run.request("resume", "c-2")
    run.grant("@run")
    assert set(run.in_flight) == {"a"}


def test_a_redriven_run_asks_anew():
    run = Driver(WHOLE, {"n": "x"})
    run.grant("@run")
    run.fail("a")
    run.finish("tidy")
    assert (run.state.status, run.leases) == ("failed", {})
    run.request("redrive")
    assert (run.leases["@run"].generation, run.in_flight) == (1, {})
    run.grant("@run")
    assert set(run.in_flight) == {"a"}


def test_a_key_of_the_definition_that_fails_to_evaluate_fails_the_run():
    run = Driver('lease: {key: "${trigger.no.such}"}\nsteps: [{ref: a, type: task, task: t}]', {})
    assert run.state.error is not None
    assert (run.state.status, run.state.error.type) == ("failed", "ExpressionError")


def test_a_run_without_a_key_still_runs_what_is_deferred():
    run = Driver(WHOLE, {})
    assert set(run.in_flight) == {"tidy"}
    run.finish("tidy")
    assert (run.state.status, run.leases) == ("failed", {})


def test_run_and_step_may_both_have_one():
    run = Driver("lease: {key: all}\nsteps: [{ref: a, type: task, task: t, lease: {key: one}}]")
    run.grant("@run")
    assert set(run.leases) == {"@run", "a"}
    run.grant("a")
    run.finish("a")
    assert (run.state.status, run.leases) == ("completed", {})


# --- continue as new --------------------------------------------------------------------------------------------------


def test_a_continued_run_hands_its_lease_on():
    run = Driver(WHOLE, {"n": "x"})
    run.grant("@run")
    payload = run.request("continue_as_new")
    if run.state.status != "continued":
        payload = run.finish("a")
    assert run.state.status == "continued"
    assert payload.outbox is not None
    (successor,) = payload.outbox.started
    assert (successor.started.lease_key, successor.started.lease_fence) == ("x", 1)
    assert payload.outbox.leases_gone == {}
    following = Driver(WHOLE, {"n": "x"}, starts=False)
    following.leases["@run"] = run.leases["@run"]
    following.tick(started=successor.started)
    assert set(following.in_flight) == {"a"}
    following.finish("a")
    following.finish("tidy")
    assert following.leases == {}


def test_a_run_that_is_continued_while_it_waits_lets_its_successor_ask():
    run = Driver(WHOLE, {"n": "x"})
    payload = run.request("continue_as_new")
    assert (run.state.status, run.leases) == ("continued", {})
    assert payload.outbox is not None
    assert payload.outbox.started[0].started.lease_fence == 0
