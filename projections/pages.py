"""Pages of the feed with what is known of their runs, decoded; the next one is read while the one before is applied.

Heads are read after the rows, and a page before the one that follows it. So a head is never older than the rows of its
page, and what the last page says of a run is what its head says.
"""

import asyncio

import msgspec

from ductor.journal.postgres.feed import FeedColumns
from ductor.journal.postgres.store import PostgresStore
from ductor.journal.records import FeedPosition, Head
from ductor.projections.batch import RowBatch, row_batch
from ductor.projections.database import ModelDatabase
from ductor.projections.heads import read_heads


class Page(msgspec.Struct, frozen=True):
    """Rows of the feed after a place, at most `limit`. `is_last` means that there were no further ones."""

    after: FeedPosition
    limit: int
    columns: FeedColumns
    heads: dict[str, Head]
    batch: RowBatch
    is_last: bool

    @property
    def end(self) -> FeedPosition:
        """The place of its last row; where it has none, the one after which it was to begin."""
        return self.columns.position(-1) if len(self.columns) else self.after

    def up_to(self, position: FeedPosition) -> "Page":
        """Its rows up to a place. Those that go back in the feed have many, and meet the others once: it is decoded
        again."""
        count = self.columns.count_up_to(position)
        if count == len(self.columns):
            return self
        columns = self.columns.only(range(count))
        return Page(self.after, self.limit, columns, self.heads, row_batch(columns, self.heads), is_last=False)


class FeedPages:
    """Reads pages of at most `max_bytes` of events as stored; at most one is read ahead."""

    def __init__(self, store: PostgresStore, database: ModelDatabase, max_bytes: int) -> None:
        self._store = store
        self._database = database
        self._max_bytes = max_bytes
        self._ahead: asyncio.Task[Page] | None = None

    @property
    def has_more(self) -> bool:
        """Whether a page is being read ahead."""
        return self._ahead is not None

    async def page(self, after: FeedPosition, limit: int) -> Page:
        """The rows after a place. Raises what the store and the database raise."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            page = await ahead
            if page.after == after and page.limit <= limit:
                return page
        return await self._read(after, limit)

    def read_ahead(self, after: FeedPosition, limit: int) -> None:
        """Have the store look for the next rows meanwhile. To be called when no page is being read ahead."""
        self._ahead = asyncio.create_task(self._read(after, limit))
        self._ahead.add_done_callback(_noted)

    async def close(self) -> None:
        """Give up what is being read ahead."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.cancel()
            await asyncio.gather(ahead, return_exceptions=True)

    async def _read(self, after: FeedPosition, limit: int) -> Page:
        columns = await self._store.feed_columns(after, limit, max_bytes=self._max_bytes)
        heads: dict[str, Head] = {}
        if len(columns):
            async with self._database.connection() as connection:
                heads = await read_heads(connection, columns.run_ids)
        batch = row_batch(columns, heads)
        # counted while the database works on the batch before, and not in one go with the decoding: it takes
        # milliseconds, in which the host's loop stands still
        await asyncio.sleep(0)
        batch.count()
        # what is stored is never longer than the text: a page whose text is below the bound was not cut by it
        is_last = len(columns) < limit and sum(columns.size_bytes) < self._max_bytes
        return Page(after, limit, columns, heads, batch, is_last)


def _noted(ahead: "asyncio.Task[Page]") -> None:
    """Who asks for the page hears what went wrong; of a page that nobody wants any more it is no news."""
    if not ahead.cancelled():
        ahead.exception()
