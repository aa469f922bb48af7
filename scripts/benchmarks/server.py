"""One embedded PostgreSQL at its ordinary durability for all measurements, and its counters."""

import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import msgspec

from ductor.journal.embedded import EmbeddedPostgres

# The counters are the only thing that differs from a server as it comes; they serve both sides of every comparison.
_OPTIONS: dict[str, str | int | bool] = {"shared_preload_libraries": "pg_stat_statements"}

_READ = """
SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS transactions,
    pg_current_wal_insert_lsn() - '0/0'::pg_lsn AS wal_bytes,
    (SELECT sum(calls) FROM pg_stat_statements WHERE dbid = (SELECT oid FROM pg_database WHERE datname = $1))
        AS statements
"""


class Counters(msgspec.Struct, frozen=True, kw_only=True):
    """What the server has done: writing transactions, statements of one database, and bytes of write-ahead log."""

    transactions: int
    statements: int
    wal_bytes: int

    def since(self, before: "Counters") -> "Counters":
        """What was done after `before`."""
        return Counters(
            transactions=self.transactions - before.transactions,
            statements=self.statements - before.statements,
            wal_bytes=self.wal_bytes - before.wal_bytes,
        )


class BenchmarkServer:
    """The server; `observer` is a connection to the database `postgres`, whose statements are not counted."""

    def __init__(self, server: EmbeddedPostgres, observer: asyncpg.Connection) -> None:
        self._server = server
        self.observer = observer

    async def fresh_database(self, name: str) -> str:
        """Make an empty database; its address."""
        await self._server.create_database(name)
        return self._server.dsn(name)

    async def checkpoint(self) -> None:
        """Write everything out, so that no measurement pays for what came before it."""
        await self.observer.execute("CHECKPOINT")

    async def counters(self, database: str) -> Counters:
        """Read the counters."""
        row = await self.observer.fetchrow(_READ, database)
        assert row is not None
        return Counters(
            transactions=row["transactions"],
            statements=int(row["statements"] or 0),
            wal_bytes=int(row["wal_bytes"]),
        )

    async def settings(self) -> dict[str, str]:
        """What the server says about itself and its durability."""
        names = ("server_version", "fsync", "synchronous_commit", "full_page_writes", "shared_buffers")
        return {name: await self.observer.fetchval("SELECT current_setting($1)", name) for name in names}


@asynccontextmanager
async def benchmark_server() -> AsyncIterator[BenchmarkServer]:
    """Start a server that counts, in a folder of its own; both are gone afterwards."""
    async with temporary_server(_OPTIONS) as server:
        observer: asyncpg.Connection = await asyncpg.connect(server.dsn("postgres"))
        try:
            await observer.execute("CREATE EXTENSION pg_stat_statements")
            yield BenchmarkServer(server, observer)
        finally:
            await observer.close()


@asynccontextmanager
async def temporary_server(options: dict[str, str | int | bool] | None = None) -> AsyncIterator[EmbeddedPostgres]:
    """Start a server in a folder of its own, as it comes but for `options`; both are gone afterwards."""
    parent = Path(tempfile.mkdtemp(prefix="ductor-bench-"))
    parent.chmod(0o755)  # the server may run as another account than this process
    try:
        async with EmbeddedPostgres(parent / "server", options=options, stop_on_parent_death=True) as server:
            yield server
    finally:
        shutil.rmtree(parent)
