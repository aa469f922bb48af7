"""Redis first, PostgreSQL whenever Redis does not serve: two tiers behind one face.

States of the first tier, as this process sees it:

    serving --a call fails, is too slow or is refused--> away --a probe that writes succeeds--> serving
                                                          |
                                                          +-- for OWNERS_TOLD_AFTER_MS: owners are told

- Items go to the first tier. What it refuses (its queue is full) or can't take goes to the second.
- While the first tier serves, it alone hands out: who leases brings items of the second tier back to it. While that one
  seems empty it is looked at once in SECOND_TIER_LOOK_MS.
- While the first tier is away nothing waits for it: no call tries it but the probe. The second one hands out.
- The tier that hands out counts what is in flight of both: it adopts the leases of the other one (see `holdings`).
- What the first tier holds while it is away can't be served. Owners are told, and enqueue what they have in flight
  again, which goes to the second tier. So a token may be held by both: it is done twice at worst, and its first result
  counts. Who acknowledges it in one tier removes it from the other where that costs little.
- Removals meant for the first tier while it is away are remembered (see `removals`), and made when it is back.

An item whose owner enqueues it again when told is handed to a waiting consumer within STUCK_BOUND_MS of the moment that
the first tier failed in whatever way, unless a live consumer has it leased.

Caps hold over both tiers, but for the moment in which they take turns: until every process has had its leases adopted,
a probe's interval and time-out after it, a cap may be reached twice. Rates begin anew with each turn: a burst more.
What the first tier loses while it serves (a flush) is in flight all the same, and it counts none of it.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from ductor.actors.queue.asking import acknowledgement, release_call, withdrawal
from ductor.actors.queue.bringing import BRINGING_MS, bring
from ductor.actors.queue.distributed import (
    MAX_ITEMS_PER_CALL,
    DistributedQueue,
    Tier,
    check_count,
    check_lease_arguments,
)
from ductor.actors.queue.errors import QueueUnavailableError
from ductor.actors.queue.holdings import Holdings
from ductor.actors.queue.items import (
    DeadLetter,
    EnqueueOutcome,
    LanePolicy,
    Lease,
    QueueDepth,
    QueueDisturbance,
    QueueHealth,
    QueueItem,
    QueuePolicy,
    TokenState,
)
from ductor.actors.queue.merging import added_depths, merged_states
from ductor.actors.queue.removals import Removals

TIER: Final = "tiered"
STUCK_BOUND_MS: Final = 5_000
"""How long an item may lie between tiers when the first one fails, by default settings."""
PROBE_INTERVAL_MS: Final = 500
OWNERS_TOLD_AFTER_MS: Final = 1_000
"""A shorter absence of the first tier is not worth enqueueing everything again."""
SECOND_TIER_LOOK_MS: Final = 1_000
MAX_QUEUES_REMEMBERED: Final = 10_000
BROUGHT_BACK: Final = 64
"""Items of the second tier that a caller takes back to the first one at a time, if he does not want more."""

_Answer = TypeVar("_Answer")

_logger = logging.getLogger(__name__)


class TieredQueue:
    """See `DistributedQueue`, and this module.

    `renew` answers True for a lease of a tier that can't be asked: whoever has the item goes on.
    """

    def __init__(
        self,
        first: Tier,
        second: Tier,
        on_disturbance: Callable[[QueueDisturbance], None],
        *,
        probe_interval_ms: int = PROBE_INTERVAL_MS,
    ) -> None:
        """Args:
        first, second: the tiers; a lease belongs to the first if its `tier` is that of `first.health()`.
        on_disturbance: called on the event loop when the first tier has been away for a while; must not block. What the
            first tier itself finds out about lost items it tells to the function that it was given.
        """
        self._first = first
        self._second = second
        self._on_disturbance = on_disturbance
        self._probe_interval_ms = probe_interval_ms
        self._first_name = self._second_name = ""
        self._away_since_s: float | None = None
        self._are_owners_told = False
        # Queues that the second tier seems to hold items of, and when each queue was last looked at there.
        self._second_queues: set[str] = set()
        # Queues of which it may hold items that the first one has as well.
        self._twin_queues: set[str] = set()
        self._second_looked_at_s: dict[str, float] = {}
        self._holdings = Holdings()
        self._is_adoption_due = False
        self._removals = Removals()
        self._monitor: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._is_closed = False

    @property
    def tiers(self) -> tuple[Tier, Tier]:
        """Both, for who wants to look at each: the first may be away."""
        return self._first, self._second

    async def open(self) -> None:
        self._is_closed = False
        self._closing = asyncio.Event()
        await self._second.open()
        await self._first.open()
        health = await self._first.health()
        self._first_name, self._second_name = health.tier, (await self._second.health()).tier
        if not health.is_available:
            self._lose_first(health.reason)
        self._monitor = asyncio.create_task(self._watch(), name="queue tiers")

    async def close(self) -> None:
        self._is_closed = True
        self._closing.set()
        monitor, self._monitor = self._monitor, None
        if monitor is not None:
            # it ends by itself: a driver that is cancelled in mid-call may miss it
            await monitor
        await self._first.close()
        await self._second.close()

    async def enqueue(self, items: Sequence[QueueItem]) -> list[EnqueueOutcome]:
        check_count(len(items))
        outcomes: list[EnqueueOutcome] = ["refused"] * len(items)
        for item in items:
            self._removals.discard(item.queue, [item.token])
        answered = await self._ask_first(lambda first: first.enqueue(items))
        if answered is not None:
            outcomes = answered
        rest = [number for number, outcome in enumerate(outcomes) if outcome == "refused"]
        if rest:
            left = [items[number] for number in rest]
            taken = await self._second.enqueue(left)
            self._note_in_second(item.queue for item in left)
            for number, outcome in zip(rest, taken, strict=True):
                outcomes[number] = outcome
        return outcomes

    async def lease(
        self, queues: Sequence[str], *, max_items: int, visibility_ms: int, wait_ms: int = 0
    ) -> list[Lease]:
        check_lease_arguments(queues, max_items, visibility_ms, wait_ms)
        leases = await self._lease_within(queues, max_items, visibility_ms, wait_ms)
        self._holdings.add(leases, asyncio.get_running_loop().time() + visibility_ms / 1_000)
        if self._away_since_s is not None and any(lease.tier == self._first_name for lease in leases):
            self._is_adoption_due = True  # the call was under way when that tier was lost
        return leases

    async def _lease_within(
        self, queues: Sequence[str], max_items: int, visibility_ms: int, wait_ms: int
    ) -> list[Lease]:
        loop = asyncio.get_running_loop()
        until_s = loop.time() + wait_ms / 1_000
        while True:
            leases = await self._lease_now(queues, max_items, visibility_ms)
            left_ms = int((until_s - loop.time()) * 1_000)
            if leases or left_ms <= 0 or self._is_closed:
                return leases
            slice_ms = min(left_ms, SECOND_TIER_LOOK_MS)

            async def wait_at(tier: DistributedQueue, slice_ms: int = slice_ms) -> list[Lease]:
                return await tier.lease(queues, max_items=max_items, visibility_ms=visibility_ms, wait_ms=slice_ms)

            if self._away_since_s is None:
                leases = await self._ask_first(wait_at) or []
            else:
                leases = await wait_at(self._second)
            if leases:
                return leases

    async def renew(self, leases: Sequence[Lease], *, visibility_ms: int) -> list[bool]:
        async def renew_at(tier: DistributedQueue, part: Sequence[Lease]) -> list[bool]:
            return await tier.renew(part, visibility_ms=visibility_ms)

        answers = await self._by_tier(leases, renew_at, True)
        for name in (self._first_name, self._second_name):
            copies = self._holdings.copies(leases, name)
            if copies:
                renewed = await self._by_tier(copies, renew_at, True)
                hold = {copy.item.token for copy, holds in zip(copies, renewed, strict=True) if holds}
                answers = [
                    answer or (lease.tier == name and lease.item.token in hold)
                    for lease, answer in zip(leases, answers, strict=True)
                ]
        held = [lease for lease, holds in zip(leases, answers, strict=True) if holds]
        self._holdings.renew(held, asyncio.get_running_loop().time() + visibility_ms / 1_000)
        return answers

    async def acknowledge(self, leases: Sequence[Lease]) -> list[bool]:
        answers = await self._by_tier(leases, acknowledgement, False)
        if self._away_since_s is not None:
            self._removals.add((lease.item.queue, lease.item.token) for lease in leases)
        await self._remove_twins(leases)
        return answers

    async def release(self, leases: Sequence[Lease]) -> list[bool]:
        """As of a tier. What one that is away holds is returned by the one that has adopted it."""
        answers = await self._by_tier(leases, release_call, False)
        for lease, is_returned in zip(leases, answers, strict=True):
            for held in self._holdings.take([lease]):
                await self._by_tier(list(held.copies.values()), acknowledgement if is_returned else release_call, False)
        return answers

    async def withdraw(self, queue: str, tokens: Sequence[str]) -> Mapping[str, TokenState]:
        check_count(len(tokens))
        in_first = await self._ask_first(lambda first: first.withdraw(queue, tokens))
        if in_first is None:
            self._removals.add((queue, token) for token in tokens)
        return merged_states(in_first or {}, await self._second.withdraw(queue, tokens))

    async def held(self, queue: str, tokens: Sequence[str]) -> Mapping[str, TokenState]:
        """How a tier that serves holds the tokens: what one that is away holds has to be enqueued again."""
        check_count(len(tokens))
        in_first = await self._ask_first(lambda first: first.held(queue, tokens))
        return merged_states(in_first or {}, await self._second.held(queue, tokens))

    async def depth(self, queue: str) -> QueueDepth:
        in_first = await self._ask_first(lambda first: first.depth(queue))
        in_second = await self._second.depth(queue)
        return in_second if in_first is None else added_depths(in_first, in_second)

    async def dead_letters(self, queue: str, *, limit: int = MAX_ITEMS_PER_CALL) -> list[DeadLetter]:
        check_count(limit)
        letters = await self._ask_first(lambda first: first.dead_letters(queue, limit=limit)) or []
        letters += await self._second.dead_letters(queue, limit=limit)
        return sorted(letters, key=lambda letter: letter.dead_at_us, reverse=True)[:limit]

    async def replay(self, queue: str, tokens: Sequence[str]) -> list[bool]:
        check_count(len(tokens))
        in_first = await self._ask_first(lambda first: first.replay(queue, tokens)) or [False] * len(tokens)
        in_second = await self._second.replay(queue, tokens)
        if any(in_second):
            self._note_in_second([queue])
        return [one or other for one, other in zip(in_first, in_second, strict=True)]

    async def drop(self, queue: str, tokens: Sequence[str]) -> list[bool]:
        check_count(len(tokens))
        in_first = await self._ask_first(lambda first: first.drop(queue, tokens)) or [False] * len(tokens)
        in_second = await self._second.drop(queue, tokens)
        return [one or other for one, other in zip(in_first, in_second, strict=True)]

    async def set_lane_policy(self, queue: str, tenant: str, policy: LanePolicy) -> None:
        await self._second.set_lane_policy(queue, tenant, policy)
        # a tier that can't be asked sets it when it is back
        await self._ask_first(lambda first: first.set_lane_policy(queue, tenant, policy), even_if_away=True)

    async def set_queue_policy(self, queue: str, policy: QueuePolicy) -> None:
        await self._second.set_queue_policy(queue, policy)
        await self._ask_first(lambda first: first.set_queue_policy(queue, policy), even_if_away=True)

    async def health(self) -> QueueHealth:
        """Whether any tier serves; `reason` says why the first one does not."""
        first = await self._first.health()
        second = await self._second.health()
        reasons = [f"{tier.tier}: {tier.reason}" for tier in (first, second) if not tier.is_available]
        return QueueHealth(
            tier=TIER,
            is_available=first.is_available or second.is_available,
            reason="; ".join(reasons),
            epoch=first.epoch,
        )

    async def _ask_first(
        self, ask: Callable[[Tier], Awaitable[_Answer]], *, even_if_away: bool = False
    ) -> _Answer | None:
        """The first tier's answer; None when it has none to give."""
        if self._away_since_s is not None and not even_if_away:
            return None
        try:
            return await ask(self._first)
        except QueueUnavailableError as error:
            self._lose_first(error.reason)
            return None

    async def _lease_now(self, queues: Sequence[str], max_items: int, visibility_ms: int) -> list[Lease]:
        if self._away_since_s is None and (self._is_look_due(queues) or self._seems_in_second(queues)):
            await self._bring_back(queues, max(max_items, BROUGHT_BACK))
        if self._away_since_s is None:
            leases = await self._ask_first(
                lambda first: first.lease(queues, max_items=max_items, visibility_ms=visibility_ms)
            )
            if leases is not None:
                return leases
        await self._adopt_if_due()
        return await self._lease_from_second(queues, max_items, visibility_ms)

    async def _bring_back(self, queues: Sequence[str], max_items: int) -> None:
        """Have the first tier hold what waits in the second."""
        leases = await self._lease_from_second(queues, max_items, BRINGING_MS)
        if leases and not await self._ask_first(lambda first: bring(leases, self._second, first)):
            self._second_queues.difference_update(queues)  # the first one is full: look again in a while
        for queue in () if leases else self._twin_queues.intersection(queues):
            if (await self._second.depth(queue)).queued == 0:  # else a cap may hold them back
                self._twin_queues.discard(queue)

    async def _adopt_if_due(self) -> None:
        """Have the second tier count what this process has of the first one, which is away."""
        if self._is_adoption_due:
            self._is_adoption_due = False
            try:
                await self._holdings.adopt_into(self._second, self._second_name)
            except QueueUnavailableError:
                self._is_adoption_due = True
                raise

    def _seems_in_second(self, queues: Sequence[str]) -> bool:
        return not self._second_queues.isdisjoint(queues)

    def _is_look_due(self, queues: Sequence[str]) -> bool:
        due_s = asyncio.get_running_loop().time() - SECOND_TIER_LOOK_MS / 1_000
        return any(self._second_looked_at_s.get(queue, float("-inf")) <= due_s for queue in queues)

    async def _lease_from_second(self, queues: Sequence[str], max_items: int, visibility_ms: int) -> list[Lease]:
        """The second tier's items; none, and a word in the log, when it is the one that is away."""
        now_s = asyncio.get_running_loop().time()
        if len(self._second_looked_at_s) > MAX_QUEUES_REMEMBERED:
            self._second_looked_at_s.clear()
        self._second_looked_at_s.update(dict.fromkeys(queues, now_s))
        try:
            leases = await self._second.lease(queues, max_items=max_items, visibility_ms=visibility_ms)
        except QueueUnavailableError as error:
            if self._away_since_s is not None:
                raise
            _logger.debug("%s is not looked at: %s", self._second_name, error.reason)  # it says itself that it is away
            return []
        if leases:
            self._note_in_second(lease.item.queue for lease in leases)
        else:
            self._second_queues.difference_update(queues)
        return leases

    def _note_in_second(self, queues: Iterable[str]) -> None:
        named = set(queues)
        self._second_queues |= named
        self._twin_queues |= named

    async def _by_tier(
        self,
        leases: Sequence[Lease],
        ask: Callable[[DistributedQueue, Sequence[Lease]], Awaitable[list[bool]]],
        unknown: bool,
    ) -> list[bool]:
        """Each lease's answer by the tier that holds it; `unknown` where that one is away."""
        check_count(len(leases))
        answers = [unknown] * len(leases)
        in_first = [number for number, lease in enumerate(leases) if lease.tier == self._first_name]
        in_second = [number for number, lease in enumerate(leases) if lease.tier != self._first_name]
        if in_first:
            part = [leases[number] for number in in_first]
            answered = await self._ask_first(lambda first: ask(first, part))
            for number, answer in zip(in_first, answered or [unknown] * len(part), strict=True):
                answers[number] = answer
        if in_second:
            part_of_second = [leases[number] for number in in_second]
            for number, answer in zip(in_second, await ask(self._second, part_of_second), strict=True):
                answers[number] = answer
        return answers

    async def _remove_twins(self, leases: Sequence[Lease]) -> None:
        """Remove from the other tier what was done, where that is at hand: it would only be done again."""
        taken = self._holdings.take(leases)
        copied = {held.lease.item.token for held in taken if self._second_name in held.copies}
        by_queue: defaultdict[tuple[bool, str], list[str]] = defaultdict(list)
        for lease in leases:
            by_queue[lease.tier == self._first_name, lease.item.queue].append(lease.item.token)
        for (is_of_first, queue), tokens in by_queue.items():
            if is_of_first and (queue in self._twin_queues or not copied.isdisjoint(tokens)):
                await self._second.withdraw(queue, tokens)
            elif not is_of_first and self._away_since_s is None:
                await self._ask_first(withdrawal(queue, tokens))

    def _lose_first(self, reason: str) -> None:
        if self._away_since_s is None:
            self._away_since_s = asyncio.get_running_loop().time()
            self._are_owners_told = False
            self._holdings.ask_again()
            self._is_adoption_due = True
            _logger.warning(
                "the queue goes on in %s, slower, until %s is back: %s",
                _spoken(self._second_name),
                _spoken(self._first_name),
                reason,
            )

    async def _watch(self) -> None:
        """Probe the first tier until the queue is closed: nobody may be asking it, and somebody must find it back."""
        while not await self._closes_within(self._probe_interval_ms):
            try:
                await self._probe()
            except QueueUnavailableError as error:
                self._lose_first(error.reason)
            self._tell_owners()
            if self._away_since_s is not None:
                try:
                    await self._adopt_if_due()
                except QueueUnavailableError as error:
                    _logger.debug("%s does not count yet what is in flight: %s", self._second_name, error.reason)

    async def _closes_within(self, timeout_ms: int) -> bool:
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                return await self._closing.wait()
        except TimeoutError:
            return False

    async def _probe(self) -> None:
        health = await self._first.health()
        if not health.is_available:
            self._lose_first(health.reason)
            return
        if self._away_since_s is None:
            return
        while (removals := self._removals.first()) is not None:
            await self._first.withdraw(*removals)
            self._removals.discard(*removals)
        self._holdings.ask_again()
        await self._holdings.adopt_into(self._first, self._first_name)
        away_s = asyncio.get_running_loop().time() - self._away_since_s
        _logger.warning("the queue is in %s again after %.1f s", _spoken(self._first_name), away_s)
        self._away_since_s = None

    def _tell_owners(self) -> None:
        if self._away_since_s is None or self._are_owners_told:
            return
        if asyncio.get_running_loop().time() - self._away_since_s >= OWNERS_TOLD_AFTER_MS / 1_000:
            self._are_owners_told = True
            self._on_disturbance(QueueDisturbance(tier=self._first_name, reason="unavailable"))


def _spoken(tier: str) -> str:
    return {"redis": "Redis", "postgres": "PostgreSQL"}.get(tier, tier)
