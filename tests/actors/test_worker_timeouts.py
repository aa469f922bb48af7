"""The four timeouts of an attempt, to the microsecond of virtual time."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ductor.actors.attempt import Limits, limits_at_arrival
from ductor.actors.context import TaskContext
from ductor.journal.events import AttemptFinished
from ductor.testing.loop import virtual_time
from tests.actors.pools import Desk, assignment, loop_clock, settled


async def wait(seconds: float) -> float:
    await asyncio.sleep(seconds)
    return seconds


async def beats(context: TaskContext, every: float, times: int, then: float) -> str:
    for number in range(times):
        await asyncio.sleep(every)
        context.heartbeat({"beat": number})
    await asyncio.sleep(then)
    return "done"


async def ignores_cancellation() -> str:
    try:
        await asyncio.sleep(100)
    except asyncio.CancelledError:
        await asyncio.sleep(50)
    return "late"


def details(finished: AttemptFinished) -> Any:
    assert finished.outcome == "failed"
    assert finished.error is not None
    assert finished.error.type == "Timeout"
    return finished.error.details


@virtual_time
async def test_the_attempt_timeout_counts_from_the_start():
    desk = Desk(wait, concurrency=1)
    desk.pool.offer(assignment("wait", {"seconds": 5}))
    begun_us = loop_clock().now_us()
    desk.pool.offer(assignment("wait", {"seconds": 60}, number=2, attempt_ms=10_000))
    _, finished = await desk.results(2)
    assert details(finished) == {"kind": "attempt", "limit_ms": 10_000}
    assert finished.error is not None
    assert finished.error.retryable
    assert (finished.started_at_us - begun_us, finished.finished_at_us - begun_us) == (5_000_000, 15_000_000)


@virtual_time
async def test_the_start_timeout_counts_from_the_dispatch_until_a_worker_begins():
    desk = Desk(wait, concurrency=1)
    begun_us = loop_clock().now_us()
    await asyncio.sleep(1)
    desk.pool.offer(assignment("wait", {"seconds": 60}))
    desk.pool.offer(assignment("wait", {"seconds": 1}, number=2, start_ms=4_000, dispatched_at_us=begun_us))
    (finished,) = await desk.results(1)
    assert details(finished) == {"kind": "start", "limit_ms": 4_000}
    assert (finished.started_at_us, finished.finished_at_us - begun_us) == (0, 4_000_000)
    assert desk.pool.load.waiting == 0


@virtual_time
async def test_an_attempt_that_began_in_time_has_no_start_timeout_any_more():
    desk = Desk(wait)
    finished = await desk.run(assignment("wait", {"seconds": 60}, start_ms=1_000))
    assert finished.outcome == "succeeded"


@virtual_time
async def test_an_attempt_that_arrives_too_late_does_not_begin():
    calls: list[int] = []

    async def note() -> None:
        calls.append(1)

    desk = Desk(note)
    dispatched_at_us = loop_clock().now_us()
    await asyncio.sleep(2)
    finished = await desk.run(assignment("note", start_ms=1_000, dispatched_at_us=dispatched_at_us))
    assert details(finished)["kind"] == "start"
    again = assignment("note", number=2, start_ms=1_000, dispatched_at_us=dispatched_at_us, is_redelivery=True)
    assert calls == []
    assert (await desk.run(again)).outcome == "succeeded"


@virtual_time
async def test_a_handler_that_never_comes_is_a_start_timeout():
    desk = Desk()
    finished = await desk.run(assignment("unknown", start_ms=1_000))
    assert details(finished)["kind"] == "start"
    assert desk.pool.load.waiting_for_handler == 0


@pytest.mark.parametrize("is_running", [True, False])
def test_the_total_timeout_ends_what_runs_and_what_waits_for_good(is_running: bool):
    @virtual_time
    async def scenario() -> None:
        desk = Desk(wait, concurrency=1)
        if not is_running:
            desk.pool.offer(assignment("wait", {"seconds": 60}, number=0))
        deadline_us = loop_clock().now_us() + 3_000_000
        desk.pool.offer(
            assignment("wait", {"seconds": 60}, attempt_ms=9_000, total_ms=20_000, total_deadline_us=deadline_us)
        )
        (finished,) = await desk.results(1)
        assert details(finished) == {"kind": "total", "limit_ms": 20_000}
        assert finished.error is not None
        assert not finished.error.retryable
        assert finished.finished_at_us == deadline_us
        assert (finished.started_at_us != 0) is is_running

    scenario()


@virtual_time
async def test_heartbeats_keep_an_attempt_alive_and_the_last_one_is_told():
    desk = Desk(beats)
    begun_us = loop_clock().now_us()
    alive = {"every": 0.9, "times": 20, "then": 0.9}
    assert (await desk.run(assignment("beats", alive, heartbeat_ms=1_000))).output == "done"
    begun_us = loop_clock().now_us()
    silent = {"every": 0.5, "times": 4, "then": 60}
    finished = await desk.run(assignment("beats", silent, number=2, heartbeat_ms=1_000))
    assert details(finished) == {"kind": "heartbeat", "limit_ms": 1_000, "last_heartbeat": {"beat": 3}}
    assert finished.finished_at_us - begun_us == 3_000_000


@virtual_time
async def test_a_handler_without_context_can_not_give_a_sign_of_life():
    finished = await Desk(wait).run(assignment("wait", {"seconds": 60}, heartbeat_ms=1_000))
    assert details(finished) == {"kind": "heartbeat", "limit_ms": 1_000}


@virtual_time
async def test_the_late_result_of_a_timed_out_handler_is_dropped():
    desk = Desk(ignores_cancellation)
    finished = await desk.run(assignment("ignores_cancellation", attempt_ms=1_000))
    assert details(finished)["kind"] == "attempt"
    assert (desk.pool.load.stragglers, desk.pool.load.running, desk.pool.load.busy_workers) == (1, 0, 1)
    await asyncio.sleep(100)
    assert (desk.pool.load.stragglers, desk.pool.load.busy_workers) == (0, 0)
    assert len(desk.delivered) == 1


@virtual_time
async def test_a_timed_out_handler_is_cancelled_and_its_worker_goes_on():
    desk = Desk(wait, concurrency=1)
    for number in (1, 2):
        desk.pool.offer(assignment("wait", {"seconds": 60}, number=number, attempt_ms=1_000))
    begun_us = loop_clock().now_us()
    first, second = await desk.results(2)
    assert (first.finished_at_us - begun_us, second.finished_at_us - begun_us) == (1_000_000, 2_000_000)


@virtual_time
async def test_no_timer_is_set_without_limits_and_none_stays_after_the_end():
    loop = asyncio.get_running_loop()
    desk = Desk(wait)

    def timers() -> int:
        return sum(not handle.cancelled() for handle in loop._scheduled)  # type: ignore[attr-defined]

    desk.pool.offer(assignment("wait", {"seconds": 1}))
    await settled()
    assert timers() == 1  # the handler's own
    await desk.results(1)
    limits = {"attempt_ms": 9_000, "start_ms": 9_000, "heartbeat_ms": 9_000}
    await desk.run(assignment("wait", {"seconds": 1}, number=2, **limits))
    assert timers() == 0


def test_it_works_on_uvloop_in_real_time():
    uvloop = pytest.importorskip("uvloop")

    async def main() -> None:
        desk = Desk(wait, beats, ignores_cancellation)
        finished = await desk.run(assignment("wait", {"seconds": 60}, attempt_ms=20))
        assert details(finished)["kind"] == "attempt"
        alive = {"every": 0.001, "times": 3, "then": 0.0}
        assert (await desk.run(assignment("beats", alive, heartbeat_ms=5_000))).output == "done"
        await desk.pool.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


seconds = st.none() | st.integers(0, 20).map(float)


@given(seconds, seconds, seconds, seconds, seconds)
def test_the_first_limit_to_come_is_the_one_that_counts(
    start: float | None, attempt: float | None, total: float | None, heartbeat: float | None, sign: float | None
):
    limits = Limits(start, attempt, total, heartbeat)
    waiting = [at for at in (start, total) if at is not None]
    found = limits.waiting()
    assert (None if found is None else found[0]) == min(waiting, default=None)
    last_sign = sign or 0.0
    silent = None if heartbeat is None else last_sign + heartbeat
    running = [at for at in (attempt, total, silent) if at is not None]
    found = limits.running(last_sign)
    assert (None if found is None else found[0]) == min(running, default=None)
    if found is not None and found[0] == total:
        assert found[1] == "total"  # the one that ends all retries goes first


@virtual_time
async def test_limits_at_arrival_are_in_the_loops_time():
    wanted = assignment("x", start_ms=5_000, dispatched_at_us=1_000_000, total_deadline_us=31_000_000)
    limits = limits_at_arrival(wanted, 2_000_000, 100.0)
    assert (limits.start_at_s, limits.total_at_s, limits.attempt_at_s) == (104.0, 129.0, None)
