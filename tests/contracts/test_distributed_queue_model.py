"""Any sequence of calls, against a model that is too simple to be wrong: nothing is lost, nothing is leased twice."""

import asyncio
import itertools
import os
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ductor.actors.queue.distributed import MAX_DELIVERIES
from ductor.actors.queue.items import LanePolicy, Lease, QueueItem, TokenState
from ductor.actors.queue.memory import MemoryQueue
from ductor.actors.queue.postgres.queue import PostgresQueue
from ductor.actors.queue.redis.queue import RedisQueue
from ductor.actors.queue.redis.settings import RedisSettings
from ductor.journal.clock import SystemClock
from ductor.journal.postgres.settings import ConnectionSettings
from tests.postgres_fixtures import Database
from tests.queue_fixtures import PATIENT_MS, expire_leases_in_postgres, expire_leases_in_redis
from tests.queue_harness import LONG_MS, QueueUnderTest, item
from tests.redis_server import RedisServer

TENANTS = "abc"
EXAMPLES = 25

Run = Callable[[Callable[[QueueUnderTest, str], Coroutine[Any, Any, Any]]], Any]

_names = itertools.count(1)

calls = st.lists(
    st.one_of(
        st.tuples(st.just("enqueue"), st.integers(0, 11), st.sampled_from(TENANTS), st.integers(-1, 1)),
        st.tuples(st.just("lease"), st.integers(1, 4)),
        st.tuples(st.sampled_from(["acknowledge", "release", "renew"]), st.integers(0, 30)),
        st.tuples(st.sampled_from(["withdraw", "replay", "drop"]), st.integers(0, 11)),
        st.tuples(st.just("expire")),
    ),
    max_size=40,
)


class Entry(msgspec.Struct):
    """What the model knows of a token."""

    item: QueueItem
    place: tuple[int, int]
    state: TokenState = "queued"
    deliveries: int = 0
    receipt: int = 0


class Model:
    """A plain dictionary; lanes are found by looking at everything."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.arrivals = itertools.count()

    def enqueue(self, added: QueueItem) -> str:
        if added.token in self.entries:
            return "held"
        self.entries[added.token] = Entry(added, (-added.priority, next(self.arrivals)))
        return "enqueued"

    def first_of_lane(self, tenant: str) -> str:
        lane = [entry for entry in self.entries.values() if entry.state == "queued" and entry.item.tenant == tenant]
        return min(lane, key=lambda entry: entry.place).item.token

    def deliver(self, lease: Lease) -> None:
        """Check a lease against everything known, and note it."""
        entry = self.entries[lease.item.token]
        assert entry.state == "queued", "leased though it did not wait"
        assert lease.item.token == self.first_of_lane(lease.item.tenant), "not the first of its lane"
        assert lease.item == entry.item
        assert lease.delivery == entry.deliveries + 1 <= MAX_DELIVERIES
        entry.state, entry.deliveries, entry.receipt = "leased", lease.delivery, lease.receipt

    def expire(self) -> None:
        for entry in self.entries.values():
            if entry.state == "leased":
                entry.state = "dead" if entry.deliveries >= MAX_DELIVERIES else "queued"

    def holds(self, lease: Lease) -> bool:
        entry = self.entries.get(lease.item.token)
        return entry is not None and entry.state == "leased" and entry.receipt == lease.receipt

    def waiting(self) -> int:
        return sum(entry.state == "queued" for entry in self.entries.values())


async def step(under_test: QueueUnderTest, name: str, model: Model, leases: list[Lease], call: tuple[Any, ...]) -> None:
    """One call on the queue and on the model, compared."""
    queue, (action, *arguments) = under_test.queue, call
    if action == "enqueue":
        number, tenant, priority = arguments
        added = item(number, tenant, priority, name)
        assert await queue.enqueue([added]) == [model.enqueue(added)]
    elif action == "lease":
        found = await queue.lease([name], max_items=arguments[0], visibility_ms=LONG_MS)
        assert len(found) == min(arguments[0], model.waiting())
        for lease in found:
            model.deliver(lease)
        leases += found
    elif action == "expire":
        await under_test.expire_leases()
        model.expire()
        await queue.dead_letters(name)
    elif action in ("withdraw", "replay", "drop"):
        await look_up(under_test, name, model, action, str(arguments[0]))
    elif arguments[0] < len(leases):
        await settle(under_test, model, action, leases[arguments[0]])


async def look_up(under_test: QueueUnderTest, name: str, model: Model, action: str, token: str) -> None:
    entry = model.entries.get(token)
    is_dead = entry is not None and entry.state == "dead"
    if action == "withdraw":
        assert await under_test.other.withdraw(name, [token]) == ({token: entry.state} if entry else {})
        model.entries.pop(token, None)
    elif action == "drop":
        assert await under_test.other.drop(name, [token]) == [is_dead]
        if is_dead:
            del model.entries[token]
    else:
        assert await under_test.other.replay(name, [token]) == [is_dead]
        if entry is not None and is_dead:
            entry.state, entry.deliveries = "queued", 0


async def settle(under_test: QueueUnderTest, model: Model, action: str, lease: Lease) -> None:
    holds = model.holds(lease)
    if action == "acknowledge":
        assert await under_test.queue.acknowledge([lease]) == [holds]
        model.entries.pop(lease.item.token, None)
    elif action == "renew":
        assert await under_test.queue.renew([lease], visibility_ms=LONG_MS) == [holds]
    else:
        assert await under_test.queue.release([lease]) == [holds]
        if holds:
            entry = model.entries[lease.item.token]
            entry.state, entry.deliveries = "queued", entry.deliveries - 1


async def follow(under_test: QueueUnderTest, name: str, script: list[tuple[Any, ...]]) -> list[str]:
    """Make all calls; the tokens in the order in which they were leased."""
    model = Model()
    leases: list[Lease] = []
    for call in script:
        await step(under_test, name, model, leases, call)
        tokens = [str(number) for number in range(12)]
        expected = {token: entry.state for token, entry in model.entries.items()}
        assert await under_test.other.held(name, tokens) == expected
    depth = await under_test.queue.depth(name)
    states = [entry.state for entry in model.entries.values()]
    assert [depth.queued, depth.in_flight, depth.dead] == [states.count(s) for s in ("queued", "leased", "dead")]
    return [lease.item.token for lease in leases]


@pytest.fixture
def run_on_memory() -> Run:
    def run(use: Callable[[QueueUnderTest, str], Coroutine[Any, Any, Any]]) -> Any:
        async def opened() -> Any:
            queue = MemoryQueue(SystemClock())

            async def expire() -> None:
                queue.expire_leases()

            return await use(QueueUnderTest(queue, queue, expire), "q")

        return asyncio.run(opened())

    return run


@pytest.fixture
def run_on_redis(redis_server: RedisServer) -> Run:
    def run(use: Callable[[QueueUnderTest, str], Coroutine[Any, Any, Any]]) -> Any:
        shard = f"model-{os.getpid()}-{next(_names)}"

        async def opened() -> Any:
            queue = RedisQueue(RedisSettings(url=redis_server.url, shard=shard, command_timeout_ms=PATIENT_MS))
            await queue.open()

            async def expire() -> None:
                expire_leases_in_redis(redis_server, shard)

            try:
                return await use(QueueUnderTest(queue, queue, expire), "q")
            finally:
                await queue.close()

        return asyncio.run(opened())

    return run


@pytest.fixture
def run_on_postgres(database: Database) -> Run:
    def run(use: Callable[[QueueUnderTest, str], Coroutine[Any, Any, Any]]) -> Any:
        async def opened() -> Any:
            queue = PostgresQueue(ConnectionSettings(dsn=database.dsn, pool_size=2))
            await queue.open()

            async def expire() -> None:
                await expire_leases_in_postgres(database.dsn)

            try:
                return await use(QueueUnderTest(queue, queue, expire), f"q{next(_names)}")
            finally:
                await queue.close()

        return asyncio.run(opened())

    return run


@pytest.fixture(params=["run_on_memory", "run_on_redis", "run_on_postgres"])
def run(request: pytest.FixtureRequest) -> Run:
    found: Run = request.getfixturevalue(request.param)
    return found


@pytest.mark.timeout(300)
def test_nothing_is_lost_and_nothing_is_leased_twice(run: Run):
    @settings(max_examples=EXAMPLES)
    @given(script=calls)
    def holds(script: list[tuple[Any, ...]]) -> None:
        run(lambda under_test, name: follow(under_test, name, script))

    holds()


weighted = st.tuples(
    st.lists(st.integers(1, 5), min_size=3, max_size=3), st.lists(st.none() | st.integers(1, 2), min_size=3, max_size=3)
)


@pytest.mark.timeout(300)
def test_all_tiers_serve_lanes_in_the_same_order(run_on_memory: Run, run_on_redis: Run, run_on_postgres: Run):
    @settings(max_examples=EXAMPLES)
    @given(script=calls, policies=weighted)
    def agree(script: list[tuple[Any, ...]], policies: tuple[list[int], list[int | None]]) -> None:
        async def served(under_test: QueueUnderTest, name: str) -> list[str]:
            for tenant, weight, cap in zip(TENANTS, *policies, strict=True):
                policy = LanePolicy(weight=weight, max_in_flight=cap)
                await under_test.queue.set_lane_policy(name, tenant, policy)
            order: list[str] = []
            leases: list[Lease] = []
            for action, *arguments in script:
                if action == "enqueue":
                    await under_test.queue.enqueue([item(arguments[0], arguments[1], arguments[2], name)])
                elif action == "lease":
                    found = await under_test.queue.lease([name], max_items=arguments[0], visibility_ms=LONG_MS)
                    leases += found
                    order += [lease.item.token for lease in found] or ["nothing"]
                elif action in ("acknowledge", "release") and arguments[0] < len(leases):
                    settle_it = getattr(under_test.queue, action)
                    order += [str(answer) for answer in await settle_it([leases[arguments[0]]])]
                elif action == "withdraw":
                    await under_test.queue.withdraw(name, [str(arguments[0])])
            return order

        expected = run_on_memory(served)
        assert run_on_redis(served) == expected
        assert run_on_postgres(served) == expected

    agree()
