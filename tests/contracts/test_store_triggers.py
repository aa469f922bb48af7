"""Triggers: what starts runs by itself, and the ids of open runs that overlap policies and bulk controls ask for."""

import asyncio
from typing import Any

import msgspec
import pytest

from ductor.journal.commit import HeadUpdate
from ductor.journal.errors import ValueRefusedError
from ductor.journal.records import StartTrigger
from ductor.journal.store import Store
from tests.contracts.writers import START_US, send_well, started

SECOND_US = 1_000_000


def trigger(index: int = 0, **fields: Any) -> StartTrigger:
    return StartTrigger(
        **{"tenant": "acme", "definition": "order", "manifest_hash": "m1", "index": index, **fields}
    )  # fmt: skip


def schedule(index: int = 0, next_at_us: int = START_US, **fields: Any) -> StartTrigger:
    return trigger(index, next_at_us=next_at_us, **fields)


async def due(store: Store, now_us: int = START_US * 2, limit: int = 100) -> list[StartTrigger]:
    return list(await store.due_schedules(now_us, limit))


async def test_triggers_are_found_by_their_event(store: Store):
    mine = [trigger(0, event="order.created"), trigger(1, event="order.paid"), trigger(2, event="order.created")]
    other = trigger(0, definition="invoice", event="order.created")
    await store.replace_triggers("acme", "order", [*mine, schedule(3)])
    await store.replace_triggers("acme", "invoice", [other])
    await store.replace_triggers("globex", "order", [trigger(0, tenant="globex", event="order.created")])
    assert list(await store.event_triggers("acme", "order.created")) == [other, mine[0], mine[2]]
    assert list(await store.event_triggers("acme", "order.paid")) == [mine[1]]
    assert list(await store.event_triggers("acme", "unknown")) == []
    assert list(await store.event_triggers("acme", "")) == []


async def test_new_triggers_replace_all_of_the_definition(store: Store):
    await store.replace_triggers("acme", "order", [trigger(0, event="a"), trigger(1, event="b"), schedule(2)])
    await store.replace_triggers("acme", "invoice", [trigger(0, definition="invoice", event="a")])
    await store.replace_triggers("acme", "order", [trigger(1, event="a", manifest_hash="m2")])
    assert [found.definition for found in await store.event_triggers("acme", "a")] == ["invoice", "order"]
    assert list(await store.event_triggers("acme", "b")) == []
    assert await due(store) == []
    await store.replace_triggers("acme", "order", [])
    assert [found.definition for found in await store.event_triggers("acme", "a")] == ["invoice"]


async def test_schedules_come_due_the_longest_first(store: Store):
    await store.replace_triggers("acme", "order", [schedule(0, START_US + 3), schedule(1, START_US + 1)])
    await store.replace_triggers("globex", "order", [schedule(0, START_US + 2, tenant="globex")])
    assert await due(store, START_US) == []
    assert [found.next_at_us for found in await due(store, START_US + 2)] == [START_US + 1, START_US + 2]
    assert [found.next_at_us for found in await due(store, limit=1)] == [START_US + 1]
    assert len(await due(store)) == 3


async def test_a_schedule_of_the_same_manifest_keeps_its_next_time(store: Store):
    first = [schedule(0, START_US), schedule(1, START_US), trigger(2, event="a"), schedule(3, START_US)]
    await store.replace_triggers("acme", "order", first)
    for index in range(2):
        assert await store.advance_schedule(first[index], START_US + SECOND_US)
    await store.replace_triggers("acme", "order", [schedule(0, START_US), schedule(2, START_US + 5)])
    assert [(found.index, found.next_at_us) for found in await due(store)] == [
        (2, START_US + 5),
        (0, START_US + SECOND_US),
    ]
    await store.replace_triggers("acme", "order", [schedule(0, START_US, manifest_hash="m2"), schedule(1, START_US)])
    assert [(found.index, found.next_at_us) for found in await due(store)] == [(0, START_US), (1, START_US)]
    await store.replace_triggers("acme", "order", [trigger(0, event="a", manifest_hash="m2")])
    assert await due(store) == []


async def test_one_of_many_advances_a_schedule(store: Store, second_store: Store):
    await store.replace_triggers("acme", "order", [schedule()])
    (found,) = await due(store)
    moved = await asyncio.gather(
        *((store, second_store)[n % 2].advance_schedule(found, START_US + SECOND_US) for n in range(10))
    )
    assert moved.count(True) == 1
    assert [again.next_at_us for again in await due(store)] == [START_US + SECOND_US]


async def test_a_schedule_that_has_changed_does_not_advance(store: Store):
    await store.replace_triggers("acme", "order", [schedule()])
    (found,) = await due(store)
    await store.replace_triggers("acme", "order", [schedule(manifest_hash="m2")])
    assert not await store.advance_schedule(found, START_US + SECOND_US)
    await store.replace_triggers("acme", "order", [])
    assert not await store.advance_schedule(found, START_US + SECOND_US)
    assert not await store.advance_schedule(trigger(event="a"), START_US)
    assert await due(store) == []


async def test_of_two_hosts_that_replace_triggers_one_is_last(store: Store, second_store: Store):
    for number in range(10):
        definition = f"definition-{number}"
        fields = {"definition": definition}
        ours = [trigger(index, event="ours", **fields) for index in range(4)]
        theirs = [trigger(index, event="theirs", manifest_hash="m2", **fields) for index in range(2)]
        await asyncio.gather(
            store.replace_triggers("acme", definition, ours), second_store.replace_triggers("acme", definition, theirs)
        )
        found = [
            each
            for event in ("ours", "theirs")
            for each in await store.event_triggers("acme", event)
            if each.definition == definition
        ]
        assert found in (ours, theirs)


@pytest.mark.parametrize(
    "bad",
    [trigger(event="a\0"), trigger(event="x" * 256), trigger(manifest_hash="\ud800"), schedule(0, 2**63)],
    ids=repr,
)
async def test_a_trigger_that_no_store_takes_is_refused_and_nothing_changes(store: Store, bad: StartTrigger):
    await store.replace_triggers("acme", "order", [trigger(event="before")])
    with pytest.raises(ValueRefusedError):
        await store.replace_triggers("acme", "order", [trigger(1, event="good"), bad])
    assert await store.event_triggers("acme", "before")
    assert not await store.event_triggers("acme", "good")


async def test_open_runs_are_listed_page_by_page(store: Store):
    statuses = [
        "pending",
        "running",
        "waiting",
        "paused",
        "completed",
        "failed",
        "cancelled",
        "terminated",
        "continued",
    ]
    by_definition: dict[str, list[str]] = {"order": [], "invoice": [], "größe": []}
    for status in statuses:
        for definition, open_ids in by_definition.items():
            run = await started(store, status=status, definition=definition)
            await started(store, status=status, definition=definition, tenant="globex")
            if status in statuses[:4]:
                open_ids.append(run.run_id)
    for asked, expected in (*by_definition.items(), (None, [id for ids in by_definition.values() for id in ids])):
        found: list[str] = []
        while page := await store.open_run_ids("acme", asked, found[-1] if found else None, 3):
            assert len(page) <= 3
            found += page
        assert found == sorted(expected), asked
    assert list(await store.open_run_ids("acme", "unknown", None, 10)) == []
    assert list(await store.open_run_ids("nobody", None, None, 10)) == []


async def test_open_runs_are_found_by_the_beginning_of_their_key(store: Store):
    first = await started(store, key="schedule/0/1")
    second = await started(store, key="schedule/0/22")
    for other in ({"key": "schedule/10/1"}, {"key": "a%"}, {"definition": "refund", "key": "schedule/0/1"}, {}):
        await started(store, **other)
    ended = await started(store, key="schedule/0/3")
    await send_well(store, ended.commit(head=HeadUpdate(status="completed")))
    found = sorted([(first.run_id, "schedule/0/1"), (second.run_id, "schedule/0/22")])
    assert list(await store.open_runs_by_key("acme", "order", "schedule/0/", 10)) == found
    assert list(await store.open_runs_by_key("acme", "order", "schedule/0/", 1)) == found[:1]
    assert list(await store.open_runs_by_key("acme", "order", "%", 10)) == []
    assert list(await store.open_runs_by_key("other", "order", "schedule/0/", 10)) == []


async def test_a_run_is_open_until_it_ends_and_again_once_it_is_reopened(store: Store):
    run = await started(store)
    for status, is_open in (("paused", True), ("failed", False), ("running", True), ("completed", False)):
        await send_well(store, run.commit(head=HeadUpdate(status=status)))  # type: ignore[arg-type]
        for definition in (None, "order"):
            assert list(await store.open_run_ids("acme", definition, None, 10)) == [run.run_id] * is_open, status


async def test_what_a_reader_gets_is_what_was_stored(store: Store):
    given = [schedule(0, START_US)]
    await store.replace_triggers("acme", "order", given)
    given.clear()
    assert await due(store) == [schedule(0, START_US)]
    assert msgspec.structs.asdict((await due(store))[0]) == msgspec.structs.asdict(schedule(0, START_US))
