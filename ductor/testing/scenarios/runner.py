"""Plays one scenario on the real engine, in virtual time.

A *life* is a host from its start until everything has settled, or until a crash ends it (`ductor.testing.crashes`).
What must outlive a crash lies here, outside the loop: store, clock, identifiers, the calls, and what was sent.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from ductor.actors.engine_options import EngineOptions
from ductor.actors.host import EngineHost, HostOptions
from ductor.actors.start import DEFAULT_TENANT
from ductor.actors.tasks import Task, TaskRegistry
from ductor.definitions.compile import Compiled
from ductor.definitions.durations import format_duration_ms
from ductor.definitions.errors import DuctorError
from ductor.handlers import needed_handlers
from ductor.journal.events import RunStatus
from ductor.journal.records import RunFilter
from ductor.journal.store import Store
from ductor.testing.calls import CallLog, unexpected
from ductor.testing.clock import RepeatableIds, VirtualClock
from ductor.testing.scenarios.answers import answering
from ductor.testing.scenarios.model import Answer, Scenario, Send
from ductor.testing.scenarios.played import Played, all_heads, played_run, run_labelled
from ductor.testing.scenarios.sender import DUPLICATE, is_stored, refusal_on_record, send

OPEN_STATUSES: Final[tuple[RunStatus, ...]] = ("pending", "running", "waiting", "paused")

QUIET_CHECK_S: Final = 600.0
"""How often, in virtual time, runs that have not ended are looked at for signs of life."""

PATIENT_HOST: Final = HostOptions(sweep_ms=3_600_000, heartbeat_ms=3_600_000)
"""Nothing is lost in one process that sends its own wakeups, so nothing needs to be looked for often."""

MAX_LIVES: Final = 1_000_000
"""Hosts are killed here by no fault of their handlers, however often an attempt is lost with them."""

SWEEPING_HOST: Final = HostOptions(sweep_ms=60_000, heartbeat_ms=3_600_000, engine=EngineOptions(max_losses=MAX_LIVES))
"""What an earlier life left waiting is found by sweeping, and so are schedules, to the minute."""


class Delivery(msgspec.Struct, frozen=True):
    """Something that was sent and not refused at once."""

    run_id: str
    sent: Send
    request_id: str


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
        self.run_id = ""
        self.host_ids: list[str] = []
        self.on_host: Callable[[EngineHost], None] = lambda _host: None
        self._compiled = tuple(compiled)
        self._ids = RepeatableIds(clock)
        self._restarts = restarts
        self._began_at_us = clock.now_us()
        self._unsent = dict(enumerate(scenario.send))
        self._deliveries: list[Delivery] = []
        self._refusal: str | None = None
        answers = {**handlers, **scenario.handlers}
        self._tasks = [answering(name, given, self.log) for name, given in answers.items()]
        needed = frozenset[str]().union(*(needed_handlers(one.manifest) for one in compiled))
        self._tasks += [_unanswered(name, self.log) for name in sorted(needed - answers.keys())]

    async def live(self) -> None:
        """Live until everything has settled: start what is not started, send what is not sent, wait."""
        host = EngineHost(
            self.store, TaskRegistry(self._tasks), clock=self.clock, ids=self._ids, options=self._host_options()
        )
        self.host_ids.append(host.host_id)
        await host.start_host()
        self.on_host(host)
        for one in self._compiled:
            await host.publish(one)
        try:
            if self.scenario.start is not None:
                self.run_id = await self._started(host, self.scenario.start)
                (first,) = await host.chain(self.run_id, limit=1)
                self._began_at_us = first.started_at_us
        except DuctorError as error:
            self._refusal = f"{type(error).__name__}: {error}"
        else:
            await self._send_all(host)
            await self._settle(host)
        await host.stop_host()

    async def played(self) -> Played:
        """What came of it, after the last life."""
        client = EngineHost(self.store, TaskRegistry(), clock=self.clock, ids=self._ids)
        heads = await all_heads(client)
        labelled = {label: run_labelled(heads, label) for label in self.scenario.expect_runs}
        for delivery in self._deliveries:
            self._compare(
                delivery.sent, await refusal_on_record(client, delivery.run_id, delivery.sent, delivery.request_id)
            )
        return Played(
            root=await played_run(client, self.run_id) if self.run_id else None,
            refusal=self._refusal,
            runs={label: await played_run(client, run_id) for label, run_id in labelled.items() if run_id is not None},
            statuses=tuple(sorted(f"{head.definition}: {head.status}" for head in heads)),
            calls=tuple(self.log),
            mistakes=tuple(self.log.mistakes),
        )

    def _host_options(self) -> HostOptions:
        has_schedules = any(trigger.cron for one in self._compiled for trigger in one.manifest.triggers)
        return SWEEPING_HOST if self._restarts or has_schedules else PATIENT_HOST

    async def _started(self, host: EngineHost, definition: str) -> str:
        """The run's id. Whether a life that was killed had started it shows its start key."""
        scenario = self.scenario
        key = scenario.key or ("scenario" if self._restarts else None)
        if self._restarts and key is not None:
            known = await host.store.find_start_key(DEFAULT_TENANT, definition, key)
            if known is not None:
                return known
        started = await host.start(definition, scenario.input, key=key, version=scenario.version)
        return started.run_id

    async def _settle(self, host: EngineHost) -> None:
        """Wait until nothing will happen any more; where triggers alone start runs, until the limit.

        One look asks several questions, between which a timer may fire and a run begin: it takes two in a row.
        """
        limit_us = self._began_at_us + self.scenario.limit_ms * 1_000
        was_quiet = False
        while (left_us := limit_us - self.clock.now_us()) > 0:
            due_at_us = await host.store.next_due_us() or 0
            pause_us = max(round(QUIET_CHECK_S * 1e6), due_at_us - self.clock.now_us())
            await asyncio.sleep(min(left_us, pause_us) / 1e6)
            is_quiet = self.scenario.start is not None and await _is_quiet(host, limit_us)
            if is_quiet and was_quiet:
                return
            was_quiet = is_quiet

    async def _send_all(self, host: EngineHost) -> None:
        """Send what is left to send, by time; what has one time in the order of the file."""
        for number, sent in sorted(self._unsent.items(), key=lambda item: (item[1].at_ms, item[0])):
            await asyncio.sleep(max(0.0, (self._began_at_us + sent.at_ms * 1_000 - self.clock.now_us()) / 1e6))
            run_id = self.run_id if sent.run is None else run_labelled(await all_heads(host), sent.run)
            if run_id is None:
                self.log.mistakes.append(f"line {sent.place.line}: there is no run {sent.run} to send `{sent.kind}` to")
            else:
                await self._send(host, run_id, number, sent)
            del self._unsent[number]

    async def _send(self, host: EngineHost, run_id: str, number: int, sent: Send) -> None:
        request_id = sent.request_id or f"send-{number + 1}"
        may_be_sent = self._restarts and not self._is_repeated(number, sent)
        if may_be_sent and await is_stored(host, run_id, sent, request_id):
            refusal = ""
        else:
            refusal = await send(host, run_id, sent, request_id)
        if not refusal or (may_be_sent and refusal == DUPLICATE):
            self._deliveries.append(Delivery(run_id, sent, request_id))
        else:
            self._compare(sent, refusal)

    def _is_repeated(self, number: int, sent: Send) -> bool:
        """Whether the scenario itself sends something under this id before."""
        return sent.request_id is not None and any(
            (other.at_ms, index) < (sent.at_ms, number)
            and (other.request_id, other.run, other.kind == "event")
            == (sent.request_id, sent.run, sent.kind == "event")
            for index, other in enumerate(self.scenario.send)
        )

    def _compare(self, sent: Send, refusal: str) -> None:
        if bool(refusal) == sent.refused:
            return
        said = f"was refused: {refusal}" if refusal else "was accepted, and should have been refused"
        what = sent.name if sent.kind == "control" else f"{sent.kind} {sent.name}"
        self.log.mistakes.append(f"{what} after {format_duration_ms(sent.at_ms)} (line {sent.place.line}) {said}")


async def _is_quiet(host: EngineHost, limit_us: int) -> bool:
    """Whether nothing will ever happen by itself, schedules aside."""
    if not await host.runs(RunFilter(statuses=OPEN_STATUSES, limit=1)):
        return True
    if await host.runs(RunFilter(statuses=("pending",), limit=1)):
        return False  # another run has started it just now
    health = await host.health()
    load = health.workers
    is_idle = load is None or not (load.running or load.waiting or load.unconfirmed)
    due_at_us = await host.store.next_due_us()
    # a timer long overdue is one that nobody will serve
    is_due = due_at_us is not None and due_at_us > host.clock.now_us() - QUIET_CHECK_S * 1_000_000
    is_gathering = bool((await host.store.digest_work(limit_us, 1)).due)
    return is_idle and not is_due and not is_gathering and not health.set_aside


def _unanswered(name: str, log: CallLog) -> Task[..., Any]:
    return unexpected(name, log, "the scenario file has no answer for it under `handlers`")
