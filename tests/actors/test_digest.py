"""Digests on hosts, in virtual time: who leads, who merges, when windows close, and what survives kills and races."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ductor.actors.host import EngineHost, HostOptions
from ductor.actors.tasks import Task, task
from ductor.definitions.values import JsonValue
from ductor.journal.digest_store import DigestChange, DigestWindow, UnjoinedDigest
from ductor.journal.errors import StoreUnavailableError
from ductor.journal.store import Store
from ductor.testing import virtual_time
from tests.actors.hosting import Bench, WrappedStore

BUNDLE = """
input: {type: object}
steps:
  - ref: bundle
    type: digest
    key: "${trigger.customer}"
    item: {id: "${trigger.id}"}
    window: {duration: 10m, count: 4}
    next: send
  - {ref: send, type: task, task: send, input: {items: "${steps.bundle.output.items}"}}
"""


class Outbox(list[JsonValue]):
    """What the handler `send` was given, call by call."""

    def handler(self) -> Task[..., Any]:
        @task("send")
        async def send(items: list[Any]) -> int:
            self.append(items)
            return len(items)

        return send


@asynccontextmanager
async def hosting(
    bench: Bench, outbox: Outbox, text: str = BUNDLE, store: Store | None = None, options: HostOptions | None = None
) -> AsyncIterator[EngineHost]:
    async with bench.host(text, outbox.handler(), store, options) as host:
        yield host


async def start(host: EngineHost, *ids: int, customer: str = "ann") -> list[str]:
    return [(await host.start("subject", {"customer": customer, "id": n})).run_id for n in ids]


async def outputs(host: EngineHost, run_ids: Sequence[str]) -> list[JsonValue]:
    return [(await host.outcome(run_id, timeout_ms=3 * 86_400_000)).output for run_id in run_ids]


def items(*ids: int) -> list[JsonValue]:
    return [{"id": n} for n in ids]


@virtual_time
async def test_the_first_run_goes_on_with_all_items_and_the_others_complete_at_once():
    bench, outbox = Bench(), Outbox()
    async with hosting(bench, outbox) as host:
        started_us = bench.clock.now_us()
        leader, *members = await start(host, 1, 2, 3)
        assert await outputs(host, members) == [{"merged_into": leader}] * 2
        assert bench.clock.now_us() - started_us < 1_000_000
        assert outbox == []
        assert (await host.view(leader)).status == "waiting"
        assert await outputs(host, [leader]) == [{"send": 3}]
        assert outbox == [items(1, 2, 3)]
        assert 0 <= bench.clock.now_us() - started_us - 600_000_000 < 50_000, "closed on time, not by a sweep"
        merged = await host.view(members[0])
        assert [(step.ref, step.status, step.outcome) for step in merged.steps] == [
            ("bundle", "succeeded", "merged"),
            ("send", "skipped", ""),
        ]
        assert merged.error is None


@virtual_time
async def test_the_item_that_fills_the_window_closes_it():
    bench, outbox = Bench(), Outbox()
    async with hosting(bench, outbox) as host:
        started_us = bench.clock.now_us()
        runs = await start(host, *range(9))
        assert await outputs(host, [runs[0], runs[4]]) == [{"send": 4}] * 2
        assert bench.clock.now_us() - started_us < 1_000_000
        assert await outputs(host, [runs[8]]) == [{"send": 1}]
        assert outbox == [items(0, 1, 2, 3), items(4, 5, 6, 7), items(8)]


@virtual_time
async def test_keys_do_not_mix():
    bench, outbox = Bench(), Outbox()
    async with hosting(bench, outbox) as host:
        ann, bob = await start(host, 1), await start(host, 2, customer="bob")
        assert await outputs(host, ann + bob) == [{"send": 1}] * 2
        assert sorted(outbox, key=str) == [items(1), items(2)]


@virtual_time
async def test_an_item_that_is_too_large_fails_its_step_alone():
    bench, outbox = Bench(), Outbox()
    async with hosting(bench, outbox, BUNDLE.replace("{id:", '{text: "${trigger.text}", id:')) as host:
        large = await host.start("subject", {"customer": "ann", "id": 1, "text": "x" * 40_000})
        small = await host.start("subject", {"customer": "ann", "id": 2, "text": ""})
        outcome = await host.outcome(large.run_id)
        assert outcome.error is not None
        assert outcome.error.type == "ValueRefused"
        assert "bundle" in outcome.error.message
        assert (await host.outcome(small.run_id)).output == {"send": 1}


@virtual_time
async def test_a_thousand_runs_at_once_give_exactly_the_windows_that_they_fill():
    bench, outbox = Bench(), Outbox()
    async with hosting(bench, outbox, BUNDLE.replace("count: 4", "count: 250")) as host:
        store_calls = 0
        join = bench.store.join_digest

        async def counted(window: DigestWindow, unjoined: Sequence[UnjoinedDigest], now_us: int) -> DigestChange:
            nonlocal store_calls
            store_calls += 1
            return await join(window, unjoined, now_us)

        bench.store.join_digest = counted  # type: ignore[method-assign]
        started = await asyncio.gather(*(host.start("subject", {"customer": "ann", "id": n}) for n in range(1_000)))
        await outputs(host, [each.run_id for each in started])
        assert [len(sent) for sent in outbox] == [250] * 4  # type: ignore[arg-type]
        found: list[Any] = [item for sent in outbox if isinstance(sent, list) for item in sent]
        assert sorted(item["id"] for item in found) == list(range(1_000))
        assert store_calls < 100, "what parks together is joined together"


# --- controls ---------------------------------------------------------------------------------------------------------


@virtual_time
async def test_the_items_of_a_leader_that_was_cancelled_go_to_the_next_run():
    bench, outbox = Bench(), Outbox()
    async with hosting(bench, outbox) as host:
        leader, member = await start(host, 1, 2)
        await outputs(host, [member])
        await host.request(leader, "cancel")
        assert (await host.outcome(leader)).status == "cancelled"
        (heir,) = await start(host, 3)
        assert await outputs(host, [heir]) == [{"send": 2}]
        assert outbox == [items(2, 3)]
        assert await outputs(host, [member]) == [{"merged_into": leader}]


@virtual_time
async def test_a_leader_that_is_redriven_joins_again():
    bench, outbox = Bench(), Outbox()
    async with hosting(bench, outbox) as host:
        (leader,) = await start(host, 1)
        await asyncio.sleep(1)
        await host.request(leader, "cancel")
        await host.outcome(leader)
        await host.request(leader, "redrive")
        await asyncio.sleep(1)
        (member,) = await start(host, 2)
        assert await outputs(host, [member, leader]) == [{"merged_into": leader}, {"send": 2}]
        assert outbox == [items(1, 2)]


@virtual_time
async def test_a_paused_leader_is_told_and_goes_on_when_it_is_resumed():
    bench, outbox = Bench(), Outbox()
    async with hosting(bench, outbox) as host:
        leader, *_ = await start(host, 1, 2)
        await asyncio.sleep(1)
        await host.request(leader, "pause")
        await asyncio.sleep(3_600)
        (later,) = await start(host, 3)
        assert (await host.view(leader)).status == "paused"
        await host.request(leader, "resume")
        assert await outputs(host, [leader, later]) == [{"send": 2}, {"send": 1}]
        assert outbox == [items(1, 2), items(3)]


@virtual_time
async def test_deferred_steps_of_a_merged_run_run_all_the_same():
    text = BUNDLE + 'defer: [{ref: bye, type: task, task: send, input: {items: ["${run.status}"]}}]\n'
    bench, outbox = Bench(), Outbox()
    async with hosting(bench, outbox, text) as host:
        leader, member = await start(host, 1, 2)
        assert await outputs(host, [member]) == [{"merged_into": leader}]
        assert outbox == [["completed"]]


# --- kills and races --------------------------------------------------------------------------------------------------


class DyingStore(WrappedStore):
    """Loses calls of one name: before they reach the store, or their answers."""

    def __init__(self, store: Store, name: str, *, after: bool) -> None:
        super().__init__(store)
        self.name = name
        self.after = after
        self.is_dying = True
        self.lost = 0

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.inner, name)
        if name != self.name:
            return call

        async def dying(*arguments: Any, **named: Any) -> Any:
            if self.is_dying and not self.after:
                self.lost += 1
                raise StoreUnavailableError("killed")
            answer = await call(*arguments, **named)
            if self.is_dying:
                self.lost += 1
                raise StoreUnavailableError("killed")
            return answer

        return dying


@pytest.mark.parametrize("name", ["unjoined_digests", "join_digest", "close_digest", "digest_work"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@virtual_time
async def test_a_host_that_dies_there_is_carried_on_by_the_next(name: str, after: bool):
    """Neither joining nor closing tells this host anything; the next one finds all of it."""
    bench, outbox = Bench(), Outbox()
    dying = DyingStore(bench.store, name, after=after)
    async with hosting(bench, outbox, store=dying) as host:
        runs = await start(host, 1, 2, 3)
        await asyncio.sleep(601 if name == "close_digest" else 5)
        assert dying.lost
    async with hosting(bench, outbox) as host:
        assert await outputs(host, runs) == [{"send": 3}, {"merged_into": runs[0]}, {"merged_into": runs[0]}]
        assert outbox == [items(1, 2, 3)]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@virtual_time
async def test_the_same_host_repairs_what_it_could_not_do(after: bool):
    bench, outbox = Bench(), Outbox()
    dying = DyingStore(bench.store, "join_digest", after=after)
    async with hosting(bench, outbox, store=dying) as host:
        runs = await start(host, 1, 2)
        await asyncio.sleep(5)
        dying.is_dying = False
        assert await outputs(host, runs) == [{"send": 2}, {"merged_into": runs[0]}]


@virtual_time
async def test_a_window_whose_host_is_gone_closes_on_another_one():
    bench, outbox = Bench(), Outbox()
    async with hosting(bench, outbox) as second:
        async with hosting(bench, outbox) as first:
            (leader,) = await start(first, 1)
            await asyncio.sleep(60)
        assert await outputs(second, [leader]) == [{"send": 1}]
        assert outbox == [items(1)]


@virtual_time
async def test_two_hosts_gather_in_one_window():
    bench, outbox = Bench(), Outbox()
    async with hosting(bench, outbox) as first, hosting(bench, outbox) as second:
        (leader,) = await start(first, 0)
        await asyncio.sleep(1)
        members = [run for n in range(1, 4) for run in await start(second if n % 2 else first, n)]
        assert await outputs(second, members) == [{"merged_into": leader}] * 3
        assert await outputs(first, [leader]) == [{"send": 4}]
        assert outbox == [items(0, 1, 2, 3)]


@virtual_time
async def test_what_closes_while_nobody_runs_is_told_at_the_next_start():
    bench, outbox = Bench(), Outbox()
    async with hosting(bench, outbox) as host:
        runs = await start(host, 1, 2)
        await asyncio.sleep(1)
    await asyncio.sleep(86_400)
    async with hosting(bench, outbox) as host:
        (late,) = await start(host, 3)
        assert await outputs(host, [runs[0], late]) == [{"send": 2}, {"send": 1}]
        assert outbox == [items(1, 2), items(3)]


@virtual_time
async def test_digests_beside_other_branches():
    """The branch beside the digest is cancelled when the run merges, as by any end of its run."""
    text = """
    input: {type: object}
    steps:
      - {ref: fork, type: transform, value: 1, next: [bundle, slow]}
      - {ref: slow, type: wait, duration: 1d, next: send}
      - {ref: bundle, type: digest, key: k, item: "${trigger.id}", window: {duration: 1m}, next: send}
      - {ref: send, type: task, task: send, join: any, input: {items: "${steps.bundle.output.items}"}}
    """
    bench, outbox = Bench(), Outbox()
    async with hosting(bench, outbox, text) as host:
        leader, member = await start(host, 1, 2)
        await outputs(host, [member])
        steps = {step.ref: step.status for step in (await host.view(member)).steps}
        assert steps == {"fork": "succeeded", "slow": "cancelled", "bundle": "succeeded", "send": "skipped"}
        await outputs(host, [leader])
        assert outbox == [[1, 2]]
