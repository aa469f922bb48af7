"""PostgreSQL for tests: one embedded server for the session, one fresh database for each test that asks.

The session's server gives up durability for speed. A test that kills its server, or measures it, starts one of its own.

`DUCTOR_TEST_POSTGRES` names another server to use: the address of a superuser over the server's socket, as
`postgresql://postgres@/postgres?host=/run/postgresql&port=5432`. So the suite runs on every version that is supported.
"""

import asyncio
import itertools
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

import asyncpg
import pytest
import pytest_asyncio

from ductor.journal.embedded import EmbeddedPostgres
from ductor.journal.embedded.cluster import Options
from ductor.journal.postgres import migrate

TEMPLATE = f"ductor_template_{os.getpid()}"
"""Test processes that share a server have one each."""
SESSION_OPTIONS: Options = {
    "max_connections": 200,
    "shared_buffers": "32MB",
    "autovacuum": False,
    "max_prepared_transactions": 10,
}

_numbers = itertools.count(1)


class Server(Protocol):
    """What tests ask of a server."""

    def dsn(self, database: str | None = None) -> str: ...

    async def create_database(self, name: str, *, template: str = "template1") -> None: ...

    async def drop_database(self, name: str) -> None: ...


class ExistingServer:
    """A server that somebody else started."""

    def __init__(self, dsn: str) -> None:
        self._address = urlsplit(dsn)

    def dsn(self, database: str | None = None) -> str:
        # an empty host is kept only with two slashes of its own
        address = self._address._replace(path=f"/{database or 'ductor'}")
        return f"{address.scheme}://{address.netloc}{address.path}?{address.query}"

    async def create_database(self, name: str, *, template: str = "template1") -> None:
        await self._execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')

    async def drop_database(self, name: str) -> None:
        await self._execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    async def _execute(self, statement: str) -> None:
        connection = await asyncpg.connect(self.dsn("postgres"))
        try:
            await connection.execute(statement)
        finally:
            await connection.close()


class Database:
    """A database with the schema of this version and no rows."""

    def __init__(self, server: Server, name: str) -> None:
        self.server = server
        self.name = name
        self.dsn = server.dsn(name)


def make_directory() -> Path:
    """A directory for a server, that any account may reach; the caller removes it."""
    parent = Path(tempfile.mkdtemp(prefix="ductor-test-"))
    parent.chmod(0o755)
    return parent


@asynccontextmanager
async def with_template(server: Server) -> AsyncIterator[Server]:
    """The server with a template of the schema, which is dropped at the end."""
    await server.drop_database(TEMPLATE)
    await server.create_database(TEMPLATE)
    await migrate(server.dsn(TEMPLATE))
    yield server
    await server.drop_database(TEMPLATE)


@asynccontextmanager
async def any_server() -> AsyncIterator[Server]:
    """The server that the environment names, or one of our own, without durability and ended with this process."""
    named = os.environ.get("DUCTOR_TEST_POSTGRES")
    if named:
        async with with_template(ExistingServer(named)) as server:
            yield server
        return
    directory = make_directory()
    try:
        async with (
            EmbeddedPostgres(
                directory / "server", fsync=False, options=SESSION_OPTIONS, stop_on_parent_death=True, restart=False
            ) as embedded,
            with_template(embedded) as server,
        ):
            yield server
    finally:
        shutil.rmtree(directory)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """A running server with a template of the schema."""
    loop = asyncio.new_event_loop()
    server = any_server()
    try:
        yield loop.run_until_complete(server.__aenter__())
        loop.run_until_complete(server.__aexit__(None, None, None))
    finally:
        loop.close()


@pytest_asyncio.fixture
async def database(postgres_server: Server) -> AsyncIterator[Database]:
    """A fresh database with the schema of this version."""
    name = f"test_{os.getpid()}_{next(_numbers)}"
    await postgres_server.create_database(name, template=TEMPLATE)
    yield Database(postgres_server, name)
    await postgres_server.drop_database(name)
