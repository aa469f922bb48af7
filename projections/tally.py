"""What the events of a batch come to, counted in one pass for all built-in projections.

Python takes longer to look at an event than PostgreSQL to read it, so each is looked at once: what is alike is counted
under one key, and a projection goes through the keys, of which a batch of thousands of rows has a few dozen.
"""

from collections import defaultdict
from typing import TYPE_CHECKING

import msgspec

from ductor.journal.events import (
    AttemptDispatched,
    AttemptFinished,
    NodeSettled,
    RunClosing,
    RunContinued,
    RunEnded,
    RunReopened,
    RunStarted,
)
from ductor.projections.outlines import (
    OUTLINES,
    AttemptOutline,
    ClosingOutline,
    ContinuedOutline,
    EndedOutline,
    ReopenedOutline,
    SettledOutline,
    StartedOutline,
)
from ductor.projections.rows import step_name

if TYPE_CHECKING:
    from ductor.projections.batch import RowBatch

HOUR_US = 3_600_000_000

AboutRun = StartedOutline | ReopenedOutline | ClosingOutline | EndedOutline | ContinuedOutline
"""Events that are about the run as a whole."""
_ABOUT_RUN = frozenset(OUTLINES[kind] for kind in (RunStarted, RunReopened, RunClosing, RunEnded, RunContinued))
_SETTLED, _FINISHED, _DISPATCHED = OUTLINES[NodeSettled], OUTLINES[AttemptFinished], OUTLINES[AttemptDispatched]


class Scope(msgspec.Struct, frozen=True):
    """What counts are kept apart by: a version of a tenant's definition, and the hour."""

    tenant: str
    definition: str
    manifest_hash: str
    hour_us: int


ScopedStep = tuple[int, str]
"""Scope, step."""
SettledKey = tuple[int, str, str, tuple[str, ...], tuple[str, ...]]
"""Scope, step, status, nodes taken and untaken."""


class Tally(msgspec.Struct):
    """The counts of a batch. Scopes are named by their number in `scopes`, runs by theirs in the batch.

    Attributes:
        scope_of_row: of each row.
        attempts_us: how long each attempt took that finished, by scope and step.
        failed_attempts: those that failed, with the number of their row.
        settled: how many steps settled, by scope, step, status and the edges that they took.
        dispatched_by_run, settled_by_run: attempts dispatched, and steps settled but not skipped.
        about_runs: events about runs as a whole, in order, with the numbers of their rows.
    """

    scopes: list[Scope]
    scope_of_row: list[int]
    attempts_us: dict[ScopedStep, list[int]]
    failed_attempts: list[tuple[int, AttemptOutline]]
    settled: dict[SettledKey, int]
    dispatched_by_run: list[int]
    settled_by_run: list[int]
    about_runs: list[tuple[int, AboutRun]]


def tally_of(batch: "RowBatch") -> Tally:
    """Count the events of a batch."""
    scopes, scope_of_row = _scopes(batch)
    attempts_us: dict[ScopedStep, list[int]] = defaultdict(list)
    failed_attempts: list[tuple[int, AttemptOutline]] = []
    settled: dict[SettledKey, int] = defaultdict(int)
    dispatched_by_run, settled_by_run = [0] * len(batch.heads), [0] * len(batch.heads)
    about_runs: list[tuple[int, AboutRun]] = []
    for row, (run, scope, events) in enumerate(zip(batch.runs, scope_of_row, batch.outlines, strict=True)):
        for event in events:
            kind = type(event)  # compared and not asked by isinstance: this is where the time goes
            if kind is _SETTLED:
                end: SettledOutline = event  # type: ignore[assignment]
                status = end.status
                settled[scope, step_name(end.node), status, end.taken, end.untaken] += 1
                if status != "skipped":
                    settled_by_run[run] += 1
            elif kind is _FINISHED:
                attempt: AttemptOutline = event  # type: ignore[assignment]
                took_us = attempt.finished_at_us - attempt.started_at_us
                attempts_us[scope, step_name(attempt.node)].append(max(0, took_us))
                if attempt.outcome == "failed":
                    failed_attempts.append((row, attempt))
            elif kind is _DISPATCHED:
                dispatched_by_run[run] += 1
            elif kind in _ABOUT_RUN:
                about_runs.append((row, event))  # type: ignore[arg-type]
    return Tally(
        scopes,
        scope_of_row,
        attempts_us,
        failed_attempts,
        settled,
        dispatched_by_run,
        settled_by_run,
        about_runs,
    )


def _scopes(batch: "RowBatch") -> tuple[list[Scope], list[int]]:
    numbers: dict[Scope, int] = {}
    number_of: dict[tuple[int, int], int] = {}
    scope_of_row: list[int] = []
    for run, at_us in zip(batch.runs, batch.columns.at_us, strict=True):
        hour = at_us // HOUR_US
        number = number_of.get((run, hour))
        if number is None:
            head = batch.heads[run]
            scope = Scope(head.tenant, head.definition, head.manifest_hash, hour * HOUR_US)
            number = number_of[run, hour] = numbers.setdefault(scope, len(numbers))
        scope_of_row.append(number)
    return list(numbers), scope_of_row
