# ruff: noqa: SLF001 - a planted bug reaches inside
"""Bugs planted into the engine on purpose: the simulation has to find every one of them within its budget.

Each is a small mutation, made by replacing one function for as long as it is planted. `PLANTED` lists them by name,
with what they break.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from ductor.actors import coordinator as coordinators
from ductor.actors.bus import EventBus
from ductor.actors.coordinator import Coordinator
from ductor.actors.engine import Engine
from ductor.actors.leases import Leases
from ductor.actors.messages import Assignment
from ductor.actors.steps import BEHAVIOURS
from ductor.actors.sweeper import Sweeper
from ductor.actors.tick import compute as ticks
from ductor.actors.tick import schedule as schedules
from ductor.actors.tick.outbox import Outbox
from ductor.actors.worker import WorkerPool
from ductor.journal.clock import SystemClock
from ductor.journal.commit import Appended, Commit, MessageDisposition
from ductor.journal.events import AttemptFinished, Message
from ductor.journal.memory import MemoryStore
from ductor.journal.memory_chains import MemoryChains
from ductor.journal.memory_forwarding import MemoryForwarding
from ductor.journal.memory_leases import MemoryLeases
from ductor.journal.memory_messages import MemoryMessages
from ductor.journal.memory_rows import RunRows
from ductor.journal.partitions import Partitions
from scripts.simulation.connection import Connection
from scripts.simulation.database import SimulatedDatabase

Planting = Callable[[], Iterator[None]]

EARLY_US: Final = 1_500_000


class PlantedBug(msgspec.Struct, frozen=True):
    """One mutation. `what` says what the engine does then; `plant` makes it for the length of a `with` block."""

    name: str
    what: str
    plant: Callable[[], Any]


PLANTED: dict[str, PlantedBug] = {}


def _planted(what: str) -> Callable[[Planting], Planting]:
    def register(planting: Planting) -> Planting:
        name = planting.__name__.removeprefix("_")
        PLANTED[name] = PlantedBug(name, what, contextmanager(planting))
        return planting

    return register


@contextmanager
def _replaced(owner: Any, name: str, value: object) -> Iterator[None]:
    former = owner.__dict__[name]
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, former)


# --- coordinator ------------------------------------------------------------------------------------------------------


@_planted("attempts go to workers before the commit that records them")
def _dispatch_before_commit() -> Iterator[None]:
    commit = Coordinator._commit

    def hasty(self: Coordinator, payload: Any, *others: Any) -> None:
        for ref in payload.dispatched:
            assert self.state is not None
            if self.state.nodes[ref].status == "running":
                self.engine.offer(self._assignment(ref, is_redelivery=False))
        commit(self, payload, *others)

    with _replaced(Coordinator, "_commit", hasty):
        yield


@_planted("a worker may forget its result before the commit that carries it")
def _confirm_before_commit() -> Iterator[None]:
    commit = Coordinator._commit

    def hasty(self: Coordinator, payload: Any, results: Any, *others: Any) -> None:
        for result in results:
            self.engine.confirm(result)
        commit(self, payload, [], *others)

    with _replaced(Coordinator, "_commit", hasty):
        yield


@_planted("a lost version check drops the results in hand")
def _inputs_dropped_on_conflict() -> Iterator[None]:
    after_conflict = Coordinator._after_conflict

    async def forgetful(self: Coordinator) -> None:
        for result in self._results:
            self.engine.confirm(result)
        self._results.clear()
        await after_conflict(self)

    with _replaced(Coordinator, "_after_conflict", forgetful):
        yield


@_planted("what became of a request is not written with the row")
def _control_not_disposed() -> Iterator[None]:
    commit = Coordinator._commit

    def careless(self: Coordinator, payload: Any, *others: Any) -> None:
        commit(self, msgspec.structs.replace(payload, control=None) if payload.events else payload, *others)

    with _replaced(Coordinator, "_commit", careless):
        yield


@_planted("an attempt that is delivered again has another idempotency key")
def _token_of_redelivery() -> Iterator[None]:
    assignment_of = Coordinator._assignment

    def other(self: Coordinator, ref: str, *, is_redelivery: bool) -> Assignment:
        assignment = assignment_of(self, ref, is_redelivery=is_redelivery)
        if is_redelivery:
            return msgspec.structs.replace(assignment, token=f"{assignment.token}/again")
        return assignment

    with _replaced(Coordinator, "_assignment", other):
        yield


@_planted("a worker takes an attempt that it holds already")
def _held_attempt_taken_again() -> Iterator[None]:
    offer = WorkerPool.offer

    def forgetful(self: WorkerPool, assignment: Assignment) -> bool:
        self._held.pop(assignment.token, None)
        return offer(self, assignment)

    with _replaced(WorkerPool, "offer", forgetful):
        yield


# --- tick -------------------------------------------------------------------------------------------------------------


@_planted("results of older attempts are applied")
def _generation_unchecked() -> Iterator[None]:
    def credulous(tick: Any, results: list[AttemptFinished]) -> list[AttemptFinished]:
        for result in results:
            node = tick.state.nodes.get(result.node)
            if node is None or node.status != "running":
                return [result]
            tick.emit(result)
            program_node = tick.program.node(result.node)
            BEHAVIOURS[program_node.step.type_name].on_result(tick, program_node, result)
        return []

    with _replaced(ticks, "advance", credulous):
        yield


@_planted("results are applied to runs that have ended")
def _end_unchecked() -> Iterator[None]:
    advance = ticks.__dict__["advance"]

    def credulous(tick: Any, results: list[AttemptFinished]) -> list[AttemptFinished]:
        superseded: list[AttemptFinished] = advance(tick, results)
        for result in superseded:
            tick.emit(result)
        return superseded

    with _replaced(ticks, "advance", credulous):
        yield


@_planted("timers fire a moment early")
def _timer_early() -> Iterator[None]:
    fire_due_timers = ticks.__dict__["fire_due_timers"]

    def impatient(tick: Any, limit: int, before_us: int | None = None) -> int:
        tick.now_us += EARLY_US
        try:
            return int(fire_due_timers(tick, limit, before_us))
        finally:
            tick.now_us -= EARLY_US

    with _replaced(ticks, "fire_due_timers", impatient):
        yield


@_planted("a join that has fired fires again when a further branch arrives")
def _join_fires_twice() -> Iterator[None]:
    look_at = schedules._look_at

    def eager(tick: Any, node: Any) -> None:
        state = tick.node_state(node)
        if state.status == "succeeded" and node.step.join != "all" and state.sources_taken > 1:
            state.status = "pending"
        look_at(tick, node)

    with _replaced(schedules, "_look_at", eager):
        yield


@_planted("a join of every branch does not wait for the last one")
def _join_too_soon() -> Iterator[None]:
    join_answer = schedules.join_answer

    def hasty(join: str | int, sources: int, settled: int, taken: int) -> bool | None:
        return join_answer("any" if join == "every" else join, sources, settled, taken)

    with _replaced(schedules, "join_answer", hasty):
        yield


@_planted("messages that wait while the run is paused are lost")
def _message_lost_on_pause() -> Iterator[None]:
    compute = ticks.compute

    def lossy(program: Any, state: Any, inputs: Any, now_us: int) -> Any:
        messages = inputs.messages
        payload = compute(program, state, inputs, now_us)
        if state.paused_at_us is not None and messages:
            payload.outbox = payload.outbox or Outbox()
            for message in messages:
                payload.outbox.messages[message.id] = MessageDisposition(message.id, "consumed")
        return payload

    with _replaced(coordinators, "compute", lossy):
        yield


@_planted("a signal that nobody waits for is taken for consumed")
def _signal_not_buffered() -> Iterator[None]:
    absorb = ticks.__dict__["absorb"]

    def lossy(tick: Any, message: Message) -> None:
        if message.kind == "signal" and f"signal:{message.name}" not in tick.state.listeners:
            tick.outbox.messages[message.id] = MessageDisposition(message.id, "consumed")
        else:
            absorb(tick, message)

    with _replaced(ticks, "absorb", lossy):
        yield


@_planted("the inbox goes on listing what nobody waits for any more")
def _inbox_row_left() -> Iterator[None]:
    leave = Outbox.leave

    def careless(self: Outbox, ref: str, node: Any) -> None:
        leave(self, ref, node)
        self.inbox_gone.clear()

    with _replaced(Outbox, "leave", careless):
        yield


@_planted("who has settled keeps its lease")
def _lease_kept() -> Iterator[None]:
    leave = Outbox.leave

    def grasping(self: Outbox, ref: str, node: Any) -> None:
        leave(self, ref, node)
        self.leases_gone.clear()

    with _replaced(Outbox, "leave", grasping):
        yield


@_planted("a lease is granted to whoever asks")
def _lease_limit_unchecked() -> Iterator[None]:
    write_leases = MemoryLeases._write_leases

    def generous(self: MemoryLeases, commit: Commit) -> None:
        asked = tuple(msgspec.structs.replace(wait, limit=wait.limit + 1) for wait in commit.leases)
        write_leases(self, msgspec.structs.replace(commit, leases=asked))

    with _replaced(MemoryLeases, "_write_leases", generous):
        yield


@_planted("places that got free are given to nobody when a host dies or can't reach the database then")
def _leases_not_swept() -> Iterator[None]:
    async def blind(self: Leases, now_us: int) -> None:
        """Find nothing."""

    with _replaced(Leases, "sweep", blind):
        yield


# --- host -------------------------------------------------------------------------------------------------------------


@_planted("the sweeper finds no overdue timers")
def _sweeper_without_timers() -> Iterator[None]:
    runs_to_wake = MemoryStore.runs_to_wake

    async def blind(self: MemoryStore, _now_us: int, limit: int, partitions: Partitions = None) -> Sequence[str]:
        return await runs_to_wake(self, 0, limit, partitions)

    with _replaced(MemoryStore, "runs_to_wake", blind):
        yield


@_planted("nobody takes over the runs of a host that is gone")
def _no_take_over() -> Iterator[None]:
    async def idle(self: Sweeper) -> None:
        await self.beat()

    with _replaced(Sweeper, "_beat_and_settle", idle):
        yield


@_planted("a new wait is not compared with the events that came just before it")
def _wait_not_scanned() -> Iterator[None]:
    async def blind(self: EventBus, run_id: str | None = None) -> int:
        waits = await self._store.unscanned_waits(500, run_id=run_id)
        for wait in waits:
            await self._store.wait_scanned(wait.run_id, wait.wait.node, wait.wait.index)
        return len(waits)

    with _replaced(EventBus, "scan", blind):
        yield


@_planted("timers follow the wall clock")
def _wall_clock() -> Iterator[None]:
    init = SystemClock.__init__

    def following(self: SystemClock, wall_ns: Callable[[], int], _monotonic_ns: Callable[[], int]) -> None:
        init(self, lambda: 0, wall_ns)
        self._origin_ns = 0

    with _replaced(SystemClock, "__init__", following):
        yield


@_planted("the result of an attempt of a paused run is not stored")
def _result_not_kept() -> Iterator[None]:
    def careless(self: Engine, result: Any) -> None:
        self.confirm(result)

    with _replaced(Engine, "store_result", careless):
        yield


# --- store ------------------------------------------------------------------------------------------------------------


@_planted("the version check is skipped: the later of two writers of one version writes the next one")
def _version_unchecked() -> Iterator[None]:
    write = MemoryStore._write

    def lax(self: MemoryStore, commit: Commit) -> Any:
        run = self._runs.get(commit.run_id)
        if run is not None and commit.version > 1 and run.commit_id(commit.version) != commit.commit_id:
            commit = msgspec.structs.replace(commit, version=run.version + 1)
        return write(self, commit)

    with _replaced(MemoryStore, "_write", lax):
        yield


@_planted("a commit is answered before it is durable")
def _answered_before_durable() -> Iterator[None]:
    arrive = Connection._arrive

    def early(self: Connection, pending: Any) -> None:
        if pending.commit.start is None and not pending.commit.controls:
            answer, pending.answer = pending.answer, lambda _answer: None
            asyncio.get_running_loop().call_soon(
                answer, Appended(pending.commit.version), context=self._lane.context.copy()
            )
        arrive(self, pending)

    with _replaced(Connection, "_arrive", early):
        yield


@_planted("a commit that is sent again is not recognised by its id")
def _commit_id_forgotten() -> Iterator[None]:
    def forgetful(_self: RunRows, _version: int) -> None:
        return None

    with _replaced(RunRows, "commit_id", forgetful):
        yield


@_planted("a message that is sent twice under one id is stored twice")
def _message_not_deduplicated() -> Iterator[None]:
    send_message = MemoryMessages.send_message

    async def lax(self: Any, run_id: str, message: Message, *others: Any, **named: Any) -> Any:
        known = self._messages.get(run_id)
        receipt = known.receipts.pop(message.id, None) if known is not None else None
        answer = await send_message(self, run_id, message, *others, **named)
        if receipt is not None and known is not None:
            known.receipts.setdefault(message.id, receipt)
        return answer

    with _replaced(MemoryMessages, "send_message", lax):
        yield


@_planted("events reach the waits of all tenants")
def _tenants_mixed() -> Iterator[None]:
    call = SimulatedDatabase.call

    def lax(self: SimulatedDatabase, name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if name == "deliver_event":
            event = arguments[0]
            for tenant in sorted({run.head.tenant for run in self._runs.values()}):
                twin = msgspec.structs.replace(event, tenant=tenant)
                hearing = {run for run, _, _ in self._waits if self._runs[run].head.tenant == tenant}
                if tenant != event.tenant:
                    call(self, name, (twin, sorted(hearing)), named)
        return call(self, name, arguments, named)

    with _replaced(SimulatedDatabase, "call", lax):
        yield


@_planted("what waits for a run that is continued is sent on to nobody")
def _seam_loses_messages() -> Iterator[None]:
    def forgetful(self: MemoryForwarding, run: RunRows, _target: RunRows, version: int | None) -> None:
        messages = self._messages_of(run.head.run_id)
        for message in messages.read_unconsumed():
            messages.dispose(MessageDisposition(message.id, "forwarded"), version)
        self._with_messages.pop(run.head.run_id, None)

    with _replaced(MemoryForwarding, "_forward_messages", forgetful):
        yield


@_planted("ids of messages are unique in a run, and not in its chain")
def _chain_forgets_ids() -> Iterator[None]:
    with _replaced(MemoryChains, "_note_input", lambda *_: None):
        yield


@_planted("steps start in a run that is about to be continued")
def _starts_while_it_winds_down() -> Iterator[None]:
    readiness = schedules.readiness

    def hasty(state: Any, node: Any, sources_settled: int, sources_taken: int) -> bool | None:
        continuing, state.continuing = state.continuing, None
        answer = readiness(state, node, sources_settled, sources_taken)
        state.continuing = continuing
        return answer

    with _replaced(schedules, "readiness", hasty):
        yield
