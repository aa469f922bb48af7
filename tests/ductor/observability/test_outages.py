"""What a host's log says while the database is away: a line of each part that asks it, however often they ask."""

import asyncio
import logging

import pytest

import ductor
from tests.ductor.observability.http import WAIT_S
from tests.journal.postgres.proxies import CuttingProxy
from tests.postgres_fixtures import Database

TRIES = 8


class Tries(logging.Handler):
    """Counts what sweeps try in vain; `are_enough` is set after TRIES."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.count, self.are_enough = 0, asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.count += 1
        if self.count == TRIES:
            self.are_enough.set()


async def test_each_part_says_once_that_the_database_is_away(
    database: Database, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    tries, sweeper = Tries(), logging.getLogger("ductor.actors.sweeper")
    caplog.set_level(logging.DEBUG, sweeper.name)
    monkeypatch.setattr(sweeper, "handlers", [tries])
    async with CuttingProxy(database.dsn) as proxy, ductor.Host(database=proxy.dsn):
        proxy.is_refusing = True
        proxy.cut()
        async with asyncio.timeout(WAIT_S):
            await tries.are_enough.wait()
        warnings = [one for one in caplog.records if one.levelno >= logging.WARNING]
        proxy.is_refusing = False
    said = [one.getMessage() for one in warnings]
    assert "the database of the store is away" in "".join(said)
    assert len(said) == len({text.partition(":")[0] for text in said}) <= 5
    assert all(one.exc_info is None and "\n" not in one.getMessage() for one in warnings)
