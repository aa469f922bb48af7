"""Ordinary functions as handlers: in threads, in real time. Every wait ends with a signal."""

import asyncio
import contextvars
import functools
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from ductor.actors.context import TaskContext
from ductor.actors.handler_threads import HandlerThreads
from ductor.testing.loop import virtual_time
from tests.actors.pools import Desk, assignment

SIGNAL_TIMEOUT_S = 10.0


def add(left: int, right: int) -> int:
    return left + right


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something has happened that has no signal of its own."""
    async with asyncio.timeout(SIGNAL_TIMEOUT_S):
        while not condition():  # noqa: ASYNC110 - threads do not signal the loop
            await asyncio.sleep(0.001)


async def test_an_ordinary_function_runs_in_a_thread_with_a_context_of_its_own():
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="clean")
    seen: list[Any] = []

    def note() -> str:
        seen.append((variable.get(), threading.current_thread() is threading.main_thread()))
        variable.set("dirty")
        return threading.current_thread().name

    desk = Desk(note, threads=1)
    names = {str((await desk.run(assignment("note", number=number))).output) for number in range(3)}
    assert seen == [("clean", False)] * 3
    assert names == {"worker-1-thread-0"}
    await desk.pool.close()


@virtual_time
async def test_threads_work_in_virtual_time():
    assert (await Desk(add).run(assignment("add", {"left": 1, "right": 2}))).output == 3


async def test_threads_are_bounded_and_what_is_beyond_waits():
    release = threading.Event()
    running = threading.Semaphore(0)

    def hold() -> None:
        running.release()
        assert release.wait(SIGNAL_TIMEOUT_S)

    desk = Desk(hold, threads=2)
    for number in range(5):
        desk.pool.offer(assignment("hold", number=number))
    await until(lambda: desk.pool.load.running == 2)
    load = desk.pool.load
    assert (load.threads, load.busy_threads, load.waiting, load.busy_workers) == (2, 2, 3, 0)
    release.set()
    assert {one.outcome for one in await desk.results(5)} == {"succeeded"}
    await desk.pool.close()


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt, GeneratorExit, StopIteration])
async def test_whatever_a_function_raises_fails_the_attempt(error: type[BaseException]):
    def fails() -> None:
        raise error("x")

    desk = Desk(fails, add, threads=1)
    finished = await desk.run(assignment("fails"))
    assert finished.error is not None
    assert (finished.error.type, finished.error.message) == (error.__name__, "x")
    assert (await desk.run(assignment("add", {"left": 1}))).outcome == "failed"
    assert (await desk.run(assignment("add", {"left": 1, "right": 1}, number=2))).output == 2
    await desk.pool.close()


async def test_a_function_stops_when_it_looks_at_its_context():
    started = threading.Event()

    def polls(context: TaskContext) -> None:
        started.set()
        while not context.wait_cancelled(0.001):
            pass
        context.raise_if_cancelled()

    def returns(context: TaskContext) -> bool:
        started.set()
        return context.wait_cancelled(SIGNAL_TIMEOUT_S)

    def raises_uncalled_for() -> None:
        raise asyncio.CancelledError

    desk = Desk(polls, returns, raises_uncalled_for, threads=1)
    for name, outcome, output in (("polls", "cancelled", None), ("returns", "succeeded", True)):
        started.clear()
        desk.pool.offer(assignment(name))
        await until(started.is_set)
        desk.pool.cancel(f"run/{name}/1")
        finished = (await desk.results(len(desk.delivered) + 1))[-1]
        assert (finished.outcome, finished.output) == (outcome, output)
    finished = await desk.run(assignment("raises_uncalled_for"))
    assert finished.error is not None
    assert finished.error.type == "CancelledError"
    await desk.pool.close()


async def test_a_function_that_ignores_its_timeout_keeps_its_thread_and_nothing_else():
    release = threading.Event()

    def stuck() -> str:
        assert release.wait(SIGNAL_TIMEOUT_S)
        return "late"

    desk = Desk(stuck, add, threads=2)
    desk.pool.offer(assignment("stuck", attempt_ms=20))
    (finished,) = await desk.results(1)
    assert finished.error is not None
    assert finished.error.details == {"kind": "attempt", "limit_ms": 20}
    load = desk.pool.load
    assert (load.stuck_threads, load.stragglers, load.running, load.busy_threads) == (1, 1, 0, 1)
    assert (await desk.run(assignment("add", {"left": 1, "right": 1}))).output == 2
    release.set()
    await until(lambda: desk.pool.load.stuck_threads == 0)
    assert len(desk.delivered) == 2
    await desk.pool.close()


@pytest.mark.parametrize("loop_module", ["asyncio", "uvloop"])
def test_heartbeats_come_from_threads_even_while_the_loop_sleeps(loop_module: str):
    module = pytest.importorskip(loop_module)
    with asyncio.Runner(loop_factory=module.new_event_loop) as runner:
        runner.run(heartbeats_from_a_thread())


async def heartbeats_from_a_thread() -> None:
    go_on = threading.Semaphore(0)

    def beats(context: TaskContext) -> str:
        for number in range(3):
            context.heartbeat(number)
            assert go_on.acquire(timeout=SIGNAL_TIMEOUT_S)
        return "done"

    desk = Desk(beats)
    desk.pool.offer(assignment("beats", heartbeat_ms=2_400))
    for number in range(3):  # together longer than the limit, and without waking the loop
        threading.Timer(0.9 * (number + 1), go_on.release).start()
    (finished,) = await desk.results(1)
    assert finished.output == "done"
    await desk.pool.close()


async def test_a_coroutine_function_hidden_by_a_decorator_is_awaited_and_can_be_cancelled():
    async def wait(seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "waited"

    def traced(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return call

    desk = Desk(traced(wait), threads=1)
    assert (await desk.run(assignment("wait", {"seconds": 0}))).output == "waited"
    desk.pool.offer(assignment("wait", {"seconds": 3_600}, number=2))
    attempt = desk.pool._held["run/wait/2"]
    await until(lambda: attempt.running_in is not None)
    desk.pool.cancel("run/wait/2")
    assert (await desk.results(2))[1].outcome == "cancelled"
    assert (await desk.run(assignment("wait", {"seconds": 0}, number=3))).output == "waited"
    await desk.pool.close()


async def test_a_cancellation_reaches_a_hidden_coroutine_that_has_not_begun():
    go_on = threading.Event()
    reached: list[str] = []

    async def wait() -> None:
        await asyncio.sleep(0)
        reached.append("behind the first wait")

    def slow_to_begin() -> Any:
        assert go_on.wait(SIGNAL_TIMEOUT_S)
        return wait()

    desk = Desk(slow_to_begin)
    desk.pool.offer(assignment("slow_to_begin"))
    await until(lambda: desk.pool.load.running == 1)
    desk.pool.cancel("run/slow_to_begin/1")
    go_on.set()
    assert (await desk.results(1))[0].outcome == "cancelled"
    assert reached == []
    await desk.pool.close()


async def test_close_does_not_wait_for_a_thread_that_is_stuck():
    release = threading.Event()

    def stuck() -> None:
        release.wait(SIGNAL_TIMEOUT_S)

    desk = Desk(stuck, grace_ms=10)
    desk.pool.offer(assignment("stuck"))
    await until(lambda: desk.pool.load.running == 1)
    async with asyncio.timeout(SIGNAL_TIMEOUT_S / 2):
        await desk.pool.close()
    release.set()


def test_a_stuck_thread_does_not_keep_the_process():
    program = (
        "import threading\n"
        "from ductor.actors.handler_threads import HandlerThreads\n"
        "started = threading.Event()\n"
        "HandlerThreads(1, 'x').submit(lambda: (started.set(), threading.Event().wait()))\n"
        "assert started.wait(10)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=30, check=False).returncode == 0


def test_threads_are_started_when_needed_and_end_on_shutdown():
    threads = HandlerThreads(2, "pool")
    assert threads._threads == []
    assert threads.submit(lambda: 1).result(SIGNAL_TIMEOUT_S) == 1
    with pytest.raises(KeyError):
        threads.submit(lambda: dict[str, int]()["x"]).result(SIGNAL_TIMEOUT_S)
    threads.shutdown()
    assert not any(thread.is_alive() for thread in threads._threads)
    with pytest.raises(RuntimeError, match="shut down"):
        threads.submit(lambda: 1)
