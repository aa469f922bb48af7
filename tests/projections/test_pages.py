"""Pages that are read ahead: their failures reach whoever asks for them, and nobody else."""

import asyncio
import gc
from typing import Any

import pytest

from ductor.journal.errors import StoreUnavailableError
from ductor.journal.postgres import PostgresStore
from ductor.journal.records import FeedPosition
from ductor.projections.database import ModelDatabase
from ductor.projections.pages import FeedPages
from tests.postgres_fixtures import Database

BEGINNING = FeedPosition()


class FailingStore(PostgresStore):
    """Has no feed."""

    async def feed_columns(self, *arguments: Any, **named: Any) -> Any:
        raise StoreUnavailableError("gone")


@pytest.fixture
def pages(database: Database) -> FeedPages:
    store = FailingStore(database.dsn)
    return FeedPages(store, ModelDatabase(store.settings), 1_000)


async def test_who_asks_for_the_page_hears_that_it_could_not_be_read(pages: FeedPages) -> None:
    pages.read_ahead(BEGINNING, 10)
    await asyncio.sleep(0)
    with pytest.raises(StoreUnavailableError, match="gone"):
        await pages.page(BEGINNING, 10)


async def test_nobody_is_told_of_a_page_that_nobody_asks_for(pages: FeedPages) -> None:
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    pages.read_ahead(BEGINNING, 10)
    reading = pages._ahead
    assert reading is not None
    await asyncio.wait((reading,))
    pages._ahead = None
    del reading
    gc.collect()
    assert told == []
