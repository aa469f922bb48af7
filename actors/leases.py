"""Looks at keys of leases when something has changed there, and tells the runs whose turn has come.

Whoever commits a waiter, or the end of a holder, looks at the key at once, so that a freed place goes to the next in
line on whichever host that is; a look at one key while another one is under way here is repeated once that is done,
however many have asked for it. The sweeper finds the keys that nobody has looked at because their host died. All of it
is idempotent, so it does no harm when several hosts look at the same key.
"""

import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from ductor.definitions.errors import DuctorError
from ductor.journal.errors import StoreUnavailableError
from ductor.journal.events import Message
from ductor.journal.lease_store import LeaseKey, LeaseStore

KEYS_PER_SWEEP = 500
"""Keys that one sweep looks at; the next one goes on behind them."""

MAX_LOOKS_AT_ONCE = 8
"""Keys looked at at once; the others wait their turn, and their changes are gathered meanwhile."""

_log = logging.getLogger(__name__)


class Leases:
    """See the module's docstring.

    Args:
        told: hands a run the message that the store has kept for it.
        spawn: runs something beside the actors.
    """

    def __init__(
        self,
        store: LeaseStore,
        *,
        told: Callable[[str, Message], None],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._store, self._told, self._spawn = store, told, spawn
        self._waiting: dict[LeaseKey, None] = {}
        self._under_way: set[LeaseKey] = set()
        self._swept: LeaseKey | None = None
        self._is_stopped = False

    def changed(self, keys: Iterable[LeaseKey]) -> None:
        """A commit that changes who waits for these keys, or holds them, is durable."""
        self._waiting.update(dict.fromkeys(keys))
        self._begin_looks()

    async def sweep(self, now_us: int) -> None:  # noqa: ARG002 - the sweeper gives every part of it the time
        """Take up what nobody has in hand."""
        page = await self._store.lease_work(self._swept, KEYS_PER_SWEEP)
        self._swept = page[-1] if len(page) == KEYS_PER_SWEEP else None
        self.changed(page)

    def stop(self) -> None:
        """Begin no look any more."""
        self._is_stopped = True

    def _begin_looks(self) -> None:
        while len(self._under_way) < MAX_LOOKS_AT_ONCE and not self._is_stopped:
            key = next((key for key in self._waiting if key not in self._under_way), None)
            if key is None:
                return
            del self._waiting[key]
            self._under_way.add(key)
            self._spawn(self._look(key))

    async def _look(self, key: LeaseKey) -> None:
        try:
            change = await self._store.grant_leases(key)
            for grant in change.grants:
                self._told(grant.run_id, grant.message)
            if not change.is_complete:
                self._waiting[key] = None
        except StoreUnavailableError as error:  # the sweeper finds this key and those that wait
            self._waiting.clear()
            _log.debug("%s", error)
        except DuctorError as error:  # one key must not keep others from being looked at
            _log.error("the lease %s can't be granted: %s", key, error)
        finally:
            self._under_way.discard(key)
            self._begin_looks()
