"""Cancellation: ours and others', in every state of an attempt, and what it leaves behind in a worker."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ductor.actors.context import TaskContext
from ductor.actors.execution import REPLACEMENT_PAUSE_S
from ductor.actors.worker import INTERRUPTION_REPORT_S
from ductor.testing.loop import run_in_virtual_time, virtual_time
from tests.actors.pools import Desk, assignment, loop_clock, settled


async def wait(seconds: float) -> float:
    await asyncio.sleep(seconds)
    return seconds


async def which_task() -> str:
    """The next attempt on the same worker: any cancellation left behind would show here."""
    await asyncio.sleep(0.001)
    task = asyncio.current_task()
    assert task is not None
    return f"{task.get_name()} {task.cancelling()}"


@virtual_time
async def test_a_running_handler_is_cancelled():
    desk = Desk(wait, concurrency=1)
    desk.pool.offer(assignment("wait", {"seconds": 3_600}))
    await settled()
    desk.pool.cancel("run/wait/1")
    desk.pool.cancel("run/wait/1")
    (finished,) = await desk.results(1)
    assert (finished.outcome, finished.output, finished.error) == ("cancelled", None, None)
    assert finished.started_at_us == finished.finished_at_us == loop_clock().now_us()
    await settled()
    assert len(desk.delivered) == 1


@virtual_time
async def test_what_waits_is_cancelled_at_once():
    calls: list[int] = []

    async def note(number: int) -> None:
        calls.append(number)

    desk = Desk(note, concurrency=1)
    for number in (1, 2):
        desk.pool.offer(assignment("note", {"number": number}, number=number))
    desk.pool.offer(assignment("unknown"))
    for token in ("run/note/2", "run/unknown/1", "run/note/1"):  # the last has been handed over and not begun
        desk.pool.cancel(token)
    assert [(result.token, result.finished.outcome) for result in desk.delivered] == [
        ("run/note/2", "cancelled"),
        ("run/unknown/1", "cancelled"),
        ("run/note/1", "cancelled"),
    ]
    assert desk.delivered[0].finished.started_at_us == 0
    assert desk.pool.load.waiting == desk.pool.load.waiting_for_handler == desk.pool.in_flight == 0
    assert (await desk.run(assignment("note", {"number": 3}, number=3))).outcome == "succeeded"
    assert len(desk.delivered) == 4
    assert calls == [3]


@virtual_time
async def test_unknown_and_finished_tokens_are_ignored():
    desk = Desk(wait)
    desk.pool.cancel("nobody")
    desk.pool.abandon("nobody")
    await desk.run(assignment("wait", {"seconds": 1}))
    desk.pool.cancel("run/wait/1")
    await settled()
    assert len(desk.delivered) == 1


async def cleans_up() -> None:
    try:
        await asyncio.sleep(3_600)
    finally:
        await asyncio.sleep(5)


async def finishes_anyway() -> str:
    try:
        await asyncio.sleep(3_600)
    except asyncio.CancelledError:
        await asyncio.sleep(1)
    return "finished"


async def turns_to_error() -> None:
    try:
        await asyncio.sleep(3_600)
    except asyncio.CancelledError:
        raise ValueError("interrupted") from None


async def uncancels() -> str:
    try:
        await asyncio.sleep(3_600)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        assert task is not None
        task.uncancel()
    await asyncio.sleep(1)
    return "uncancelled"


async def in_a_timeout() -> None:
    async with asyncio.timeout(7_200):
        await asyncio.sleep(3_600)


async def in_a_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.sleep(3_600))
        group.create_task(asyncio.sleep(3_600))


async def shielded() -> None:
    await asyncio.shield(asyncio.sleep(0.5))
    await asyncio.shield(asyncio.sleep(3_600))


async def is_told_so(context: TaskContext) -> bool:
    told = asyncio.get_running_loop().create_task(context.cancelled())
    try:
        await asyncio.sleep(3_600)
    except asyncio.CancelledError:
        await told
        await context.cancelled()
    return context.is_cancelled


@pytest.mark.parametrize(
    ("handler", "outcome", "output", "error_type"),
    [
        (cleans_up, "cancelled", None, None),
        (finishes_anyway, "succeeded", "finished", None),
        (turns_to_error, "failed", None, "ValueError"),
        (uncancels, "succeeded", "uncancelled", None),
        (in_a_timeout, "cancelled", None, None),
        (in_a_group, "cancelled", None, None),
        (shielded, "cancelled", None, None),
        (is_told_so, "succeeded", True, None),
    ],
)
def test_how_a_handler_answers_a_cancellation_is_its_result(
    handler: Callable[..., Awaitable[Any]], outcome: str, output: Any, error_type: str | None
):
    async def main() -> None:
        desk = Desk(handler, which_task, concurrency=1)
        desk.pool.offer(assignment(handler.__name__))
        await asyncio.sleep(1)
        desk.pool.cancel(f"run/{handler.__name__}/1")
        (finished,) = await desk.results(1)
        assert (finished.outcome, finished.output) == (outcome, output)
        assert (finished.error.type if finished.error else None) == error_type
        assert (await desk.run(assignment("which_task"))).output == "worker-1-worker-2 0"

    run_in_virtual_time(main())


@virtual_time
async def test_a_cancellation_that_comes_in_the_step_in_which_the_handler_would_end():
    """The sleep is over, the handler's task is about to run, and the cancellation overtakes it."""
    desk = Desk(wait, which_task, concurrency=1)
    loop = asyncio.get_running_loop()
    loop.call_at(loop.time() + 1, desk.pool.cancel, "run/wait/1")
    desk.pool.offer(assignment("wait", {"seconds": 1}))
    (finished,) = await desk.results(1)
    assert finished.outcome in ("cancelled", "succeeded")
    assert (await desk.run(assignment("which_task"))).output in ("worker-1-worker-2 0", "worker-1-worker-1 0")


@virtual_time
async def test_a_handler_that_cancels_its_own_attempt_and_returns_leaves_nothing_behind():
    async def cancels_itself() -> str:
        desk.pool.cancel("run/cancels_itself/1")
        return "returned"

    desk = Desk(cancels_itself, which_task, concurrency=1)
    desk.pool.offer(assignment("cancels_itself"))
    desk.pool.offer(assignment("which_task"))
    finished = await desk.results(2)
    assert [one.output for one in finished] == ["returned", "worker-1-worker-2 0"]


@virtual_time
async def test_a_delivery_that_cancels_the_attempt_is_too_late():
    desk = Desk(wait, which_task, concurrency=1, on_deliver=lambda result: desk.pool.cancel(result.token))
    desk.pool.offer(assignment("wait", {"seconds": 1}))
    desk.pool.offer(assignment("which_task"))
    finished = await desk.results(2)
    assert [one.output for one in finished] == [1.0, "worker-1-worker-1 0"]


@virtual_time
async def test_a_handler_that_awaits_something_cancelled_has_failed():
    async def awaits_a_cancelled_task() -> None:
        task = asyncio.get_running_loop().create_task(asyncio.sleep(1))
        task.cancel()
        await task

    async def raises_it() -> None:
        raise asyncio.CancelledError

    desk = Desk(awaits_a_cancelled_task, raises_it, which_task, concurrency=1)
    for name in ("awaits_a_cancelled_task", "raises_it"):
        finished = await desk.run(assignment(name))
        assert finished.outcome == "failed"
        assert finished.error is not None
        assert (finished.error.type, finished.error.retryable) == ("CancelledError", True)
    assert (await desk.run(assignment("which_task"))).output == "worker-1-worker-1 0"


@virtual_time
async def test_system_exit_fails_the_attempt_and_not_the_host():
    async def leaves() -> None:
        raise SystemExit(3)

    desk = Desk(leaves, which_task, concurrency=1)
    finished = await desk.run(assignment("leaves"))
    assert finished.error is not None
    assert (finished.error.type, finished.error.message) == ("SystemExit", "3")
    assert (await desk.run(assignment("which_task"))).output == "worker-1-worker-1 0"


def test_keyboard_interrupt_ends_the_loop_and_is_no_result():
    desks = []

    async def interrupted() -> None:
        raise KeyboardInterrupt

    async def main() -> None:
        desks.append(Desk(interrupted))
        desks[0].pool.offer(assignment("interrupted"))
        await asyncio.sleep(3_600)

    with pytest.raises(KeyboardInterrupt):
        run_in_virtual_time(main())
    assert desks[0].delivered == []


def test_the_end_of_the_loop_is_no_result():
    desks = []

    async def main() -> None:
        desks.append(Desk(wait, concurrency=1))
        for number in (1, 2):
            desks[0].pool.offer(assignment("wait", {"seconds": 3_600}, number=number))
        await settled()

    run_in_virtual_time(main())  # cancels every task at its end
    assert desks[0].delivered == []


async def cancel_the_worker(desk: Desk) -> None:
    for task in tuple(desk.pool._coroutine_crew._workers):
        task.cancel()
    await settled()


@virtual_time
async def test_an_attempt_whose_worker_was_cancelled_is_reported_if_the_loop_lives_on():
    desk = Desk(wait, which_task, concurrency=1)
    loop = asyncio.get_running_loop()
    begun = loop.time()
    desk.pool.offer(assignment("wait", {"seconds": 3_600}))
    desk.pool.offer(assignment("which_task"))
    await settled()
    await cancel_the_worker(desk)
    assert desk.delivered == []
    first, second = await desk.results(2)
    assert loop.time() - begun == pytest.approx(max(INTERRUPTION_REPORT_S, REPLACEMENT_PAUSE_S), abs=0.01)
    outcomes = {first.node: first, second.node: second}
    error = outcomes["wait"].error
    assert error is not None
    assert (error.type, error.retryable) == ("CancelledError", True)
    assert outcomes["which_task"].output == "worker-1-worker-2 0"


@virtual_time
async def test_a_worker_cancelled_while_idle_takes_nothing_with_it():
    desk = Desk(which_task, concurrency=1)
    await desk.run(assignment("which_task", number=1))
    await cancel_the_worker(desk)
    began = asyncio.get_running_loop().time()
    assert (await desk.run(assignment("which_task", number=2))).output == "worker-1-worker-2 0"
    assert asyncio.get_running_loop().time() - began < REPLACEMENT_PAUSE_S


@virtual_time
async def test_a_handler_that_swallows_its_workers_cancellation_has_a_result_and_the_worker_ends():
    desk = Desk(finishes_anyway, which_task, concurrency=1)
    desk.pool.offer(assignment("finishes_anyway"))
    desk.pool.offer(assignment("which_task"))
    await settled()
    await cancel_the_worker(desk)
    finished = await desk.results(2)
    assert [one.output for one in finished] == ["finished", "worker-1-worker-2 0"]


@virtual_time
async def test_a_worker_cancelled_before_it_begins_gives_its_attempt_back():
    desk = Desk(which_task, concurrency=1)
    desk.pool.offer(assignment("which_task"))
    await cancel_the_worker(desk)  # before its first step
    desk.pool.offer(assignment("which_task", number=2))
    first, second = await desk.results(2)
    assert first.output == second.output == "worker-1-worker-2 0"
    desk.pool.offer(assignment("which_task", number=3))  # handed over to the idle worker
    await cancel_the_worker(desk)
    assert (await desk.results(3))[2].output == "worker-1-worker-3 0"
    for task in desk.pool._coroutine_crew._workers:
        task.cancel()
    desk.pool.offer(assignment("which_task", number=4))  # handed over to a worker that is about to die
    assert (await desk.results(4))[3].output == "worker-1-worker-4 0"


@virtual_time
async def test_an_abandoned_attempt_has_no_result():
    desk = Desk(wait, finishes_anyway, concurrency=2)
    desk.pool.offer(assignment("wait", {"seconds": 3_600}))
    desk.pool.offer(assignment("finishes_anyway"))
    desk.pool.offer(assignment("wait", {"seconds": 1}, number=2))
    await settled()
    for token in ("run/wait/1", "run/finishes_anyway/1", "run/wait/2"):
        desk.pool.abandon(token)
        assert not desk.pool.holds(token)
    assert desk.pool.load.stragglers == 2
    await asyncio.sleep(10)
    assert desk.delivered == []
    assert desk.pool.load.stragglers == 0
    await desk.run(assignment("wait", {"seconds": 0}, number=3))


@virtual_time
async def test_a_finished_attempt_can_be_abandoned_too():
    desk = Desk(wait)
    desk.pool.offer(assignment("wait", {"seconds": 1}))
    await desk.results(1)
    desk.pool.abandon("run/wait/1")
    assert desk.pool.unconfirmed() == []


@virtual_time
async def test_an_abandoned_token_that_is_offered_again_runs_anew():
    desk = Desk(finishes_anyway)
    desk.pool.offer(assignment("finishes_anyway"))
    await settled()
    desk.pool.abandon("run/finishes_anyway/1")
    desk.pool.offer(assignment("finishes_anyway"))
    await asyncio.sleep(10)  # the first has ended meanwhile, and does not speak for the second
    assert desk.delivered == []
    desk.pool.cancel("run/finishes_anyway/1")
    assert [one.output for one in await desk.results(1)] == ["finished"]


@virtual_time
async def test_a_handler_that_died_with_its_worker_is_no_straggler():
    async def dies() -> None:
        try:
            await asyncio.sleep(3_600)
        except asyncio.CancelledError:
            raise GeneratorExit from None

    desk = Desk(dies, wait, concurrency=2)
    failures: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: failures.append(context["message"]))
    desk.pool.offer(assignment("dies"))
    desk.pool.offer(assignment("wait", {"seconds": 3_600}))
    await settled()
    desk.pool.abandon("run/dies/1")
    assert desk.pool.load.stragglers == 1
    await settled()
    assert failures == ["worker worker-1-worker-1 failed"]
    assert desk.pool.load.stragglers == 0
    await cancel_the_worker(desk)  # the other one, whose attempt is not reported yet
    desk.pool.abandon("run/wait/1")
    assert desk.pool.load.stragglers == 0
    await asyncio.sleep(60)
    assert desk.delivered == []


@virtual_time
async def test_an_attempt_that_dies_with_its_worker_while_the_pool_drains_is_not_waited_for():
    desk = Desk(wait, concurrency=1)
    desk.pool.offer(assignment("wait", {"seconds": 3_600}))
    await settled()
    loop = asyncio.get_running_loop()
    began = loop.time()
    draining = loop.create_task(desk.pool.drain(60_000))
    await settled()
    await cancel_the_worker(desk)
    assert await draining == 0
    assert loop.time() == began
    assert desk.delivered == []
