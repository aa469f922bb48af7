"""Leases that a process has of two tiers, and their copies: each tier has to count what is in flight by the other.

A lease belongs to the tier that handed it out. While the other one serves in its place, that one *adopts* the lease: it
holds the item as leased too, a copy that is renewed and removed with the lease. So its caps and fair shares count the
work, and an item that its owner enqueues there once more is not handed out beside the one that is at work.

Bounds: MAX_HELD leases; the oldest are let go, and are not counted by the other tier.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

import msgspec

from ductor.actors.queue.distributed import MAX_ITEMS_PER_CALL, Tier
from ductor.actors.queue.items import SYSTEM_PREFIX, Lease

MAX_HELD: Final = 100_000


class Holding(msgspec.Struct):
    """A lease, and when it runs out by the event loop's clock.

    Attributes:
        copies: what tiers that have adopted it hold, by their names. The lease's own tier is among them if it had
            forgotten the lease.
        asked: tiers that need not be asked for a copy: they have one, or somebody has the item there.
    """

    lease: Lease
    until_s: float
    copies: dict[str, Lease] = msgspec.field(default_factory=dict)
    asked: set[str] = msgspec.field(default_factory=set)


class Holdings:
    """See the module's docstring. Wakeups are left out: nothing limits them, and one too many is harmless."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, str], Holding] = {}

    def add(self, leases: Iterable[Lease], until_s: float) -> None:
        """These were handed out."""
        for lease in leases:
            if lease.item.queue.startswith(SYSTEM_PREFIX):
                continue
            if len(self._held) >= MAX_HELD:
                del self._held[next(iter(self._held))]
            self._held[lease.item.queue, lease.item.token] = Holding(lease, until_s)

    def renew(self, leases: Iterable[Lease], until_s: float) -> None:
        """These hold for longer. What was given back meanwhile is left alone."""
        for lease in leases:
            held = self._of(lease)
            if held is not None:
                held.until_s = until_s

    def take(self, leases: Iterable[Lease]) -> list[Holding]:
        """Forget leases; those of them that were known."""
        known = [held for lease in leases if (held := self._of(lease)) is not None]
        for held in known:
            del self._held[held.lease.item.queue, held.lease.item.token]
        return known

    def copies(self, leases: Iterable[Lease], tier: str) -> list[Lease]:
        """What this tier has adopted of these leases."""
        known = (held for lease in leases if (held := self._of(lease)) is not None)
        return [held.copies[tier] for held in known if tier in held.copies]

    def ask_again(self) -> None:
        """Another tier hands out from now on: what it should count is to be found anew."""
        for held in self._held.values():
            held.asked.clear()

    async def adopt_into(self, tier: Tier, name: str) -> None:
        """Have a tier count the leases that it does not count yet, as far as is known. Raises QueueUnavailableError."""
        loop = asyncio.get_running_loop()
        while holdings := self._to_adopt(name, loop.time()):
            left_ms = max(int((held.until_s - loop.time()) * 1_000) for held in holdings)
            copies = await tier.adopt([held.lease for held in holdings], visibility_ms=max(1, left_ms))
            for held, copy in zip(holdings, copies, strict=True):
                held.asked.add(name)
                if copy is not None:
                    held.copies[name] = copy

    def _to_adopt(self, tier: str, now_s: float) -> list[Holding]:
        """What one call takes. Leases that have run out are forgotten."""
        found: list[Holding] = []
        for key, held in tuple(self._held.items()):
            if held.until_s <= now_s:
                del self._held[key]
            elif tier not in held.asked and len(found) < MAX_ITEMS_PER_CALL:
                found.append(held)
        return found

    def _of(self, lease: Lease) -> Holding | None:
        """What is known of this very lease."""
        held = self._held.get((lease.item.queue, lease.item.token))
        return held if held is not None and held.lease == lease else None
