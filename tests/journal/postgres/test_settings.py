"""What each session tells the server."""

from typing import Any

import asyncpg
import pytest

from ductor.journal.postgres import PostgresStore
from ductor.journal.postgres.settings import LOST_CLIENT_SETTINGS, ConnectionSettings
from ductor.projections.database import ModelDatabase
from tests.journal.postgres.commits import answered, start
from tests.postgres_fixtures import Database


def test_through_a_pooler_nothing_is_set() -> None:
    assert ConnectionSettings(dsn="").of_session({"jit": "off"}) == {**LOST_CLIENT_SETTINGS, "jit": "off"}
    assert ConnectionSettings(dsn="", through_pooler=True).of_session({"jit": "off"}) is None


async def test_the_server_is_to_ask_every_kind_of_session_whether_it_is_still_there(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: dict[str, dict[str, str]] = {}

    def noted(call: Any) -> Any:
        def connect(*arguments: Any, **named: Any) -> Any:
            told[named["server_settings"]["application_name"]] = named["server_settings"]
            return call(*arguments, **named)

        return connect

    monkeypatch.setattr(asyncpg, "connect", noted(asyncpg.connect))
    monkeypatch.setattr(asyncpg, "create_pool", noted(asyncpg.create_pool))
    models = ModelDatabase(ConnectionSettings(dsn=database.dsn))
    async with PostgresStore(database.dsn) as store, models.connection() as connection:
        await answered(store, start())
        assert await connection.fetchval("SELECT 1") == 1
    await models.close()
    assert {"ductor", "ductor projections"} < told.keys(), "and the writer's lanes"
    assert all(settings.items() >= LOST_CLIENT_SETTINGS.items() for settings in told.values())
