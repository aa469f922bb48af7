"""What a host's log and metrics say while the database, or Redis, is away: once, however often somebody asks."""

import asyncio
import logging

import pytest

import ductor
from ductor.observability.metrics import Metrics
from tests.ductor.observability.http import WAIT_S, parsed, value
from tests.journal.postgres.proxies import CuttingProxy
from tests.postgres_fixtures import Database
from tests.redis_server import reserve_port

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


async def test_metrics_tell_which_tier_of_the_queue_is_away(database: Database):
    port, reservation = reserve_port()
    metrics = Metrics()
    with reservation:
        host = ductor.Host(database=database.dsn, redis=f"redis://127.0.0.1:{port}/0", observers=[metrics])
        async with host:
            found = parsed(await metrics.page(host))
    assert value(found, "queue_up") == 1
    assert (value(found, "queue_tier_up", tier="redis"), value(found, "queue_tier_up", tier="postgres")) == (0, 1)
