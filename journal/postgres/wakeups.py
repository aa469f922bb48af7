"""Which runs are to be woken: by a host that starts, and by the sweeper."""

from collections.abc import Sequence

from ductor.journal.partitions import Partitions
from ductor.journal.postgres.database import Database

WAKE_SCAN_ROWS = 10_000
"""Unapplied inputs of each kind that a search for runs to wake looks at."""


class Wakeups:
    """Runs that were left in the middle of something, and runs that something waits for."""

    _database: Database

    async def runs_to_recover(
        self, after_run_id: str | None, limit: int, partitions: Partitions = None
    ) -> Sequence[str]:
        """Ids of `pending` and `running` runs of these partitions in order of id, a page at a time. The first page also
        lets inputs be found again that were passed over because their run was paused, and not read when it was
        resumed."""
        if after_run_id is None:
            await self._database.fetch("release_attempts")
            await self._database.fetch("release_messages")
        rows = await self._database.fetch(
            "runs_to_recover", after_run_id=after_run_id, limit=limit, partitions=_chosen(partitions)
        )
        return [row[0] for row in rows]

    async def runs_to_wake(self, now_us: int, limit: int, partitions: Partitions = None) -> Sequence[str]:
        """Ids of runs of these partitions that something waits for. Each cause gets its turn: the oldest of every
        cause, then the next. Of a paused run only controls count."""
        rows = await self._database.fetch(
            "runs_to_wake", now_us=now_us, limit=limit, scan_limit=WAKE_SCAN_ROWS, partitions=_chosen(partitions)
        )
        run_ids = [row[0] for row in rows if row[0] is not None]
        if len(run_ids) < len(rows):
            await self._database.fetch("hold_attempts", scan_limit=WAKE_SCAN_ROWS)
            await self._database.fetch("hold_messages", scan_limit=WAKE_SCAN_ROWS)
        return run_ids

    async def runs_with_results(self, limit: int) -> Sequence[str]:
        """Ids of runs, paused ones too, that have attempts which were not applied yet."""
        return [row[0] for row in await self._database.fetch("runs_with_results", limit=limit)]

    async def next_due_us(self) -> int | None:
        """The earliest timer of all runs."""
        row = await self._database.fetch_row("next_due_us")
        return None if row is None else row[0]


def _chosen(partitions: Partitions) -> list[int] | None:
    return None if partitions is None else list(partitions)
