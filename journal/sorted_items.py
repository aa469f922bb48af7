"""A set whose members can be read in order, from any point, without sorting.

Removed members stay listed until they outnumber the others, so that removing costs nothing; adding is a binary search
and the move of what lies behind, which is short where new members are mostly greater than old ones (times, UUIDv7).
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item", str, tuple[int, int], tuple[int, str], tuple[str, str], tuple[str, str, int])

MIN_LISTED_BEFORE_SWEEP = 64


class SortedItems(Generic[Item]):
    """Texts, or tuples of texts and numbers."""

    def __init__(self) -> None:
        self._members: set[Item] = set()
        self._listed: list[Item] = []
        self._removed: set[Item] = set()

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, item: Item) -> bool:
        return item in self._members

    def add(self, item: Item) -> None:
        """Take a member in; nothing happens where it is one."""
        if item in self._members:
            return
        self._members.add(item)
        if item in self._removed:
            self._removed.discard(item)
        elif not self._listed or item > self._listed[-1]:
            self._listed.append(item)
        else:
            insort(self._listed, item)

    def discard(self, item: Item) -> None:
        """Take a member out; nothing happens where it is none."""
        if item not in self._members:
            return
        self._members.discard(item)
        self._removed.add(item)
        if len(self._listed) >= MIN_LISTED_BEFORE_SWEEP and len(self._removed) > len(self._members):
            self._listed = [listed for listed in self._listed if listed in self._members]
            self._removed.clear()

    def ascending(self, after: Item | None = None) -> Iterator[Item]:
        """Members in order, those greater than `after`. The set must not change meanwhile."""
        listed, members = self._listed, self._members
        for index in range(0 if after is None else bisect_right(listed, after), len(listed)):
            if listed[index] in members:
                yield listed[index]

    def descending(self, before: Item | None = None) -> Iterator[Item]:
        """Members in reverse order, those less than `before`. The set must not change meanwhile."""
        listed, members = self._listed, self._members
        for index in range((len(listed) if before is None else bisect_left(listed, before)) - 1, -1, -1):
            if listed[index] in members:
                yield listed[index]
