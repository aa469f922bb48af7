"""The difference of two runs: the first decision that is another one, and how their steps compare in the end. Pure.

Times, ids and hashes differ between any two runs and say nothing; two runs are compared by what was decided.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from ductor.actors.verify import event_values, first_difference
from ductor.definitions.values import JsonValue
from ductor.journal.recorded import RecordedRun
from ductor.journal.replay import Change, object_changes
from ductor.journal.state import NodeState, RunState

_OWN_TO_EACH_RUN: Final = frozenset({
    "worker", "started_at_us", "finished_at_us", "due_at_us", "until_us", "timeout_at_us", "grace_until_us", "at_us",
    "position", "id", "message_id", "request_id", "event_id", "key", "run_id", "paused_us", "parent_run_id",
    "root_run_id", "chain_run_id", "continued_from_run_id", "successor_run_id", "manifest_hash",
})  # fmt: skip
"""Fields of events that differ between any two runs."""

_KEYED_BY_STEP: Final = frozenset({"timer_fired"})
"""Events whose `key` is a step's ref, and is compared."""


class DifferentStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step that stands differently in two runs; statuses are empty where nothing has happened to it."""

    step: str
    status: str
    other_status: str
    attempts: int
    other_attempts: int
    output: JsonValue = None
    other_output: JsonValue = None


class RunDifference(msgspec.Struct, frozen=True, kw_only=True):
    """Two runs beside each other.

    Attributes:
        version, event_index: the first decision that differs, in the first run; None where all are the same.
        event, other_event: both sides of it; None for a run that has ended before.
        changes: what differs in it, where both sides are events of one type.
    """

    run_id: str
    other_run_id: str
    is_same_definition: bool
    status: str
    other_status: str
    version: int | None = None
    event_index: int | None = None
    event: JsonValue = None
    other_event: JsonValue = None
    changes: tuple[Change, ...] = ()
    steps: tuple[DifferentStep, ...] = ()


def run_difference(run: RecordedRun, other: RecordedRun) -> RunDifference:
    """Compare two runs. Raises UnknownEventError for a row that can't be read by this version of the software."""
    state, other_state = _final(run), _final(other)
    version, index, event, other_event = _first_decision(run, other)
    return RunDifference(
        run_id=run.run_id,
        other_run_id=other.run_id,
        is_same_definition=run.head.manifest_hash == other.head.manifest_hash,
        status=state.status,
        other_status=other_state.status,
        version=version,
        event_index=index,
        event=event,
        other_event=other_event,
        changes=_changes(event, other_event),
        steps=tuple(_different_steps(state, other_state)),
    )


def _final(run: RecordedRun) -> RunState:
    state = RunState(run_id=run.run_id)
    for state in run.states():  # noqa: B007 - the last one is what is wanted
        pass
    return state


def _first_decision(run: RecordedRun, other: RecordedRun) -> tuple[int | None, int | None, JsonValue, JsonValue]:
    """Decisions in their order, however hosts have spread them over rows."""
    mine, theirs = _decisions(run), _decisions(other)
    while True:
        here, there = next(mine, None), next(theirs, None)
        if here is None and there is None:
            return None, None, None, None
        expected = [] if here is None else [here[2]]
        actual = [] if there is None else [there[2]]
        index, event, other_event = first_difference(expected, actual)
        if index is not None:
            place = here if here is not None else (run.rows[-1].version if run.rows else 0, 0, None)
            return place[0], place[1], event, other_event


def _decisions(run: RecordedRun) -> Iterator[tuple[int, int, JsonValue]]:
    for row in run.rows:
        for index, event in enumerate(event_values(row.events)):
            if not isinstance(event, dict) or event.get("type") == "tick_limited":
                continue
            yield row.version, index, _comparable(event)


def _comparable(event: JsonValue) -> JsonValue:
    if isinstance(event, list):
        return [_comparable(one) for one in event]
    if not isinstance(event, dict):
        return event
    own = _OWN_TO_EACH_RUN - {"key"} if event.get("type") in _KEYED_BY_STEP else _OWN_TO_EACH_RUN
    if event.get("type") == "message_received":
        return {key: _comparable(value) for key, value in event.items()}
    return {key: value for key, value in event.items() if key not in own}


def _changes(event: JsonValue, other: JsonValue) -> tuple[Change, ...]:
    if not isinstance(event, dict) or not isinstance(other, dict) or event.get("type") != other.get("type"):
        return ()
    return tuple(object_changes(event, other))


def _different_steps(state: RunState, other: RunState) -> Iterator[DifferentStep]:
    for ref in {**state.nodes, **other.nodes}:
        here, there = state.nodes.get(ref) or NodeState(), other.nodes.get(ref) or NodeState()
        output, other_output = _output(state, here), _output(other, there)
        if _stand(here) != _stand(there) or msgspec.json.encode(output) != msgspec.json.encode(other_output):
            yield DifferentStep(
                step=ref,
                status=here.status if ref in state.nodes else "",
                other_status=there.status if ref in other.nodes else "",
                attempts=here.generation,
                other_attempts=there.generation,
                output=output,
                other_output=other_output,
            )


def _stand(node: NodeState) -> Sequence[object]:
    error = None if node.error is None else (node.error.type, node.error.message)
    return node.status, node.outcome, node.generation, node.iteration, error


def _output(state: RunState, node: NodeState) -> JsonValue:
    return state.payloads.get(node.output_ref.hash) if node.output_ref is not None else node.output
