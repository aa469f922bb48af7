"""Leases on hosts, in virtual time: limits hold, the line is fair, places come back from whatever ends a holder, and
what survives kills and races."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from ductor.actors.context import TaskContext
from ductor.actors.errors import WaitTimeoutError
from ductor.actors.host import EngineHost, HostOptions
from ductor.actors.tasks import Task, task
from ductor.definitions.values import JsonValue
from ductor.journal.codec import decode_events
from ductor.journal.commit import Commit, CommitAnswer
from ductor.journal.errors import StoreUnavailableError
from ductor.journal.events import RUN_LEASE, LeaseGranted, NodeSettled
from ductor.journal.lease_store import LeaseChange, LeaseKey
from ductor.journal.records import FeedPosition, RunFilter
from ductor.journal.store import Store
from ductor.testing import virtual_time
from tests.actors.hosting import Bench, WrappedStore

STEP = """
input: {type: object}
steps: [{ref: print, type: task, task: work, input: {n: "${trigger.n}"}, lease: {key: printer, limit: 2}}]
"""
WHOLE = """
input: {type: object}
lease: {key: "${trigger.customer}", limit: 1}
steps: [{ref: a, type: task, task: work, input: {n: "${trigger.n}"}}]
"""
HOUR_MS = 3_600_000


class Printer:
    """The handler `work`: how many are at it at once, who began when, and with which fence."""

    def __init__(self, seconds: float = 1) -> None:
        self.seconds = seconds
        self.busy = self.most = 0
        self.began: list[int] = []
        self.fences: list[int] = []

    def handler(self) -> Task[..., Any]:
        @task("work")
        async def work(n: int, context: TaskContext) -> int:
            self.busy += 1
            self.most = max(self.most, self.busy)
            self.began.append(n)
            self.fences.append(context.lease_fence)
            try:
                await asyncio.sleep(self.seconds)
            finally:
                self.busy -= 1
            return n

        return work


@asynccontextmanager
async def hosting(
    bench: Bench, printer: Printer, text: str = STEP, store: Store | None = None, options: HostOptions | None = None
) -> AsyncIterator[EngineHost]:
    async with bench.host(text, printer.handler(), store, options) as host:
        yield host


async def start(host: EngineHost, n: int, customer: str = "ann") -> str:
    return (await host.start("subject", {"n": n, "customer": customer})).run_id


async def status(host: EngineHost, run_id: str) -> str:
    return (await host.outcome(run_id, timeout_ms=24 * HOUR_MS)).status


async def nothing_is_left(bench: Bench) -> None:
    """No place is held or waited for, and no key has to be looked at, once every part of the sweep has had its turn."""
    await asyncio.sleep(5)
    assert await bench.store.leases() == []
    assert await bench.store.lease_work(None, 100) == []


@virtual_time
async def test_the_limit_holds_and_the_line_is_kept():
    bench, printer = Bench(), Printer()
    async with hosting(bench, printer) as host:
        runs = [await start(host, n) for n in range(20)]
        began_at_us = bench.clock.now_us()
        assert [await status(host, run_id) for run_id in runs] == ["completed"] * 20
        assert bench.clock.now_us() - began_at_us < 11_000_000, "a freed place waited for a sweep"
        assert (printer.most, printer.began) == (2, list(range(20)))
        assert printer.fences == sorted(set(printer.fences))
        await nothing_is_left(bench)


@virtual_time
async def test_a_thousand_runs_at_once_and_many_keys():
    bench, printer = Bench(), Printer(0.01)
    async with hosting(bench, printer, WHOLE) as host:
        runs = await asyncio.gather(*(start(host, n, f"c-{n % 50}") for n in range(1_000)))
        assert {await status(host, run_id) for run_id in runs} == {"completed"}
        for customer in range(50):
            of_one = [n for n in printer.began if n % 50 == customer]
            assert of_one == sorted(of_one)
        assert printer.most <= 50
        await nothing_is_left(bench)


@pytest.mark.parametrize("kind", ["cancel", "terminate"])
@virtual_time
async def test_holders_and_waiters_that_are_ended_make_room(kind: str):
    bench, printer = Bench(), Printer(3_600)
    async with hosting(bench, printer) as host:
        runs = [await start(host, n) for n in range(6)]
        await asyncio.sleep(1)
        assert printer.began == [0, 1]
        for n in (2, 0):  # a waiter, then a holder
            await host.request(runs[n], kind)  # type: ignore[arg-type]
        await asyncio.sleep(30)
        assert printer.began == [0, 1, 3]
        (waiting,) = {entry.run_id for entry in await bench.store.leases() if not entry.fence} - {runs[5]}
        assert waiting == runs[4]


@virtual_time
async def test_a_run_that_fails_makes_room_and_asks_anew_when_it_is_redriven():
    bench = Bench()
    calls: list[int] = []

    @task("work")
    async def work(n: int) -> int:
        calls.append(n)
        if calls.count(n) == 1 and n == 0:
            raise ValueError("no paper")
        await asyncio.sleep(60)
        return n

    async with bench.host(STEP.replace("limit: 2", "limit: 1"), work) as host:
        first, second = await start(host, 0), await start(host, 1)
        assert await status(host, first) == "failed"
        await asyncio.sleep(1)
        assert calls == [0, 1]
        await host.request(first, "redrive")
        await asyncio.sleep(1)
        assert calls == [0, 1]  # the second one is at it
        assert [await status(host, run_id) for run_id in (second, first)] == ["completed", "completed"]
        assert calls == [0, 1, 0]
        await nothing_is_left(bench)


@virtual_time
async def test_a_paused_holder_keeps_its_place():
    bench, printer = Bench(), Printer(10)
    async with hosting(bench, printer, STEP.replace("limit: 2", "limit: 1")) as host:
        first, second = await start(host, 0), await start(host, 1)
        await asyncio.sleep(1)
        await host.request(first, "pause")
        await asyncio.sleep(3_600)
        assert printer.began == [0]
        await host.request(first, "resume")
        assert [await status(host, run_id) for run_id in (first, second)] == ["completed", "completed"]


@virtual_time
async def test_two_keys_in_opposite_order_end_by_timeout():
    bench = Bench()
    opposite = """
    input: {type: object}
    lease: {key: "${trigger.mine}"}
    steps:
      - {ref: settle, type: wait, duration: 1s, next: a}
      - {ref: a, type: transform, lease: {key: "${trigger.other}", timeout: 1m}}
    """
    async with bench.host(opposite, Printer().handler()) as host:
        runs = [
            (await host.start("subject", {"mine": mine, "other": other})).run_id for mine, other in ("xy", "yx")
        ]  # fmt: skip
        outcomes = [await host.outcome(run_id, timeout_ms=HOUR_MS) for run_id in runs]
        assert {outcome.error.type for outcome in outcomes if outcome.error is not None} == {"LeaseTimeout"}
        await nothing_is_left(bench)


@virtual_time
async def test_a_continued_run_keeps_the_place_of_its_chain():
    bench, printer = Bench(), Printer(1)
    text = """
    input: {type: object}
    lease: {key: one}
    repeat: {until: "run.iteration >= 2"}
    steps: [{ref: a, type: task, task: work, input: {n: "${trigger.n}"}}]
    """
    async with hosting(bench, printer, text) as host:
        for n in range(2):
            await start(host, n)
        await asyncio.sleep(60)
        assert printer.began == [0, 0, 0, 1, 1, 1], "another run came between two rounds"
        assert len(set(printer.fences)) == 2
        await nothing_is_left(bench)


# --- kills and races --------------------------------------------------------------------------------------------------


class DyingStore(WrappedStore):
    """The host dies before or after a call: it hears no answer, and does nothing more."""

    def __init__(self, store: Store, after: bool) -> None:
        super().__init__(store)
        self.after, self.is_dead = after, False

    async def grant_leases(self, key: LeaseKey) -> LeaseChange:
        if self.is_dead:
            raise StoreUnavailableError("killed")
        self.is_dead = True
        if self.after:
            await self.inner.grant_leases(key)
        raise StoreUnavailableError("killed")


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("text", [STEP, WHOLE], ids=["step", "run"])
@virtual_time
async def test_what_one_host_did_not_look_at_another_one_does(text: str, after: bool):
    bench, printer = Bench(), Printer()
    dying = DyingStore(bench.store, after)
    async with hosting(bench, printer, text, dying) as host:
        run_id = await start(host, 0)
        await asyncio.sleep(0.1)
        assert printer.began == []
        async with hosting(bench, printer, text) as other:
            assert await status(other, run_id) == "completed"
        await nothing_is_left(bench)


@pytest.mark.parametrize("after", [False, True])
@virtual_time
async def test_the_same_host_repairs_what_it_could_not_do(after: bool):
    bench, printer = Bench(), Printer()
    dying = DyingStore(bench.store, after)
    async with hosting(bench, printer, STEP, dying) as host:
        run_id = await start(host, 0)
        await asyncio.sleep(0.1)
        dying.is_dead = False
        dying.grant_leases = bench.store.grant_leases  # type: ignore[method-assign]
        assert await status(host, run_id) == "completed"


@virtual_time
async def test_two_hosts_share_the_limit():
    bench, printer = Bench(), Printer(0.5)
    async with hosting(bench, printer) as first, hosting(bench, printer) as second:
        runs = [await start((first, second)[n % 2], n) for n in range(20)]
        for n, run_id in enumerate(runs):
            assert await status((first, second)[n % 2], run_id) == "completed"
        assert printer.most == 2
        await nothing_is_left(bench)


@virtual_time
async def test_the_lease_of_a_whole_run_is_listed_under_its_name():
    bench, printer = Bench(), Printer(60)
    async with hosting(bench, printer, WHOLE) as host:
        run_id, second = await start(host, 0), await start(host, 1)
        await asyncio.sleep(1)
        holder, waiter = await bench.store.leases()
        assert (holder.run_id, holder.node, holder.key, holder.fence > 0) == (run_id, RUN_LEASE, "ann", True)
        assert (waiter.run_id, waiter.fence) == (second, 0)
        told: JsonValue = printer.fences[0]
        assert told == holder.fence


class MortalStore(WrappedStore):
    """The host dies at its n-th commit or look, before it reaches the store or before its answer: from then on it hears
    and does nothing."""

    def __init__(self, store: Store, dies_at: int, *, after: bool) -> None:
        super().__init__(store)
        self.left, self.after, self.is_dead = dies_at, after, False

    def commit(self, commit: Commit, answer: Callable[[CommitAnswer], None]) -> None:
        was_dead = self.is_dead
        self._count()
        if not self.is_dead:
            self.inner.commit(commit, answer)
        elif self.after and not was_dead:
            self.inner.commit(commit, lambda _answer: None)

    async def grant_leases(self, key: LeaseKey) -> LeaseChange:
        was_dead = self.is_dead
        self._count()
        change = await self.inner.grant_leases(key) if not self.is_dead or (self.after and not was_dead) else None
        if change is None or self.is_dead:
            raise StoreUnavailableError("killed")
        return change

    def _count(self) -> None:
        self.left -= 1
        self.is_dead = self.is_dead or self.left < 0

    def __getattr__(self, name: str) -> Any:
        if self.is_dead and name not in ("open", "close"):
            raise StoreUnavailableError("killed")
        return getattr(self.inner, name)


MIXED = """
input: {type: object}
lease: {key: "whole-${trigger.n % 2}"}
steps:
  - {ref: print, type: task, task: work, input: {n: "${trigger.n}"}, lease: {key: printer}, next: again}
  - {ref: again, type: task, task: work, input: {n: "${trigger.n}"}, lease: {key: printer, timeout: 1h}}
"""
OPERATIONS = 45
"""Commits and looks that the runs below need in all, at most."""


async def most_printing(bench: Bench) -> int:
    """How many steps had the lease `printer` at once, at most, by the journal in the order of its commits."""
    held: set[tuple[str, str]] = set()
    most = 0
    for entry in await bench.store.feed(FeedPosition(), 10_000):
        row = entry.transition
        for event in decode_events(row.events, run_id=row.run_id, version=row.version):
            if isinstance(event, LeaseGranted) and event.node != RUN_LEASE:
                held.add((row.run_id, event.node))
            elif isinstance(event, NodeSettled):
                held.discard((row.run_id, event.node))
            most = max(most, len(held))
    return most


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("dies_at", range(OPERATIONS))
@virtual_time
async def test_killed_at_every_commit_and_look_nothing_is_lost(dies_at: int, after: bool):
    bench, printer = Bench(), Printer(0.5)
    mortal = MortalStore(bench.store, dies_at, after=after)
    with suppress(StoreUnavailableError, TimeoutError, WaitTimeoutError):
        async with hosting(bench, printer, MIXED, mortal) as host:
            async with asyncio.timeout(5):
                runs = [await start(host, n) for n in range(4)]
                await host.request(runs[1], "cancel")
                for run_id in runs:
                    await status(host, run_id)
    async with hosting(bench, printer, MIXED) as host:
        for head in await bench.store.heads(RunFilter()):
            assert await status(host, head.run_id) in ("completed", "cancelled")
        await nothing_is_left(bench)
    assert await most_printing(bench) <= 1
