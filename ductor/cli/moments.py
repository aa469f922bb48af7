"""A run at a moment of its past, changes and attempts, as text."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from ductor.cli.output import json_text, print_json, print_table, timestamp
from ductor.cli.rows import print_row, readable
from ductor.definitions.values import JsonObject

if TYPE_CHECKING:
    from ductor.actors.attempt_history import AttemptRecord
    from ductor.actors.run_difference import RunDifference
    from ductor.actors.views import RunView
    from ductor.journal.events import Message
    from ductor.journal.replay import Change
    from ductor.replay import Replay

VALUE_WIDTH = 60
INPUT_WIDTH = 2_000
MAX_EVENTS = 100
"""Events of one row that are shown with a moment; `ductor history` shows all."""
MAX_CHANGES = 20
"""Fields of one event that are told to differ."""


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """A run after one of its rows.

    Attributes:
        rows: how many there are in all.
        timers: what is due when, by step or by name.
        inbox: messages that nothing has waited for yet.
    """

    version: int
    rows: int
    at_us: int
    run: "RunView"
    timers: dict[str, int]
    inbox: list["Message"]


def moment(replay: "Replay", version: int) -> JsonObject:
    """What there is to see of a run after a row, as JSON. Raises MissingVersionError."""
    state = replay.at(version)
    seen = Moment(
        version=version,
        rows=replay.version,
        at_us=state.at_us,
        run=replay.view(version),
        timers=state.timers.deadlines(),
        inbox=list(state.inbox.values()),
    )
    built: JsonObject = msgspec.to_builtins(seen)
    return built


def print_moment(replay: "Replay", version: int) -> None:
    """The run after a row: what the row says, and how everything stands."""
    from ductor.actors.views import HistoryRow

    state, view = replay.at(version), replay.view(version)
    print(f"run {replay.run_id}, after row {version} of {replay.version}, {timestamp(state.at_us)} UTC")
    if version:
        row, events = replay.run.row(version), replay.events(version)
        shown = HistoryRow(
            run_id=replay.run_id,
            version=version,
            at_us=row.at_us,
            hash=row.hash.hex(),
            events=tuple(events[:MAX_EVENTS]),
        )
        print_row(shown, "table")
        if len(events) > MAX_EVENTS:
            print(f"{'':26}  and {len(events) - MAX_EVENTS:,} events more")
    print()
    for label, value in _facts(view):
        print(f"{label + ':':<12} {value}")
    for key, due_at_us in sorted(state.timers.deadlines().items(), key=lambda timer: timer[1]):
        print(f"{'timer:':<12} {key} at {timestamp(due_at_us)} UTC")
    for message in state.inbox.values():
        print(f"{'inbox:':<12} {message.kind} {message.name} ({message.id}), {timestamp(message.at_us)} UTC")
    print()
    print_table(
        ("step", "type", "status", "attempts", "waits for, error or output"),
        [
            (step.ref, step.type, step.status, str(step.attempts or ""), _told(step.waiting, step.error, step.output))
            for step in view.steps
        ],
    )


def print_changes(changes: Sequence["Change"], output: str, limit: int | None = None) -> None:
    """What changed, a line each; for people `limit` lines at most."""
    if output != "table":
        print_json(list(changes))
        return
    for change in changes[:limit]:
        print(_changed(change))
    if limit is not None and len(changes) > limit:
        print(f"and {len(changes) - limit:,} changes more: `--diff A B` shows all")
    if not changes:
        print("nothing changed")


def print_attempts(attempts: Sequence["AttemptRecord"], output: str) -> None:
    """Attempts of a step beside each other."""
    if output != "table":
        print_json(list(attempts))
        return
    columns = ("", *(f"attempt {attempt.generation}" for attempt in attempts))
    rows: list[tuple[str, ...]] = [
        ("round", *(f"{attempt.iteration}, try {attempt.attempt}" for attempt in attempts)),
        ("handler", *(attempt.task for attempt in attempts)),
        ("dispatched", *(f"row {one.dispatched_version}, {timestamp(one.dispatched_at_us)}" for one in attempts)),
        ("started", *(timestamp(attempt.started_at_us) for attempt in attempts)),
        ("took", *(_took(attempt) for attempt in attempts)),
        ("outcome", *(attempt.outcome or "none yet" for attempt in attempts)),
        ("worker", *(attempt.worker for attempt in attempts)),
        ("input", *(json_text(attempt.input, INPUT_WIDTH) for attempt in attempts)),
        ("output", *(json_text(one.output, INPUT_WIDTH) if one.outcome == "succeeded" else "" for one in attempts)),
        ("error", *(f"{one.error.type}: {one.error.message}" if one.error is not None else "" for one in attempts)),
    ]
    print_table(columns, rows)


def print_run_difference(difference: "RunDifference", output: str) -> None:
    """Two runs beside each other."""
    if output != "table":
        print_json(difference)
        return
    print(f"{difference.run_id}: {difference.status}")
    print(f"{difference.other_run_id}: {difference.other_status}")
    if not difference.is_same_definition:
        print("they carry out different definitions")
    if difference.version is None:
        print("every decision is the same")
    else:
        print(f"first difference: row {difference.version}, event {difference.event_index}")
        print(f"  {json_text(difference.event, INPUT_WIDTH)}")
        print(f"  {json_text(difference.other_event, INPUT_WIDTH)}")
        for change in difference.changes[:MAX_CHANGES]:
            print(f"  {_changed(change)}")
        if len(difference.changes) > MAX_CHANGES:
            print(f"  and {len(difference.changes) - MAX_CHANGES} more")
    cells = [
        (
            step.step,
            step.status,
            step.other_status,
            json_text(step.output, VALUE_WIDTH) if step.output is not None else "",
            json_text(step.other_output, VALUE_WIDTH) if step.other_output is not None else "",
        )
        for step in difference.steps
    ]
    if cells:
        print()
        print_table(("step", "here", "there", "output here", "output there"), cells)


def _facts(view: "RunView") -> Iterator[tuple[str, str]]:
    yield "status", f"{view.status}{f' ({view.reason})' if view.reason else ''}"
    yield "trigger", json_text(view.trigger, INPUT_WIDTH)
    if view.context:
        yield "context", json_text(view.context, INPUT_WIDTH)
    if view.error is not None:
        yield "error", f"{view.error.type}: {view.error.message}".removesuffix(": ")
    if view.status == "completed":
        yield "output", json_text(view.output, INPUT_WIDTH)


def _told(waiting: str, error: object, output: object) -> str:
    if waiting:
        return waiting
    if error is not None:
        return f"{getattr(error, 'type', '')}: {getattr(error, 'message', '')}".removesuffix(": ")
    return json_text(output, VALUE_WIDTH) if output is not None else ""


def _changed(change: "Change") -> str:
    name = "due_at_us" if change.path[0] == "timers" else change.path[-1]
    return f"{'.'.join(change.path)}: {_value(name, change.before)} → {_value(name, change.after)}"


def _value(name: str, value: object) -> str:
    if value is msgspec.UNSET:
        return "nothing"
    told = readable(name, value)
    return json_text(value, INPUT_WIDTH) if told is value else f"{told} UTC"


def _took(attempt: "AttemptRecord") -> str:
    if not attempt.finished_at_us or not attempt.started_at_us:
        return ""
    return f"{(attempt.finished_at_us - attempt.started_at_us) / 1_000:.1f} ms"
