"""The PostgreSQL tier: every rule of `DistributedQueue` in tables and functions of the journal's schema.

It is what serves without Redis, or while Redis does not. Enqueueing is as durable as the journal. Who waits looks again
after a pause: a short one while items come, up to POLL_MAX_MS when none has come for long (see `pacing`); at once where
something happens in this process, and in time where a lease runs out or a rate allows more.
"""

import asyncio
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Final

import asyncpg
from msgspec.structs import replace

from ductor.actors.queue.cancellation import LeaseCalls
from ductor.actors.queue.distributed import (
    MAX_DEAD_LETTERS,
    MAX_DELIVERIES,
    MAX_EXPIRED_PER_LEASE,
    MAX_ITEMS_PER_CALL,
    MAX_LANES_LISTED,
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
    QueueHealth,
    QueueItem,
    QueuePolicy,
    TokenState,
    checked_item,
)
from ductor.actors.queue.pacing import Pacing
from ductor.journal.errors import OverloadedError, StoreUnavailableError
from ductor.journal.postgres.database import Database
from ductor.journal.postgres.settings import ConnectionSettings
from ductor.journal.postgres.statements import number_parameters, read_named

TIER: Final = "postgres"
POLL_MAX_MS: Final = 1_000
"""Between two looks of who waits for items while none has come for long."""
PAUSE_PER_QUEUE_MS: Final = 10
"""The shortest pause between two looks, for each queue that is looked at: each is a question of its own."""
MAX_COUNTED: Final = 100_000
"""Items that a look at a queue's depth counts, of a lane and of the queue; more are told as so many."""

_QUERIES: Final = {
    name: number_parameters(text) for name, text in read_named("queue.sql", "ductor.actors.queue.postgres").items()
}


class PostgresQueue:
    """See `DistributedQueue`."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self._database = Database(settings, user="the queue")
        self._lease_calls = LeaseCalls(self.release)
        self._nudge = asyncio.Event()
        self._pacing = Pacing(POLL_MAX_MS)
        self._is_closed = True

    async def open(self) -> None:
        try:
            await self._database.open()
        except StoreUnavailableError as error:
            raise QueueUnavailableError(TIER, error.reason) from error
        self._is_closed = False

    async def close(self) -> None:
        self._is_closed = True
        self._wake()
        await self._lease_calls.finish()
        await self._database.close()

    async def enqueue(self, items: Sequence[QueueItem]) -> list[EnqueueOutcome]:
        check_count(len(items))
        for item in items:
            checked_item(item)
        outcomes: list[EnqueueOutcome] = []
        for queue, grouped in groupby(items, lambda item: item.queue):
            group = list(grouped)
            (row,) = await self._fetch(
                "enqueue",
                queue=queue,
                tokens=[item.token for item in group],
                tenants=[item.tenant for item in group],
                priorities=[item.priority for item in group],
                bodies=[item.body for item in group],
            )
            outcomes += row[0]
        self._wake()
        return outcomes

    async def lease(
        self, queues: Sequence[str], *, max_items: int, visibility_ms: int, wait_ms: int = 0
    ) -> list[Lease]:
        check_lease_arguments(queues, max_items, visibility_ms, wait_ms)
        loop = asyncio.get_running_loop()
        until_s = loop.time() + wait_ms / 1_000
        while True:
            nudge = self._nudge
            call = self._lease(queues, max_items, visibility_ms)
            leases, due_ms = await self._lease_calls.run(call, lambda answer: answer[0])
            now_s = loop.time()
            if leases:
                self._pacing.stirred(now_s)
            left_ms = int((until_s - now_s) * 1_000)
            if leases or left_ms <= 0 or self._is_closed:
                return leases
            pause_ms = max(self._pacing.pause_ms(now_s), PAUSE_PER_QUEUE_MS * len(queues))
            await _wait(nudge, min(pause_ms, left_ms, POLL_MAX_MS if due_ms is None else due_ms))

    async def renew(self, leases: Sequence[Lease], *, visibility_ms: int) -> list[bool]:
        return await self._for_each("renew", leases, visibility_us=visibility_ms * 1_000)

    async def acknowledge(self, leases: Sequence[Lease]) -> list[bool]:
        check_count(len(leases))
        answers: list[bool] = []
        for queue, grouped in groupby(leases, lambda lease: lease.item.queue):
            group = list(grouped)
            rows = await self._fetch("remove", queue=queue, only_dead=False, **_receipts(group))
            holding = {row["out_token"] for row in rows if row["out_holds"]}
            answers += [lease.item.token in holding for lease in group]
        self._wake()
        return answers

    async def release(self, leases: Sequence[Lease]) -> list[bool]:
        answers = await self._for_each("requeue", leases)
        self._wake()
        return answers

    async def adopt(self, leases: Sequence[Lease], *, visibility_ms: int) -> list[Lease | None]:
        check_count(len(leases))
        adopted: list[Lease | None] = []
        for queue, grouped in groupby(leases, lambda lease: lease.item.queue):
            group = {lease.item.token: lease for lease in grouped}
            rows = await self._fetch(
                "adopt",
                queue=queue,
                tokens=list(group),
                tenants=[lease.item.tenant for lease in group.values()],
                priorities=[lease.item.priority for lease in group.values()],
                deliveries=[lease.delivery for lease in group.values()],
                bodies=[lease.item.body for lease in group.values()],
                visibility_us=visibility_ms * 1_000,
            )
            receipts = {row["token"]: row["receipt"] for row in rows}
            adopted += [
                replace(lease, receipt=receipts[token], tier=TIER) if token in receipts else None
                for token, lease in group.items()
            ]
        return adopted

    async def withdraw(self, queue: str, tokens: Sequence[str]) -> Mapping[str, TokenState]:
        return await self._remove(queue, tokens, only_dead=False)

    async def held(self, queue: str, tokens: Sequence[str]) -> Mapping[str, TokenState]:
        check_count(len(tokens))
        rows = await self._fetch("held", queue=queue, tokens=list(tokens))
        return {row["token"]: row["state"] for row in rows}

    async def depth(self, queue: str) -> QueueDepth:
        (sums,) = await self._fetch("sums", queue=queue, counted=MAX_COUNTED)
        lanes = await self._fetch("lanes", queue=queue, counted=MAX_COUNTED, bound=MAX_LANES_LISTED)
        return QueueDepth(
            queue=queue,
            queued=sums["queued"],
            in_flight=sums["in_flight"],
            dead=sums["dead"],
            lanes=tuple(
                LaneDepth(
                    tenant=row["tenant"],
                    queued=row["queued"],
                    in_flight=row["in_flight"],
                    oldest_age_ms=(row["oldest_age_us"] or 0) // 1_000,
                )
                for row in lanes
            ),
        )

    async def dead_letters(self, queue: str, *, limit: int = MAX_ITEMS_PER_CALL) -> list[DeadLetter]:
        check_count(limit)
        await self._fetch(
            "take_back",
            queue=queue,
            max_taken_back=MAX_EXPIRED_PER_LEASE,
            max_deliveries=MAX_DELIVERIES,
            max_dead=MAX_DEAD_LETTERS,
        )
        return [
            DeadLetter(
                item=QueueItem(
                    token=row["token"],
                    queue=queue,
                    tenant=row["tenant"],
                    priority=row["priority"],
                    body=row["body"],
                ),
                deliveries=row["deliveries"],
                dead_at_us=row["until_us"],
                tier=TIER,
            )
            for row in await self._fetch("dead_letters", queue=queue, bound=limit)
        ]

    async def replay(self, queue: str, tokens: Sequence[str]) -> list[bool]:
        check_count(len(tokens))
        rows = await self._fetch("requeue", queue=queue, tokens=list(tokens), receipts=[0] * len(tokens))
        self._wake()
        queued = {row[0] for row in rows}
        return [token in queued for token in tokens]

    async def drop(self, queue: str, tokens: Sequence[str]) -> list[bool]:
        dropped = await self._remove(queue, tokens, only_dead=True)
        return [token in dropped for token in tokens]

    async def set_lane_policy(self, queue: str, tenant: str, policy: LanePolicy) -> None:
        checked_item(QueueItem(token=tenant, queue=queue, tenant=tenant))
        await self._fetch(
            "set_lane_policy",
            queue=queue,
            tenant=tenant,
            weight=policy.weight,
            max_in_flight=policy.max_in_flight,
            rate_per_s=policy.rate_per_s,
            burst=policy.burst,
        )
        self._wake()

    async def set_queue_policy(self, queue: str, policy: QueuePolicy) -> None:
        await self._fetch(
            "set_queue_policy", queue=queue, max_queued=policy.max_queued, max_in_flight=policy.max_in_flight
        )
        self._wake()

    async def health(self) -> QueueHealth:
        try:
            (row,) = await self._fetch("alive")
        except QueueUnavailableError as error:
            return QueueHealth(tier=TIER, is_available=False, reason=error.reason)
        is_standby = row["is_standby"]
        return QueueHealth(
            tier=TIER, is_available=not is_standby, reason="the server is a standby" if is_standby else ""
        )

    async def _lease(self, queues: Sequence[str], max_items: int, visibility_ms: int) -> tuple[list[Lease], int | None]:
        """Leases without waiting, and in how many ms something is due by itself (None: nothing is)."""
        leases: list[Lease] = []
        due_ms: int | None = None
        for queue in queues:
            if len(leases) == max_items:
                break
            *rows, last = await self._fetch(
                "lease",
                queue=queue,
                wanted=max_items - len(leases),
                visibility_us=visibility_ms * 1_000,
                max_deliveries=MAX_DELIVERIES,
                max_dead=MAX_DEAD_LETTERS,
                max_taken_back=MAX_EXPIRED_PER_LEASE,
                lanes_looked_at=LANES_LOOKED_AT,
            )
            leases += [_lease(queue, row) for row in rows]
            if last["out_due_in_us"] is not None:
                due_of_queue_ms = max(0, last["out_due_in_us"]) // 1_000 + 1
                due_ms = due_of_queue_ms if due_ms is None else min(due_ms, due_of_queue_ms)
        return leases, due_ms

    async def _fetch(self, query: str, **values: object) -> list[asyncpg.Record]:
        try:
            return await self._database.fetch_statement(query, _QUERIES[query], values)
        except StoreUnavailableError as error:
            raise QueueUnavailableError(TIER, error.reason) from error
        except OverloadedError as error:
            raise QueueUnavailableError(TIER, str(error)) from error

    async def _for_each(self, query: str, leases: Sequence[Lease], **values: object) -> list[bool]:
        """Whether the query returned each lease's token."""
        check_count(len(leases))
        answers: list[bool] = []
        for queue, grouped in groupby(leases, lambda lease: lease.item.queue):
            group = list(grouped)
            found = {row[0] for row in await self._fetch(query, queue=queue, **_receipts(group), **values)}
            answers += [lease.item.token in found for lease in group]
        return answers

    async def _remove(self, queue: str, tokens: Sequence[str], *, only_dead: bool) -> dict[str, TokenState]:
        check_count(len(tokens))
        rows = await self._fetch(
            "remove", queue=queue, tokens=list(tokens), receipts=[0] * len(tokens), only_dead=only_dead
        )
        self._wake()
        return {row["out_token"]: row["out_state"] for row in rows}

    def _wake(self) -> None:
        """Have everybody of this process who waits look again, and often for a while."""
        self._pacing.stirred(asyncio.get_running_loop().time())
        self._nudge.set()
        self._nudge = asyncio.Event()


async def _wait(nudge: asyncio.Event, timeout_ms: int) -> None:
    try:
        async with asyncio.timeout(timeout_ms / 1_000):
            await nudge.wait()
    except TimeoutError:
        return


def _receipts(leases: Sequence[Lease]) -> dict[str, object]:
    return {"tokens": [lease.item.token for lease in leases], "receipts": [lease.receipt for lease in leases]}


def _lease(queue: str, row: asyncpg.Record) -> Lease:
    return Lease(
        item=QueueItem(
            token=row["out_token"],
            queue=queue,
            tenant=row["out_tenant"],
            priority=row["out_priority"],
            body=row["out_body"],
        ),
        receipt=row["out_receipt"],
        delivery=row["out_delivery"],
        tier=TIER,
    )
