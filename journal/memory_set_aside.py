"""Runs that were set aside, in the memory store."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from uuid import UUID

import msgspec

from ductor.journal.clock import Clock
from ductor.journal.ids import run_of_token
from ductor.journal.memory_base import MemoryBase
from ductor.journal.partitions import Partitions, partition_of
from ductor.journal.set_aside_store import MAX_REASON_LENGTH, IdleRun, SetAsideRun
from ductor.journal.sorted_items import SortedItems


class CountedLosses(msgspec.Struct, frozen=True):
    """How often an attempt was lost, and the call that counted last."""

    losses: int
    count_id: UUID | None
    last_at_us: int


class MemorySetAside(MemoryBase):
    """See `ductor.journal.set_aside_store`."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._set_aside: dict[str, SetAsideRun] = {}
        self._losses: dict[str, dict[str, CountedLosses]] = {}
        self._recoverable: SortedItems[str] = SortedItems()

    async def set_run_aside(self, run_id: str, reason: str, host_id: str) -> bool:
        """Mark a run; one that is marked keeps its first reason. False without such a run."""
        run = self._run(run_id)
        if run is None:
            return False
        mark = SetAsideRun(
            run_id=run_id,
            tenant=run.head.tenant,
            definition=run.head.definition,
            reason=reason.replace("\x00", "")[:MAX_REASON_LENGTH],
            host_id=host_id,
            at_us=self._clock.now_us(),
        )
        self._set_aside.setdefault(run_id, mark)
        return True

    async def release_run(self, run_id: str) -> bool:
        """Remove the mark, and forget how often attempts of the run were lost. False if there was no mark."""
        self._check_open()
        self._losses.pop(run_id, None)
        return self._set_aside.pop(run_id, None) is not None

    async def attempt_losses(self, tokens: Sequence[str]) -> Mapping[str, int]:
        """How often attempts were lost by now, by token, without those that never were: least often first, and of those
        lost as often the one first that was counted last."""
        self._check_open()
        found = [(token, lost) for token in tokens if (lost := self._lost_before(token)) is not None]
        return {
            token: lost.losses for token, lost in sorted(found, key=lambda one: (one[1].losses, -one[1].last_at_us))
        }

    async def count_losses(self, tokens: Sequence[str], count_id: UUID) -> Mapping[str, int]:
        """Attempts were lost with hosts that had them: how often by now, by token, this time included, since their runs
        were released last. Asked again with the same id, as when the answer was lost, it counts nothing more."""
        self._check_open()
        counted: dict[str, int] = {}
        for token in dict.fromkeys(tokens):
            before = self._lost_before(token) or CountedLosses(0, None, 0)
            counted[token] = before.losses + (before.count_id != count_id)
            of_run = self._losses.setdefault(run_of_token(token), {})
            of_run[token] = CountedLosses(counted[token], count_id, self._clock.now_us())
        return counted

    def _lost_before(self, token: str) -> CountedLosses | None:
        return self._losses.get(run_of_token(token), {}).get(token)

    async def run_set_aside(self, run_id: str) -> SetAsideRun | None:
        """The mark of a run."""
        self._check_open()
        return self._set_aside.get(run_id)

    async def runs_set_aside(self, tenant: str | None, after_run_id: str | None, limit: int) -> Sequence[SetAsideRun]:
        """Marked runs in order of id."""
        self._check_open()
        found = (self._set_aside[run_id] for run_id in sorted(self._set_aside) if run_id > (after_run_id or ""))
        return list(islice((mark for mark in found if tenant in {None, mark.tenant}), limit))

    async def idle_runs(
        self, before_us: int, after_run_id: str | None, limit: int, partitions: Partitions = None
    ) -> Sequence[IdleRun]:
        """Runs of these partitions that are `running`, are not set aside, and have not changed since `before_us`."""
        self._check_open()
        looked_at = list(islice(self._running(after_run_id, partitions), limit))
        newest = [self._runs[run_id].transitions[-1] for run_id in looked_at]
        runs = [IdleRun(row.run_id, row.version, row.at_us) for row in newest]
        return [run for run in runs if run.at_us < before_us or run is runs[-1]]

    def _running(self, after_run_id: str | None, partitions: Partitions) -> Iterator[str]:
        for run_id in self._recoverable.ascending(after_run_id):
            if self._runs[run_id].head.status != "running" or run_id in self._set_aside:
                continue
            if partitions is None or partition_of(run_id) in partitions:
                yield run_id
