"""Fold: events a second, beside a loop that only finds each event's case and does nothing there.

The loop is Python's limit for any fold written as a dispatch over events. Both read the same decoded events.
"""

import statistics
import time
from collections.abc import Callable

from ductor.journal.codec import decode_events
from ductor.journal.events import AnyEvent
from ductor.journal.fold import fold_row
from ductor.journal.state import RunState
from scripts.benchmarks.chain import RUN_ID, chain_program, whole_run
from scripts.benchmarks.report import Table

STEPS = 10
RUNS = 2_000
ROUNDS = 7

Rows = list[tuple[int, int, bytes, list[AnyEvent]]]


def measure_fold(*, is_quick: bool) -> Table:
    """Fold the journal of a ten-step run again and again."""
    rows: Rows = []
    size_bytes = 0
    for row in whole_run(chain_program(STEPS)):
        events = decode_events(row.events, run_id=RUN_ID, version=row.version)
        rows.append((row.version, row.at_us, row.hash, events))
        size_bytes += len(row.events)
    runs = RUNS // 4 if is_quick else RUNS
    count = sum(len(events) for *_, events in rows) * runs
    folded: list[float] = []
    empty: list[float] = []
    for _ in range(ROUNDS):
        empty.append(_seconds(_dispatch, rows, runs))
        folded.append(_seconds(_fold, rows, runs))
    table = Table(
        name="fold",
        title=f"Fold ({count // runs} events and {len(rows)} rows of a {STEPS}-step run, {size_bytes} bytes, decoded)",
        columns=("what", "events_per_s", "ns_per_event", "ratio"),
    )
    fold_s, empty_s = statistics.median(folded), statistics.median(empty)
    table.add("empty dispatch loop", round(count / empty_s), round(empty_s / count * 1e9), 1.0)
    table.add("fold", round(count / fold_s), round(fold_s / count * 1e9), round(fold_s / empty_s, 2))
    return table


def _seconds(work: Callable[[Rows], None], rows: Rows, runs: int) -> float:
    began = time.perf_counter()
    for _ in range(runs):
        work(rows)
    return time.perf_counter() - began


def _fold(rows: Rows) -> None:
    state = RunState(run_id=RUN_ID)
    for version, at_us, chain_hash, events in rows:
        fold_row(state, version, at_us, chain_hash, events)


def _dispatch(rows: Rows) -> None:
    for *_, events in rows:
        for event in events:
            _CASES[type(event)](event)


def _nothing(_event: AnyEvent) -> None:
    pass


class _Cases(dict[type[AnyEvent], Callable[[AnyEvent], None]]):
    """A case for every type of event."""

    def __missing__(self, key: type[AnyEvent]) -> Callable[[AnyEvent], None]:
        self[key] = _nothing
        return _nothing


_CASES = _Cases()
