"""Reads of runs, and their snapshots."""

from collections.abc import Sequence

from ductor.journal.ids import is_run_id
from ductor.journal.postgres.database import Database
from ductor.journal.postgres.reader import GroupReader, decode_head
from ductor.journal.postgres.rows import FIRST_RUN_ID, transition
from ductor.journal.postgres.statements import heads_statement
from ductor.journal.records import Head, LoadedRun, RunFilter, RunInputs, Snapshot, Transition


class Runs:
    """Heads, histories, payloads, snapshots, and which runs are open."""

    _database: Database
    _loads: GroupReader[LoadedRun]
    _inputs: GroupReader[RunInputs]

    async def load(self, run_id: str) -> LoadedRun | None:
        """Read one run; concurrent calls are gathered into one query. None when it does not exist."""
        return await self._loads.read(run_id) if is_run_id(run_id) else None

    async def inputs(self, run_id: str) -> RunInputs | None:
        """What waits for a run; concurrent calls are gathered into one query. None when it does not exist."""
        return await self._inputs.read(run_id) if is_run_id(run_id) else None

    async def head(self, run_id: str) -> Head | None:
        """Read a run's head."""
        if not is_run_id(run_id):
            return None
        row = await self._database.fetch_row("head", run_id=run_id)
        return None if row is None else decode_head(row[0])

    async def latest_of_chain(self, run_id: str) -> str | None:
        """The run that carries on what this one began: itself, or the latest one that continues it."""
        if not is_run_id(run_id):
            return None
        row = await self._database.fetch_row("latest_of_chain", run_id=run_id)
        return None if row is None else str(row[0])

    async def chain(self, run_id: str, *, after_iteration: int = -1, limit: int = 1_000) -> Sequence[Head]:
        """The runs of the chain that this one belongs to, in order."""
        if not is_run_id(run_id):
            return []
        rows = await self._database.fetch("chain", run_id=run_id, after_iteration=after_iteration, limit=limit)
        return [decode_head(row[0]) for row in rows]

    async def heads(self, which: RunFilter) -> Sequence[Head]:
        """List runs, newest first."""
        values = {
            "tenant": which.tenant,
            "definition": which.definition,
            "statuses": list(which.statuses) or None,
            "parent_run_ids": list(which.parent_run_ids) or None,
            "root_run_id": which.root_run_id,
            "before_run_id": which.before_run_id,
        }
        conditions = {name: value for name, value in values.items() if value is not None}
        names = frozenset(conditions) | ({"not_continued"} if which.hides_continued else frozenset())
        statement = heads_statement(names)
        rows = await self._database.fetch_statement("heads", statement, {**conditions, "limit": which.limit})
        return [decode_head(row[0]) for row in rows]

    async def find_start_key(self, tenant: str, definition: str, key: str) -> str | None:
        """The run that a start key belongs to."""
        row = await self._database.fetch_row("find_start_key", tenant=tenant, definition=definition, key=key)
        return None if row is None else str(row[0])

    async def history(self, run_id: str, *, after_version: int = 0, limit: int = 1_000) -> Sequence[Transition]:
        """Rows of one run in order."""
        if not is_run_id(run_id):
            return []
        rows = await self._database.fetch("history", run_id=run_id, after_version=after_version, limit=limit)
        return [transition(row) for row in rows]

    async def payload(self, run_id: str, hash: str) -> bytes | None:
        """A large value's JSON text."""
        if not is_run_id(run_id):
            return None
        row = await self._database.fetch_row("payload", run_id=run_id, hash=hash)
        return None if row is None else str(row[0]).encode()

    async def save_snapshot(self, snapshot: Snapshot) -> None:
        """Keep a snapshot; an older one of the run is replaced."""
        await self._database.fetch(
            "save_snapshot",
            run_id=snapshot.run_id,
            fold_revision=snapshot.fold_revision,
            version=snapshot.version,
            state=snapshot.state,
        )

    async def open_run_ids(
        self, tenant: str, definition: str | None, after_run_id: str | None, limit: int
    ) -> Sequence[str]:
        """Ids of runs that have not ended, a page in order of id."""
        values: dict[str, object] = {"tenant": tenant, "after_run_id": after_run_id or FIRST_RUN_ID, "limit": limit}
        query = "open_run_ids"
        if definition is not None:
            query, values["definition"] = "open_run_ids_of_definition", definition
        return [row[0] for row in await self._database.fetch(query, **values)]
