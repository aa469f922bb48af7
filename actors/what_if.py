"""What if a run had been carried out by another definition: its recorded inputs, fed to another program. Pure.

The recorded rows are gone through in order, at their own times; the other program decides what it makes of each row's
inputs, in a state of its own. Beside it the recorded run is folded. What is an input, and when it counts:

- *The start* is judged by the other definition: its trigger must fit, its entrypoints, config and timeout are the other
  definition's. Context that the definition did not give but a run before did (continue-as-new) is kept.
- *Results* belong to a step and a generation. One that comes before the other program has dispatched that attempt is
  kept until it does, then taken at once. One that is never asked for is left over: its step did not run.
- *Messages, reports of children, leases and controls* are taken in the order of the record. Events that nothing heard
  are not in a journal, so a wait that is new hears only what was heard before.
- *Timers* that the recorded run has armed for the same moment fire when they fired there, or don't; any other timer of
  the other program fires at its own time, between the rows.

The same definition therefore decides the same, row by row. Where results are missing the replay goes on with what is
there; steps without a result stay at work.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from ductor.actors.errors import StartRefusedError
from ductor.actors.recorded_programs import RunPrograms
from ductor.actors.start import first_event
from ductor.actors.tick.compute import RecordedInput, TickInputs, compute
from ductor.actors.tick.payload import TickPayload
from ductor.actors.verify import event_values, first_difference, is_bare_start, recorded_inputs
from ductor.actors.what_if_verdict import (
    DecisionDifference,
    DispatchedAttempt,
    Reason,
    Sides,
    Verdict,
    WhatIf,
    compare_steps,
    run_reasons,
    worst,
)
from ductor.definitions.triggers import TriggerError
from ductor.definitions.values import JsonValue
from ductor.journal.codec import decode_events, encode_events
from ductor.journal.compaction import go_on_from
from ductor.journal.errors import ValueRefusedError
from ductor.journal.events import (
    AnyEvent,
    AttemptDispatched,
    AttemptFinished,
    ChildReported,
    LeaseGranted,
    MessageReceived,
    RunStarted,
    TimerFired,
)
from ductor.journal.fold import finish_row, fold_row
from ductor.journal.recorded import RecordedRun
from ductor.journal.records import Transition
from ductor.journal.state import RunState

MAX_TICKS_BETWEEN_ROWS: Final = 1_000
"""Ticks that the other program may need between two recorded rows, or after the last one."""

_encode_sorted = msgspec.json.Encoder(order="sorted").encode


class _StopError(Exception):
    """The replay can't go on; the reason says why."""

    def __init__(self, verdict: Verdict, text: str) -> None:
        self.reason = Reason(verdict=verdict, text=text)
        super().__init__(text)


def what_if(run: RecordedRun, recorded: RunPrograms, other: RunPrograms) -> WhatIf:
    """Feed a recorded run to another definition.

    Args:
        recorded: the programs that the run was carried out by.
        other: those to try.

    Raises:
        UnknownEventError: a row can't be read by this version of the software.
    """
    replay = _Replay(run, recorded, other)
    reasons: list[Reason] = []
    try:
        for row in run.rows:
            replay.take(row)
        replay.finish()
    except _StopError as stop:
        reasons.append(stop.reason)
        replay.fold_rest()
    sides = replay.sides()
    steps, of_steps = compare_steps(sides)
    if not reasons:  # after a stop what the run would be is not known, and its steps tell enough
        reasons += run_reasons(sides)
        reasons += of_steps
    reasons += replay.reasons
    return WhatIf(
        run_id=run.run_id,
        manifest_hash=run.head.manifest_hash,
        other_manifest_hash=other.program.manifest_hash,
        verdict=worst(reasons),
        reasons=tuple(reasons),
        recorded_status=sides.state.status,
        what_if_status=sides.other_state.status,
        first_difference=replay.first_difference,
        steps=tuple(steps),
        open_steps=tuple(_unanswered(sides)),
    )


class _Replay:
    """One run under another definition, row by row."""

    def __init__(self, run: RecordedRun, recorded: RunPrograms, other: RunPrograms) -> None:
        self._run, self._recorded, self._other = run, recorded, other
        self._program = recorded.program
        self._other_program = other.program
        self._payloads = run.values()
        self._state = RunState(run_id=run.run_id)
        self._state.payloads = self._payloads
        self._other_state = RunState(run_id=run.run_id)
        self._other_state.payloads = dict(self._payloads)
        self._late: dict[tuple[str, int], AttemptFinished] = {}
        self._dispatches: dict[tuple[str, int], DispatchedAttempt] = {}
        self._other_dispatches: dict[tuple[str, int], DispatchedAttempt] = {}
        self._rows_taken = 0
        self._is_limited = False
        self.first_difference: DecisionDifference | None = None
        self.reasons: list[Reason] = []

    def take(self, row: Transition) -> None:
        """The next recorded row."""
        if not self._state.version and row.version > 1:
            self._begin_late(row)
        events = decode_events(row.events, run_id=self._run.run_id, version=row.version)
        self._fire_own_timers(before_us=row.at_us)
        decided = self._decide(events, row.at_us)
        if self.first_difference is None:
            self._compare(row, decided)
        self._take_late_results(row.at_us)
        self._fold(row, events)

    def _begin_late(self, row: Transition) -> None:
        """What came before was compacted away: the other definition takes the run over as it stood then."""
        state, other_state = self._state, self._other_state
        go_on_from(state, row)
        go_on_from(other_state, row)
        self._choose_bodies(state.body)
        other_state.manifest_hash = self._other.program.manifest_hash
        for ref in state.open_nodes:
            node = state.nodes[ref]
            if node.status == "running":
                given = _encode_sorted(state.value(node.input, node.input_ref))
                attempt = DispatchedAttempt(node.task, given)
                self._dispatches[ref, node.generation] = self._other_dispatches[ref, node.generation] = attempt

    def finish(self) -> None:
        """After the last row: what the other program has yet to decide by itself."""
        ticks = 0
        while self._is_limited and not self._state.tick_limited and ticks < MAX_TICKS_BETWEEN_ROWS:
            self._tick(TickInputs(recorded=[]), self._other_state.at_us)
            self._take_late_results(self._other_state.at_us)
            ticks += 1

    def fold_rest(self) -> None:
        """Fold what was not taken: the recorded side of the comparison is whole in any case."""
        for row in self._run.rows[self._rows_taken :]:
            self._fold(row, decode_events(row.events, run_id=self._run.run_id, version=row.version))

    def sides(self) -> Sides:
        """Both sides, as they stand."""
        return Sides(
            program=self._program,
            state=self._state,
            dispatches=self._dispatches,
            other_program=self._other_program,
            other_state=self._other_state,
            other_dispatches=self._other_dispatches,
        )

    # --- one row ------------------------------------------------------------------------------------------------------

    def _decide(self, events: Sequence[AnyEvent], at_us: int) -> list[AnyEvent]:
        inputs = recorded_inputs(events)
        if inputs.started is not None:
            self._choose_bodies(inputs.started.body)
            inputs.started = self._start(inputs.started, at_us)
            if is_bare_start(events):
                begun: list[AnyEvent] = [inputs.started, *events[1:]]
                fold_row(self._other_state, self._other_state.version + 1, at_us, b"", begun)
                return begun
        for result in inputs.results:
            self._late[result.node, result.generation] = result
        inputs.results = self._asked_for()  # a tick that leaves the run paused gives them back
        assert inputs.recorded is not None
        inputs.recorded = [one for one in inputs.recorded if self._fits(one)]
        payload = self._tick(inputs, at_us)
        if payload.control is not None and payload.control.disposition == "refused":
            text = f"the recorded control {payload.control.request_id} would be refused: {payload.control.outcome}"
            self.reasons.append(Reason(verdict="needs mapping", text=text))
        self._note_undelivered(inputs.recorded, payload)
        return payload.events

    def _tick(self, inputs: TickInputs, at_us: int) -> TickPayload:
        state = self._other_state
        try:
            payload = compute(self._other_program, state, inputs, at_us, self._other.library)
        except Exception as error:  # a foreign definition may make anything of a history that is not its own
            raise _StopError("impossible", f"computing it raises {type(error).__name__}: {error}") from error
        if payload.events:
            finish_row(state, b"")
        for finished in payload.superseded:
            self._late.pop((finished.node, finished.generation), None)
        for deferred in payload.deferred:
            self._late[deferred.node, deferred.generation] = deferred
        self._is_limited = payload.is_limited
        _note_dispatches(state, payload.events, self._other_dispatches)
        return payload

    def _choose_bodies(self, body: str) -> None:
        self._program = self._recorded.program.carried_out_by(body)
        try:
            self._other_program = self._other.program.carried_out_by(body)
        except KeyError:
            raise _StopError("impossible", f"the other definition has no body {body}") from None

    def _start(self, recorded: RunStarted, at_us: int) -> RunStarted:
        """The start as the other definition would have it."""
        program, state = self._other_program, self._other_state
        trigger = state.value(recorded.trigger, recorded.trigger_ref)
        try:
            started, payloads = first_event(
                program, state.run_id, at_us, trigger, tenant=recorded.tenant, key=recorded.key
            )
        except (TriggerError, ValueRefusedError, StartRefusedError) as error:
            raise _StopError("impossible", f"the run could not have been started: {error}") from error
        state.payloads.update((payload.hash, value) for payload, value in payloads)
        given = {name: getattr(started, name) for name in _OF_DEFINITION}
        given["timeout_at_us"] = self._timeout_at_us(recorded, at_us)
        if recorded.context != self._program.manifest.context:
            given["context"] = {**started.context, **recorded.context}
        return msgspec.structs.replace(recorded, **given)

    def _timeout_at_us(self, recorded: RunStarted, at_us: int) -> int | None:
        """The run's own deadline, counted from when the recorded one was; that is a little before its first row."""
        timeout_ms, other_ms = self._program.manifest.timeout_ms, self._other_program.manifest.timeout_ms
        if timeout_ms is None or recorded.timeout_at_us is None:
            return None if other_ms is None else at_us + other_ms * 1_000
        return None if other_ms is None else recorded.timeout_at_us + (other_ms - timeout_ms) * 1_000

    def _asked_for(self) -> list[AttemptFinished]:
        """The recorded results that the other program waits for, in the order in which they were recorded."""
        nodes = self._other_state.nodes
        found = [
            key
            for key in self._late
            if (node := nodes.get(key[0])) is not None and node.status == "running" and node.generation == key[1]
        ]
        return [self._late.pop(key) for key in found]

    def _take_late_results(self, at_us: int) -> None:
        for _ in range(MAX_TICKS_BETWEEN_ROWS):
            results = self._asked_for() if self._other_state.paused_at_us is None else []
            if not results:
                return
            self._tick(TickInputs(results=results, recorded=[]), at_us)
        raise _StopError("impossible", f"it does not come to rest within {MAX_TICKS_BETWEEN_ROWS} ticks")

    def _fits(self, one: RecordedInput) -> bool:
        """Whether the other program can take this input; what it does with it is its own decision. A timer that is not
        armed for that moment does not fire; whether it is may depend on a control of the same row."""
        state = self._other_state
        if isinstance(one, ChildReported | LeaseGranted):
            node = state.nodes.get(one.node)
            fits = node is not None and node.status == "waiting"
            if isinstance(one, ChildReported):  # of a child that no step waits for any more the end is noted too
                fits |= one.run_id in state.open_children
            if not fits and not one.node.startswith("@"):
                text = f"step {one.node}: nothing would wait for what was recorded for it"
                self.reasons.append(Reason(verdict="needs mapping", step=one.node, text=text))
            return fits or one.node.startswith("@")
        return True

    def _note_undelivered(self, taken: Sequence[RecordedInput], payload: TickPayload) -> None:
        heard = {event.message.id for event in payload.events if isinstance(event, MessageReceived)}
        for one in taken:
            if isinstance(one, MessageReceived) and one.message.id not in heard:
                message = one.message
                what = f"{message.kind} {message.name}".strip() + (f" for step {message.node}" if message.node else "")
                text = f"the recorded {what} (message {message.id}) would reach nobody"
                self.reasons.append(Reason(verdict="needs mapping", step=message.node, text=text))

    # --- time ---------------------------------------------------------------------------------------------------------

    def _fire_own_timers(self, before_us: int) -> None:
        """Timers that the recorded run does not have fire at their own time."""
        for _ in range(MAX_TICKS_BETWEEN_ROWS):
            due = self._earliest_own_timer()
            if due is None or due[0] >= before_us or self._other_state.paused_at_us is not None:
                return
            at_us, key = due
            self._tick(TickInputs(recorded=[TimerFired(key=key, due_at_us=at_us)]), at_us)
            self._take_late_results(at_us)
        raise _StopError("impossible", f"more than {MAX_TICKS_BETWEEN_ROWS} timers fire between two recorded rows")

    def _earliest_own_timer(self) -> tuple[int, str] | None:
        recorded = self._state.timers
        own = (
            (due_at_us, key)
            for key, due_at_us in self._other_state.timers.deadlines().items()
            if recorded.due_at_us(key) != due_at_us
        )
        return min(own, default=None)

    # --- the recorded side --------------------------------------------------------------------------------------------

    def _fold(self, row: Transition, events: Sequence[AnyEvent]) -> None:
        fold_row(self._state, row.version, row.at_us, row.hash, events)
        _note_dispatches(self._state, events, self._dispatches)
        self._rows_taken += 1

    def _compare(self, row: Transition, decided: Sequence[AnyEvent]) -> None:
        """Starts are compared by what was given to the run, not by which definition it was pinned to."""
        then = [_unpinned(event) for event in event_values(row.events)]
        now = [_unpinned(event) for event in event_values(encode_events(decided))]
        index, expected, actual = first_difference(then, now)
        if index is not None:
            self.first_difference = DecisionDifference(
                version=row.version, at_us=row.at_us, event_index=index, expected=expected, actual=actual
            )


_OF_DEFINITION = (
    "definition",
    "manifest_hash",
    "entrypoints",
    "trigger",
    "trigger_ref",
    "config",
    "context",
    "search_attributes",
)
_PINS = frozenset({"definition", "manifest_hash", "entrypoints"})


def _unpinned(event: JsonValue) -> JsonValue:
    if isinstance(event, dict) and event.get("type") == "run_started":
        return {key: value for key, value in event.items() if key not in _PINS}
    if isinstance(event, dict) and event.get("type") == "run_compacted":
        return {"type": "run_compacted"}  # what it says is what the rows before gave, which were compared
    return event


def _note_dispatches(
    state: RunState, events: Sequence[AnyEvent], into: dict[tuple[str, int], DispatchedAttempt]
) -> None:
    """What each attempt was given. A retry runs with the input of the round's first attempt."""
    for event in events:
        if not isinstance(event, AttemptDispatched):
            continue
        earlier = into.get((event.node, event.generation - 1))
        if event.attempt > 1 and earlier is not None:
            text = earlier.input
        else:
            text = _encode_sorted(state.value(event.input, event.input_ref))
        into[event.node, event.generation] = DispatchedAttempt(event.task, text)


def _unanswered(sides: Sides) -> Iterator[str]:
    """Steps that would be at work and are not in the record."""
    for ref in sides.other_state.open_nodes:
        now, then = sides.other_state.nodes[ref], sides.state.nodes.get(ref)
        if now.status == "running" and (then is None or then.status != "running" or then.generation != now.generation):
            yield ref
