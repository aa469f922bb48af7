"""An asyncio loop in virtual time: a test of a seven-day wait takes milliseconds, and is exact.

Time stands still while anything can run. When nothing can, the loop looks at why:

* *work outside is outstanding* (a thread of an executor, bytes that a socket has yet to take, or whatever a test
  declared with `external_work`): the loop waits for it in real time, and virtual time stands still meanwhile. So no
  timeout ever fires only because the machine was slow.
* *only timers are left*: time jumps to the earliest.
* *nothing is left*: nothing can ever happen again, and `NothingLeftError` says what waits, instead of a test that
  hangs.

A socket that merely could be read is no outstanding work: a connection in a pool is readable all its life. Code that
awaits an answer from one in virtual time says so with `external_work`.
"""

import asyncio
import functools
import math
import selectors
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any, Final, ParamSpec, TypeVar, TypeVarTuple, Unpack

from ductor.definitions.errors import DuctorError
from ductor.testing.clock import VirtualClock

WAITING_TASKS_SHOWN: Final = 20

T = TypeVar("T")
P = ParamSpec("P")
Ts = TypeVarTuple("Ts")


class NothingLeftError(DuctorError):
    """Every task waits for something that nothing is left to bring about.

    Attributes:
        waiting: the tasks that wait, as text, at most `WAITING_TASKS_SHOWN`.
    """

    code = "nothing_left"

    def __init__(self, waiting: tuple[str, ...]) -> None:
        self.waiting = waiting
        lines = "".join(f"\n  {task}" for task in waiting)
        super().__init__(
            "nothing can happen any more: no timer is set, no work outside is outstanding, and these tasks wait:"
            f"{lines}\nAwait something that can happen, or declare work outside the loop with `external_work`."
        )


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """See the module's docstring.

    Args:
        clock: whose time the loop tells and moves.
    """

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self._outstanding = 0
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        """Virtual seconds since the clock's beginning."""
        return self.clock.elapsed_s

    @property
    def _clock_resolution(self) -> float:
        """Within which asyncio takes a timer as due.

        After half a year a float's steps are coarser than the real clock's resolution, and a timer that is due exactly
        now would never count as due.
        """
        return max(self._real_resolution, math.ulp(self.clock.elapsed_s))

    @_clock_resolution.setter
    def _clock_resolution(self, seconds: float) -> None:
        self._real_resolution = seconds

    @contextmanager
    def external_work(self) -> Iterator[None]:
        """Declare that something outside the loop is at work: time stands still until the block is left."""
        self.begin_external_work()
        try:
            yield
        finally:
            self.end_external_work()

    def begin_external_work(self) -> None:
        """One more piece of work outside the loop. For work that ends in a callback."""
        self._outstanding += 1

    def end_external_work(self) -> None:
        """One piece less. To be called on the loop."""
        self._outstanding -= 1

    @property
    def external_work_count(self) -> int:
        """How many pieces of work outside the loop are outstanding."""
        return self._outstanding

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """As in asyncio; the thread's work is work outside the loop."""
        future: asyncio.Future[T] = super().run_in_executor(executor, func, *args)
        self.begin_external_work()
        future.add_done_callback(lambda _: self.end_external_work())
        return future

    async def shutdown_default_executor(self, *args: Any) -> None:
        """As in asyncio; waiting for the threads' end is work outside the loop."""
        with self.external_work():
            await super().shutdown_default_executor(*args)


class _JumpingSelector(selectors.DefaultSelector):
    """The place where a loop with nothing to run arrives."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if self._loop.external_work_count or self._has_unsent_bytes():
            return super().select(None)
        if timeout is None:
            raise NothingLeftError(_waiting_tasks(self._loop))
        self._loop.clock.advance(timeout)
        return []

    def _has_unsent_bytes(self) -> bool:
        return any(key.events & selectors.EVENT_WRITE for key in self.get_map().values())


def _waiting_tasks(loop: asyncio.AbstractEventLoop) -> tuple[str, ...]:
    tasks = sorted(asyncio.all_tasks(loop), key=lambda task: task.get_name())
    return tuple(_described(task) for task in tasks[:WAITING_TASKS_SHOWN])


def _described(task: asyncio.Task[Any]) -> str:
    frames = task.get_stack(limit=1)
    where = f" at {frames[-1].f_code.co_filename}:{frames[-1].f_lineno}" if frames else ""
    coroutine = getattr(task.get_coro(), "__qualname__", "")
    return f"{task.get_name()} ({coroutine}){where}"


def run_in_virtual_time(main: Coroutine[Any, Any, T], *, clock: VirtualClock | None = None) -> T:
    """Run `main` to its end in virtual time, as `asyncio.run` does in real time.

    Raises:
        NothingLeftError: it waits for something that can't happen.
    """
    driven = clock or VirtualClock()
    with asyncio.Runner(loop_factory=lambda: VirtualTimeLoop(driven)) as runner:
        return runner.run(main)


def virtual_time(test: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Decorate an `async def` test so that it runs in virtual time; fixtures reach it as they reach any test."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return run_in_virtual_time(test(*args, **kwargs))

    return run


async def outside(work: Awaitable[T]) -> T:
    """Await something that happens outside the loop, with virtual time standing still; in real time, just await it."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualTimeLoop):
        return await work
    with loop.external_work():
        return await work
