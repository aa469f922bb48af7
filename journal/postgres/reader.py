"""The group reader: loads of many cold runs, gathered into one query.

A load that is asked for while a query runs waits for the next one: it must see what was committed before it was asked.
"""

import asyncio

import msgspec
from asyncpg import Record

from ductor.journal.postgres.database import Database
from ductor.journal.state import FOLD_REVISION
from ductor.journal.store import AttemptRow, Control, Head, LoadedRun, Payload, Snapshot, Transition

GROUP_RUNS = 200
GROUPS_AT_ONCE = 2

decode_head = msgspec.json.Decoder(Head).decode
decode_control = msgspec.json.Decoder(Control).decode
decode_attempt = msgspec.json.Decoder(AttemptRow).decode


class GroupReader:
    """Loads runs for coordinators that have nothing in hand."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: dict[str, list[asyncio.Future[LoadedRun | None]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def load(self, run_id: str) -> LoadedRun | None:
        """One run, or None. Raises StoreUnavailableError."""
        future: asyncio.Future[LoadedRun | None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(run_id, []).append(future)
        if len(self._tasks) < GROUPS_AT_ONCE:
            task = asyncio.create_task(self._read(), name="ductor group reader")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await future

    async def _read(self) -> None:
        while self._waiting:
            group = {run_id: self._waiting.pop(run_id) for run_id in list(self._waiting)[:GROUP_RUNS]}
            try:
                rows = await self._database.fetch("load", run_ids=list(group), fold_revision=FOLD_REVISION)
                runs = assemble(rows)
            except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to those who wait
                for future in (future for futures in group.values() for future in futures if not future.done()):
                    future.set_exception(error)
                continue
            for run_id, futures in group.items():
                for future in futures:
                    if not future.done():
                        future.set_result(runs.get(run_id))


def assemble(rows: list[Record]) -> dict[str, LoadedRun]:
    """Runs by id out of the rows of the query `load`, which come in any order."""
    by_run: dict[str, dict[str, list[Record]]] = {}
    for row in rows:
        by_run.setdefault(row["run_id"], {}).setdefault(row["kind"], []).append(row)
    return {run_id: _assemble_run(kinds) for run_id, kinds in by_run.items() if "head" in kinds}


def _assemble_run(kinds: dict[str, list[Record]]) -> LoadedRun:
    def of(kind: str) -> list[Record]:
        return sorted(kinds.get(kind, ()), key=lambda row: row["number"])

    snapshots = [
        Snapshot(run_id=row["run_id"], version=row["number"], fold_revision=FOLD_REVISION, state=row["binary"])
        for row in of("snapshot")
    ]
    return LoadedRun(
        head=decode_head(kinds["head"][0]["text"]),
        snapshot=snapshots[0] if snapshots else None,
        tail=tuple(
            Transition(
                run_id=row["run_id"],
                version=row["number"],
                commit_id=row["commit_id"],
                at_us=row["at_us"],
                events=row["text"].encode(),
                hash=row["binary"],
            )
            for row in of("transition")
        ),
        payloads=tuple(Payload(row["binary"].decode(), row["text"].encode()) for row in of("payload")),
        controls=tuple(decode_control(row["text"]) for row in of("control")),
        attempts=tuple(decode_attempt(row["text"]) for row in of("attempt")),
    )
