"""Machines: each has two clocks of its own and one host process at a time, which is killed, frozen and started again.

A process that can't start (the database is away) ends, and is started again after a second, as a supervisor would.
"""

from collections.abc import Callable
from typing import Any, Final

from ductor.actors.engine_options import EngineOptions
from ductor.actors.host import EngineHost, HostOptions
from ductor.actors.tasks import TaskRegistry
from ductor.journal.clock import SystemClock
from ductor.journal.commit import Commit, Payload
from ductor.journal.errors import StoreUnavailableError
from ductor.journal.events import Message
from ductor.testing.clock import RepeatableIds, VirtualClock
from scripts.simulation.chance import Chance
from scripts.simulation.connection import Connection, as_store
from scripts.simulation.database import SimulatedDatabase
from scripts.simulation.handlers import Ledger, work_task
from scripts.simulation.plan import Plan
from scripts.simulation.repetitions import Repetitions
from scripts.simulation.scheduler import Lane, SimulatedLoop
from scripts.simulation.weather import Weather

ASKING: Final = "ask"
"""Begins the names of tasks in which somebody asks the host for something."""

MAX_CRASHES: Final = 1_000_000
"""Processes crash here by no fault of their handlers, however often an attempt is lost with them."""

RESTART_S: Final = 1.0
ANSWERED_WITHIN_MS: Final = 10_000
"""A process that lives on for so long after its host has stopped has answered everybody by then."""
LATE_HINT_S: Final = 1.5
MAX_INITIAL_SKEW_MS: Final = 3_000


class World:
    """What all machines of a campaign share."""

    def __init__(self, plan: Plan, loop: SimulatedLoop, clock: VirtualClock, weather: Weather) -> None:
        self.plan, self.loop, self.clock, self.weather = plan, loop, clock, weather
        self.database = SimulatedDatabase(clock)
        self.repetitions = Repetitions(plan.hosts, weather)
        self.database.heard = self.repetitions.heard
        self.network = loop.new_lane("network")
        self.ledger: Ledger
        self.report: Callable[[str, str, str], None]

    def chance(self, *names: object) -> Chance:
        """A stream for how the plan is carried out."""
        return Chance(self.plan.seed, "schedule", self.plan.schedule, *names)

    @property
    def elapsed_ms(self) -> int:
        """Virtual milliseconds since the campaign's beginning."""
        return self.clock.elapsed_us // 1_000


class WatchedClock(SystemClock):
    """A process's clock. `worst_error_us` is how far off it has ever thought it might be."""

    worst_error_us = 0

    def synchronise(self, database_now_us: int, sent_at_us: int, received_at_us: int) -> None:
        """As the real one."""
        super().synchronise(database_now_us, sent_at_us, received_at_us)
        self.worst_error_us = max(self.worst_error_us, self.error_us or 0)


class HintedHost(EngineHost):
    """The real host, whose wakeups are lost, doubled and late: they are hints, and nothing may depend on them."""

    def __init__(self, *args: Any, hint: Callable[..., None], predecessor: str, **named: Any) -> None:
        """Args: `predecessor` is a dead host of the same machine, as its process number would tell; may be empty."""
        super().__init__(*args, **named)
        self._hint, self._predecessor = hint, predecessor

    async def start_host(self) -> None:
        """As the real one; timers and events of it are hints as well."""
        await super().start_host()
        hint, engine, bus = self._hint, self.engine, self.bus
        fire, wake = engine.timers._fire, bus._wake  # noqa: SLF001 - the two places where hints begin
        engine.timers._fire = lambda run_id: hint(fire, run_id)  # noqa: SLF001
        bus._wake = lambda run_id: hint(wake, run_id)  # noqa: SLF001

    async def _dead_neighbours(self) -> list[str]:
        return [self._predecessor] if self._predecessor else []

    def _requested(self, run_id: str) -> None:
        self._hint(super()._requested, run_id)

    def _message_stored(self, run_id: str, message: Message, payload: Payload | None) -> None:
        self._hint(super()._message_stored, run_id, message, payload)

    def _bus_work(self, commit: Commit) -> None:
        self._hint(super()._bus_work, commit)


class Machine:
    """A machine.

    Attributes:
        number: from 1.
        lane: of the process that lives; None while there is none.
        host: it, once it has started.
        came_ms: when the last one had.
        clocks: of all its processes so far.
    """

    def __init__(self, number: int, world: World) -> None:
        self.number, self._world = number, world
        self._chance = world.chance("machine", number)
        skew_ms = MAX_INITIAL_SKEW_MS
        self.wall_offset_us = self._chance.whole(-skew_ms, skew_ms) * 1_000
        self.standstill_us = 0
        self.lives = self.came_ms = 0
        self.lane: Lane | None = None
        self.host: EngineHost | None = None
        self._crash_at_commit: str | None = None
        self.clocks: list[WatchedClock] = []

    # --- clocks -------------------------------------------------------------------------------------------------------

    def wall_ns(self) -> int:
        """What the machine believes the time to be."""
        return (self._world.clock.now_us() + self.wall_offset_us) * 1_000

    def monotonic_ns(self) -> int:
        """Goes on evenly, but for times in which the machine stood still."""
        return (self._world.clock.elapsed_us - self.standstill_us) * 1_000

    # --- lives --------------------------------------------------------------------------------------------------------

    def boot(self) -> None:
        """Start a process, if none lives."""
        if self.lane is not None:
            return
        world = self._world
        self.lives += 1
        name = f"host-{self.number}.{self.lives}"
        self.lane = lane = world.loop.new_lane(name)
        self._crash_at_commit = None
        lane.start(self._live(name, lane)).add_done_callback(lambda task: self._has_started(lane, task))

    def crash(self) -> None:
        """End the process at once."""
        lane, self.lane, self.host = self.lane, None, None
        if lane is not None:
            self._world.loop.kill(lane)

    def crash_soon(self, steps: int) -> None:
        """End the process so many callbacks from now."""
        if self.lane is not None:
            self.lane.dies_at_step = self.lane.steps + max(1, steps)

    def crash_at_commit(self, moment: str) -> None:
        """End the process `before` or `after` its next commit is written."""
        self._crash_at_commit = moment

    def freeze(self, seconds: float) -> None:
        """Stop the process for a while; then it goes on as if nothing had happened."""
        lane = self.lane
        if lane is not None and not lane.is_frozen:
            lane.is_frozen = True
            self._world.loop.call_later(seconds, self._thaw, lane)

    def recover(self) -> None:
        """The faults are over: the process goes on, or another one starts."""
        self._crash_at_commit = None
        if self.lane is not None:
            self.lane.is_frozen, self.lane.dies_at_step = False, None
        self.boot()

    def restart(self, down_s: float) -> None:
        """Let the process end in order, and start another one."""
        host, lane = self.host, self.lane
        if host is None or lane is None:
            return
        self.host, began_ms = None, self._world.elapsed_ms
        lane.start(host.stop_host()).add_done_callback(lambda task: self._has_stopped(lane, task, began_ms, down_s))

    def _thaw(self, lane: Lane) -> None:
        lane.is_frozen = False

    async def _live(self, name: str, lane: Lane) -> EngineHost:
        world, limits = self._world, self._world.plan.hosts
        connection = Connection(
            world.database,
            world.loop,
            lane,
            world.network,
            world.weather,
            world.chance("connection", name),
            host=self.number,
            on_commit=self._on_commit,
        )
        clock = WatchedClock(self.wall_ns, self.monotonic_ns)
        self.clocks.append(clock)
        host = HintedHost(
            as_store(connection),
            TaskRegistry([work_task(world.plan.seed, world.ledger, world.weather)]),
            clock=clock,
            ids=RepeatableIds(world.clock, seed=f"{world.plan.seed}/{name}"),
            options=HostOptions(
                engine=EngineOptions(
                    concurrency=limits.concurrency,
                    max_hot_runs=limits.max_hot_runs,
                    idle_ms=limits.idle_ms,
                    compact_every_rows=limits.compact_every_rows,
                    max_losses=MAX_CRASHES,
                ),
                drain_ms=limits.drain_ms,
                sweep_ms=limits.sweep_ms,
                heartbeat_ms=limits.heartbeat_ms,
            ),
            hint=self._hint,
            predecessor=f"host-{self.number}.{self.lives - 1}" if self._chance.happens(0.5) else "",
        )
        host.host_id = name
        await host.start_host()
        return host

    def _has_started(self, lane: Lane, task: Any) -> None:
        """Called by the director."""
        if lane is not self.lane:
            return
        error = task.exception()
        if error is None:
            self.host, self.came_ms = task.result(), self._world.elapsed_ms
        elif isinstance(error, StoreUnavailableError):
            self.crash()
            self._world.loop.call_later(RESTART_S, self.boot)
        else:
            raise error

    def _has_stopped(self, lane: Lane, task: Any, began_ms: int, down_s: float) -> None:
        world = self._world
        world.repetitions.stopped(str(lane), world.elapsed_ms - began_ms)
        world.loop.call_later(world.plan.hosts.linger_ms / 1_000, self._leave, lane, down_s)
        if not task.cancelled() and not isinstance(task.exception(), StoreUnavailableError | None):
            raise task.exception()

    def _leave(self, lane: Lane, down_s: float) -> None:
        """The process has lived on for a while without a host, as a service does: nobody may wait in it for ever."""
        if lane is not self.lane:
            return
        is_long = self._world.plan.hosts.linger_ms >= ANSWERED_WITHIN_MS
        left = [task.get_name() for task in lane.tasks() if task.get_name().startswith(ASKING)]
        if left and is_long:
            self._world.report("", "answers", f"{lane} has stopped and never answered: {', '.join(left)}")
        self.crash()
        self._world.loop.call_later(down_s, self.boot)

    # --- what strikes it ----------------------------------------------------------------------------------------------

    def _on_commit(self, _commit: Commit, moment: str) -> None:
        if self._crash_at_commit == moment:
            self._crash_at_commit = None
            self._world.weather.struck[f"crash_{moment}_commit"] += 1
            self.crash()
            self._world.loop.call_later(RESTART_S, self.boot)

    def _tell_late(self, host: EngineHost | None, tell: Callable[..., None], *arguments: object) -> None:
        if host is self.host:  # one that has stopped meanwhile takes no hints
            tell(*arguments)

    def _hint(self, tell: Callable[..., None], *arguments: object) -> None:
        weather, loop = self._world.weather, self._world.loop
        if weather.strikes("lost_wakeups", self.number):
            return
        if weather.strikes("delayed_wakeups", self.number):
            loop.call_later(self._chance.waiting(LATE_HINT_S), self._tell_late, self.host, tell, *arguments)
            return
        tell(*arguments)
        if weather.strikes("doubled_wakeups", self.number):
            loop.call_soon(tell, *arguments)
