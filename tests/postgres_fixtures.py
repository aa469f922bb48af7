"""PostgreSQL for tests: one embedded server for the session, one fresh database for each test that asks.

The session's server gives up durability for speed. A test that kills its server, or measures it, starts one of its own.
"""

import asyncio
import itertools
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from ductor.journal.embedded import EmbeddedPostgres
from ductor.journal.embedded.cluster import Options
from ductor.journal.postgres import migrate

TEMPLATE = "ductor_template"
SESSION_OPTIONS: Options = {
    "max_connections": 200,
    "shared_buffers": "32MB",
    "autovacuum": False,
    "max_prepared_transactions": 10,
}

_numbers = itertools.count(1)


class Database:
    """A database with the schema of this version and no rows."""

    def __init__(self, server: EmbeddedPostgres, name: str) -> None:
        self.server = server
        self.name = name
        self.dsn = server.dsn(name)
        self.tcp_dsn = server.dsn(name, tcp=True)


def make_directory() -> Path:
    """A directory for a server, that any account may reach; the caller removes it."""
    parent = Path(tempfile.mkdtemp(prefix="ductor-test-"))
    parent.chmod(0o755)
    return parent


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[EmbeddedPostgres]:
    """A running server with a template of the schema; without durability, ended with the test process."""
    directory = make_directory()
    server = EmbeddedPostgres(
        directory / "server", fsync=False, options=SESSION_OPTIONS, stop_on_parent_death=True, restart=False
    )
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(server.__aenter__())
        try:
            loop.run_until_complete(server.create_database(TEMPLATE))
            loop.run_until_complete(migrate(server.dsn(TEMPLATE)))
            yield server
        finally:
            loop.run_until_complete(server.__aexit__(None, None, None))
    finally:
        loop.close()
        shutil.rmtree(directory)


@pytest_asyncio.fixture
async def database(postgres_server: EmbeddedPostgres) -> AsyncIterator[Database]:
    """A fresh database with the schema of this version."""
    name = f"test_{os.getpid()}_{next(_numbers)}"
    await postgres_server.create_database(name, template=TEMPLATE)
    yield Database(postgres_server, name)
    await postgres_server.drop_database(name)
