"""Runs that hosts leave alone, and runs that do not get on: the same on both stores."""

import uuid

from ductor.journal.commit import HeadUpdate
from ductor.journal.partitions import partition_of
from ductor.journal.set_aside_store import MAX_REASON_LENGTH
from ductor.journal.store import Store
from tests.contracts.writers import RunWriter, send_well, started

LATER_US = 2_000_000_000_000_000


async def running(store: Store) -> RunWriter:
    run = await started(store, status="pending")
    await send_well(store, run.commit(head=HeadUpdate(status="running")))
    return run


async def test_a_run_is_set_aside_with_its_first_reason_until_it_is_released(store: Store):
    run = await running(store)
    assert await store.run_set_aside(run.run_id) is None
    assert await store.set_run_aside(run.run_id, "it \x00keeps dying", "host-a")
    assert await store.set_run_aside(run.run_id, "again", "host-b")
    mark = await store.run_set_aside(run.run_id)
    assert mark is not None
    assert (mark.run_id, mark.reason, mark.host_id) == (run.run_id, "it keeps dying", "host-a")
    assert (mark.tenant, mark.definition) == ("acme", "order")
    assert mark.at_us > 0
    assert await store.release_run(run.run_id)
    assert not await store.release_run(run.run_id)
    assert await store.run_set_aside(run.run_id) is None


async def test_what_does_not_exist_is_not_set_aside(store: Store):
    for unknown in (str(uuid.uuid4()), "no id"):
        assert not await store.set_run_aside(unknown, "reason", "host")
        assert not await store.release_run(unknown)
        assert await store.run_set_aside(unknown) is None


async def test_reasons_are_bounded(store: Store):
    run = await running(store)
    await store.set_run_aside(run.run_id, "x" * (MAX_REASON_LENGTH + 1), "host")
    mark = await store.run_set_aside(run.run_id)
    assert mark is not None
    assert len(mark.reason) == MAX_REASON_LENGTH


async def test_they_are_listed_by_tenant_a_page_at_a_time(store: Store):
    run_ids = sorted([(await running(store)).run_id for _ in range(3)])
    for run_id in run_ids:
        await store.set_run_aside(run_id, "reason", "host")
    assert [mark.run_id for mark in await store.runs_set_aside("acme", None, 2)] == run_ids[:2]
    assert [mark.run_id for mark in await store.runs_set_aside(None, run_ids[1], 2)] == run_ids[2:]
    assert await store.runs_set_aside("other", None, 2) == []


async def test_nobody_recovers_or_wakes_what_is_set_aside(store: Store):
    left, other = await started(store, status="pending"), await started(store, status="pending")
    assert set(await store.runs_to_recover(None, 10)) == {left.run_id, other.run_id}
    await store.set_run_aside(left.run_id, "reason", "host")
    assert list(await store.runs_to_recover(None, 10)) == [other.run_id]
    assert list(await store.runs_to_wake(LATER_US, 10)) == [other.run_id]
    await store.release_run(left.run_id)
    assert set(await store.runs_to_wake(LATER_US, 10)) == {left.run_id, other.run_id}


async def test_runs_are_recovered_and_woken_by_partitions(store: Store):
    run_ids = [(await started(store, status="pending")).run_id for _ in range(12)]
    chosen = {partition_of(run_id) for run_id in run_ids[:6]}
    expected = {run_id for run_id in run_ids if partition_of(run_id) in chosen}
    assert set(await store.runs_to_recover(None, 100, chosen)) == expected
    assert set(await store.runs_to_wake(LATER_US, 100, chosen)) == expected
    for nothing in (set[int](), frozenset[int]()):
        assert list(await store.runs_to_recover(None, 100, nothing)) == []
        assert list(await store.runs_to_wake(LATER_US, 100, nothing)) == []


async def test_running_runs_that_do_not_change_are_found_and_the_last_one_looked_at_is_told(store: Store):
    first, second, third = sorted([await running(store) for _ in range(3)], key=lambda run: run.run_id)
    await started(store, status="pending")  # nobody has begun it
    found = await store.idle_runs(LATER_US, None, 10)
    assert [(run.run_id, run.version) for run in found] == [
        (first.run_id, 2),
        (second.run_id, 2),
        (third.run_id, 2),
    ]
    assert [run.run_id for run in await store.idle_runs(0, None, 2)] == [second.run_id]
    assert [run.run_id for run in await store.idle_runs(LATER_US, second.run_id, 2)] == [third.run_id]
    assert list(await store.idle_runs(LATER_US, third.run_id, 2)) == []
    await store.set_run_aside(first.run_id, "reason", "host")
    only_third = {partition_of(third.run_id)}
    assert first.run_id not in [run.run_id for run in await store.idle_runs(LATER_US, None, 10)]
    assert third.run_id in [run.run_id for run in await store.idle_runs(LATER_US, None, 10, only_third)]


async def test_losses_are_counted_by_attempt_and_once_by_each_call(store: Store):
    one, other = await running(store), await running(store)
    tokens = [f"{other.run_id}/a/1", f"{one.run_id}/b.0/2", f"{one.run_id}/a/1"]
    first, second = uuid.uuid4(), uuid.uuid4()
    assert await store.count_losses(tokens, first) == dict.fromkeys(tokens, 1)
    assert await store.count_losses(tokens, first) == dict.fromkeys(tokens, 1)
    assert await store.count_losses(tokens[:1] * 2, second) == {tokens[0]: 2}
    assert await store.count_losses(tokens, uuid.uuid4()) == {tokens[0]: 3, tokens[1]: 2, tokens[2]: 2}
    assert await store.count_losses([], second) == {}


async def test_losses_are_read_least_often_lost_first_and_the_one_counted_last_before_others(store: Store):
    run, other = await running(store), await running(store)
    once, twice, again, never = (f"{run.run_id}/a/1", f"{other.run_id}/b/1", f"{run.run_id}/c/1", f"{run.run_id}/d/1")
    for tokens in ([twice], [once], [twice], [again]):
        await store.count_losses(tokens, uuid.uuid4())
    losses = await store.attempt_losses([twice, never, once, again])
    assert list(losses.items()) == [(again, 1), (once, 1), (twice, 2)]
    await store.release_run(run.run_id)
    assert await store.attempt_losses([twice, never, once, again]) == {twice: 2}
    assert await store.attempt_losses([]) == {}


async def test_a_run_that_is_released_has_lost_nothing(store: Store):
    one, other = await running(store), await running(store)
    tokens = [f"{one.run_id}/a/1", f"{one.run_id}/b/1", f"{other.run_id}/a/1"]
    for _ in range(2):
        await store.count_losses(tokens, uuid.uuid4())
    await store.set_run_aside(one.run_id, "reason", "host")
    assert await store.release_run(one.run_id)
    assert await store.count_losses(tokens, uuid.uuid4()) == {tokens[0]: 1, tokens[1]: 1, tokens[2]: 3}
    assert not await store.release_run(other.run_id)
    assert await store.count_losses(tokens[2:], uuid.uuid4()) == {tokens[2]: 1}
