"""Guests that are wanted no more: attempts that another host holds, and that a run in this host's hands has withdrawn.

Their names go with this host's heartbeats. Who holds one reads it with his own next heartbeat, and tells the handler to
stop; what it gives then is its result. A host that lost what it knew here decides
anew, from the journal, what it wants.

Bounds: MAX_WITHDRAWN names; the oldest are let go, and their handlers go on until they end by themselves.
"""

import asyncio
from collections.abc import Collection
from typing import Final

MAX_WITHDRAWN: Final = 10_000
BEATS_KEPT: Final = 3
"""A name is told for so many heartbeats in which nobody says that he holds it: who does may not have said so yet."""


class WithdrawnGuests:
    """See the module's docstring.

    Attributes:
        is_new: set while there is a name that no heartbeat has told yet.
    """

    def __init__(self) -> None:
        self._beats_left: dict[str, int] = {}
        self.is_new = asyncio.Event()

    def add(self, token: str) -> None:
        """A run wants an attempt no more that is not here."""
        if token not in self._beats_left:
            if len(self._beats_left) >= MAX_WITHDRAWN:
                del self._beats_left[next(iter(self._beats_left))]
            self._beats_left[token] = BEATS_KEPT
            self.is_new.set()

    def tell(self) -> tuple[str, ...]:
        """The names for the heartbeat that is sent now."""
        self.is_new.clear()
        return tuple(self._beats_left)

    def told(self, elsewhere: Collection[str]) -> None:
        """A heartbeat has told them: forget those that nobody seems to hold, by the tokens that others hold."""
        for token, left in tuple(self._beats_left.items()):
            if token in elsewhere:
                self._beats_left[token] = BEATS_KEPT
            elif left > 1:
                self._beats_left[token] = left - 1
            else:
                del self._beats_left[token]
