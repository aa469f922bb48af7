"""The seeded scheduler: several hosts in one event loop, each as if it were a process of its own.

Every callback belongs to a *lane*: the process that scheduled it, known by a context variable that tasks, futures and
timers inherit. Within a lane callbacks run in the order in which asyncio promises to run them. Between lanes nothing is
promised, so the seed chooses, one callback at a time, whose turn it is. Time stands still while a lane can run, but for
a few microseconds a callback, and then jumps to the next timer.

States of a lane:
- *running*: its callbacks are run.
- *frozen*: they wait, as those of a process that was stopped or that the machine forgot; timers of it that come due
  meanwhile wait as well.
- *dead*: they are dropped, and so is everything that anybody still schedules for it. Nothing of it is drained: that is
  the difference between this and cancelling tasks. A lane may be killed between any two callbacks: at any await.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, ContextVar, copy_context
from hashlib import sha256
from typing import Any, Final, TypeVar, TypeVarTuple, Unpack

from ductor.definitions.errors import DuctorError
from ductor.journal.errors import StoreUnavailableError
from ductor.testing.clock import VirtualClock
from ductor.testing.loop import NothingLeftError, VirtualTimeLoop
from ductor.testing.losing import lose
from scripts.simulation.chance import Chance

STEP_COST_S: Final = 5e-6
"""Virtual time that a callback takes."""

MAX_STEPS: Final = 1_000_000
"""Callbacks of one campaign at most."""

MAX_STEPS_GONE_WRONG: Final = 20_000
"""Callbacks that follow at most once something is wrong: what goes wrong may go on for ever."""

TIMER_TOLERANCE_S: Final = 1e-9

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class TooManyStepsError(DuctorError):
    """A campaign does not come to an end: something goes round in circles without letting time pass.

    Attributes:
        steps: callbacks that were run.
        lanes: those that still have something to run.
    """

    code = "too_many_steps"

    def __init__(self, steps: int, lanes: tuple[str, ...]) -> None:
        self.steps, self.lanes = steps, lanes
        super().__init__(f"after {steps} callbacks the campaign has not ended; still busy: {', '.join(lanes)}")


class Lane:
    """One process of the simulation. Make it with `SimulatedLoop.new_lane`."""

    def __init__(self, name: str, number: int, loop: "SimulatedLoop") -> None:
        self.name, self.number, self._loop = name, number, loop
        self.is_frozen = False
        self.is_dead = False
        self.queue: deque[asyncio.Handle] = deque()
        self.steps = 0
        self.dies_at_step: int | None = None
        self._tasks: list[asyncio.Task[Any]] = []
        self._tasks_limit = 256
        self.context = copy_context()
        self.context.run(_lane.set, self)

    def start(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Run a coroutine in this lane."""
        context = self.context.copy()
        return context.run(self._loop.create_task, work, context=context)

    def add_task(self, task: "asyncio.Task[Any]") -> None:
        """Keep a task of this lane: what nobody waits for any more must not vanish by chance."""
        if len(self._tasks) >= self._tasks_limit:
            self._tasks = self.tasks()
            self._tasks_limit = 2 * len(self._tasks) + 256
        self._tasks.append(task)

    def tasks(self) -> "list[asyncio.Task[Any]]":
        """The tasks of this lane that have not ended, in the order in which they began."""
        return [task for task in self._tasks if not task.done()]

    def __str__(self) -> str:
        return self.name


_lane: ContextVar[Lane | None] = ContextVar("lane", default=None)


def _lose(task: "asyncio.Task[Any]") -> None:
    """Make a task of a dead process vanish, unreported. To be run in the process's context."""
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001 - it is meant to be lost
    lose(task)


def current_lane() -> Lane | None:
    """The lane that runs at the moment; None for the simulation itself."""
    return _lane.get()


class SimulatedLoop(VirtualTimeLoop):
    """See the module's docstring.

    Args:
        clock: whose time the loop tells and moves.
        chance: chooses whose turn it is.

    Attributes:
        steps: callbacks run so far.
        complaints: what was reported to the loop's exception handler by lanes that live.
        on_death: called when a lane has come to the callback at which it shall die.
    """

    def __init__(self, clock: VirtualClock, chance: Chance) -> None:
        self._chance = chance
        self._lanes: list[Lane] = []
        self._timers: list[tuple[float, int, Lane, asyncio.TimerHandle]] = []
        self._timer_count = 0
        self._trace = sha256()
        self.steps = 0
        self._max_steps = MAX_STEPS
        self.complaints: list[str] = []
        self.on_death: Callable[[Lane], None] = self.kill
        super().__init__(clock)
        self._director = self.new_lane("director")
        self.set_exception_handler(self._complain)
        self.set_task_factory(self._make_task)

    def new_lane(self, name: str) -> Lane:
        """A further process."""
        lane = Lane(name, len(self._lanes), self)
        self._lanes.append(lane)
        return lane

    def kill(self, lane: Lane) -> None:
        """End a process at once. What it awaited never comes; its coroutines are closed without being heard."""
        lane.is_dead = True
        tasks = lane.tasks()  # what waits in the queue may be all that holds them
        lane.queue.clear()
        for task in tasks:
            lane.context.copy().run(_lose, task)
        if lane in self._lanes:
            self._lanes.remove(lane)

    def end_soon(self) -> None:
        """Something is wrong: a few thousand callbacks more show what else is."""
        self._max_steps = min(self._max_steps, self.steps + MAX_STEPS_GONE_WRONG)

    def end(self) -> None:
        """End all processes: the campaign is over."""
        for lane in tuple(self._lanes):
            self.kill(lane)

    def note(self, text: bytes) -> None:
        """Make something part of the trace."""
        self._trace.update(text)

    @property
    def trace_hash(self) -> str:
        """A hash of every turn taken and everything noted: two campaigns of one hash went the same way."""
        return self._trace.hexdigest()

    # --- what asyncio calls -------------------------------------------------------------------------------------------

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """As in asyncio, in the lane of the context."""
        context = copy_context() if context is None else context
        handle = asyncio.Handle(callback, args, self, context)
        lane = context.get(_lane) or self._director
        if not lane.is_dead:
            lane.queue.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """As `call_soon`: there is one thread."""
        return self.call_soon(callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As in asyncio, in the lane of the context."""
        context = copy_context() if context is None else context
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        lane = context.get(_lane) or self._director
        if not lane.is_dead:
            self._timer_count += 1
            heapq.heappush(self._timers, (when, self._timer_count, lane, handle))
        return handle

    def _run_once(self) -> None:
        """Run one callback, of the lane whose turn it is."""
        self._release_due_timers()
        busy = [lane for lane in self._lanes if lane.queue and not lane.is_frozen]
        if not busy:
            self._jump()
            return
        self.steps += 1
        if self.steps > self._max_steps:
            raise TooManyStepsError(self.steps, tuple(str(lane) for lane in busy))
        lane = busy[0] if len(busy) == 1 else self._chance.one_of(busy)
        lane.steps += 1
        self._trace.update(b"%d" % lane.number)
        handle = lane.queue.popleft()
        if not handle.cancelled():
            handle._run()  # noqa: SLF001 - a loop runs its handles
            self.clock.advance(STEP_COST_S)
        if lane.steps == lane.dies_at_step:
            self.on_death(lane)

    def _release_due_timers(self) -> None:
        limit = self.clock.elapsed_s + TIMER_TOLERANCE_S
        timers = self._timers
        while timers and (timers[0][0] <= limit or timers[0][3].cancelled()):
            _, _, lane, handle = heapq.heappop(timers)
            if not lane.is_dead and not handle.cancelled():
                lane.queue.append(handle)

    def _jump(self) -> None:
        if not self._timers:
            raise NothingLeftError(tuple(str(lane) for lane in self._lanes if lane.queue))
        when = self._timers[0][0]
        self.clock.advance(max(0.0, when - self.clock.elapsed_s))

    def _make_task(
        self,
        loop: asyncio.AbstractEventLoop,
        work: Coroutine[Any, Any, T] | Generator[Any, None, T],
        *,
        context: Context | None = None,
        name: str | None = None,
        **_more: Any,
    ) -> "asyncio.Task[T]":
        context = copy_context() if context is None else context
        task: asyncio.Task[T] = asyncio.Task(work, loop=loop, context=context, name=name)
        lane = context.get(_lane) or self._director
        lane.add_task(task)
        if lane.is_dead:
            _lose(task)
        return task

    def _complain(self, _loop: asyncio.AbstractEventLoop, report: dict[str, Any]) -> None:
        error = report.get("exception")
        if isinstance(error, StoreUnavailableError):
            return  # who would have taken it was killed before
        task = report.get("task") or report.get("future")
        name = task.get_name() if isinstance(task, asyncio.Task) else ""
        self.complaints.append(f"{report.get('message')} {name} {error!r}")
