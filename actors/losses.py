"""Attempts that were lost with hosts that had them: each loss is counted before they are issued again.

A handler may end the process of its host: by a signal, by its use of memory, in a library that crashes. Whoever takes
over would call it again, and end as well. So the database counts, by attempt, how often it was lost, and a run whose
attempt was lost too often is set aside until somebody has looked at it.

```
  add ──▶ waiting ──counted──▶ issued again, as often as `max_losses` allows ──(it was cancelled meanwhile)──▶ cancelled
             │  └───────────▶ its run is set aside: it was lost more often
             └─ has a result by now ──▶ forgotten
```
Invariants:
- An attempt is counted before it is issued: one that ends the host at once has been counted.
- What waits is held by this host, as others see it (`tokens`).

Failure cases:
- The database is away, or the answer is lost: asked again under the same id, after pauses, until there is an answer.
- The host ends between the count and the issue: one loss too many is counted.
- More waits than is remembered: those runs are looked at again after a pause.

Attempts that were with the one that ends its host are lost and counted too: they can't be told apart.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import Final, Protocol

import msgspec

from ductor.actors.errors import AttemptLostError
from ductor.actors.messages import Assignment
from ductor.journal.errors import OverloadedError, StoreUnavailableError
from ductor.journal.ids import Ids
from ductor.journal.store import Store

MAX_WAITING: Final = 100_000
"""Attempts that wait to be counted. The runs of those beyond are looked at again after a pause."""

TOKENS_PER_COUNT: Final = 1_000
"""Attempts counted by one statement."""

RETRY_FIRST_S: Final = 0.1
RETRY_MAX_S: Final = 5.0
"""Pauses while the database does not count: the first, then twice as long each time."""

_log = logging.getLogger(__name__)


class Lost(msgspec.Struct):
    """An attempt that waits to be counted; `is_cancelled`: nobody wants it any more."""

    assignment: Assignment
    is_cancelled: bool = False


class Owner(Protocol):
    """Who carries out runs: the engine."""

    store: Store
    ids: Ids

    def issue(self, assignment: Assignment) -> None:
        """Hand an attempt to a worker."""
        ...

    def cancel(self, token: str) -> None:
        """Tell a worker to stop an attempt."""
        ...

    def set_aside(self, run_id: str, error: Exception) -> None:
        """Leave a run alone."""
        ...

    def wake_later(self, run_id: str) -> None:
        """Look at a run after a pause, and offer its attempts again."""
        ...


class LostAttempts:
    """See the module's docstring. All methods belong to the loop's thread.

    Attributes:
        has_left_attempts: something was not issued because the host closes.
    """

    def __init__(self, owner: Owner, max_losses: int) -> None:
        """Args: `max_losses` is how often an attempt may be lost and is still issued again."""
        self._owner, self._max_losses = owner, max_losses
        self._waiting: dict[str, Lost] = {}
        self._counting: asyncio.Task[None] | None = None
        self._is_counting = self._is_closed = False
        self.has_left_attempts = False

    def add(self, assignment: Assignment) -> None:
        """Count an attempt that nobody has any more, then issue it again or set its run aside. One that waits already
        is not counted again."""
        if self._is_closed:
            self.has_left_attempts = True
        elif assignment.token in self._waiting:
            return
        elif len(self._waiting) >= MAX_WAITING:
            self._owner.wake_later(assignment.run_id)
        else:
            self._waiting[assignment.token] = Lost(assignment)
            if not self._is_counting:
                self._is_counting = True
                self._counting = asyncio.create_task(self._count_waiting(), name="ductor count of lost attempts")

    def cancel(self, token: str) -> None:
        """Nobody wants the attempt any more. It is told so when it is issued, which gives it its result."""
        if (lost := self._waiting.get(token)) is not None:
            lost.is_cancelled = True

    def forget(self, token: str) -> None:
        """What became of the attempt is in the journal."""
        self._waiting.pop(token, None)

    @property
    def tokens(self) -> Collection[str]:
        """Attempts that wait to be counted."""
        return self._waiting.keys()

    async def close(self) -> None:
        """Issue nothing any more: who takes over counts what is left, and issues it."""
        self._is_closed = True
        self.has_left_attempts = self.has_left_attempts or bool(self._waiting)
        self._waiting.clear()
        if self._counting is not None:
            self._counting.cancel()
            await asyncio.gather(self._counting, return_exceptions=True)

    async def _count_waiting(self) -> None:
        try:
            while self._waiting:
                batch = tuple(islice(self._waiting, TOKENS_PER_COUNT))
                self._go_on(await self._count(batch))
        finally:
            # here and not when the task is known to be done: what comes in between would wait for nobody
            self._is_counting = False

    async def _count(self, tokens: Sequence[str]) -> Mapping[str, int]:
        """One statement, asked until it is answered."""
        count_id, pause_s = self._owner.ids.commit_id(), RETRY_FIRST_S
        while True:
            try:
                return await self._owner.store.count_losses(tokens, count_id)
            except (StoreUnavailableError, OverloadedError) as error:
                _log.debug("%s", error)
            except Exception:  # noqa: BLE001 - logged with its traceback, and tried again: what waits must not be lost
                _log.exception("%d attempts that were lost can't be counted; this is tried again", len(tokens))
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, RETRY_MAX_S)

    def _go_on(self, losses: Mapping[str, int]) -> None:
        """Issue what has been counted, and set aside the runs of what was lost too often."""
        beyond: dict[str, AttemptLostError] = {}
        for token, count in losses.items():
            lost = self._waiting.pop(token, None)
            if lost is None:
                continue
            assignment = lost.assignment
            if count > self._max_losses and not lost.is_cancelled:
                error = AttemptLostError(assignment.run_id, assignment.node, assignment.task, token, count)
                beyond.setdefault(assignment.run_id, error)
                continue
            self._owner.issue(assignment)
            if lost.is_cancelled:
                self._owner.cancel(token)
        for run_id, error in beyond.items():
            self._owner.set_aside(run_id, error)
