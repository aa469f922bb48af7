"""Runs that were set aside, in PostgreSQL."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from ductor.journal.ids import is_run_id
from ductor.journal.partitions import Partitions
from ductor.journal.postgres.database import Database
from ductor.journal.postgres.rows import FIRST_RUN_ID
from ductor.journal.set_aside_store import MAX_REASON_LENGTH, IdleRun, SetAsideRun


class SetAside:
    """See `ductor.journal.set_aside_store`."""

    _database: Database

    async def set_run_aside(self, run_id: str, reason: str, host_id: str) -> bool:
        """Mark a run; one that is marked keeps its first reason. False without such a run."""
        if not is_run_id(run_id):
            return False
        kept = reason.replace("\x00", "")[:MAX_REASON_LENGTH]
        row = await self._database.fetch_row("set_run_aside", run_id=run_id, reason=kept, host_id=host_id)
        return row is not None

    async def release_run(self, run_id: str) -> bool:
        """Remove the mark, and forget how often attempts of the run were lost. False if there was no mark."""
        return is_run_id(run_id) and await self._database.fetch_row("release_run", run_id=run_id) is not None

    async def attempt_losses(self, tokens: Sequence[str]) -> Mapping[str, int]:
        """How often attempts were lost by now, by token, without those that never were: least often first, and of those
        lost as often the one first that was counted last."""
        rows = await self._database.fetch("attempt_losses", tokens=list(tokens))
        return {row["token"]: row["losses"] for row in rows}

    async def count_losses(self, tokens: Sequence[str], count_id: UUID) -> Mapping[str, int]:
        """Attempts were lost with hosts that had them: how often by now, by token, this time included, since their runs
        were released last. Asked again with the same id, as when the answer was lost, it counts nothing more."""
        rows = await self._database.fetch("count_losses", tokens=list(tokens), count_id=count_id)
        return {row["token"]: row["losses"] for row in rows}

    async def run_set_aside(self, run_id: str) -> SetAsideRun | None:
        """The mark of a run."""
        row = await self._database.fetch_row("run_set_aside", run_id=run_id) if is_run_id(run_id) else None
        return None if row is None else SetAsideRun(**row)

    async def runs_set_aside(self, tenant: str | None, after_run_id: str | None, limit: int) -> Sequence[SetAsideRun]:
        """Marked runs in order of id."""
        rows = await self._database.fetch(
            "runs_set_aside", tenant=tenant, after_run_id=after_run_id or FIRST_RUN_ID, limit=limit
        )
        return [SetAsideRun(**row) for row in rows]

    async def idle_runs(
        self, before_us: int, after_run_id: str | None, limit: int, partitions: Partitions = None
    ) -> Sequence[IdleRun]:
        """Runs of these partitions that are `running`, are not set aside, and have not changed since `before_us`."""
        rows = await self._database.fetch(
            "idle_runs",
            before_us=before_us,
            after_run_id=after_run_id or FIRST_RUN_ID,
            limit=limit,
            partitions=None if partitions is None else list(partitions),
        )
        return [IdleRun(*row) for row in rows]
