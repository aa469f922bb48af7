"""Runs that hosts leave alone until somebody has looked at them, and runs that do not get on.

A run is set aside when it keeps killing its coordinator, when one of its attempts was lost too often with the hosts
that had it, when the database refuses its commit, or when it is `running` and nothing that it waits for can be found.
It stays so through restarts, no host recovers or sweeps it, and people see it with its reason until they release it.
That is a mark beside the journal: releasing changes nothing of the run.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol
from uuid import UUID

import msgspec

from ductor.journal.partitions import Partitions

MAX_REASON_LENGTH: Final = 2_000
"""Characters of a reason that are kept."""


class SetAsideRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that was set aside.

    Attributes:
        reason: what people read.
        host_id: who did it; at_us: when, by the store's clock.
    """

    run_id: str
    tenant: str
    definition: str
    reason: str
    host_id: str
    at_us: int


class IdleRun(msgspec.Struct, frozen=True):
    """A run that is `running`, and the newest row of its journal."""

    run_id: str
    version: int
    at_us: int


class SetAsideStore(Protocol):
    """Part of `ductor.journal.store.Store`; see the module's docstring."""

    async def set_run_aside(self, run_id: str, reason: str, host_id: str) -> bool:
        """Mark a run; one that is marked keeps its first reason. False without such a run."""
        ...

    async def release_run(self, run_id: str) -> bool:
        """Remove the mark, and forget how often attempts of the run were lost. False if there was no mark."""
        ...

    async def attempt_losses(self, tokens: Sequence[str]) -> Mapping[str, int]:
        """How often attempts were lost by now, by token, without those that never were: least often first, and of those
        lost as often the one first that was counted last."""
        ...

    async def count_losses(self, tokens: Sequence[str], count_id: UUID) -> Mapping[str, int]:
        """Attempts were lost with hosts that had them: how often by now, by token, this time included, since their runs
        were released last. Asked again with the same id, as when the answer was lost, it counts nothing more."""
        ...

    async def run_set_aside(self, run_id: str) -> SetAsideRun | None:
        """The mark of a run."""
        ...

    async def runs_set_aside(self, tenant: str | None, after_run_id: str | None, limit: int) -> Sequence[SetAsideRun]:
        """Marked runs in order of id."""
        ...

    async def idle_runs(
        self, before_us: int, after_run_id: str | None, limit: int, partitions: Partitions = None
    ) -> Sequence[IdleRun]:
        """Runs of these partitions that are `running`, are not set aside, and have not changed since `before_us`, in
        order of id. It looks at `limit` running runs: the last of these is in the answer however young it is, so that
        the caller can go on from there; an empty answer means that there are no more."""
        ...
