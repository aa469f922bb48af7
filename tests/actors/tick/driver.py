"""Drives the pure tick by hand, and proves after each one what must hold always.

After every tick: folding the rows again gives the live state, and computing each row again from the state before it and
its recorded inputs gives the same row.
"""

import textwrap

import msgspec

from ductor.actors.tick.compute import TickInputs, compute
from ductor.actors.tick.payload import TickPayload
from ductor.definitions.compile import compile_text
from ductor.definitions.program import Program, load_program
from ductor.definitions.values import JsonValue
from ductor.journal.chain import link
from ductor.journal.codec import decode_events, encode_events, encode_state
from ductor.journal.events import (
    INPUT_EVENTS,
    AnyEvent,
    AttemptFinished,
    ControlKind,
    ControlReceived,
    ErrorInfo,
    MessageReceived,
    RunStarted,
    TimerFired,
)
from ductor.journal.fold import finish_row, fold_row
from ductor.journal.state import RunState
from ductor.journal.store import Transition

SECOND_US = 1_000_000


def program_of(text: str) -> Program:
    """The program of the one definition in `text`; name and language version may be left out."""
    body = textwrap.dedent(text)
    head = "ductor: 1\n" if "ductor:" not in body else ""
    head += "name: subject\n" if not body.startswith("name:") and "\nname:" not in body else ""
    (compiled,) = compile_text(head + body, file="subject.yaml")
    return load_program(compiled.manifest, places=compiled.places)


def comparable(state: RunState) -> bytes:
    """What two states must agree in: all but the scheduler's own order of looking at things."""
    return encode_state(msgspec.structs.replace(state, touched=type(state.touched)(), agenda=[]))


class Driver:
    """One run of a definition, outside of any host."""

    def __init__(self, text: str, trigger: JsonValue = None, *, run_id: str = "run-1", starts: bool = True) -> None:
        self.program = program_of(text)
        self.state = RunState(run_id=run_id)
        self.now_us = SECOND_US
        self.rows: list[Transition] = []
        self.in_flight: dict[str, int] = {}
        self.withdrawn: list[str] = []
        self.refusals: list[str] = []
        self.superseded: list[AttemptFinished] = []
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
    ) -> TickPayload:
        """One tick, and further ones while it says that it stopped at its limits."""
        inputs = TickInputs(started=started, control=control, results=results or [])
        before = self.folded()
        payload = compute(self.program, self.state, inputs, self.now_us)
        self.superseded += payload.superseded
        if payload.control is not None and payload.control.outcome:
            self.refusals.append(payload.control.outcome)
        if payload.events:
            self._commit(payload, before)
        for ref in payload.dispatched:
            self.in_flight[ref] = self.state.nodes[ref].generation
        for withdrawal in payload.withdrawn:
            self.withdrawn.append(withdrawal.node)
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

    def request(self, kind: ControlKind, request_id: str = "c-1") -> TickPayload:
        """A control arrives."""
        return self.tick(control=ControlReceived(request_id=request_id, kind=kind, by="somebody"))

    def advance(self, seconds: float) -> TickPayload:
        """Time passes, and what is due fires."""
        self.now_us += round(seconds * SECOND_US)
        return self.tick()

    # --- looking ------------------------------------------------------------------------------------------------------

    def statuses(self) -> dict[str, str]:
        """Status of each node that something happened to."""
        return {ref: node.status for ref, node in self.state.nodes.items()}

    def events(self) -> list[AnyEvent]:
        """All events so far."""
        return [
            event for row in self.rows for event in decode_events(row.events, run_id=row.run_id, version=row.version)
        ]

    def folded(self) -> RunState:
        """The state that the rows give."""
        state = RunState(run_id=self.state.run_id)
        for row in self.rows:
            events = decode_events(row.events, run_id=row.run_id, version=row.version)
            fold_row(state, row.version, row.at_us, row.hash, events)
        return state

    # --- what must hold always ----------------------------------------------------------------------------------------

    def _commit(self, payload: TickPayload, before: RunState) -> None:
        state = self.state
        text = encode_events(payload.events)
        digest = link(state.last_hash, state.run_id, state.version, state.at_us, text)
        finish_row(state, digest)
        assert state.version == len(self.rows) + 1
        self.rows.append(
            Transition(
                run_id=state.run_id,
                version=state.version,
                commit_id=None,
                at_us=state.at_us,
                events=text,
                hash=digest,  # type: ignore[arg-type]
            )
        )
        assert comparable(self.folded()) == comparable(state), "folding the journal does not give the live state"
        assert recomputed(self.program, before, payload.events, state.at_us) == text, "the row is not reproducible"


def recomputed(program: Program, before: RunState, events: list[AnyEvent], at_us: int) -> bytes:
    """The row that the tick makes of the recorded inputs."""
    inputs = [event for event in events if isinstance(event, INPUT_EVENTS)]
    again = compute(
        program,
        before,
        TickInputs(
            started=next((event for event in inputs if isinstance(event, RunStarted)), None),
            control=next((event for event in inputs if isinstance(event, ControlReceived)), None),
            results=[event for event in inputs if isinstance(event, AttemptFinished)],
            recorded=[event for event in inputs if isinstance(event, TimerFired | MessageReceived)],
        ),
        at_us,
    )
    return encode_events(again.events)
