"""Replay: what folding a recorded journal costs a row, and what proving it costs.

Folding alone is what looking at a run costs; a proof adds the hash chain and computes every decision again. The bare
decoding of the rows stands beside them: no reader of the journal can be faster.
"""

import gc
import time
from collections.abc import Callable

from ductor.actors.recorded_programs import RunPrograms
from ductor.actors.verify import RowVerifier
from ductor.journal.codec import decode_events
from ductor.journal.records import Transition
from ductor.journal.replay import state_at, verify_chain
from scripts.benchmarks.chain import RUN_ID, chain_program, whole_run
from scripts.benchmarks.report import Table

STEPS = 1_000
TRANSITIONS = 100_000
ROUNDS = 3


def measure_replay(*, is_quick: bool) -> Table:
    """Replay runs of a thousand steps until so many rows have gone by."""
    program = chain_program(STEPS)
    rows = list(whole_run(program))
    programs = RunPrograms(program)
    runs = max(1, (TRANSITIONS // 10 if is_quick else TRANSITIONS) // len(rows))
    table = Table(
        name="replay",
        title=f"Replay ({runs * len(rows)} rows, in runs of {len(rows)})",
        columns=("what", "seconds", "rows_per_s", "us_per_row"),
    )
    works: dict[str, Callable[[], object]] = {
        "decode": lambda: _decode(rows),
        "fold": lambda: state_at(RUN_ID, rows),
        "hash chain": lambda: verify_chain(RUN_ID, rows),
        "prove without computing": lambda: _prove(rows, None),
        "prove": lambda: _prove(rows, programs),
    }
    for what, work in works.items():
        seconds = min(_seconds(work, runs) for _ in range(ROUNDS))
        count = runs * len(rows)
        table.add(what, round(seconds, 3), round(count / seconds), round(seconds / count * 1e6, 2))
    return table


def _seconds(work: Callable[[], object], runs: int) -> float:
    gc.collect()
    began = time.perf_counter()
    for _ in range(runs):
        work()
    return time.perf_counter() - began


def _decode(rows: list[Transition]) -> None:
    for row in rows:
        decode_events(row.events, run_id=RUN_ID, version=row.version)


def _prove(rows: list[Transition], programs: RunPrograms | None) -> None:
    verifier = RowVerifier(programs, RUN_ID, {})
    for row in rows:
        found = verifier.verify(row)
        assert found is None, found
