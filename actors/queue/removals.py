"""Removals that a tier could not be told of because it is away. Bounded: the oldest are let go, and logged."""

import logging
from collections.abc import Iterable, Sequence
from typing import Final

from ductor.actors.queue.distributed import MAX_ITEMS_PER_CALL

MAX_REMEMBERED: Final = 100_000

_logger = logging.getLogger(__name__)


class Removals:
    """Items by queue and token, in the order in which they were removed."""

    def __init__(self) -> None:
        self._remembered: dict[tuple[str, str], None] = {}

    def add(self, removals: Iterable[tuple[str, str]]) -> None:
        """Remember these."""
        self._remembered.update(dict.fromkeys(removals))
        over = len(self._remembered) - MAX_REMEMBERED
        if over > 0:
            _logger.warning("%d items that are done may be delivered once more when the first tier is back", over)
            for removal in list(self._remembered)[:over]:
                del self._remembered[removal]

    def discard(self, queue: str, tokens: Iterable[str]) -> None:
        """They are made, or wanted no more."""
        for token in tokens:
            self._remembered.pop((queue, token), None)

    def first(self) -> tuple[str, Sequence[str]] | None:
        """The next ones of one queue, as many as one call takes; None when all are made."""
        if not self._remembered:
            return None
        removals = list(self._remembered)[:MAX_ITEMS_PER_CALL]
        queue = removals[0][0]
        return queue, [token for of_queue, token in removals if of_queue == queue]
