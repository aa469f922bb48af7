"""Removes journal rows that compacted rows stand for, a bounded batch at a time, when a host has nothing better to do.

All hosts do this, and nothing is lost when two do the same, or when one dies in the middle: what is to be removed is
told by the journal itself.
"""

from typing import Final

from ductor.journal.compaction_store import MAX_REMOVED_ROWS, CompactedRun, CompactionStore

COMPACTED_ROWS_KEPT_MS: Final = 60_000
"""For so long rows stay after they were written, for those who are reading a history page by page."""

RUNS_PER_LOOK: Final = 1_000
"""Compacted runs that one sweep looks at."""

BATCHES_PER_SWEEP: Final = 10
"""Batches of rows or large values that one sweep removes."""


class CompactedRows:
    """See the module's docstring."""

    def __init__(self, store: CompactionStore) -> None:
        self._store = store
        self._after_run_id: str | None = None

    async def sweep(self, now_us: int) -> None:
        """Remove the next batches; the next sweep goes on after the last run of this one."""
        page = await self._store.compacted_runs(self._after_run_id, RUNS_PER_LOOK)
        batches = BATCHES_PER_SWEEP
        last = page[-1].run_id if len(page) == RUNS_PER_LOOK else None
        for run in page:
            if run.has_older_rows:
                batches -= await self._remove(run, now_us, batches)
            if batches <= 0:
                last = run.run_id
                break
        self._after_run_id = last

    async def _remove(self, run: CompactedRun, now_us: int, batches: int) -> int:
        """Returns how many batches were removed."""
        before_us = now_us - COMPACTED_ROWS_KEPT_MS * 1_000
        for done in range(batches):
            if not await self._store.remove_compacted_rows(run.run_id, before_us=before_us, limit=MAX_REMOVED_ROWS):
                return done
        return batches
