"""The Redis tier (6.2 or newer; Valkey; Dragonfly): every rule of `DistributedQueue` in atomic scripts.

All state is in the server; a process that has none of it may come and go. `lua/lanes.lua` tells the keys. What the
server forgets (a flush, a restart without its file, a failover to a replica that lagged behind) is told to
`on_disturbance`, and owners of runs enqueue again what they have in flight: tokens make that harmless.
"""

import asyncio
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Final, cast

from msgspec.structs import replace

from ductor.actors.queue.cancellation import LeaseCalls
from ductor.actors.queue.distributed import (
    MAX_DEAD_LETTERS,
    MAX_DELIVERIES,
    MAX_EXPIRED_PER_LEASE,
    MAX_ITEMS_PER_CALL,
    MAX_LANES_LISTED,
    OnDisturbance,
    check_count,
    check_lease_arguments,
)
from ductor.actors.queue.errors import QueueUnavailableError
from ductor.actors.queue.fairness import LANES_LOOKED_AT
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
    checked_item,
)
from ductor.actors.queue.redis.connection import TIER, Answer, Argument, RedisConnection
from ductor.actors.queue.redis.settings import RedisSettings

_LEASE_FIELDS: Final = 7
_LETTER_FIELDS: Final = 6
_LANE_FIELDS: Final = 4


def _ignore(disturbance: QueueDisturbance) -> None:
    """Nobody has anything in flight."""


class RedisQueue:
    """See `DistributedQueue`. Policies set through this object are set again when the server has lost them."""

    def __init__(self, settings: RedisSettings, on_disturbance: OnDisturbance = _ignore) -> None:
        """Args: `on_disturbance` is called on the event loop, and must not block."""
        self._on_disturbance = on_disturbance
        self._connection = RedisConnection(settings, self._note_disturbance)
        self._lease_calls = LeaseCalls(self.release)
        self._policies: dict[tuple[str, ...], tuple[Argument, ...]] = {}
        self._is_closed = False
        self._has_lost_policies = False

    async def open(self) -> None:
        self._is_closed = False
        self._connection.open()

    async def close(self) -> None:
        self._is_closed = True
        await self._lease_calls.finish()
        await self._connection.close()

    async def enqueue(self, items: Sequence[QueueItem]) -> list[EnqueueOutcome]:
        check_count(len(items))
        for item in items:
            checked_item(item)
        outcomes: list[EnqueueOutcome] = []
        for queue, group in groupby(items, lambda item: item.queue):
            arguments: list[Argument] = []
            for item in group:
                arguments += (item.token, item.tenant, item.priority, item.body)
            outcomes += [cast("EnqueueOutcome", _text(word)) for word in await self._run("enqueue", queue, *arguments)]
        return outcomes

    async def lease(
        self, queues: Sequence[str], *, max_items: int, visibility_ms: int, wait_ms: int = 0
    ) -> list[Lease]:
        check_lease_arguments(queues, max_items, visibility_ms, wait_ms)
        loop = asyncio.get_running_loop()
        until_s = loop.time() + wait_ms / 1_000
        while True:
            call = self._lease(queues, max_items, visibility_ms)
            leases, due_ms = await self._lease_calls.run(call, lambda answer: answer[0])
            left_ms = int((until_s - loop.time()) * 1_000)
            if leases or left_ms <= 0 or self._is_closed:
                return leases
            if due_ms != 0:
                await self._connection.wait_for_ring(queues, left_ms if due_ms is None else min(left_ms, due_ms))

    async def renew(self, leases: Sequence[Lease], *, visibility_ms: int) -> list[bool]:
        return await self._for_each("renew", leases, visibility_ms * 1_000)

    async def acknowledge(self, leases: Sequence[Lease]) -> list[bool]:
        check_count(len(leases))
        answers: list[bool] = []
        for queue, group in groupby(leases, lambda lease: lease.item.queue):
            answer = await self._run("remove", queue, "any", *_receipts(list(group)))
            answers += [holds == 1 for holds in answer[1::2]]
        return answers

    async def release(self, leases: Sequence[Lease]) -> list[bool]:
        return await self._for_each("release", leases)

    async def adopt(self, leases: Sequence[Lease], *, visibility_ms: int) -> list[Lease | None]:
        check_count(len(leases))
        adopted: list[Lease | None] = []
        for queue, grouped in groupby(leases, lambda lease: lease.item.queue):
            group = list(grouped)
            arguments: list[Argument] = [visibility_ms * 1_000]
            for lease in group:
                item = lease.item
                arguments += (item.token, item.tenant, item.priority, lease.delivery, item.body)
            for lease, receipt in zip(group, await self._run("adopt", queue, *arguments), strict=True):
                is_leased = receipt != b""
                adopted.append(replace(lease, receipt=int(receipt), tier=TIER) if is_leased else None)
        return adopted

    async def withdraw(self, queue: str, tokens: Sequence[str]) -> Mapping[str, TokenState]:
        return await self._remove(queue, tokens, "any")

    async def held(self, queue: str, tokens: Sequence[str]) -> Mapping[str, TokenState]:
        check_count(len(tokens))
        return _states(tokens, await self._run("held", queue, *tokens))

    async def depth(self, queue: str) -> QueueDepth:
        answer = await self._run("depth", queue, MAX_LANES_LISTED)
        lanes = tuple(
            LaneDepth(
                tenant=_text(answer[at]),
                queued=int(answer[at + 1]),
                in_flight=int(answer[at + 2]),
                oldest_age_ms=int(answer[at + 3]) // 1_000,
            )
            for at in range(3, len(answer), _LANE_FIELDS)
        )
        queued, in_flight, dead = (int(number) for number in answer[:3])
        return QueueDepth(queue=queue, queued=queued, in_flight=in_flight, dead=dead, lanes=lanes)

    async def dead_letters(self, queue: str, *, limit: int = MAX_ITEMS_PER_CALL) -> list[DeadLetter]:
        check_count(limit)
        answer = await self._run("dead_letters", queue, limit, MAX_DELIVERIES, MAX_DEAD_LETTERS, MAX_EXPIRED_PER_LEASE)
        return [
            DeadLetter(
                item=_item(queue, answer[at : at + 3], answer[at + 5]),
                deliveries=int(answer[at + 3]),
                dead_at_us=int(answer[at + 4]),
                tier=TIER,
            )
            for at in range(0, len(answer), _LETTER_FIELDS)
        ]

    async def replay(self, queue: str, tokens: Sequence[str]) -> list[bool]:
        check_count(len(tokens))
        return [is_queued == 1 for is_queued in await self._run("replay", queue, *tokens)]

    async def drop(self, queue: str, tokens: Sequence[str]) -> list[bool]:
        dropped = await self._remove(queue, tokens, "dead")
        return [token in dropped for token in tokens]

    async def set_lane_policy(self, queue: str, tenant: str, policy: LanePolicy) -> None:
        checked_item(QueueItem(token=tenant, queue=queue, tenant=tenant))
        text = f"{policy.weight}:{policy.max_in_flight or 0}:{policy.rate_per_s or 0!r}:{policy.burst}"
        await self._set_policy(queue, ("lane", tenant), (text,))

    async def set_queue_policy(self, queue: str, policy: QueuePolicy) -> None:
        await self._set_policy(queue, ("queue",), (policy.max_queued, policy.max_in_flight or 0))

    async def health(self) -> QueueHealth:
        """Whether the server takes writes. It finds out, too, whether the server is another one than before."""
        try:
            await self._run("touch", None)
            await self._connection.write()
            replication_id = await self._connection.replication_id()
        except QueueUnavailableError as error:
            return QueueHealth(tier=TIER, is_available=False, reason=error.reason, epoch=self._connection.epoch)
        epoch = f"{self._connection.epoch}/{replication_id}"
        return QueueHealth(tier=TIER, is_available=True, epoch=epoch)

    async def _run(self, script: str, queue: str | None, *arguments: Argument) -> Answer:
        """A script's answer; when it shows that the server has lost its policies, they are set anew."""
        answer = await self._connection.run(script, () if queue is None else (queue,), *arguments)
        await self._restore_policies()
        return answer

    async def _restore_policies(self) -> None:
        if not self._has_lost_policies:
            return
        self._has_lost_policies = False
        try:
            for (queue, *scope), policy in list(self._policies.items()):
                await self._connection.run("policy", (queue,), *scope, *policy)
        except QueueUnavailableError:
            self._has_lost_policies = True
            raise

    async def _lease(self, queues: Sequence[str], max_items: int, visibility_ms: int) -> tuple[list[Lease], int | None]:
        """Leases, and in how many ms to look again without a ring (None: never)."""
        answer = await self._connection.run(
            "lease",
            queues,
            max_items,
            visibility_ms * 1_000,
            MAX_DELIVERIES,
            MAX_DEAD_LETTERS,
            MAX_EXPIRED_PER_LEASE,
            LANES_LOOKED_AT,
        )
        await self._restore_policies()
        due_us = answer[0]
        leases = [
            Lease(
                item=_item(queues[int(answer[at]) - 1], answer[at + 1 : at + 4], answer[at + 6]),
                receipt=int(answer[at + 4]),
                delivery=int(answer[at + 5]),
                tier=TIER,
            )
            for at in range(1, len(answer), _LEASE_FIELDS)
        ]
        return leases, None if due_us == b"" else -(-int(due_us) // 1_000)

    async def _for_each(self, script: str, leases: Sequence[Lease], *arguments: Argument) -> list[bool]:
        check_count(len(leases))
        answers: list[bool] = []
        for queue, group in groupby(leases, lambda lease: lease.item.queue):
            answers += [holds == 1 for holds in await self._run(script, queue, *arguments, *_receipts(list(group)))]
        return answers

    async def _remove(self, queue: str, tokens: Sequence[str], scope: str) -> dict[str, TokenState]:
        check_count(len(tokens))
        pairs = [argument for token in tokens for argument in (token, "")]
        return _states(tokens, (await self._run("remove", queue, scope, *pairs))[::2])

    async def _set_policy(self, queue: str, scope: tuple[str, ...], policy: tuple[Argument, ...]) -> None:
        self._policies[(queue, *scope)] = policy
        try:
            await self._run("policy", queue, *scope, *policy)
        except QueueUnavailableError:
            self._has_lost_policies = True
            raise

    def _note_disturbance(self, disturbance: QueueDisturbance) -> None:
        self._has_lost_policies = True
        self._on_disturbance(disturbance)


def _text(value: bytes | int) -> str:
    assert isinstance(value, bytes)
    return value.decode()


def _item(queue: str, names: Sequence[bytes | int], body: bytes | int) -> QueueItem:
    token, tenant, priority = names
    assert isinstance(body, bytes)
    return QueueItem(token=_text(token), queue=queue, tenant=_text(tenant), priority=int(priority), body=body)


def _receipts(leases: Sequence[Lease]) -> list[Argument]:
    return [argument for lease in leases for argument in (lease.item.token, lease.receipt)]


def _states(tokens: Sequence[str], words: Sequence[bytes | int]) -> dict[str, TokenState]:
    return {token: cast("TokenState", _text(word)) for token, word in zip(tokens, words, strict=True) if word}
