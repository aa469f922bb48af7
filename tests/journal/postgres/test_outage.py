"""An outage is a line at its beginning, one a minute, and one at its end, whatever the number of calls in vain."""

import pytest

from ductor.journal.errors import StoreUnavailableError
from ductor.journal.postgres.database import Database as StoreDatabase
from ductor.journal.postgres.outage import QUIET_S, REMINDER_S, Outage
from ductor.journal.postgres.settings import ConnectionSettings
from tests.journal.postgres.proxies import CuttingProxy
from tests.postgres_fixtures import Database


class Clock:
    now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


def test_an_outage_is_said_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    outage = Outage("the database", clock)
    outage.note_answer()
    for _ in range(1_000):
        outage.note_failure(ConnectionRefusedError("refused"))
        clock.now_s += 0.01
    assert caplog.messages == ["the database is away, and is tried again: refused"]
    clock.now_s += QUIET_S
    outage.note_answer()
    outage.note_answer()
    assert caplog.messages[1:] == ["the database is back after 11.0 s, in which 1000 calls failed"]
    outage.note_failure(ConnectionRefusedError("once more"))
    assert caplog.messages[2:] == ["the database is away, and is tried again: once more"]


def test_a_long_outage_is_said_every_minute(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    outage = Outage("the database", clock)
    for _ in range(31):
        outage.note_failure(ConnectionRefusedError("refused"))
        clock.now_s += REMINDER_S / 10
    assert [message.partition(",")[0] for message in caplog.messages[1:]] == [
        "the database is away for 60 s",
        "the database is away for 120 s",
        "the database is away for 180 s",
    ]


def test_answers_between_calls_that_fail_make_no_lines(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    outage = Outage("the database", clock)
    for _ in range(100):
        outage.note_failure(TimeoutError("slow"))
        clock.now_s += QUIET_S / 2
        outage.note_answer()
    assert len(caplog.messages) == 1


async def test_calls_in_vain_of_a_pool_are_one_outage(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    async with CuttingProxy(database.dsn) as proxy:
        pool = StoreDatabase(ConnectionSettings(dsn=proxy.dsn))
        await pool.open()
        proxy.is_refusing = True
        proxy.cut()
        for _ in range(5):
            with pytest.raises(StoreUnavailableError):
                await pool.fetch("now_us")
        (line,) = caplog.messages
        assert line.startswith("the database of the store is away, and is tried again: the database does not serve")
        await pool.close()
