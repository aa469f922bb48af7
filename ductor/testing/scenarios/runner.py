"""Plays one scenario on the real engine, in virtual time.

A *life* is a host from its start until the run has settled, or until a crash ends it (`ductor.testing.crashes`).
Everything that must outlive a crash lies here, outside the loop: store, clock, identifiers, the calls, and what was
sent.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from ductor.actors.errors import ControlRefusedError
from ductor.actors.host import EngineHost, HostOptions
from ductor.actors.start import DEFAULT_TENANT
from ductor.actors.tasks import Task, TaskRegistry
from ductor.actors.views import HistoryRow, RunView
from ductor.definitions.compile import Compiled
from ductor.definitions.errors import DuctorError
from ductor.handle import RunHandle
from ductor.handlers import needed_handlers
from ductor.journal.store import Store
from ductor.testing.calls import Call, CallLog, unexpected
from ductor.testing.clock import RepeatableIds, VirtualClock
from ductor.testing.scenarios.answers import answering
from ductor.testing.scenarios.model import Answer, Scenario, Send

QUIET_CHECK_S: Final = 600.0
"""How often, in virtual time, a run that has not ended is looked at for signs of life."""

PATIENT_HOST: Final = HostOptions(sweep_ms=3_600_000, heartbeat_ms=3_600_000)
"""Nothing is lost in one process that sends its own wakeups, so nothing needs to be looked for often."""

RESTARTED_HOST: Final = HostOptions(sweep_ms=60_000, heartbeat_ms=3_600_000)
"""Timers of runs that an earlier life left waiting are found by sweeping."""


class Played(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a scenario.

    Attributes:
        refusal: why the run could not be started, None when it was.
        mistakes: what the scenario itself got wrong, and requests answered otherwise than it says.
    """

    view: RunView | None
    refusal: str | None
    history: tuple[HistoryRow, ...]
    calls: tuple[Call, ...]
    mistakes: tuple[str, ...]


class Playing:
    """One scenario being played.

    Args:
        compiled: the definitions it knows.
        handlers: answers of the file; those of the scenario go first.
        store: open.
        restarts: whether its host may be killed: then starting and sending are made repeatable.
    """

    def __init__(
        self,
        scenario: Scenario,
        compiled: Sequence[Compiled],
        handlers: Mapping[str, tuple[Answer, ...]],
        *,
        store: Store,
        clock: VirtualClock,
        restarts: bool = False,
    ) -> None:
        self.scenario = scenario
        self.store, self.clock = store, clock
        self.log = CallLog(clock)
        self.run_id: str | None = None
        self.host_ids: list[str] = []
        self._compiled = tuple(compiled)
        self._ids = RepeatableIds(clock)
        self._restarts = restarts
        self._unsent = dict(enumerate(scenario.send))
        self._refusal: str | None = None
        answers = {**handlers, **scenario.handlers}
        self._tasks = [answering(name, given, self.log) for name, given in answers.items()]
        needed = frozenset[str]().union(*(needed_handlers(one.manifest) for one in compiled))
        self._tasks += [_unanswered(name, self.log) for name in sorted(needed - answers.keys())]

    async def live(self) -> None:
        """Live until the run has settled: start what is not started, send what is not sent, wait."""
        options = RESTARTED_HOST if self._restarts else PATIENT_HOST
        host = EngineHost(self.store, TaskRegistry(self._tasks), clock=self.clock, ids=self._ids, options=options)
        self.host_ids.append(host.host_id)
        await host.start_host()
        for one in self._compiled:
            await host.publish(one)
        try:
            self.run_id = await self._started(host)
        except DuctorError as error:
            self._refusal = f"{type(error).__name__}: {error}"
        else:
            await self._settle(host, self.run_id)
        await host.stop_host()

    async def played(self) -> Played:
        """What came of it, after the last life."""
        client = EngineHost(self.store, TaskRegistry(), clock=self.clock, ids=self._ids)
        handle = RunHandle(client, self.run_id) if self.run_id is not None else None
        return Played(
            view=await handle.status() if handle else None,
            refusal=self._refusal,
            history=tuple(await handle.history()) if handle else (),
            calls=tuple(self.log),
            mistakes=tuple(self.log.mistakes),
        )

    async def _started(self, host: EngineHost) -> str:
        """The run's id. Whether a life that was killed had started it shows its start key."""
        scenario = self.scenario
        key = scenario.key or ("scenario" if self._restarts else None)
        if self._restarts and key is not None:
            known = await host.store.find_start_key(DEFAULT_TENANT, scenario.start, key)
            if known is not None:
                return known
        started = await host.start(scenario.start, scenario.input, key=key, version=scenario.version)
        return started.run_id

    async def _settle(self, host: EngineHost, run_id: str) -> None:
        started_at_us = (await host.view(run_id)).started_at_us
        end = host.engine.waiter(run_id)
        sending = asyncio.create_task(self._send_all(host, run_id, started_at_us))
        limit_us = started_at_us + self.scenario.limit_ms * 1_000
        try:
            while await host.ended(run_id) is None and self.clock.now_us() < limit_us:
                await asyncio.wait([end], timeout=min(QUIET_CHECK_S, (limit_us - self.clock.now_us()) / 1e6))
                if not end.done() and not self._unsent and await _is_quiet(host):
                    break
            await sending
        finally:
            host.engine.forget_waiter(run_id, end)

    async def _send_all(self, host: EngineHost, run_id: str, started_at_us: int) -> None:
        """Send what is left to send, by time; what has one time in the order of the file."""
        for number, sent in sorted(self._unsent.items(), key=lambda item: (item[1].at_ms, item[0])):
            await asyncio.sleep(max(0.0, (started_at_us + sent.at_ms * 1_000 - self.clock.now_us()) / 1e6))
            await self._send(host, run_id, number, sent)

    async def _send(self, host: EngineHost, run_id: str, number: int, sent: Send) -> None:
        request_id = sent.request_id or f"send-{number + 1}"
        try:
            receipt = await host.request(run_id, sent.control, request_id=request_id, by=sent.by)
            refused = receipt.verdict == "duplicate" and not self._restarts
            reason = "it is a duplicate"
        except ControlRefusedError as error:
            refused, reason = True, error.reason
        self._unsent.pop(number, None)
        if refused != sent.refused:
            said = f"was refused: {reason}" if refused else "was accepted, and should have been refused"
            self.log.mistakes.append(f"{sent.control} after {sent.at_ms} ms (line {sent.place.line}) {said}")


async def _is_quiet(host: EngineHost) -> bool:
    """Whether nothing will ever happen to the run by itself."""
    health = await host.health()
    load = health.workers
    is_idle = load is None or not (load.running or load.waiting or load.unconfirmed)
    due_at_us = await host.store.next_due_us()
    # a timer long overdue is one that nobody will serve
    is_due = due_at_us is not None and due_at_us > host.clock.now_us() - QUIET_CHECK_S * 1_000_000
    return is_idle and not is_due and not health.set_aside


def _unanswered(name: str, log: CallLog) -> Task[..., Any]:
    return unexpected(name, log, "the scenario file has no answer for it under `handlers`")
