"""Windows of digests: every item is in one window, in order; every run is told once; a window closes once."""

import asyncio
from random import Random
from typing import Any

import pytest

from ductor.definitions.values import JsonObject, JsonValue
from ductor.journal import digest_windows
from ductor.journal.codec import decode_value
from ductor.journal.commit import Conflict, HeadUpdate, Refused
from ductor.journal.digest_store import (
    MAX_DIGEST_ITEM_BYTES,
    MAX_JOINED_AT_ONCE,
    DigestChange,
    DigestWait,
    DigestWindow,
    UnjoinedDigest,
)
from ductor.journal.errors import ValueRefusedError
from ductor.journal.events import Message
from ductor.journal.store import Store
from tests.contracts.writers import START_US, RunWriter, send, send_all, send_well, started

HOUR_MS = 3_600_000
HOUR_US = HOUR_MS * 1_000
FAR_US = 2**60
WINDOW = DigestWindow("acme", "order", "bundle", '"ann"')


def wait(item: JsonValue = None, **fields: Any) -> DigestWait:
    values = {"node": "bundle", "generation": 0, "key": '"ann"', "duration_ms": HOUR_MS, "max_items": 100}
    return DigestWait(item=item, **{**values, **fields})


async def parked(store: Store, item: JsonValue = None, **fields: Any) -> RunWriter:
    """A run whose digest step has parked."""
    run = await started(store)
    await send_well(store, run.commit(digests=(wait(item, **fields),)))
    return run


def unjoined(run: RunWriter, window: DigestWindow = WINDOW, generation: int = 0) -> UnjoinedDigest:
    return UnjoinedDigest(run_id=run.run_id, generation=generation, window=window)


async def join(store: Store, *runs: RunWriter, now_us: int = START_US) -> DigestChange:
    return await store.join_digest(WINDOW, [unjoined(run) for run in runs], now_us)


async def told(store: Store, run: RunWriter) -> list[JsonValue]:
    """What the messages that wait for a run say."""
    loaded = await store.load(run.run_id)
    assert loaded is not None
    bodies = {payload.hash: payload.text for payload in loaded.payloads}
    assert all(
        (message.kind, message.node, message.id) == ("digest", "bundle", "digest:bundle:0")
        for message in loaded.messages
    )
    return [
        message.payload if message.payload_ref is None else decode_value(bodies[message.payload_ref.hash])
        for message in loaded.messages
    ]


async def leave(store: Store, run: RunWriter) -> None:
    await send_well(store, run.commit(digests_gone=("bundle",)))


# --- parking ----------------------------------------------------------------------------------------------------------


async def test_what_parks_is_found_in_order_until_it_is_joined(store: Store):
    runs = [await parked(store, n) for n in range(3)]
    other = await parked(store, "other", key='"bob"')
    work = await store.digest_work(0, 100)
    expected = [unjoined(run) for run in runs]
    bob = unjoined(other, DigestWindow("acme", "order", "bundle", '"bob"'))
    assert list(work.unjoined) == [*expected, bob]
    assert work.due == ()
    assert list((await store.digest_work(0, 2)).unjoined) == expected[:2]
    assert list(await store.unjoined_digests([other.run_id, runs[0].run_id], 100)) == [expected[0], bob]
    await join(store, *runs)
    assert list((await store.digest_work(0, 100)).unjoined) == [bob]
    assert list(await store.unjoined_digests([run.run_id for run in runs], 100)) == []


async def test_nothing_is_written_without_the_row(store: Store):
    run = await started(store)
    answer = await send(store, run.commit(version=7, digests=(wait(1),)))
    assert isinstance(answer, Conflict)
    assert (await store.digest_work(0, 100)).unjoined == ()
    kept = await parked(store, 1)
    assert isinstance(await send(store, kept.commit(version=9, digests_gone=("bundle",))), Conflict)
    assert [found.run_id for found in (await store.digest_work(0, 100)).unjoined] == [kept.run_id]


@pytest.mark.parametrize(
    "fields",
    [{"item": "x" * MAX_DIGEST_ITEM_BYTES}, {"item": "\0"}, {"key": "k" * 256}, {"max_items": 2**40}],
    ids=["too large", "no text", "long key", "too many"],
)
async def test_what_does_not_fit_is_refused(store: Store, fields: JsonObject):
    run = await started(store)
    assert isinstance(await send(store, run.commit(digests=(wait(**{"item": 1, **fields}),))), Refused)


async def test_nobody_else_may_speak_for_a_digest(store: Store):
    run = await started(store)
    for message in (
        Message(id="digest:bundle:0", kind="signal", name="x"),
        Message(id="m", kind="digest", node="bundle"),
    ):
        with pytest.raises(ValueRefusedError):
            await store.send_message(run.run_id, message)


# --- joining ----------------------------------------------------------------------------------------------------------


async def test_the_first_leads_and_the_others_are_told_at_once(store: Store):
    leader, second, third = [await parked(store, n) for n in range(3)]
    opened = await join(store, leader, now_us=START_US + 7)
    assert opened.told == ()
    assert opened.closes_at_us == START_US + 7 + HOUR_US
    change = await join(store, second, third)
    assert sorted(change.told) == sorted([second.run_id, third.run_id])
    assert change.closes_at_us == opened.closes_at_us
    assert await told(store, leader) == []
    assert await told(store, second) == await told(store, third) == [{"merged_into": leader.run_id}]


async def test_the_join_that_fills_the_window_closes_it(store: Store):
    runs = [await parked(store, {"n": n}, max_items=3) for n in range(7)]
    change = await join(store, *runs)
    assert await told(store, runs[0]) == [{"items": [{"n": 0}, {"n": 1}, {"n": 2}]}]
    assert await told(store, runs[1]) == [{"merged_into": runs[0].run_id}]
    assert await told(store, runs[3]) == [{"items": [{"n": 3}, {"n": 4}, {"n": 5}]}]
    assert await told(store, runs[6]) == []
    assert change.closes_at_us is not None
    assert sorted(change.told) == sorted(run.run_id for run in runs[:6])


async def test_the_window_keeps_what_its_first_item_fixed(store: Store):
    leader = await parked(store, 0, max_items=2, duration_ms=HOUR_MS)
    second = await parked(store, 1, max_items=50, duration_ms=1)
    await join(store, leader)
    await join(store, second)
    assert await told(store, leader) == [{"items": [0, 1]}]


async def test_joining_again_changes_nothing(store: Store, second_store: Store):
    runs = [await parked(store, n, max_items=4) for n in range(6)]
    await asyncio.gather(*(join(either, *runs) for either in (store, second_store) for _ in range(3)))
    await join(store, *runs)
    assert await told(store, runs[0]) == [{"items": [0, 1, 2, 3]}]
    assert await told(store, runs[4]) == []
    assert await told(store, runs[5]) == [{"merged_into": runs[4].run_id}]


async def test_keys_and_steps_and_definitions_and_tenants_have_windows_of_their_own(store: Store):
    named = [
        (WINDOW, await parked(store)),
        (DigestWindow("acme", "order", "bundle", '"bob"'), await parked(store, key='"bob"')),
        (DigestWindow("acme", "order", "other", '"ann"'), await parked(store, node="other")),
    ]
    for head in ({"definition": "refund"}, {"tenant": "zeta"}):
        run = await started(store, **head)
        await send_well(store, run.commit(digests=(wait(),)))
        named.append(
            (DigestWindow(head.get("tenant", "acme"), head.get("definition", "order"), "bundle", '"ann"'), run)
        )
    for window, run in named:
        change = await store.join_digest(window, [unjoined(run, window)], START_US)
        assert change.told == ()
        assert change.closes_at_us is not None


async def test_a_batch_has_a_bound(store: Store):
    runs = [RunWriter() for _ in range(MAX_JOINED_AT_ONCE + 5)]
    await send_all(store, [run.start() for run in runs])
    await send_all(store, [run.commit(digests=(wait(n, max_items=1_000),)) for n, run in enumerate(runs)])
    waiting = list((await store.digest_work(0, 1_000)).unjoined)
    assert len((await store.join_digest(WINDOW, waiting, START_US)).told) == MAX_JOINED_AT_ONCE - 1
    assert list((await store.digest_work(0, 1_000)).unjoined) == waiting[MAX_JOINED_AT_ONCE:]


async def test_a_window_with_too_many_bytes_closes(store: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(digest_windows, "MAX_DIGEST_BYTES", 60_000)
    runs = [await parked(store, f"{n}" * 25_000) for n in range(4)]
    await join(store, *runs)
    assert await told(store, runs[0]) == [{"items": [f"{n}" * 25_000 for n in range(3)]}]
    assert await told(store, runs[3]) == []


async def test_items_come_back_as_they_were_sent(store: Store):
    items: list[JsonValue] = [None, 1.0, 2**70, "é😀", {"b": [1e22, False], "a": {}}, ""]
    runs = [await parked(store, item, max_items=len(items)) for item in items]
    await join(store, *runs)
    (leader,) = await told(store, runs[0])
    assert repr(leader) == repr({"items": items})


# --- closing ----------------------------------------------------------------------------------------------------------


async def test_no_window_closes_before_its_time_and_each_closes_once(store: Store, second_store: Store):
    leader, member = await parked(store, 1), await parked(store, 2)
    await join(store, leader, member)
    closes_at_us = START_US + HOUR_US
    assert await store.close_digest(WINDOW, closes_at_us - 1) == DigestChange(closes_at_us=closes_at_us)
    assert (await store.digest_work(closes_at_us - 1, 10)).due == ()
    assert (await store.digest_work(closes_at_us, 10)).due == (WINDOW,)
    both = (store, second_store)
    changes = await asyncio.gather(*(each.close_digest(WINDOW, closes_at_us) for each in both * 2))
    assert sorted(change.told for change in changes) == [(), (), (), (leader.run_id,)]
    assert await told(store, leader) == [{"items": [1, 2]}]
    assert (await store.digest_work(FAR_US, 10)).due == ()
    assert await store.close_digest(WINDOW, FAR_US) == DigestChange()


async def test_due_windows_come_in_the_order_of_their_time(store: Store):
    names = [DigestWindow("acme", "order", "bundle", f'"{n}"') for n in range(3)]
    for name, duration_ms in zip(names, (30, 10, 20), strict=True):
        run = await parked(store, key=name.key, duration_ms=duration_ms)
        await store.join_digest(name, [unjoined(run, name)], START_US)
    assert (await store.digest_work(FAR_US, 10)).due == (names[1], names[2], names[0])
    assert (await store.digest_work(FAR_US, 1)).due == (names[1],)


async def test_who_joins_a_window_that_is_over_opens_the_next_one(store: Store):
    leader, late = await parked(store, "in time"), await parked(store, "late")
    await join(store, leader)
    change = await join(store, late, now_us=START_US + HOUR_US)
    assert change == DigestChange(closes_at_us=START_US + 2 * HOUR_US, told=(leader.run_id,))
    assert await told(store, leader) == [{"items": ["in time"]}]
    assert await told(store, late) == []


async def test_large_items_reach_the_leader_as_a_payload(store: Store):
    runs = [await parked(store, f"{n}" * 20_000, max_items=3) for n in range(3)]
    await join(store, runs[0], runs[1])
    await join(store, runs[2])
    inputs = await store.inputs(runs[0].run_id)
    assert inputs is not None
    assert [payload.hash for payload in inputs.payloads] == [
        message.payload_ref.hash for message in inputs.messages if message.payload_ref
    ]
    assert await told(store, runs[0]) == [{"items": [f"{n}" * 20_000 for n in range(3)]}]


# --- leaving ----------------------------------------------------------------------------------------------------------


async def test_who_leaves_before_joining_brings_nothing(store: Store):
    gone, stays = await parked(store, "gone"), await parked(store, "stays", max_items=1)
    await leave(store, gone)
    await join(store, gone, stays)
    assert await told(store, gone) == []
    assert await told(store, stays) == [{"items": ["stays"]}]


async def test_the_items_of_a_leader_that_left_go_to_the_next_run(store: Store):
    leader, member, heir = await parked(store, "leader"), await parked(store, "member"), await parked(store, "heir")
    await join(store, leader, member)
    await leave(store, leader)
    over_us = START_US + HOUR_US
    assert (await store.digest_work(over_us, 10)).due == (WINDOW,)
    assert await store.close_digest(WINDOW, over_us) == DigestChange()
    assert (await store.digest_work(over_us, 10)).due == (), "it waits for the next run, and nobody looks at it again"
    assert await join(store, heir, now_us=over_us) == DigestChange(told=(heir.run_id,))
    assert await told(store, heir) == [{"items": ["member", "heir"]}]
    assert await told(store, member) == [{"merged_into": leader.run_id}]
    assert await told(store, leader) == []


async def test_a_window_whose_leader_left_in_time_keeps_its_time(store: Store):
    leader, member, heir = [await parked(store, n) for n in range(3)]
    opened = await join(store, leader, member)
    await leave(store, leader)
    assert await join(store, heir) == DigestChange(closes_at_us=opened.closes_at_us)


async def test_a_window_that_held_its_leader_alone_is_gone_with_it(store: Store):
    leader, later = await parked(store, 1), await parked(store, 2)
    await join(store, leader)
    await leave(store, leader)
    assert await join(store, later, now_us=START_US + 5) == DigestChange(closes_at_us=START_US + 5 + HOUR_US)


async def test_a_step_that_parks_again_brings_its_item_again(store: Store):
    run, member = await parked(store, "first"), await parked(store, "member")
    await join(store, run, member)
    await leave(store, run)
    await send_well(store, run.commit(digests=(wait("second", generation=1, max_items=1),)))
    assert (await store.join_digest(WINDOW, [unjoined(run)], START_US)).told == ()
    again = unjoined(run, generation=1)
    assert list((await store.digest_work(0, 10)).unjoined) == [again]
    await store.join_digest(WINDOW, [again], START_US)
    filling = [await parked(store, n) for n in range(98)]
    await join(store, *filling)
    loaded = await store.load(run.run_id)
    assert loaded is not None
    assert [message.id for message in loaded.messages] == ["digest:bundle:1"]
    assert loaded.messages[0].payload == {"items": ["member", "second", *range(98)]}


# --- races ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
async def test_whatever_happens_at_once_every_item_is_told_once(store: Store, second_store: Store, seed: int):
    """Joins and closings from two hosts, and steps that leave, all at once."""
    random = Random(seed)
    runs = [RunWriter() for _ in range(40)]
    await send_all(store, [run.start() for run in runs])
    await send_all(store, [run.commit(digests=(wait(n, max_items=6),)) for n, run in enumerate(runs)])
    leaving = random.sample(runs, 8)
    work: list[Any] = []
    for either in (store, second_store):
        order = random.sample(runs, len(runs))
        work += [join(either, *order[at : at + 5]) for at in range(0, len(order), 5)]
        work += [either.close_digest(WINDOW, START_US) for _ in range(4)]
    work += [leave(store, run) for run in leaving]
    random.shuffle(work)
    await asyncio.gather(*work)

    await store.join_digest(WINDOW, (await store.digest_work(0, 100)).unjoined, START_US)
    while True:  # fill what is open
        runs.append(await parked(store, len(runs), max_items=6))
        if (await join(store, runs[-1])).closes_at_us is None:
            break
    items: list[Any] = []
    for run in runs:
        answers = await told(store, run)
        assert len(answers) == 1 or (run in leaving and not answers)
        items += [item for answer in answers if isinstance(answer, dict) for item in answer.get("items", ())]  # type: ignore[union-attr]
    assert len(items) == len(set(items))
    assert {n for n, run in enumerate(runs) if run not in leaving} <= set(items)


async def test_a_leader_whose_run_was_cancelled_leads_nothing(store: Store):
    leader, heir, member = (
        await parked(store, 1, max_items=2),
        await parked(store, 2, max_items=2),
        await parked(store, 3),
    )
    await join(store, leader)
    await send_well(store, leader.commit(head=HeadUpdate(status="cancelled", ended_at_us=1), digests_gone=("bundle",)))
    await join(store, heir)
    await join(store, member)
    assert await told(store, leader) == []
    assert await told(store, heir) == [{"items": [2, 3]}]
    assert await told(store, member) == [{"merged_into": heir.run_id}]
