"""Drives the pure tick by hand, and proves after each one what must hold always.

After every tick: folding the rows again gives the live state, and computing each row again from the state before it and
its recorded inputs gives the same row. No deadline is left in the past unless the tick says that it has not done all.
What waits has something to wait for. A node that has settled does nothing more, unless a redrive puts it back; the end
of a run ends its row. The rows that other tables hold for the run agree with what is parked: the waits and inbox items
of parked nodes are there, those of all others are gone. No message is disposed of twice for good. Large values that a
row names are stored with it or have been before.
"""

import textwrap
import uuid
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ductor.actors.recorded_programs import RunPrograms
from ductor.actors.tick.compute import TickInputs, compute
from ductor.actors.tick.outbox import Outbox, StartedRun
from ductor.actors.tick.payload import TickPayload
from ductor.actors.verify import comparable, recomputed
from ductor.definitions.compile import compile_text
from ductor.definitions.program import Program, load_program
from ductor.definitions.values import JsonValue
from ductor.journal.chain import link
from ductor.journal.child_reports import ChildReport, report_message
from ductor.journal.codec import decode_events, decode_value, encode_events
from ductor.journal.commit import BusEvent, EventWait, InboxItem, LeaseWait, SentControl, SentMessage
from ductor.journal.compaction import compacted
from ductor.journal.digest_store import DigestWait, message_id
from ductor.journal.events import (
    SETTLED_NODE_STATUSES,
    AnyEvent,
    AttemptFinished,
    ChildStatus,
    ControlKind,
    ControlReceived,
    ErrorInfo,
    Message,
    MessageKind,
    NodeSettled,
    RunStarted,
    TimerFired,
)
from ductor.journal.fold import finish_row, fold_row
from ductor.journal.lease_store import message_id as lease_message_id
from ductor.journal.records import Transition
from ductor.journal.state import ASKING, RunState
from tests.actors.tick.row_rules import check_events, named_payloads

SECOND_US = 1_000_000
ERRORS_OF_THE_ENGINE = frozenset({
    "ChildKeyTaken", "ChildTimeout", "CompensationIncomplete", "DefinitionNotFound", "DepthExceeded", "DuplicateKey",
    "EndedByStep", "ExpressionError", "HistoryTooLong", "InvalidApprovers", "InvalidItems", "InvalidKey", "InvalidTime",
    "InvalidTrigger", "LeaseTimeout", "NoRuleMatched", "RepeatExhausted", "RuleNotUnique", "RunCancelled",
    "RunCompensated", "RunTerminated", "RunTimeout", "ScatterNotSettled", "StartRefused", "TaskNotAllowed",
    "TooManyEvents", "TooManyItems", "ValueRefused",
})  # fmt: skip
"""What the tick itself refuses or ends: it would do so again, whoever tried again."""

FINAL_DISPOSITIONS = ("consumed", "undelivered", "forwarded")


def program_of(text: str) -> Program:
    """The program of the one definition in `text`; name and language version may be left out."""
    body = textwrap.dedent(text)
    head = "ductor: 1\n" if "ductor:" not in body else ""
    head += "name: subject\n" if not body.startswith("name:") and "\nname:" not in body else ""
    (compiled,) = compile_text(head + body, file="subject.yaml")
    return load_program(compiled.manifest, places=compiled.places)


class Driver:
    """One run of a definition, outside of any host. `others` are definitions that it may start."""

    def __init__(
        self,
        text: str,
        trigger: JsonValue = None,
        *,
        run_id: str = "run-1",
        starts: bool = True,
        others: Sequence[str] = (),
    ) -> None:
        self.program = program_of(text)
        programs = [self.program, *(program_of(other) for other in others)]
        self.library = {program.manifest_hash: program for program in programs}
        self.state = RunState(run_id=run_id)
        self.now_us = SECOND_US
        self.rows: list[Transition] = []
        self.in_flight: dict[str, int] = {}
        self.withdrawn: list[str] = []
        self.refusals: list[str] = []
        self.superseded: list[AttemptFinished] = []
        self.deferred: list[AttemptFinished] = []
        self.kept: list[Message] = []
        self.dispositions: dict[str, str] = {}
        self.waits: dict[tuple[str, int], EventWait] = {}
        self.inbox: dict[str, InboxItem] = {}
        self.digests: dict[str, DigestWait] = {}
        self.leases: dict[str, LeaseWait] = {}
        self.fence = 0
        self.published: list[BusEvent] = []
        self.sent: list[SentMessage] = []
        self.children: list[StartedRun] = []
        self.asked: list[SentControl] = []
        self._payloads: dict[str, JsonValue] = {}
        self._message_position = 0
        manifest = self.program.manifest
        self.started = RunStarted(
            tenant="t",
            definition=manifest.name,
            manifest_hash=self.program.manifest_hash,
            entrypoints=self.program.entrypoints,
            trigger=trigger,
            config=manifest.config,
            context=manifest.context,
            timeout_at_us=None if manifest.timeout_ms is None else self.now_us + manifest.timeout_ms * 1_000,
            definitions={program.manifest.name: program.manifest_hash for program in programs},
        )
        if starts:
            self.tick(started=self.started)

    # --- acting -------------------------------------------------------------------------------------------------------

    def tick(
        self,
        *,
        started: RunStarted | None = None,
        control: ControlReceived | None = None,
        results: list[AttemptFinished] | None = None,
        messages: list[Message] | None = None,
    ) -> TickPayload:
        """One tick, and further ones while it says that it stopped at its limits.

        What a paused run leaves is kept, and offered again with every tick, as its rows in the database would be.
        """
        inputs = TickInputs(started=started, control=control)
        inputs.results = [*self.deferred, *(results or [])]
        inputs.messages = [*self.kept, *(messages or [])]
        before, known = self.folded(), set(self.state.payloads)
        was_paused = self.state.paused_at_us is not None
        payload = compute(self.program, self.state, inputs, self.now_us, self.library)
        self.deferred, self.kept = list(payload.deferred), list(payload.unread)
        if was_paused and control is None:
            assert payload.events == [], "something happened while the run was paused"
        self.superseded += payload.superseded
        if payload.control is not None:
            refusal = payload.control.outcome
            assert isinstance(refusal, str)
            assert payload.control.disposition == ("refused" if refusal else "applied")
            self.refusals += [refusal] if refusal else []
        if payload.events:
            self._payloads.update((one.hash, decode_value(one.text)) for one in payload.payloads)
            self._commit(payload, before)
            assert named_payloads(self.rows[-1].events) <= self._payloads.keys() | known, "a large value is not stored"
        for ref in payload.dispatched:
            self.in_flight[ref] = self.state.nodes[ref].generation
        for withdrawal in payload.withdrawn:
            self.withdrawn.append(withdrawal.node)
        self._write_outbox(payload)
        self._check(payload)
        for error in filter(None, (getattr(event, "error", None) for event in payload.events)):
            assert not (error.retryable and error.type in ERRORS_OF_THE_ENGINE), error
        return self.tick() if payload.is_limited else payload

    def finish(self, ref: str, output: JsonValue = None) -> TickPayload:
        """The attempt in flight of `ref` succeeds."""
        return self.tick(results=[self.success(ref, output)])

    def fail(
        self, ref: str, type: str = "Boom", *, retryable: bool = True, retry_after_ms: int | None = None
    ) -> TickPayload:
        """The attempt in flight of `ref` fails."""
        error = ErrorInfo(type=type, message=f"{ref} failed", retryable=retryable, retry_after_ms=retry_after_ms)
        generation = self.in_flight.pop(ref)
        return self.tick(results=[AttemptFinished(node=ref, generation=generation, outcome="failed", error=error)])

    def stopped(self, ref: str) -> TickPayload:
        """The attempt in flight of `ref` stops because it was told to."""
        generation = self.in_flight.pop(ref)
        return self.tick(results=[AttemptFinished(node=ref, generation=generation, outcome="cancelled")])

    def success(self, ref: str, output: JsonValue = None) -> AttemptFinished:
        """The result of the attempt in flight, not applied yet."""
        return AttemptFinished(node=ref, generation=self.in_flight.pop(ref), outcome="succeeded", output=output)

    def request(self, kind: ControlKind, request_id: str = "c-1", **arguments: JsonValue) -> TickPayload:
        """A control arrives."""
        control = ControlReceived(request_id=request_id, kind=kind, by="somebody", arguments=arguments)
        return self.tick(control=control)

    def message(
        self,
        kind: MessageKind,
        name: str = "",
        payload: JsonValue = None,
        *,
        node: str = "",
        by: str = "",
        id: str | None = None,
        at_us: int | None = None,
    ) -> Message:
        """A message as the store keeps it, not taken up yet. Times and positions are those of its arrival."""
        self._message_position += 1
        return Message(
            id=id or f"m-{self._message_position}",
            kind=kind,
            name=name,
            node=node,
            payload=payload,
            by=by,
            at_us=self.now_us if at_us is None else at_us,
            position=self._message_position,
        )

    def signal(self, name: str, payload: JsonValue = None) -> TickPayload:
        """A signal arrives."""
        return self.tick(messages=[self.message("signal", name, payload)])

    def event(self, name: str, payload: JsonValue = None, *, at_us: int | None = None) -> TickPayload:
        """An event that the bus found this run for arrives; `at_us` is when it was published."""
        message_id = f"event:e-{self._message_position + 1}"
        return self.tick(messages=[self.message("event", name, payload, id=message_id, at_us=at_us)])

    def vote(self, node: str, decision: str, by: str, comment: str | None = None) -> TickPayload:
        """Somebody votes."""
        payload: JsonValue = {"decision": decision, "comment": comment}
        return self.tick(messages=[self.message("vote", payload=payload, node=node, by=by)])

    def work_case(self, node: str, by: str, **changes: JsonValue) -> TickPayload:
        """Somebody works on a case."""
        return self.tick(messages=[self.message("case", payload=changes, node=node, by=by)])

    def reply(self, node: str, payload: JsonValue, by: str = "") -> TickPayload:
        """Somebody answers an interaction."""
        return self.tick(messages=[self.message("reply", payload=payload, node=node, by=by)])

    def digest(self, node: str, **told: JsonValue) -> TickPayload:
        """The store tells what became of the item that a digest step has brought."""
        id = message_id(node, self.state.reopened_count)
        return self.tick(messages=[self.message("digest", payload=told, node=node, id=id)])

    def grant(self, node: str) -> TickPayload:
        """The store makes a holder of the node that waits for a lease (`@run`: of the run)."""
        return self.tick(messages=[self.granted(node)])

    def granted(self, node: str) -> Message:
        """What the store tells of a grant, not taken up yet."""
        self.fence += 1
        told: JsonValue = {
            "run_id": self.state.run_id, "fence": self.fence, "generation": self.leases[node].generation
        }  # fmt: skip
        return self.message("lease", payload=told, node=node, id=lease_message_id(node, self.fence))

    def child(self, node: str) -> StartedRun:
        """The child run of the node's current generation."""
        run_id = self.state.nodes[node].child_run_id
        (found,) = [child for child in self.children if child.run_id == run_id]
        return found

    def report(
        self, node: str, status: ChildStatus = "completed", output: JsonValue = None, **more: Any
    ) -> TickPayload:
        """The child run of the node's current generation tells how far it is."""
        return self.tick(messages=[self.reported(node, status, output, **more)])

    def reported(
        self,
        node: str,
        status: ChildStatus = "completed",
        output: JsonValue = None,
        *,
        run_id: str = "",
        error: ErrorInfo | None = None,
        owner: str = "",
    ) -> Message:
        """What a child run tells (`run_id`: that one, not the current), not taken up yet."""
        report = ChildReport(
            run_id=run_id or self.state.nodes[node].child_run_id,
            status=status,
            generation=0 if status == "refused" else self.state.nodes[node].generation,  # refused by the store
            output=output,
            error=error,
            owner=owner,
        )
        message = report_message(report, node)
        return self.message("child", payload=message.payload, node=node, id=message.id, by=message.by)

    def advance(self, seconds: float) -> TickPayload:
        """Time passes, and what is due fires."""
        self.now_us += round(seconds * SECOND_US)
        return self.tick()

    # --- looking ------------------------------------------------------------------------------------------------------

    def statuses(self) -> dict[str, str]:
        """Status of each node that something happened to."""
        return {ref: node.status for ref, node in self.state.nodes.items()}

    def disposition(self, message_id: str) -> str:
        """What became of a message; empty as long as it waits."""
        return self.dispositions.get(message_id, "")

    def events(self) -> list[AnyEvent]:
        """All events so far."""
        return [event for events in self.rows_of_events() for event in events]

    def rows_of_events(self) -> list[list[AnyEvent]]:
        """All events so far, row by row."""
        return [decode_events(row.events, run_id=row.run_id, version=row.version) for row in self.rows]

    def folded(self) -> RunState:
        """The state that the rows give."""
        state = RunState(run_id=self.state.run_id)
        state.payloads = dict(self._payloads)
        for row in self.rows:
            events = decode_events(row.events, run_id=row.run_id, version=row.version)
            fold_row(state, row.version, row.at_us, row.hash, events)
        return state

    # --- what must hold always ----------------------------------------------------------------------------------------

    def _commit(self, payload: TickPayload, before: RunState) -> None:
        state = self.state
        check_events(before, payload.events)
        text = encode_events(payload.events)
        digest = link(state.last_hash, state.run_id, state.version, state.at_us, text)
        finish_row(state, digest)
        assert state.version == len(self.rows) + 1
        self.rows.append(
            Transition(
                run_id=state.run_id,
                version=state.version,
                commit_id=uuid.UUID(int=state.version),
                at_us=state.at_us,
                events=text,
                hash=digest,
            )
        )
        folded = self.folded()
        assert comparable(folded) == comparable(state), "folding the journal does not give the live state"
        assert compacted(folded) == compacted(state), "what a compaction writes depends on who writes it"
        again = recomputed(RunPrograms(self.program, self.library), before, payload.events, state.at_us)
        assert again == text, "the row is not reproducible"

    def _write_outbox(self, payload: TickPayload) -> None:
        """What the commit would write beside the row."""
        outbox = payload.outbox or Outbox()
        assert not {ref for ref, _ in outbox.waits} & set(outbox.waits_gone), "a wait is written and removed at once"
        assert not set(outbox.inbox) & set(outbox.inbox_gone), "an inbox item is written and removed at once"
        for ref in outbox.waits_gone:
            self.waits = {key: wait for key, wait in self.waits.items() if key[0] != ref}
        for ref in outbox.inbox_gone:
            self.inbox.pop(ref, None)
        self.waits.update(outbox.waits)
        self.inbox.update(outbox.inbox)
        assert not set(outbox.digests) & set(outbox.digests_gone), "a digest is written and removed at once"
        for ref in outbox.digests_gone:
            self.digests.pop(ref, None)
        self.digests.update(outbox.digests)
        assert not set(outbox.leases) & set(outbox.leases_gone), "a lease is asked for and given back at once"
        for ref in outbox.leases_gone:
            self.leases.pop(ref, None)
        self.leases.update(outbox.leases)
        self.published += outbox.published
        self.sent += outbox.sent
        self.children += outbox.started
        self.asked += outbox.controls
        for disposition in outbox.messages.values():
            before = self.disposition(disposition.message_id)
            assert before not in FINAL_DISPOSITIONS, f"{disposition} after {before}"
            self.dispositions[disposition.message_id] = disposition.disposition
        if outbox.forwards_to:
            kept = [message_id for message_id, what in self.dispositions.items() if what == "buffered"]
            self.dispositions.update(dict.fromkeys(kept, "forwarded"))

    def _check(self, payload: TickPayload) -> None:
        state = self.state
        earliest = state.timers.earliest()
        if state.paused_at_us is None and earliest is not None:
            assert earliest[0] > max(self.now_us, state.at_us) or payload.is_limited, (
                f"a deadline has passed: {earliest}"
            )
        assert {message_id for message_id, what in self.dispositions.items() if what == "buffered"} == set(state.inbox)
        armed = {key for key in state.timers.deadlines() if not key.startswith("@")}
        waiting = {ref for ref, node in state.nodes.items() if node.status == "waiting"}
        assert armed <= waiting, "a timer outlives its node"
        listening: set[tuple[str, str]] = {(ref, name) for name, refs in state.listeners.items() for ref in refs}
        assert listening == {(ref, name) for ref in waiting for name in state.nodes[ref].names}
        asked = {ref for ref in waiting if state.nodes[ref].waiting in ASKING}
        gathered = {ref for ref in waiting if state.nodes[ref].waiting == "digest"}
        with_children = {ref for ref in waiting if state.nodes[ref].waiting == "child"}
        leasing = {ref for ref in waiting if state.nodes[ref].waiting == "lease"}
        assert asked | armed | gathered | with_children | leasing | {ref for ref, _ in listening} == waiting, (
            "a node waits for nothing"
        )
        self._check_scatters(payload)
        places = {ref for ref in state.open_nodes if state.nodes[ref].lease_key} | (
            {"@run"} if state.lease_key else set()
        )
        assert set(self.leases) == places or state.status == "continued", "a lease outlives its node, or is lost"
        assert set(self.digests) == gathered, "other nodes bring items to digests"
        hearing = {(ref, name.removeprefix("event:")) for ref, name in listening if name.startswith("event:")}
        if not state.is_terminal:
            hearing |= {("@on", handler.event) for handler in self.program.handlers if handler.event is not None}
        assert {(ref, wait.name) for (ref, _), wait in self.waits.items()} == hearing, "the bus knows other waits"
        assert set(self.inbox) == asked, "the inbox shows other nodes"
        for ref, item in self.inbox.items():
            assert item.due_at_us == state.timers.due_at_us(ref) or state.paused_at_us is not None
        if state.is_terminal:
            assert not waiting
            assert not state.timers

    def _check_scatters(self, payload: TickPayload) -> None:
        """Counts are those of the children; a scatter that waits has children under way, or a pause before the next."""
        state = self.state
        assert not state.fanned, "a scatter was not judged"
        for ref, node in state.nodes.items():
            fanout = node.fanout
            if fanout is None:
                continue
            children = [state.nodes.get(f"{ref}[{index}]") for index in range(fanout.started)]
            counted = Counter("pending" if child is None else child.status for child in children)
            settled = (counted["succeeded"], counted["failed"], counted["cancelled"])
            assert settled == (fanout.succeeded, fanout.failed, fanout.cancelled), f"{ref}: {counted}"
            assert counted["running"] + counted["waiting"] == fanout.open
            assert counted["pending"] == len(fanout.again)
            assert (ref in state.filling) == (node.status == "waiting" and fanout.next_index is not None)
            if node.status == "waiting" and state.paused_at_us is None:
                assert fanout.open or state.timers.due_at_us(ref) is not None or payload.is_limited, f"{ref} is stuck"
            elif node.status in SETTLED_NODE_STATUSES and state.closing is None:
                assert not fanout.open, f"children of {ref} outlive it"


def timer_ends(events: list[AnyEvent], key: str) -> int:
    """How often the timer of `key` fired."""
    return sum(isinstance(event, TimerFired) and event.key == key for event in events)


def settlements(events: list[AnyEvent], ref: str) -> list[NodeSettled]:
    """Each time that `ref` settled."""
    return [event for event in events if isinstance(event, NodeSettled) and event.node == ref]
