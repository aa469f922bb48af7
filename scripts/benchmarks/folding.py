"""Fold: events a second, beside a loop that only finds each event's case and does nothing there.

The loop is Python's limit for any fold written as a dispatch over events. Both read the same decoded events. What the
load of a run costs, decoding included, stands beside them.
"""

import statistics
import time
from collections.abc import Callable, Iterable

from ductor.journal.codec import decode_events
from ductor.journal.events import AnyEvent
from ductor.journal.fold import fold_row
from ductor.journal.records import Transition
from ductor.journal.state import RunState
from scripts.benchmarks.chain import RUN_ID, chain_program, whole_run
from scripts.benchmarks.report import Table

STEPS = 10
RUNS = 2_000
ROUNDS = 7

Rows = list[tuple[int, int, bytes, list[AnyEvent]]]


def measure_fold(*, is_quick: bool) -> Table:
    """Fold the journal of a ten-step run again and again."""
    transitions = list(whole_run(chain_program(STEPS)))
    rows = _decoded(transitions)
    size_bytes = sum(len(row.events) for row in transitions)
    runs = RUNS // 4 if is_quick else RUNS
    count = sum(len(events) for *_, events in rows) * runs
    folded: list[float] = []
    empty: list[float] = []
    loaded: list[float] = []
    for _ in range(ROUNDS):
        empty.append(_seconds(lambda: _dispatch(rows), runs))
        folded.append(_seconds(lambda: _fold(rows), runs))
        loaded.append(_seconds(lambda: _fold(_decoded(transitions)), runs))
    table = Table(
        name="fold",
        title=f"Fold ({count // runs} events and {len(rows)} rows of a {STEPS}-step run, {size_bytes} bytes, decoded)",
        columns=("what", "events_per_s", "ns_per_event", "ratio"),
    )
    empty_s = statistics.median(empty)
    for what, samples in (("empty dispatch loop", empty), ("fold", folded), ("decode and fold", loaded)):
        seconds = statistics.median(samples)
        table.add(what, round(count / seconds), round(seconds / count * 1e9), round(seconds / empty_s, 2))
    return table


def _seconds(work: Callable[[], None], runs: int) -> float:
    began = time.perf_counter()
    for _ in range(runs):
        work()
    return time.perf_counter() - began


def _decoded(transitions: Iterable[Transition]) -> Rows:
    return [
        (row.version, row.at_us, row.hash, decode_events(row.events, run_id=RUN_ID, version=row.version))
        for row in transitions
    ]


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
