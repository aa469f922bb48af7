"""Proves a run's rows one by one: the chain holds, each row can be computed again from the state before it and its own
inputs, and the state that computing leaves is the one that folding gives.

The state that is carried from row to row is the one that computing leaves: computing applies its events as folding
does, so as long as the rows agree both are the same, and no row costs a copy of the state. `is_thorough` copies all the
same: it computes each row from the folded state, as a host would that has just loaded the run, and compares them.

What is found first counts: after a row that differs the state is another one, and what follows would differ because of
it. The one exception is a thorough proof, which goes on from the folded state.

A client or another run that starts a run decides nothing: such a first row is folded, not computed.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import msgspec

from ductor.actors.recorded_programs import RunPrograms
from ductor.actors.tick.compute import RecordedInput, TickInputs, compute
from ductor.definitions.values import JsonValue
from ductor.journal.chain import link
from ductor.journal.codec import decode_events, decode_state, encode_events, encode_state
from ductor.journal.compaction import is_compacted, state_before
from ductor.journal.errors import UnknownEventError
from ductor.journal.events import (
    AnyEvent,
    AnyInput,
    AttemptFinished,
    ControlReceived,
    RunStarted,
    TickLimited,
)
from ductor.journal.fold import finish_row, fold_row
from ductor.journal.records import Transition
from ductor.journal.state import RunState

Rule = Literal["chain", "unreadable", "recompute", "state", "failed"]
"""What does not hold of a row: its hash, its events (unknown here), what is computed again (another decision, another
state), or that it can be computed at all."""


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """The first thing in a row that is not what it should be.

    Attributes:
        version, at_us: the row.
        event_index: which of its events, from 0; None where the row as a whole is meant.
        expected: the event as the journal has it; None where it has none at this place.
        actual: the event as it is computed now; None where there is none.
        reason: in words.
    """

    run_id: str
    version: int
    at_us: int
    rule: Rule
    reason: str
    event_index: int | None = None
    expected: JsonValue = None
    actual: JsonValue = None


class RowVerifier:
    """Proves the rows of one run in order.

    Args:
        programs: of the run's definition, or of one that claims to decide the same; None folds the rows and computes
            nothing.
        payloads: the run's large values by hash.
        is_thorough: compute from copies of the folded state; see the module's docstring.

    Attributes:
        state: after the last row that was proved.
        rows: how many have been proved.
    """

    def __init__(
        self, programs: RunPrograms | None, run_id: str, payloads: dict[str, JsonValue], *, is_thorough: bool = False
    ) -> None:
        self._programs, self._run_id, self._is_thorough = programs, run_id, is_thorough
        self._payloads = payloads
        self.state = RunState(run_id=run_id)
        self.state.payloads = payloads
        self.rows = 0

    def verify(self, row: Transition) -> Divergence | None:
        """What is wrong with the next row, or None."""
        if not self.state.version and row.version > 1 and is_compacted(row.events):
            try:
                self._begin_late(row)
            except UnknownEventError as error:
                return self._divergence(row, "unreadable", error.reason)
        broken = self._chain_divergence(row)
        if broken is not None and not self._is_thorough:
            return broken
        try:
            events = decode_events(row.events, run_id=self._run_id, version=row.version)
        except UnknownEventError as error:
            return self._divergence(row, "unreadable", error.reason)
        found = self._computed_divergence(row, events)
        self.rows += 1
        return broken or found

    def _begin_late(self, row: Transition) -> None:
        """What came before was compacted away: the row says what it gave, and is proved to say it again."""
        self.state = state_before(row)
        self.state.payloads = self._payloads

    def _computed_divergence(self, row: Transition, events: Sequence[AnyEvent]) -> Divergence | None:
        if self._programs is None or is_bare_start(events):
            fold_row(self.state, row.version, row.at_us, row.hash, events)
            return None
        again = self.state
        if self._is_thorough:
            again = decode_state(encode_state(self.state))
            again.payloads = dict(self._payloads)
            fold_row(self.state, row.version, row.at_us, row.hash, events)
        try:
            computed = recomputed(self._programs, again, events, row.at_us)
        except Exception as error:  # noqa: BLE001 - whatever a foreign definition makes of the row is what was asked for
            return self._divergence(row, "failed", f"computing it raises {type(error).__name__}: {error}")
        if computed != row.events:
            return self._first_difference(row, computed)
        finish_row(again, row.hash)
        if self._is_thorough and comparable(again) != comparable(self.state):
            return self._divergence(row, "state", "the state after it is another one when it is computed again")
        return None

    def _chain_divergence(self, row: Transition) -> Divergence | None:
        version = self.state.version + 1
        if row.run_id != self._run_id or row.version != version:
            return self._divergence(row, "chain", f"version {version} of run {self._run_id} should stand here")
        if row.hash != link(self.state.last_hash, self._run_id, version, row.at_us, row.events):
            return self._divergence(row, "chain", "its hash does not fit what it holds and the row before")
        return None

    def _first_difference(self, row: Transition, computed: bytes) -> Divergence:
        expected, actual = event_values(row.events), event_values(computed)
        index, before, now = first_difference(expected, actual)
        if index is None:
            return self._divergence(row, "recompute", "its events are written otherwise: the same values, other bytes")
        return Divergence(
            run_id=self._run_id,
            version=row.version,
            at_us=row.at_us,
            rule="recompute",
            reason=_in_words(index, before, now),
            event_index=index,
            expected=before,
            actual=now,
        )

    def _divergence(self, row: Transition, rule: Rule, reason: str) -> Divergence:
        return Divergence(run_id=self._run_id, version=row.version, at_us=row.at_us, rule=rule, reason=reason)


def comparable(state: RunState) -> bytes:
    """What two states must agree in: all but the scheduler's own order of looking at things."""
    return encode_state(msgspec.structs.replace(state, touched=type(state.touched)(), agenda=[]))


def prove_rows(
    programs: RunPrograms,
    run_id: str,
    rows: Iterable[Transition],
    payloads: dict[str, JsonValue],
    report: Callable[[str, str], None],
) -> RunState:
    """Prove all rows of a run thoroughly; `report` takes rule and what is wrong. The state after the last one."""
    verifier = RowVerifier(programs, run_id, payloads, is_thorough=True)
    for row in rows:
        found = verifier.verify(row)
        if found is not None:
            report(found.rule, f"version {found.version}: {found.reason}")
    return verifier.state


def recomputed(programs: RunPrograms, before: RunState, events: Sequence[AnyEvent], at_us: int) -> bytes:
    """The row that the tick makes of the recorded inputs. `before` becomes the state after it."""
    started = next((event for event in events if isinstance(event, RunStarted)), None)
    program = programs.program.carried_out_by(before.body if started is None else started.body)
    return encode_events(compute(program, before, recorded_inputs(events), at_us, programs.library).events)


def recorded_inputs(events: Iterable[AnyEvent]) -> TickInputs:
    """What the tick that made this row took in, in its order."""
    inputs = TickInputs()
    results: list[AttemptFinished] = []
    recorded: list[RecordedInput] = []
    for event in events:
        if not isinstance(event, AnyInput):
            continue
        if isinstance(event, RunStarted):
            inputs.started = event
        elif isinstance(event, ControlReceived):
            inputs.control = event
        elif isinstance(event, AttemptFinished):
            results.append(event)
        else:
            recorded.append(event)
    inputs.results, inputs.recorded = results, recorded
    return inputs


def is_bare_start(events: Sequence[AnyEvent]) -> bool:
    """Whether whoever started the run, a client or another run, wrote this first row without deciding anything: no tick
    of the run itself made it."""
    return isinstance(events[0], RunStarted) and all(isinstance(event, TickLimited) for event in events[1:])


def event_values(text: bytes) -> list[JsonValue]:
    """The events of a row as JSON values, as people compare them."""
    values: list[JsonValue] = msgspec.json.decode(text)
    return values


def first_difference(
    expected: Sequence[JsonValue], actual: Sequence[JsonValue]
) -> tuple[int | None, JsonValue, JsonValue]:
    """Index of the first event that differs, and both sides of it; None for a side that has ended."""
    for index in range(max(len(expected), len(actual))):
        before = expected[index] if index < len(expected) else None
        now = actual[index] if index < len(actual) else None
        if msgspec.json.encode(before) != msgspec.json.encode(now):
            return index, before, now
    return None, None, None


def _in_words(index: int, before: JsonValue, now: JsonValue) -> str:
    if before is None:
        return f"event {index} is computed now and was not decided then: {_named(now)}"
    if now is None:
        return f"event {index} was decided then and is not computed now: {_named(before)}"
    fields = _fields_that_differ(before, now)
    if fields:
        return f"event {index} ({_named(before)}) differs in {', '.join(fields)}"
    return f"event {index} was {_named(before)} and is {_named(now)} now"


def _fields_that_differ(before: JsonValue, now: JsonValue) -> list[str]:
    """Of two events of one type and step."""
    if not isinstance(before, dict) or not isinstance(now, dict) or _named(before) != _named(now):
        return []
    return [key for key in {**before, **now} if before.get(key) != now.get(key) or (key in before) != (key in now)]


def _named(event: JsonValue) -> str:
    if not isinstance(event, dict):
        return str(event)
    node = event.get("node") or event.get("key")
    return f"{event.get('type')} of {node}" if node else str(event.get("type"))
