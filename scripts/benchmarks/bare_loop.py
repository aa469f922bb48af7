"""The bare commit loop: what PostgreSQL and one Python process can do at most for work of the engine's shape.

No definition, no state, no actor, no worker: only what durability itself costs. A run of n steps is n + 1 journal rows,
each with a commit id, a chain hash and the columns of the feed; the head is written with the first row and updated with
the last. One process gathers the rows of many runs into one statement (`unnest`), each row with its own version check.
The statement has the shape that its batch needs: a batch of journal rows alone does not pay for the heads.
"""

import asyncio
import hashlib
import uuid
from types import TracebackType
from typing import Self

import asyncpg
import msgspec
from asyncpg.prepared_stmt import PreparedStatement

BATCH_COMMITS_MAX = 400

_SCHEMA = """
CREATE SCHEMA bare;
CREATE TABLE bare.run (
    run_id uuid PRIMARY KEY, tenant text NOT NULL, status text NOT NULL, updated_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 80);
CREATE TABLE bare.transition (
    run_id uuid NOT NULL, version bigint NOT NULL, commit_id uuid NOT NULL, events json NOT NULL, hash bytea NOT NULL,
    at timestamptz NOT NULL DEFAULT now(), transaction_id xid8 NOT NULL DEFAULT pg_current_xact_id(),
    position bigint NOT NULL GENERATED ALWAYS AS IDENTITY, PRIMARY KEY (run_id, version)
);
CREATE INDEX transition_in_commit_order ON bare.transition (transaction_id, position);
"""
_ROWS = """
WITH won AS (
    INSERT INTO bare.transition (run_id, version, commit_id, events, hash)
    SELECT b.run_id, b.version, b.commit_id, b.events, b.hash
    FROM unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::json[], $5::bytea[])
        AS b (run_id, version, commit_id, events, hash)
    WHERE b.version = 1 OR (
        SELECT p.version FROM bare.transition p WHERE p.run_id = b.run_id AND p.version = b.version - 1) IS NOT NULL
    ON CONFLICT (run_id, version) DO NOTHING
    RETURNING commit_id
)"""
_HEADS = """,
started AS (
    INSERT INTO bare.run (run_id, tenant, status)
    SELECT s.run_id, s.tenant, 'running' FROM unnest($6::uuid[], $7::text[]) AS s (run_id, tenant)
    ON CONFLICT DO NOTHING
),
ended AS (
    UPDATE bare.run r SET status = 'completed', updated_at = now()
    FROM unnest($8::uuid[], $9::uuid[]) AS e (run_id, commit_id)
    WHERE r.run_id = e.run_id AND e.commit_id IN (SELECT commit_id FROM won)
)"""
_WINNERS = " SELECT commit_id FROM won"

# A plan made for small tables must stay right when they have grown, and costs more to make than to run.
_PLANNER_SETTINGS = {
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_seqscan": "off",
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",
}
_encode = msgspec.json.Encoder().encode


class BareCommit(msgspec.Struct, frozen=True):
    """One journal row on its way. `starts` and `ends` say whether the run's head is written or updated with it."""

    run_id: uuid.UUID
    version: int
    commit_id: uuid.UUID
    events: str
    hash: bytes
    starts: bool
    ends: bool


class LostCommitError(Exception):
    """A row was not written, which in a database of one writer must not happen."""


class BareLoop:
    """A writer and its connection; use it as an async context manager. `batches` counts the statements sent."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._queue: list[tuple[BareCommit, asyncio.Future[bool]]] = []
        self._arrived = asyncio.Event()
        self.batches = 0

    async def __aenter__(self) -> Self:
        self._connection: asyncpg.Connection = await asyncpg.connect(self._dsn, server_settings=_PLANNER_SETTINGS)
        await self._connection.execute(_SCHEMA)
        self._rows: PreparedStatement = await self._connection.prepare(_ROWS + _WINNERS)
        self._rows_and_heads: PreparedStatement = await self._connection.prepare(_ROWS + _HEADS + _WINNERS)
        self._writer = asyncio.create_task(self._write())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.cancel()
        await asyncio.wait((self._writer,))
        await self._connection.close()

    async def run(self, steps: int) -> None:
        """Carry one run of `steps` steps through its journal. Raises LostCommitError."""
        run_id, digest, token = uuid.uuid4(), b"", uuid.uuid4()
        value = {"n": 0, "sku": "ABC-123", "ok": True}
        for step in range(steps + 1):
            events: list[dict[str, object]] = []
            if step:
                events.append(
                    {"type": "attempt_finished", "node": f"s{step}", "generation": 1, "token": token.hex}
                    | {"outcome": "succeeded", "output": value}
                )
            if step < steps:
                token = uuid.uuid4()
                events.append(
                    {"type": "attempt_dispatched", "node": f"s{step + 1}", "generation": 1, "token": token.hex}
                    | {"input": value, "queue": "default"}
                )
            text = _encode(events)
            digest = hashlib.sha256(digest + text).digest()
            commit = BareCommit(run_id, step + 1, uuid.uuid4(), text.decode(), digest, step == 0, step == steps)
            if not await self._commit(commit):
                raise LostCommitError(f"run {run_id}: version {step + 1} was not written")

    def _commit(self, commit: BareCommit) -> asyncio.Future[bool]:
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._queue.append((commit, answer))
        self._arrived.set()
        return answer

    async def _write(self) -> None:
        while True:
            while not self._queue:
                self._arrived.clear()
                await self._arrived.wait()
            batch, self._queue = self._queue[:BATCH_COMMITS_MAX], self._queue[BATCH_COMMITS_MAX:]
            self.batches += 1
            try:
                won = await self._send([commit for commit, _ in batch])
            except Exception as error:
                for _, answer in batch:
                    answer.set_exception(error)
                raise
            for commit, answer in batch:
                answer.set_result(commit.commit_id in won)

    async def _send(self, commits: list[BareCommit]) -> set[uuid.UUID]:
        columns: list[list[object]] = [[], [], [], [], []]
        heads: list[list[object]] = [[], [], [], []]
        for commit in commits:
            columns[0].append(commit.run_id)
            columns[1].append(commit.version)
            columns[2].append(commit.commit_id)
            columns[3].append(commit.events)
            columns[4].append(commit.hash)
            if commit.starts:
                heads[0].append(commit.run_id)
                heads[1].append("default")
            if commit.ends:
                heads[2].append(commit.run_id)
                heads[3].append(commit.commit_id)
        if heads[0] or heads[2]:
            records = await self._rows_and_heads.fetch(*columns, *heads)
        else:
            records = await self._rows.fetch(*columns)
        return {record[0] for record in records}
