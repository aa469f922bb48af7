"""Removes what compacted rows stand for, from PostgreSQL."""

from collections.abc import Sequence

import asyncpg

from ductor.journal.compaction_store import (
    MAX_REMOVED_ROWS,
    MAX_REMOVED_VALUES,
    REMOVAL_LOCK_MS,
    CompactedRun,
)
from ductor.journal.ids import is_run_id
from ductor.journal.large_values import REFERENCE_PATTERN
from ductor.journal.postgres.database import Database, fetch_on
from ductor.journal.postgres.rows import FIRST_RUN_ID


class Compaction:
    """See `ductor.journal.compaction_store`."""

    _database: Database

    async def compacted_runs(self, after_run_id: str | None, limit: int) -> Sequence[CompactedRun]:
        """Runs that were compacted, each with the newest such row, in order of id."""
        rows = await self._database.fetch("compacted_runs", after_run_id=after_run_id or FIRST_RUN_ID, limit=limit)
        return [CompactedRun(row[0], row[1], has_older_rows=row[2]) for row in rows]

    async def remove_compacted_rows(self, run_id: str, *, before_us: int, limit: int = MAX_REMOVED_ROWS) -> int:
        """Remove rows that the run's newest compacted row stands for, oldest first, and what only they named."""
        if not is_run_id(run_id):
            return 0
        rows = await self._database.fetch("removable_rows", run_id=run_id, before_us=before_us, limit=limit)
        if not rows:
            return 0
        last_version, compacted_version = rows[-1]
        if last_version == compacted_version - 1:
            values = await self._unneeded_values(run_id, compacted_version)
            if values:
                return await self._remove_values(run_id, values)
        await self._database.fetch("remove_rows", run_id=run_id, last_version=last_version)
        return len(rows)

    async def _unneeded_values(self, run_id: str, compacted_version: int) -> list[asyncpg.Record]:
        return await self._database.fetch(
            "unneeded_values",
            run_id=run_id,
            compacted_version=compacted_version,
            pattern=REFERENCE_PATTERN,
            limit=MAX_REMOVED_VALUES,
        )

    async def _remove_values(self, run_id: str, values: list[asyncpg.Record]) -> int:
        """Remove those that nothing names. The lock is taken before the look: what was written before is seen by it,
        and what comes after finds the value gone and writes it again."""
        async with self._database.transaction() as connection:
            try:
                async with connection.transaction():
                    await connection.execute(f"SET LOCAL lock_timeout = {REMOVAL_LOCK_MS:d}")
                    await connection.execute("LOCK TABLE ductor.eec_payload IN SHARE ROW EXCLUSIVE MODE")
            except asyncpg.LockNotAvailableError:
                return 0  # somebody's transaction is long; the next call tries again
            removed = await fetch_on(connection)(
                "remove_values",
                run_id=run_id,
                hashes=[value["hash"] for value in values],
                after_version=values[0]["version"],
                pattern=REFERENCE_PATTERN,
            )
        return len(removed)
