"""The group reader: reads of many runs, gathered into one query.

A read that is asked for while a query runs waits for the next one: it must see what was committed before it was asked.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import msgspec
from asyncpg import Record

from ductor.journal.commit import Payload
from ductor.journal.events import Message
from ductor.journal.large_values import needed_values
from ductor.journal.postgres.database import Database
from ductor.journal.records import AttemptRow, Control, Head, LoadedRun, RunInputs, Snapshot, Transition
from ductor.journal.state import FOLD_REVISION

GROUP_RUNS = 200
GROUPS_AT_ONCE = 2

MAX_PAYLOAD_PAGE_BYTES = 64 << 20
"""Large values that one query reads, unless a single one is larger."""

decode_head = msgspec.json.Decoder(Head).decode
decode_control = msgspec.json.Decoder(Control).decode
decode_attempt = msgspec.json.Decoder(AttemptRow).decode
decode_message = msgspec.json.Decoder(Message).decode


Found = TypeVar("Found")


class GroupReader(Generic[Found]):
    """Reads one thing of each of many runs.

    Args:
        database: where to.
        query: its name; it takes `run_ids` beside `values`.
        assemble: its rows, which come in any order, by run.
        complete: reads what the rows have shown to be needed beside them.
        values: its other parameters.
    """

    def __init__(
        self,
        database: Database,
        query: str,
        assemble: Callable[[list[Record]], dict[str, Found]],
        complete: Callable[[dict[str, Found]], Awaitable[None]] | None = None,
        **values: object,
    ) -> None:
        self._database = database
        self._query = query
        self._assemble = assemble
        self._complete = complete
        self._values = values
        self._waiting: dict[str, list[asyncio.Future[Found | None]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._at_work = 0

    async def read(self, run_id: str) -> Found | None:
        """What there is of one run, or None. Raises StoreUnavailableError."""
        future: asyncio.Future[Found | None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(run_id, []).append(future)
        if self._at_work < GROUPS_AT_ONCE:
            self._at_work += 1
            task = asyncio.create_task(self._read(), name="ductor group reader")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await future

    async def _read(self) -> None:
        try:
            await self._read_waiting()
        finally:
            # here and not when the task is known to be done: who asks in between would wait for nobody
            self._at_work -= 1

    async def _read_waiting(self) -> None:
        while self._waiting:
            group = {run_id: self._waiting.pop(run_id) for run_id in list(self._waiting)[:GROUP_RUNS]}
            try:
                rows = await self._database.fetch(self._query, run_ids=list(group), **self._values)
                runs = self._assemble(rows)
                if self._complete is not None:
                    await self._complete(runs)
            except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to those who wait
                for future in (future for futures in group.values() for future in futures if not future.done()):
                    future.set_exception(error)
                continue
            for run_id, futures in group.items():
                for future in futures:
                    if not future.done():
                        future.set_result(runs.get(run_id))


def loads(database: Database) -> GroupReader[LoadedRun]:
    """Loads whole runs for coordinators that have nothing in hand."""

    async def with_large_values(runs: dict[str, LoadedRun]) -> None:
        await _add_large_values(database, runs)

    return GroupReader(database, "load", assemble_runs, with_large_values, fold_revision=FOLD_REVISION)


async def _add_large_values(database: Database, runs: dict[str, LoadedRun]) -> None:
    """Put into each run the large values that it needs. A run without any costs no query, and no query reads more than
    `MAX_PAYLOAD_PAGE_BYTES` beyond its first value."""
    pages: list[list[tuple[str, str]]] = []
    room = 0
    for run_id, run in runs.items():
        for hash, size_bytes in sorted(needed_values(run).items()):
            if not pages or room < size_bytes:
                pages.append([])
                room = MAX_PAYLOAD_PAGE_BYTES
            pages[-1].append((run_id, hash))
            room -= size_bytes
    found: dict[str, list[Payload]] = {}
    for page in pages:
        run_ids, hashes = [run_id for run_id, _ in page], [hash for _, hash in page]
        for row in await database.fetch("payloads", run_ids=run_ids, hashes=hashes):
            found.setdefault(row[0], []).append(Payload(row[1], row[2].encode()))
    for run_id, payloads in found.items():
        runs[run_id] = msgspec.structs.replace(runs[run_id], payloads=tuple(sorted(payloads, key=lambda one: one.hash)))


def inputs(database: Database) -> GroupReader[RunInputs]:
    """Reads what waits for runs whose coordinators have everything else in hand."""
    return GroupReader(database, "inputs", assemble_inputs)


def assemble_runs(rows: list[Record]) -> dict[str, LoadedRun]:
    """Runs by id out of the rows of the query `load`."""
    return {run_id: _assemble_run(of) for run_id, of in _by_run(rows).items() if of("head")}


def assemble_inputs(rows: list[Record]) -> dict[str, RunInputs]:
    """Inputs by run out of the rows of the query `inputs`."""
    return {run_id: _assemble_inputs(of) for run_id, of in _by_run(rows).items()}


_OfKind = Callable[[str], list[Record]]


def _by_run(rows: list[Record]) -> dict[str, _OfKind]:
    """For each run its rows by kind, each kind in order."""
    kinds: dict[str, dict[str, list[Record]]] = {}
    for row in rows:
        kinds.setdefault(row["run_id"], {}).setdefault(row["kind"], []).append(row)

    def of_kind(of_run: dict[str, list[Record]]) -> _OfKind:
        return lambda kind: sorted(of_run.get(kind, ()), key=lambda row: row["number"])

    return {run_id: of_kind(of_run) for run_id, of_run in kinds.items()}


def _assemble_run(of: _OfKind) -> LoadedRun:
    snapshots = [
        Snapshot(run_id=row["run_id"], version=row["number"], fold_revision=FOLD_REVISION, state=row["binary"])
        for row in of("snapshot")
    ]
    return LoadedRun(
        head=decode_head(of("head")[0]["text"]),
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
        payloads=(),
        controls=tuple(decode_control(row["text"]) for row in of("control")),
        attempts=tuple(decode_attempt(row["text"]) for row in of("attempt")),
        messages=tuple(decode_message(row["text"]) for row in of("message")),
    )


def _assemble_inputs(of: _OfKind) -> RunInputs:
    return RunInputs(
        head_version=of("version")[0]["number"],
        controls=tuple(decode_control(row["text"]) for row in of("control")),
        attempts=tuple(decode_attempt(row["text"]) for row in of("attempt")),
        messages=tuple(decode_message(row["text"]) for row in of("message")),
        payloads=_payloads(of),
    )


def _payloads(of: _OfKind) -> tuple[Payload, ...]:
    return tuple(Payload(row["binary"].decode(), row["text"].encode()) for row in of("payload"))
