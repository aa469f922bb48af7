"""The server that chaos works on."""

import shutil
from collections.abc import AsyncIterator

import pytest_asyncio

from ductor.journal.embedded import EmbeddedPostgres
from ductor.journal.postgres import migrate
from tests.postgres_fixtures import make_directory


@pytest_asyncio.fixture
async def server() -> AsyncIterator[EmbeddedPostgres]:
    """A durable server of its own, which comes back when it is killed."""
    directory = make_directory()
    try:
        async with EmbeddedPostgres(directory / "server", stop_on_parent_death=True) as server:
            await migrate(server.dsn())
            yield server
    finally:
        shutil.rmtree(directory)
