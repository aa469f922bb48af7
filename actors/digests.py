"""Brings the items of parked digest steps to their windows, and closes windows when their time is over.

What parked on this host is joined at once, together with all that parked while the join before was under way: one
transaction a window. The host that has opened a window, or seen it open, closes it on time; the sweeper finds what
nobody has in hand. Everything is idempotent, so it does no harm when several hosts see the same work.
"""

import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import msgspec

from ductor.actors.timers import TimerService
from ductor.definitions.errors import DuctorError
from ductor.journal.clock import Clock
from ductor.journal.digest_store import (
    MAX_JOINED_AT_ONCE,
    DigestChange,
    DigestStore,
    DigestWindow,
    UnjoinedDigest,
)
from ductor.journal.errors import StoreUnavailableError

RUNS_PER_LOOK = 500
WORK_PER_SWEEP = 500

_log = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(DigestWindow).decode


class Digests:
    """See the module's docstring.

    Args:
        wake: tells a run that a message waits for it.
        spawn: runs something beside the actors.
    """

    def __init__(
        self,
        store: DigestStore,
        clock: Clock,
        *,
        wake: Callable[[str], None],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._store, self._clock, self._wake, self._spawn = store, clock, wake, spawn
        self._parked: dict[str, None] = {}
        self._is_joining = False
        self._timers = TimerService(clock, self._due)

    def parked(self, run_id: str) -> None:
        """A commit that parks a digest step of this run is durable."""
        self._parked[run_id] = None
        if not self._is_joining:
            self._is_joining = True
            self._spawn(self._join_parked())

    async def sweep(self, now_us: int) -> None:
        """Take up what nobody has in hand."""
        work = await self._store.digest_work(now_us, WORK_PER_SWEEP)
        await self._join(work.unjoined)
        for window in work.due:
            await self._close(window)

    def stop(self) -> None:
        """Close no window any more."""
        self._timers.close()

    async def _join_parked(self) -> None:
        try:
            while self._parked:
                run_ids = list(self._parked)[:RUNS_PER_LOOK]
                for run_id in run_ids:
                    del self._parked[run_id]
                await self._join(await self._store.unjoined_digests(run_ids, RUNS_PER_LOOK))
        except StoreUnavailableError as error:  # the sweeper finds what is left undone
            _log.debug("%s", error)
        finally:
            self._is_joining = False

    async def _join(self, unjoined: Sequence[UnjoinedDigest]) -> None:
        by_window: dict[DigestWindow, list[UnjoinedDigest]] = {}
        for joining in unjoined:
            by_window.setdefault(joining.window, []).append(joining)
        for window, joinings in by_window.items():
            for at in range(0, len(joinings), MAX_JOINED_AT_ONCE):
                batch = joinings[at : at + MAX_JOINED_AT_ONCE]
                await self._change(window, self._store.join_digest(window, batch, self._clock.now_us()))

    async def _close(self, window: DigestWindow) -> None:
        await self._change(window, self._store.close_digest(window, self._clock.now_us()))

    async def _change(self, window: DigestWindow, work: Coroutine[Any, Any, DigestChange]) -> None:
        try:
            change = await work
        except StoreUnavailableError:
            raise
        except DuctorError as error:  # one window must not keep others from closing
            _log.error("a digest can't be gathered: %s: %s", window, error)
            return
        self._timers.arm(_encode(window).decode(), change.closes_at_us)
        for run_id in change.told:
            self._wake(run_id)

    def _due(self, window: str) -> None:
        self._spawn(self._close_on_time(_decode(window)))

    async def _close_on_time(self, window: DigestWindow) -> None:
        try:
            await self._close(window)
        except StoreUnavailableError as error:  # the sweeper finds it
            _log.debug("%s", error)
