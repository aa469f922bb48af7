"""Pages of the feed, the next one read while the one before is applied."""

import asyncio
from collections.abc import Sequence

import msgspec

from ductor.journal.records import FeedEntry, FeedPosition
from ductor.journal.store import Store


class Page(msgspec.Struct, frozen=True):
    """Rows of the feed after a place, at most `limit`. `is_last` means that there were no further ones."""

    after: FeedPosition
    limit: int
    entries: Sequence[FeedEntry]
    is_last: bool


class FeedPages:
    """Reads pages of at most `max_bytes` of events as stored; at most one is read ahead."""

    def __init__(self, store: Store, max_bytes: int) -> None:
        self._store = store
        self._max_bytes = max_bytes
        self._ahead: asyncio.Task[Page] | None = None

    @property
    def has_more(self) -> bool:
        """Whether a page is being read ahead."""
        return self._ahead is not None

    async def page(self, after: FeedPosition, limit: int) -> Page:
        """The rows after a place. Raises what the store raises."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            page = await ahead
            if page.after == after and page.limit <= limit:
                return page
        return await self._read(after, limit)

    def read_ahead(self, after: FeedPosition, limit: int) -> None:
        """Have the store look for the next rows meanwhile. To be called when no page is being read ahead."""
        self._ahead = asyncio.create_task(self._read(after, limit))

    async def close(self) -> None:
        """Give up what is being read ahead."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.cancel()
            await asyncio.gather(ahead, return_exceptions=True)

    async def _read(self, after: FeedPosition, limit: int) -> Page:
        entries = await self._store.feed(after, limit, max_bytes=self._max_bytes)
        # what is stored is never longer than the text: a page whose text is below the bound was not cut by it
        size_bytes = sum(len(entry.transition.events) for entry in entries)
        return Page(after, limit, entries, is_last=len(entries) < limit and size_bytes < self._max_bytes)
