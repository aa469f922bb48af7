"""One campaign: a plan carried out from its seed, watched, brought to rest, judged.

```
  faults strike ──quiet──▶ settling ──▶ each open run has a reason to wait? ──▶ what is waited for is sent
                                                                                     │
                                         judged ◀── hosts stop in order ◀── no run is open any more
```
"""

import asyncio
import logging
from functools import partial
from typing import Final

import msgspec

from ductor.actors.client import Client
from ductor.actors.engine import Engine
from ductor.definitions.compile import Compiled, compile_document
from ductor.definitions.errors import DuctorError
from ductor.journal.clock import SystemClock
from ductor.journal.errors import MissingVersionError, StoreUnavailableError
from ductor.journal.records import Transition
from ductor.testing.clock import RepeatableIds, VirtualClock
from ductor.testing.loop import NothingLeftError
from scripts.simulation.chance import Chance
from scripts.simulation.connection import Connection, as_store
from scripts.simulation.handlers import Ledger
from scripts.simulation.machines import RESTART_S, Machine, World
from scripts.simulation.plan import TENANTS, Fault, Plan
from scripts.simulation.pump import pump_once
from scripts.simulation.scheduler import Lane, SimulatedLoop, TooManyStepsError, current_lane
from scripts.simulation.senders import Senders
from scripts.simulation.verdict import (
    check_ended,
    check_live_states,
    check_promises,
    check_runs,
    check_waiting,
    open_runs,
)
from scripts.simulation.violations import Violation, Violations
from scripts.simulation.waits import LOOK_S, Waits
from scripts.simulation.watcher import Watcher
from scripts.simulation.weather import Weather

SETTLE_S: Final = 45.0
"""For hosts to notice that others are gone, to take over, and to finish what can be finished."""

PUMP_EVERY_S: Final = 8.0
MAX_PUMPS: Final = 150
STOP_S: Final = 30.0


class Outcome(msgspec.Struct, kw_only=True):
    """What came of a campaign.

    Attributes:
        trace_hash: two campaigns with the same one went exactly the same way.
        struck: how often each kind of fault struck; besides `conflict`, `commit sent twice` and `redelivery`.
        journals: the rows of all runs, by id, where something was wrong.
    """

    plan: Plan
    violations: list[Violation]
    trace_hash: str
    struck: dict[str, int]
    steps: int
    runs: int
    rows: int
    virtual_s: float
    journals: dict[str, list[Transition]] = msgspec.field(default_factory=dict)


class _LogWatch(logging.Handler):
    """What the engine reports as an error is one, and no coordinator may die but of an unreachable database."""

    def __init__(self, violations: Violations) -> None:
        super().__init__(logging.WARNING)
        self._violations = violations

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        lane = current_lane()
        is_harmless = record.levelno < logging.ERROR if error is None else isinstance(error, StoreUnavailableError)
        if not is_harmless and (lane is None or not lane.is_dead):
            self._violations.add(Violation("errors", f"{record.getMessage()} {error!r}"))


class Campaign:
    """See the module's docstring."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._clock = VirtualClock()
        chance = Chance(plan.seed, "schedule", plan.schedule, "turns")
        self._loop = SimulatedLoop(self._clock, chance)
        self.violations = Violations(self._loop.end_soon)
        self.weather = Weather(plan, self._clock, Chance(plan.seed, "schedule", plan.schedule, "weather"))
        self._world = world = World(plan, self._loop, self._clock, self.weather)
        self._compiled = [compile_document(definition) for definition in plan.definitions]
        self._machines = [Machine(number, world) for number in range(1, plan.hosts.count + 1)]
        compiled: dict[str, Compiled] = {one.manifest_hash: one for one in self._compiled}
        self._watcher = Watcher(world, compiled, self.violations, self._clock_error_us)
        world.database.watch = self._watcher.row
        world.database.removals.report = self._report
        world.report = self._report
        world.ledger = Ledger(
            self.violations,
            lambda token: token in self._watcher.dispatched,
            lambda: world.elapsed_ms,
            world.repetitions,
        )
        self._client = self._make_client(self._loop.new_lane("client"))
        self._senders = Senders(plan, self._loop, self._machines, self._client, self.violations)
        self._waits = Waits(self._loop, self._machines, lambda: world.elapsed_ms)
        self._senders.on_awaited = self._waits.begin
        self._loop.on_death = self._lane_died

    def run(self) -> Outcome:
        """Carry it out."""
        log, watch = logging.getLogger("ductor"), _LogWatch(self.violations)
        propagates, log.propagate = log.propagate, False
        log.addHandler(watch)
        try:
            self._loop.run_until_complete(self._conduct())
        except TooManyStepsError as error:
            if not self.violations.found:
                self._report("", "liveness", str(error))
        except NothingLeftError as error:
            self._report("", "liveness", str(error))
        except MissingVersionError as error:
            self._report(error.run_id, "unreadable", str(error))
        finally:
            self._bury()
            log.removeHandler(watch)
            log.propagate = propagates
        return self._outcome()

    async def _conduct(self) -> None:
        for compiled in self._compiled:
            for tenant in TENANTS:
                await self._senders.insist(0, partial(Client.publish, compiled=compiled, tenant=tenant))
        for machine in self._machines:
            machine.boot()
        for fault in self._plan.faults:
            self._loop.call_at(fault.at_ms / 1_000, self._strike, fault)
        work = [self._senders.start(number, start) for number, start in enumerate(self._plan.starts)]
        work += [self._senders.act(action) for action in self._plan.actions]
        sending = asyncio.gather(*work)
        await asyncio.sleep(self.weather.quiet_in_s)
        for machine in self._machines:
            machine.recover()
        await sending
        await asyncio.sleep(SETTLE_S)
        check_waiting(self._world, self._engines(), self._report)
        check_live_states(self._world, self._engines(), self._report)
        await self._bring_to_an_end()
        check_ended(self._world, self._report)
        settled_ms = max(self._plan.quiet_at_ms, *(machine.came_ms for machine in self._machines))
        self._waits.check(self._world.database, self._watcher.ended_ms, settled_ms, self._report)
        await self._stop_hosts()
        self._judge()

    async def _bring_to_an_end(self) -> None:
        """Send whatever a run waits for, until none is open."""
        for round_number in range(MAX_PUMPS):
            runs = open_runs(self._world)
            if not runs:
                break
            await pump_once(runs, round_number, self._senders, self._watcher)
            await asyncio.sleep(PUMP_EVERY_S)
        await asyncio.sleep(PUMP_EVERY_S + LOOK_S)

    async def _stop_hosts(self) -> None:
        hosts = [(machine.lane, machine.host) for machine in self._machines]
        stopping = [lane.start(host.stop_host()) for lane, host in hosts if lane is not None and host is not None]
        if len(stopping) < len(self._machines):
            self._report("", "liveness", "a host does not start")
        if stopping:
            _, late = await asyncio.wait(stopping, timeout=STOP_S)
            for task in late:
                self._report("", "liveness", f"a host does not stop: {task.get_stack(limit=1)}")
            for task in set(stopping) - late:
                if task.exception() is not None:
                    self._report("", "errors", f"stopping a host raised {task.exception()!r}")

    def _judge(self) -> None:
        check_runs(self._world, self._watcher, self._report)
        check_promises(self._world, self._watcher, self._senders.acknowledged, self._report)
        for complaint in self._loop.complaints:
            self._report("", "errors", complaint)

    # --- faults -------------------------------------------------------------------------------------------------------

    def _strike(self, fault: Fault) -> None:
        if fault.rate or fault.kind == "database_away":
            return  # the weather has it
        machine = self._machines[fault.host - 1]
        if machine.lane is None:
            return
        seconds = fault.for_ms / 1_000
        if fault.kind == "crash":
            machine.crash_soon(fault.amount)
            return
        if fault.kind in {"crash_before_commit", "crash_after_commit"}:
            machine.crash_at_commit(fault.kind.split("_")[1])
            return
        if fault.kind == "freeze":
            machine.freeze(seconds)
        elif fault.kind == "restart":
            machine.restart(seconds)
        elif fault.kind == "wall_clock_jump":
            machine.wall_offset_us += fault.amount * 1_000
        else:
            machine.standstill_us += fault.amount * 1_000
        self.weather.struck[fault.kind] += 1

    def _lane_died(self, lane: Lane) -> None:
        for machine in self._machines:
            if machine.lane is lane:
                self.weather.struck["crash"] += 1
                machine.crash()
                self._loop.call_later(RESTART_S, machine.boot)

    # --- beside -------------------------------------------------------------------------------------------------------

    def _make_client(self, lane: Lane) -> Client:
        connection = Connection(
            self._world.database,
            self._loop,
            lane,
            self._world.network,
            self.weather,
            self._world.chance("client"),
            host=0,
            on_commit=lambda _commit, _moment: None,
        )
        machine = Machine(0, self._world)
        clock = SystemClock(machine.wall_ns, machine.monotonic_ns)
        return Client(as_store(connection), clock=clock, ids=RepeatableIds(self._clock, f"{self._plan.seed}/client"))

    def _engines(self) -> list[Engine]:
        return [machine.host.engine for machine in self._machines if machine.host is not None]

    def _clock_error_us(self) -> int:
        """How far the clock of a host may be off, as it knows itself, and standing still while it asked."""
        known = [clock.worst_error_us for machine in self._machines for clock in machine.clocks]
        return max(known, default=0) + max(machine.standstill_us for machine in self._machines) + 1_000

    def _report(self, run_id: str, rule: str, what: str) -> None:
        self.violations.add(Violation(rule, what, run_id, self._world.elapsed_ms))

    def _bury(self) -> None:
        self._loop.end()
        self._loop.close()

    def _outcome(self) -> Outcome:
        database = self._world.database
        struck = dict(self.weather.struck)
        struck |= {"conflict": database.conflicts, "commit sent twice": database.resolved}
        struck["rows removed"] = sum(len(database.removals.rows(run_id)) for run_id in database.run_ids())
        struck["large values removed"] = sum(len(database.removals.values(run_id)) for run_id in database.run_ids())
        struck["redelivery"] = sum(count - 1 for count in self._world.ledger.started.values())
        run_ids = database.run_ids()
        outcome = Outcome(
            plan=self._plan,
            violations=self.violations.found,
            trace_hash=self._loop.trace_hash,
            struck={kind: count for kind, count in sorted(struck.items()) if count},
            steps=self._loop.steps,
            runs=len(run_ids),
            rows=self._watcher.rows,
            virtual_s=self._clock.elapsed_s,
        )
        if outcome.violations:
            outcome.journals = {run_id: database.rows(run_id) for run_id in run_ids}
        return outcome


def run_campaign(plan: Plan) -> Outcome:
    """Carry out a plan."""
    try:
        return Campaign(plan).run()
    except DuctorError as error:
        raise AssertionError(f"the simulation itself failed on seed {plan.seed}: {error}") from error
