"""Attempts that were lost with hosts that had them: each loss is counted before they are issued again.

A handler may end the process of its host: by a signal, by its use of memory, in a library that crashes. Whoever takes
over would call it again, and end as well. So the database counts, by attempt, how often it was lost, and a run whose
attempt was lost too often is set aside until somebody has looked at it.

```
  add ──▶ looked up ──never lost before──▶ counted, issued with all others of its kind
              │
              └──lost before: a suspect──▶ counted, issued with few others or alone ──▶ its trial is over: the next ones
                                              └──lost more often than `max_losses`──▶ its run is set aside
```
Who was with the one that ends its host is lost and counted as well. So that those are not set aside with it, suspects
are tried, a group at a time, the less often lost first: the more often, the smaller the group, until each is alone. Of
those lost as often the one that was counted last comes first, which is the one that was tried when the host ended. So
who ends hosts soon after he is called is soon lost more often than all others, and is called after them.

Invariants:
- An attempt is counted before it is issued: one that ends the host at once has been counted.
- What waits is held by this host, as others see it (`tokens`).

Failure cases:
- The database is away, or the answer is lost: asked again under the same id, after pauses, until there is an answer.
- The host ends between the count and the issue: one loss too many is counted.
- More waits than is remembered: those runs are looked at again after a pause.
- A handler ends its host long after it is called: those that run as long are lost as often, and set aside with it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final, Protocol

import msgspec

from ductor.actors.errors import AttemptLostError
from ductor.actors.log_fields import attempt_fields
from ductor.actors.messages import Assignment
from ductor.journal.errors import OverloadedError, StoreUnavailableError
from ductor.journal.ids import Ids
from ductor.journal.store import Store

MAX_WAITING: Final = 100_000
"""Attempts that wait to be counted. The runs of those beyond are looked at again after a pause."""

TOKENS_PER_COUNT: Final = 1_000
"""Attempts counted by one statement."""

SUSPECTS_AT_ONCE: Final = (100, 10, 1)
"""Attempts that are tried together: of those lost once, twice, and more often."""

TRIAL_S: Final = 0.5
"""The next suspects are issued after this, or when those on trial have their results."""

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
        self._to_look_up: dict[str, None] = {}
        self._suspects: dict[int, dict[str, None]] = {}  # by how often they were lost; some may wait no more
        self._on_trial: set[str] = set()
        self._is_tried = asyncio.Event()
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
            self._to_look_up[assignment.token] = None
            if not self._is_counting:
                self._is_counting = True
                self._counting = asyncio.create_task(self._count_waiting(), name="ductor count of lost attempts")

    def cancel(self, token: str) -> None:
        """Nobody wants the attempt any more. It is told so when it is issued, which gives it its result."""
        if (lost := self._waiting.get(token)) is not None:
            lost.is_cancelled = True

    def forget(self, token: str) -> None:
        """What became of the attempt is in the journal. Told of every attempt, and hardly ever of one that waits."""
        if not self._waiting and not self._on_trial:
            return
        self._waiting.pop(token, None)
        self._on_trial.discard(token)
        if not self._on_trial:
            self._is_tried.set()

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
            while self._to_look_up or self._suspects:
                if self._to_look_up:
                    await self._issue(await self._never_lost())
                else:
                    await self._try(self._next_suspects())
        finally:
            # here and not when the task is known to be done: what comes in between would wait for nobody
            self._is_counting = False

    async def _never_lost(self) -> list[str]:
        """Look the next ones up; what was lost before becomes a suspect."""
        batch = tuple(islice(self._to_look_up, TOKENS_PER_COUNT))
        losses = await _insist(lambda: self._owner.store.attempt_losses(batch))
        for token in batch:
            del self._to_look_up[token]
        for token, count in losses.items():
            self._suspects.setdefault(count, {})[token] = None
        return [token for token in batch if token not in losses]

    def _next_suspects(self) -> list[str]:
        """Some of those that were lost least often."""
        count = min(self._suspects)
        suspects = self._suspects[count]
        group = list(islice(suspects, SUSPECTS_AT_ONCE[min(count, len(SUSPECTS_AT_ONCE)) - 1]))
        for token in group:
            del suspects[token]
        if not suspects:
            del self._suspects[count]
        return group

    async def _try(self, tokens: Sequence[str]) -> None:
        """Issue suspects, and wait for what comes of it."""
        self._on_trial = await self._issue(tokens)
        self._is_tried.clear()
        if self._on_trial:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_tried.wait(), TRIAL_S)

    async def _issue(self, tokens: Sequence[str]) -> set[str]:
        """Count attempts, issue them, and set aside the runs of what was lost too often. Those that were issued."""
        tokens = [token for token in tokens if token in self._waiting]
        if not tokens:
            return set()
        count_id = self._owner.ids.commit_id()
        losses = await _insist(lambda: self._owner.store.count_losses(tokens, count_id))
        issued: set[str] = set()
        beyond: dict[str, AttemptLostError] = {}
        for token in tokens:
            lost = self._waiting.pop(token, None)
            if lost is None:
                continue
            assignment = lost.assignment
            if losses[token] > self._max_losses and not lost.is_cancelled:
                error = AttemptLostError(assignment.run_id, assignment.node, assignment.task, token, losses[token])
                beyond.setdefault(assignment.run_id, error)
                continue
            try:
                self._owner.issue(assignment)
            except Exception:  # noqa: BLE001 - logged with its traceback, and tried again: others must not wait for it
                _log.exception("%s could not be issued", token, extra=attempt_fields(token))
                self._owner.wake_later(assignment.run_id)
                continue
            issued.add(token)
            if lost.is_cancelled:
                self._owner.cancel(token)
        for run_id, error in beyond.items():
            self._owner.set_aside(run_id, error)
        return issued


async def _insist(ask: Callable[[], Awaitable[Mapping[str, int]]]) -> Mapping[str, int]:
    """Ask the database until it answers."""
    pause_s = RETRY_FIRST_S
    while True:
        try:
            return await ask()
        except (StoreUnavailableError, OverloadedError) as error:
            _log.debug("%s", error)
        except Exception:  # noqa: BLE001 - logged with its traceback, and tried again: what waits must not be lost
            _log.exception("attempts that were lost can't be counted; this is tried again")
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, RETRY_MAX_S)
