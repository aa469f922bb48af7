"""One queue in memory: its items, lanes and leases. The time comes in as an argument; nothing here waits.

A lane is in one of three places: ready (it has items that may be leased now), blocked (it has items, and its cap or
its rate holds them back until a time or until a lease ends), or resting (it has none that wait). Only ready lanes are
looked at to find the next item.
"""

import heapq
from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import Final

import msgspec

from ductor.actors.queue.distributed import (
    MAX_DEAD_LETTERS,
    MAX_DELIVERIES,
    MAX_EXPIRED_PER_LEASE,
    MAX_LANES_LISTED,
)
from ductor.actors.queue.fairness import LANES_LOOKED_AT, Candidate, choose
from ductor.actors.queue.items import (
    DeadLetter,
    EnqueueOutcome,
    LaneDepth,
    LanePolicy,
    Lease,
    QueueDepth,
    QueueItem,
    QueuePolicy,
    TokenState,
)

TIER: Final = "memory"
UNTIL_A_LEASE_ENDS: Final = 1 << 62
DELIVERIES_PER_SWEEP: Final = 1_024
_NO_POLICY: Final = LanePolicy()


class _Held(msgspec.Struct):
    """An item and how it stands. `place` orders it within its lane and tells it from an earlier item of its token."""

    item: QueueItem
    place: tuple[int, int]
    enqueued_at_us: int
    state: TokenState = "queued"
    deliveries: int = 0
    receipt: int = 0
    leased_until_us: int = 0
    dead_at_us: int = 0


class _Lane:
    """One tenant's items: a heap by place, in which what is not queued any more stays until it comes up."""

    def __init__(self, tenant: str) -> None:
        self.tenant = tenant
        self.heap: list[tuple[tuple[int, int], str]] = []
        self.queued: set[str] = set()
        self.leased: set[str] = set()
        self.virtual_time = 0.0
        self.is_ready = False
        self.blocked_until_us = 0
        self.rate_tokens: float | None = None
        self.refilled_at_us = 0


class QueueState:
    """The queue. `sequence` numbers places and receipts, and goes on from where a queue of this name ended before."""

    def __init__(self, name: str, sequence: int = 0) -> None:
        self.name = name
        self.sequence = sequence
        self.policy = QueuePolicy()
        self._held: dict[str, _Held] = {}
        self._lanes: dict[str, _Lane] = {}
        self._ready: list[tuple[float, str]] = []
        self._blocked: dict[str, _Lane] = {}
        self._expiries: list[tuple[int, int, str]] = []
        self._policies: dict[str, LanePolicy] = {}
        self._leased: set[str] = set()
        self._dead: dict[str, _Held] = {}
        self._virtual_time = 0.0
        self._queued = 0

    def enqueue(self, item: QueueItem, now_us: int) -> EnqueueOutcome:
        """Hold an item."""
        if item.token in self._held:
            return "held"
        if self._queued >= self.policy.max_queued:
            return "refused"
        held = _Held(item, (-item.priority, self._next()), now_us)
        self._held[item.token] = held
        self._queue(held)
        return "enqueued"

    def lease(self, max_items: int, visibility_ms: int, now_us: int) -> list[Lease]:
        """Take items that nobody has."""
        self.take_back(now_us)
        self._unblock_due(now_us)
        leases: list[Lease] = []
        while len(leases) < max_items and self._ready:
            if self.policy.max_in_flight is not None and len(self._leased) >= self.policy.max_in_flight:
                break
            lane = self._next_lane()
            if self._is_held_back(lane, now_us):
                continue
            leases.append(self._deliver(lane, now_us + visibility_ms * 1_000))
        return leases

    def next_due_us(self) -> int | None:
        """When a lease runs out or a blocked lane is free again by itself; None when there is no such time."""
        while self._expiries and not self._is_current(*self._expiries[0]):
            heapq.heappop(self._expiries)
        times = [lane.blocked_until_us for lane in self._blocked.values()]
        times.extend(entry[0] for entry in self._expiries[:1])
        return min((time for time in times if time != UNTIL_A_LEASE_ENDS), default=None)

    def take_back(self, now_us: int) -> int:
        """Queue items whose lease has run out, or set them aside; how many, MAX_EXPIRED_PER_LEASE at most."""
        count = 0
        while self._expiries and self._expiries[0][0] <= now_us and count < MAX_EXPIRED_PER_LEASE:
            entry = heapq.heappop(self._expiries)
            if not self._is_current(*entry):
                continue
            held = self._held[entry[2]]
            self._end_lease(held)
            if held.deliveries >= MAX_DELIVERIES:
                self._set_aside(held, now_us)
            else:
                self._queue(held)
            count += 1
        return count

    def renew(self, lease: Lease, visibility_ms: int, now_us: int) -> bool:
        """Hold on to an item."""
        held = self._holding(lease)
        if held is None or held.leased_until_us <= now_us:
            return False
        self._hold_until(held, now_us + visibility_ms * 1_000)
        return True

    def acknowledge(self, lease: Lease) -> bool:
        """Remove an item that is done."""
        is_holding = self._holding(lease) is not None
        self.withdraw(lease.item.token)
        return is_holding

    def release(self, lease: Lease) -> bool:
        """Queue an item again that somebody had for nothing."""
        held = self._holding(lease)
        if held is None:
            return False
        self._end_lease(held)
        held.deliveries -= 1
        self._queue(held)
        return True

    def adopt(self, lease: Lease, visibility_ms: int, now_us: int) -> Lease | None:
        """Hold an item as leased that another tier has handed out; None when it is leased or set aside here."""
        item = lease.item
        held = self._held.get(item.token)
        if held is None:
            held = self._held[item.token] = _Held(item, (-item.priority, self._next()), now_us)
        elif held.state == "queued":
            self._unqueue(held)
        else:
            return None
        lane = self._lanes.get(item.tenant)
        if lane is None:
            lane = self._lanes[item.tenant] = _Lane(item.tenant)
        return self._lease_to(held, lane, lease.delivery, now_us + visibility_ms * 1_000)

    def withdraw(self, token: str) -> TokenState | None:
        """Remove an item; how it stood."""
        held = self._held.get(token)
        if held is None:
            return None
        state = held.state
        if state == "leased":
            self._end_lease(held)
        elif state == "queued":
            self._unqueue(held)
        else:
            del self._dead[token]
        del self._held[token]
        return state

    def held(self, token: str) -> TokenState | None:
        """How an item stands."""
        held = self._held.get(token)
        return None if held is None else held.state

    def dead_letters(self, limit: int) -> list[DeadLetter]:
        """Items set aside, the latest first."""
        latest = list(reversed(self._dead.values()))[:limit]
        return [DeadLetter(item=d.item, deliveries=d.deliveries, dead_at_us=d.dead_at_us, tier=TIER) for d in latest]

    def replay(self, token: str) -> bool:
        """Queue an item again that was set aside."""
        held = self._dead.pop(token, None)
        if held is None:
            return False
        held.deliveries = 0
        self._queue(held)
        return True

    def drop(self, token: str) -> bool:
        """Forget an item that was set aside."""
        return token in self._dead and self.withdraw(token) is not None

    def depth(self, now_us: int) -> QueueDepth:
        """How much waits."""
        lanes = [
            LaneDepth(
                tenant=tenant,
                queued=len(lane.queued),
                in_flight=len(lane.leased),
                oldest_age_ms=self._oldest_age_ms(lane, now_us),
            )
            for tenant, lane in sorted(self._lanes.items())
            if lane.queued or lane.leased
        ]
        return QueueDepth(
            queue=self.name,
            queued=self._queued,
            in_flight=len(self._leased),
            dead=len(self._dead),
            lanes=tuple(lanes[:MAX_LANES_LISTED]),
        )

    def set_lane_policy(self, tenant: str, policy: LanePolicy) -> None:
        """Serve a tenant so from now on."""
        self._policies[tenant] = policy
        lane = self._lanes.get(tenant)
        if lane is not None:
            lane.rate_tokens = None
            self._unblock(lane)

    def tokens(self) -> Sequence[str]:
        """All tokens that are held."""
        return list(self._held)

    def expire_leases(self) -> None:
        """Let every lease have run out by now."""
        for token in self._leased:
            self._hold_until(self._held[token], 0)

    def _next(self) -> int:
        self.sequence += 1
        return self.sequence

    def _queue(self, held: _Held) -> None:
        held.state = "queued"
        item = held.item
        lane = self._lanes.get(item.tenant)
        if lane is None:
            lane = self._lanes[item.tenant] = _Lane(item.tenant)
        heapq.heappush(lane.heap, (held.place, item.token))
        lane.queued.add(item.token)
        self._queued += 1
        if not lane.is_ready and item.tenant not in self._blocked:
            self._make_ready(lane)

    def _unqueue(self, held: _Held) -> None:
        lane = self._lanes[held.item.tenant]
        lane.queued.discard(held.item.token)
        self._queued -= 1
        if not lane.queued:
            lane.heap.clear()
            self._remove_ready(lane)
            self._blocked.pop(lane.tenant, None)

    def _make_ready(self, lane: _Lane) -> None:
        lane.virtual_time = max(lane.virtual_time, self._virtual_time)
        lane.is_ready = True
        insort(self._ready, (lane.virtual_time, lane.tenant))

    def _remove_ready(self, lane: _Lane) -> None:
        if lane.is_ready:
            lane.is_ready = False
            del self._ready[bisect_left(self._ready, (lane.virtual_time, lane.tenant))]

    def _next_lane(self) -> _Lane:
        looked_at = [
            Candidate(tenant, virtual_time, self._policies.get(tenant, _NO_POLICY).weight)
            for virtual_time, tenant in self._ready[:LANES_LOOKED_AT]
        ]
        chosen = choose(looked_at, len(self._ready), len(self._leased), lambda tenant: len(self._lanes[tenant].leased))
        return self._lanes[chosen.tenant]

    def _is_held_back(self, lane: _Lane, now_us: int) -> bool:
        """Block the lane if its cap or its rate allows no delivery now; else take from its rate."""
        policy = self._policies.get(lane.tenant, _NO_POLICY)
        if policy.max_in_flight is not None and len(lane.leased) >= policy.max_in_flight:
            self._block(lane, UNTIL_A_LEASE_ENDS)
            return True
        if policy.rate_per_s is None:
            return False
        have = float(policy.burst) if lane.rate_tokens is None else lane.rate_tokens
        have = min(float(policy.burst), have + (now_us - lane.refilled_at_us) * policy.rate_per_s / 1e6)
        lane.rate_tokens, lane.refilled_at_us = have, now_us
        if have < 1:
            self._block(lane, now_us + int((1 - have) / policy.rate_per_s * 1e6) + 1)
            return True
        lane.rate_tokens = have - 1
        return False

    def _block(self, lane: _Lane, until_us: int) -> None:
        self._remove_ready(lane)
        lane.blocked_until_us = until_us
        self._blocked[lane.tenant] = lane

    def _unblock(self, lane: _Lane) -> None:
        if self._blocked.pop(lane.tenant, None) is not None:
            self._make_ready(lane)

    def _unblock_due(self, now_us: int) -> None:
        for lane in [lane for lane in self._blocked.values() if lane.blocked_until_us <= now_us]:
            self._unblock(lane)

    def _deliver(self, lane: _Lane, until_us: int) -> Lease:
        held = self._pop(lane)
        self._remove_ready(lane)
        self._virtual_time = max(lane.virtual_time, self._virtual_time)
        policy = self._policies.get(lane.tenant, _NO_POLICY)
        lane.virtual_time = self._virtual_time + 1 / policy.weight
        if lane.queued:
            self._make_ready(lane)
        return self._lease_to(held, lane, held.deliveries + 1, until_us)

    def _lease_to(self, held: _Held, lane: _Lane, delivery: int, until_us: int) -> Lease:
        held.state, held.deliveries, held.receipt = "leased", delivery, self._next()
        lane.leased.add(held.item.token)
        if held.receipt % DELIVERIES_PER_SWEEP == 0:
            self._sweep()
        self._leased.add(held.item.token)
        self._hold_until(held, until_us)
        return Lease(item=held.item, receipt=held.receipt, delivery=delivery, tier=TIER)

    def _sweep(self) -> None:
        """Forget lanes that rest and owe nothing: they would begin anew where they stand."""
        for tenant, lane in list(self._lanes.items()):
            owes_nothing = lane.virtual_time <= self._virtual_time and lane.rate_tokens is None
            if not lane.queued and not lane.leased and owes_nothing:
                del self._lanes[tenant]

    def _pop(self, lane: _Lane) -> _Held:
        while True:
            place, token = heapq.heappop(lane.heap)
            held = self._held.get(token)
            if token in lane.queued and held is not None and held.place == place:
                lane.queued.discard(token)
                self._queued -= 1
                return held

    def _hold_until(self, held: _Held, until_us: int) -> None:
        held.leased_until_us = until_us
        heapq.heappush(self._expiries, (until_us, held.receipt, held.item.token))

    def _is_current(self, until_us: int, receipt: int, token: str) -> bool:
        """Whether an entry of `_expiries` is the one that counts."""
        held = self._held.get(token)
        return held is not None and (held.state, held.receipt, held.leased_until_us) == ("leased", receipt, until_us)

    def _holding(self, lease: Lease) -> _Held | None:
        held = self._held.get(lease.item.token)
        is_holding = held is not None and held.state == "leased" and held.receipt == lease.receipt
        return held if is_holding else None

    def _end_lease(self, held: _Held) -> None:
        self._leased.discard(held.item.token)
        lane = self._lanes[held.item.tenant]
        lane.leased.discard(held.item.token)
        if lane.blocked_until_us == UNTIL_A_LEASE_ENDS:
            self._unblock(lane)

    def _set_aside(self, held: _Held, now_us: int) -> None:
        held.state, held.dead_at_us = "dead", now_us
        self._dead[held.item.token] = held
        if len(self._dead) > MAX_DEAD_LETTERS:
            self.withdraw(next(iter(self._dead)))

    def _oldest_age_ms(self, lane: _Lane, now_us: int) -> int:
        oldest_us = min((self._held[token].enqueued_at_us for token in lane.queued), default=now_us)
        return max(0, now_us - oldest_us) // 1_000
