"""Redis first, PostgreSQL whenever Redis does not serve: two tiers behind one face.

States of the first tier, as this process sees it:

    serving --a call fails, is too slow or is refused--> away --a probe that writes succeeds--> serving
                                                          |
                                                          +-- for OWNERS_TOLD_AFTER_MS: owners are told

- Items go to the first tier. What it refuses (its queue is full) or can't take goes to the second.
- Both tiers are leased from while both hold items, in equal parts; while the second seems empty it is looked at once in
  SECOND_TIER_LOOK_MS.
- While the first tier is away nothing waits for it: no call tries it but the probe.
- What the first tier holds while it is away can't be served. Owners are told, and enqueue what they have in flight
  again, which goes to the second tier. So a token may be held by both: it is done twice at worst, and its first result
  counts. Who acknowledges it in one tier removes it from the other where that costs little.
- Removals meant for the first tier while it is away are remembered, MAX_REMEMBERED at most, and made when it is back.

An item whose owner enqueues it again when told is handed to a waiting consumer within STUCK_BOUND_MS of the moment that
the first tier failed in whatever way, unless a live consumer has it leased. Caps and rates hold for each tier by
itself.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Final, TypeVar

from ductor.actors.queue.distributed import (
    MAX_ITEMS_PER_CALL,
    DistributedQueue,
    check_count,
    check_lease_arguments,
)
from ductor.actors.queue.errors import QueueUnavailableError
from ductor.actors.queue.items import (
    DeadLetter,
    EnqueueOutcome,
    LaneDepth,
    LanePolicy,
    Lease,
    QueueDepth,
    QueueDisturbance,
    QueueHealth,
    QueueItem,
    QueuePolicy,
    TokenState,
)

TIER: Final = "tiered"
STUCK_BOUND_MS: Final = 5_000
"""How long an item may lie between tiers when the first one fails, by default settings."""
PROBE_INTERVAL_MS: Final = 500
OWNERS_TOLD_AFTER_MS: Final = 1_000
"""A shorter absence of the first tier is not worth enqueueing everything again."""
SECOND_TIER_LOOK_MS: Final = 1_000
MAX_REMEMBERED: Final = 100_000
MAX_QUEUES_REMEMBERED: Final = 10_000
_RANK: Final[Mapping[TokenState, int]] = {"dead": 0, "queued": 1, "leased": 2}

_Answer = TypeVar("_Answer")

_logger = logging.getLogger(__name__)


class TieredQueue:
    """See `DistributedQueue`, and this module.

    `renew` answers True for a lease of a tier that can't be asked: whoever has the item goes on.
    """

    def __init__(
        self,
        first: DistributedQueue,
        second: DistributedQueue,
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
        self._first_name = ""
        self._away_since_s: float | None = None
        self._are_owners_told = False
        # Queues that the second tier seems to hold items of, and when each queue was last looked at there.
        self._second_queues: set[str] = set()
        self._second_looked_at_s: dict[str, float] = {}
        self._is_seconds_turn = False
        self._remembered: dict[tuple[str, str], None] = {}
        self._monitor: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._is_closed = False

    @property
    def tiers(self) -> tuple[DistributedQueue, DistributedQueue]:
        """Both, for who wants to look at each: the first may be away."""
        return self._first, self._second

    async def open(self) -> None:
        self._is_closed = False
        self._closing = asyncio.Event()
        await self._second.open()
        await self._first.open()
        health = await self._first.health()
        self._first_name = health.tier
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
            self._remembered.pop((item.queue, item.token), None)
        answered = await self._ask_first(lambda first: first.enqueue(items))
        if answered is not None:
            outcomes = answered
        rest = [number for number, outcome in enumerate(outcomes) if outcome == "refused"]
        if rest:
            left = [items[number] for number in rest]
            taken = await self._second.enqueue(left)
            self._second_queues.update(item.queue for item in left)
            for number, outcome in zip(rest, taken, strict=True):
                outcomes[number] = outcome
        return outcomes

    async def lease(
        self, queues: Sequence[str], *, max_items: int, visibility_ms: int, wait_ms: int = 0
    ) -> list[Lease]:
        check_lease_arguments(queues, max_items, visibility_ms, wait_ms)
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
        return await self._by_tier(leases, lambda tier, part: tier.renew(part, visibility_ms=visibility_ms), True)

    async def acknowledge(self, leases: Sequence[Lease]) -> list[bool]:
        answers = await self._by_tier(leases, lambda tier, part: tier.acknowledge(part), False)
        if self._away_since_s is not None:
            self._remember((lease.item.queue, lease.item.token) for lease in leases)
        await self._remove_twins(leases)
        return answers

    async def release(self, leases: Sequence[Lease]) -> list[bool]:
        return await self._by_tier(leases, lambda tier, part: tier.release(part), False)

    async def withdraw(self, queue: str, tokens: Sequence[str]) -> Mapping[str, TokenState]:
        check_count(len(tokens))
        in_first = await self._ask_first(lambda first: first.withdraw(queue, tokens))
        if in_first is None:
            self._remember((queue, token) for token in tokens)
        return _merged(in_first or {}, await self._second.withdraw(queue, tokens))

    async def held(self, queue: str, tokens: Sequence[str]) -> Mapping[str, TokenState]:
        """How a tier that serves holds the tokens: what one that is away holds has to be enqueued again."""
        check_count(len(tokens))
        in_first = await self._ask_first(lambda first: first.held(queue, tokens))
        return _merged(in_first or {}, await self._second.held(queue, tokens))

    async def depth(self, queue: str) -> QueueDepth:
        in_first = await self._ask_first(lambda first: first.depth(queue))
        in_second = await self._second.depth(queue)
        return in_second if in_first is None else _sum(in_first, in_second)

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
            self._second_queues.add(queue)
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
        self, ask: Callable[[DistributedQueue], Awaitable[_Answer]], *, even_if_away: bool = False
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
        leases: list[Lease] = []
        self._is_seconds_turn = not self._is_seconds_turn
        if self._away_since_s is not None:
            return await self._lease_from_second(queues, max_items, visibility_ms)
        if self._is_look_due(queues) or (self._is_seconds_turn and self._seems_in_second(queues)):
            leases = await self._lease_from_second(queues, -(-max_items // 2), visibility_ms)
        wanted = max_items - len(leases)
        if wanted:
            from_first = await self._ask_first(
                lambda first: first.lease(queues, max_items=wanted, visibility_ms=visibility_ms)
            )
            leases += from_first or []
        if not leases and self._seems_in_second(queues):
            leases = await self._lease_from_second(queues, max_items, visibility_ms)
        return leases

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
            _logger.warning("the second tier of the queue is not looked at: %s", error.reason)
            return []
        if leases:
            self._second_queues.update(lease.item.queue for lease in leases)
        else:
            self._second_queues.difference_update(queues)
        return leases

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
        by_queue: defaultdict[tuple[bool, str], list[str]] = defaultdict(list)
        for lease in leases:
            by_queue[lease.tier == self._first_name, lease.item.queue].append(lease.item.token)
        for (is_of_first, queue), tokens in by_queue.items():
            if is_of_first and queue in self._second_queues:
                await self._second.withdraw(queue, tokens)
            elif not is_of_first and self._away_since_s is None:
                await self._ask_first(_withdrawal(queue, tokens))

    def _remember(self, removals: Iterable[tuple[str, str]]) -> None:
        for removal in removals:
            self._remembered[removal] = None
        over = len(self._remembered) - MAX_REMEMBERED
        if over > 0:
            _logger.warning("%d items that are done may be delivered once more when the first tier is back", over)
            for removal in list(self._remembered)[:over]:
                del self._remembered[removal]

    def _lose_first(self, reason: str) -> None:
        if self._away_since_s is None:
            self._away_since_s = asyncio.get_running_loop().time()
            self._are_owners_told = False
            _logger.warning("the first tier of the queue is away, the second one serves: %s", reason)

    async def _watch(self) -> None:
        """Probe the first tier until the queue is closed: nobody may be asking it, and somebody must find it back."""
        while not await self._closes_within(self._probe_interval_ms):
            try:
                await self._probe()
            except QueueUnavailableError as error:
                self._lose_first(error.reason)
            self._tell_owners()

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
        while self._remembered:
            removals = list(self._remembered)[:MAX_ITEMS_PER_CALL]
            queue = removals[0][0]
            tokens = [token for of_queue, token in removals if of_queue == queue]
            await self._first.withdraw(queue, tokens)
            for token in tokens:
                self._remembered.pop((queue, token), None)
        _logger.warning("the first tier of the queue is back")
        self._away_since_s = None

    def _tell_owners(self) -> None:
        if self._away_since_s is None or self._are_owners_told:
            return
        if asyncio.get_running_loop().time() - self._away_since_s >= OWNERS_TOLD_AFTER_MS / 1_000:
            self._are_owners_told = True
            self._on_disturbance(QueueDisturbance(tier=self._first_name, reason="unavailable"))


def _withdrawal(queue: str, tokens: Sequence[str]) -> Callable[[DistributedQueue], Awaitable[Mapping[str, TokenState]]]:
    return lambda tier: tier.withdraw(queue, tokens)


def _merged(first: Mapping[str, TokenState], second: Mapping[str, TokenState]) -> dict[str, TokenState]:
    """How tokens stand in the tier where they have come furthest."""
    merged = dict(first)
    for token, state in second.items():
        if token not in merged or _RANK[state] > _RANK[merged[token]]:
            merged[token] = state
    return merged


def _sum(first: QueueDepth, second: QueueDepth) -> QueueDepth:
    lanes: dict[str, LaneDepth] = {}
    for lane in chain(first.lanes, second.lanes):
        other = lanes.get(lane.tenant)
        lanes[lane.tenant] = (
            lane
            if other is None
            else LaneDepth(
                tenant=lane.tenant,
                queued=lane.queued + other.queued,
                in_flight=lane.in_flight + other.in_flight,
                oldest_age_ms=max(lane.oldest_age_ms, other.oldest_age_ms),
            )
        )
    return QueueDepth(
        queue=first.queue,
        queued=first.queued + second.queued,
        in_flight=first.in_flight + second.in_flight,
        dead=first.dead + second.dead,
        lanes=tuple(lane for _, lane in sorted(lanes.items())),
    )
