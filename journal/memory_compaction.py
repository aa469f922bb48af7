"""Removes what compacted rows stand for, from the memory store."""

from collections.abc import Sequence
from itertools import islice

from ductor.journal.compaction_store import MAX_REMOVED_ROWS, CompactedRun
from ductor.journal.memory_messages import MemoryMessages


class MemoryCompaction(MemoryMessages):
    """See `ductor.journal.compaction_store`. Nothing projects from memory, so no projector is waited for."""

    async def compacted_runs(self, after_run_id: str | None, limit: int) -> Sequence[CompactedRun]:
        """Runs that were compacted, each with the newest such row, in order of id."""
        self._check_open()
        later = (run_id for run_id in sorted(self._runs) if run_id > (after_run_id or ""))
        found = (
            CompactedRun(run_id, version, has_older_rows=self._runs[run_id].removed < version - 1)
            for run_id in later
            if (version := self._runs[run_id].compacted_version)
        )
        return list(islice(found, limit))

    async def remove_compacted_rows(self, run_id: str, *, before_us: int, limit: int = MAX_REMOVED_ROWS) -> int:
        """Remove rows that the run's newest compacted row stands for, oldest first, and what only they named."""
        run = self._run(run_id)
        if run is None:
            return 0
        messages = self._messages.get(run_id)
        values_before = len(run.payloads)
        gone = run.remove_compacted(before_us, limit, messages.texts() if messages is not None else ())
        if gone:
            self._leave_feed(run_id, range(gone[0].version, gone[-1].version + 1))
        return len(gone) + values_before - len(run.payloads)

    def _leave_feed(self, run_id: str, versions: range) -> None:
        """These rows are gone."""
        raise NotImplementedError
