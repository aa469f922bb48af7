"""Leases: never more holders than a waiter allows, in order of asking, told once, and no place is lost."""

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from ductor.definitions.values import JsonObject
from ductor.journal import lease_store
from ductor.journal.commit import Conflict, HeadUpdate, LeaseWait, Refused, SentMessage
from ductor.journal.errors import ValueRefusedError
from ductor.journal.events import RUN_LEASE, Message
from ductor.journal.lease_store import MAX_HOLDERS_TOLD, LeaseChange, LeaseEntry, LeaseKey, message_id
from ductor.journal.store import Store
from tests.contracts.writers import RunWriter, send, send_all, send_well, started

KEY = LeaseKey("acme", "printer")


def wait(**fields: Any) -> LeaseWait:
    return LeaseWait(**{"node": "print", "generation": 0, "key": "printer", "limit": 1, **fields})


async def asking(store: Store, **fields: Any) -> RunWriter:
    """A run of which a node asks for a lease."""
    run = await started(store)
    await send_well(store, run.commit(leases=(wait(**fields),)))
    return run


async def leave(store: Store, run: RunWriter, node: str = "print") -> None:
    await send_well(store, run.commit(leases_gone=(node,)))


async def holders(store: Store, key: str = "printer") -> list[str]:
    return [entry.run_id for entry in await store.leases(tenant="acme", key=key) if entry.fence]


async def waiters(store: Store, key: str = "printer") -> list[str]:
    return [entry.run_id for entry in await store.leases(tenant="acme", key=key) if not entry.fence]


def granted(change: LeaseChange) -> list[str]:
    return [grant.run_id for grant in change.grants]


def ids_of(runs: Sequence[RunWriter]) -> list[str]:
    return [run.run_id for run in runs]


# --- asking -----------------------------------------------------------------------------------------------------------


async def test_who_asks_waits_in_order_and_the_key_is_noted(store: Store):
    runs = [await asking(store) for _ in range(3)]
    other = await asking(store, key="press")
    assert await waiters(store) == ids_of(runs)
    assert await waiters(store, "press") == [other.run_id]
    assert list(await store.lease_work(None, 10)) == [LeaseKey("acme", "press"), KEY]
    assert list(await store.lease_work(None, 1)) == [LeaseKey("acme", "press")]
    assert list(await store.lease_work(LeaseKey("acme", "press"), 10)) == [KEY]


async def test_nothing_is_written_without_the_row(store: Store):
    run = await started(store)
    assert isinstance(await send(store, run.commit(version=7, leases=(wait(),))), Conflict)
    assert await store.leases() == []
    assert list(await store.lease_work(None, 10)) == []
    kept = await asking(store)
    assert isinstance(await send(store, kept.commit(version=9, leases_gone=("print",))), Conflict)
    assert await waiters(store) == [kept.run_id]


async def test_a_run_may_ask_with_its_first_row(store: Store):
    run = RunWriter()
    await send_well(store, run.start(leases=(wait(node=RUN_LEASE),)))
    (entry,) = await store.leases(run_id=run.run_id)
    assert (entry.tenant, entry.node, entry.limit, entry.generation, entry.fence) == ("acme", RUN_LEASE, 1, 0, 0)


@pytest.mark.parametrize("fields", [{"key": "k" * 256}, {"limit": 2**40}, {"node": "\0"}], ids=str)
async def test_what_does_not_fit_is_refused(store: Store, fields: JsonObject):
    run = await started(store)
    assert isinstance(await send(store, run.commit(leases=(wait(**fields),))), Refused)


@pytest.mark.parametrize(
    "message",
    [Message(id="lease:print:1", kind="signal", name="x"), Message(id="m", kind="lease", node="print")],
    ids=["id", "kind"],
)
async def test_nobody_else_may_speak_for_a_lease(store: Store, message: Message):
    run, sender = await started(store), await started(store)
    with pytest.raises(ValueRefusedError):
        await store.send_message(run.run_id, message)
    assert isinstance(await send(store, sender.commit(sent=(SentMessage(run.run_id, message),))), Refused)


# --- granting ---------------------------------------------------------------------------------------------------------


async def test_the_first_get_what_is_free_and_the_rest_waits(store: Store):
    runs = [await asking(store, limit=2) for _ in range(4)]
    change = await store.grant_leases(KEY)
    assert granted(change) == ids_of(runs[:2])
    assert change.is_complete
    assert await holders(store) == ids_of(runs[:2])
    assert await waiters(store) == ids_of(runs[2:])
    assert list(await store.lease_work(None, 10)) == []


async def test_a_look_that_finds_nothing_changes_nothing(store: Store):
    runs = [await asking(store) for _ in range(2)]
    await store.grant_leases(KEY)
    before = await store.leases()
    assert await store.grant_leases(KEY) == LeaseChange()
    assert await store.grant_leases(LeaseKey("acme", "nobody's")) == LeaseChange()
    assert await store.grant_leases(LeaseKey("other", "printer")) == LeaseChange()
    assert await store.leases() == before
    assert await holders(store) == [runs[0].run_id]


async def test_the_run_is_told_by_a_message_with_its_fence(store: Store):
    run = await asking(store, generation=3)
    ((grant),) = (await store.grant_leases(KEY)).grants
    (entry,) = await store.leases(run_id=run.run_id)
    loaded = await store.load(run.run_id)
    assert loaded is not None
    assert list(loaded.messages) == [grant.message]
    assert grant.message.id == message_id("print", entry.fence)
    assert (grant.message.kind, grant.message.node) == ("lease", "print")
    assert grant.message.payload == {"run_id": run.run_id, "fence": entry.fence, "generation": 3}
    assert grant.message.position > 0
    assert run.run_id in await store.runs_to_wake(0, 100)


async def test_fences_of_a_key_grow_even_when_nobody_held_it_meanwhile(store: Store):
    fences = []
    for _ in range(3):
        run = await asking(store)
        await store.grant_leases(KEY)
        fences += [entry.fence for entry in await store.leases(run_id=run.run_id)]
        await leave(store, run)
        await store.grant_leases(KEY)
    assert fences == sorted(set(fences))
    assert len(fences) == 3


async def test_nobody_overtakes_a_waiter_with_a_smaller_limit(store: Store):
    holder = await asking(store, limit=5)
    modest, greedy = await asking(store, limit=1), await asking(store, limit=5)
    assert granted(await store.grant_leases(KEY)) == [holder.run_id]
    await leave(store, holder)
    assert granted(await store.grant_leases(KEY)) == [modest.run_id, greedy.run_id]


async def test_more_than_one_transaction_grants_is_noted_again(store: Store, monkeypatch: pytest.MonkeyPatch):
    for module in ("memory_leases", "postgres.leases"):
        monkeypatch.setattr(f"ductor.journal.{module}.MAX_GRANTED_AT_ONCE", 2)
    runs = [await asking(store, limit=10) for _ in range(3)]
    first = await store.grant_leases(KEY)
    assert (granted(first), first.is_complete) == (ids_of(runs[:2]), False)
    assert list(await store.lease_work(None, 10)) == [KEY]
    second = await store.grant_leases(KEY)
    assert (granted(second), second.is_complete) == (ids_of(runs[2:]), True)
    assert lease_store.MAX_GRANTED_AT_ONCE > 2


# --- leaving ----------------------------------------------------------------------------------------------------------


async def test_a_holder_that_leaves_makes_room_for_the_next(store: Store):
    runs = [await asking(store) for _ in range(3)]
    for holder, following in pairwise(runs):
        await store.grant_leases(KEY)
        assert await holders(store) == [holder.run_id]
        await leave(store, holder)
        assert list(await store.lease_work(None, 10)) == [KEY]
        assert await holders(store) == []
        assert (await waiters(store))[0] == following.run_id


async def test_a_waiter_that_leaves_holds_up_nobody(store: Store):
    holder, gone, last = [await asking(store) for _ in range(3)]
    await store.grant_leases(KEY)
    await leave(store, gone)
    assert granted(await store.grant_leases(KEY)) == []
    await leave(store, holder)
    assert granted(await store.grant_leases(KEY)) == [last.run_id]


async def test_what_was_never_asked_for_can_be_left(store: Store):
    run, holder = await started(store), await asking(store)
    await store.grant_leases(KEY)
    await leave(store, run)
    assert await holders(store) == [holder.run_id]
    assert list(await store.lease_work(None, 10)) == []


async def test_a_node_that_asks_again_goes_to_the_end_and_frees_what_it_held(store: Store):
    again, second, press = await asking(store), await asking(store), await asking(store, key="press")
    await store.grant_leases(KEY)
    await store.grant_leases(LeaseKey("acme", "press"))
    await send_well(store, again.commit(leases=(wait(generation=1),)))
    assert granted(await store.grant_leases(KEY)) == [second.run_id]
    assert await waiters(store) == [again.run_id]
    await send_well(store, press.commit(leases=(wait(generation=1),)))
    assert list(await store.lease_work(None, 10)) == [LeaseKey("acme", "press"), KEY]
    assert await holders(store, "press") == []
    assert await waiters(store) == [again.run_id, press.run_id]


async def test_a_commit_sent_twice_frees_and_asks_once(store: Store):
    run = await asking(store)
    commit = run.commit(leases_gone=("print",), leases=(wait(node="bind"),))
    await send_well(store, commit, commit)
    assert [(entry.node, entry.fence) for entry in await store.leases()] == [("bind", 0)]


async def test_the_lease_of_a_run_goes_to_its_successor_with_its_fence(store: Store):
    run, following = await asking(store, node=RUN_LEASE), await asking(store, node=RUN_LEASE)
    await store.grant_leases(KEY)
    (held,) = await store.leases(run_id=run.run_id)
    successor = await started(store)
    ending = run.commit(head=HeadUpdate(status="continued", ended_at_us=1), forwards_to=successor.run_id)
    await send_well(store, ending)
    assert await store.leases(run_id=run.run_id) == []
    (passed,) = await store.leases(run_id=successor.run_id)
    assert (passed.node, passed.key, passed.fence) == (RUN_LEASE, "printer", held.fence)
    assert granted(await store.grant_leases(KEY)) == []
    await leave(store, successor, RUN_LEASE)
    assert granted(await store.grant_leases(KEY)) == [following.run_id]


async def test_what_a_continued_run_only_waits_for_is_not_handed_on(store: Store):
    await asking(store)
    await store.grant_leases(KEY)
    run, successor = await asking(store, node=RUN_LEASE), await started(store)
    await send_well(store, run.commit(forwards_to=successor.run_id, leases_gone=(RUN_LEASE,)))
    assert await waiters(store) == []


# --- looking ----------------------------------------------------------------------------------------------------------


async def test_leases_are_listed_in_pages(store: Store):
    runs = [await asking(store, key=key) for key in ("b", "a", "b")]
    await store.grant_leases(LeaseKey("acme", "b"))
    everything = await store.leases()
    assert [(entry.key, entry.run_id) for entry in everything] == [
        ("a", runs[1].run_id), ("b", runs[0].run_id), ("b", runs[2].run_id)
    ]  # fmt: skip
    pages: list[LeaseEntry] = []
    after = None
    while page := await store.leases(after=after, limit=1):
        pages += page
        after = (page[0].tenant, page[0].key, page[0].position)
    assert pages == list(everything)
    assert await store.leases(tenant="other") == []
    assert [entry.run_id for entry in await store.leases(run_id=runs[2].run_id)] == [runs[2].run_id]
    assert await store.leases(run_id="nobody") == []
    assert await store.leases(run_id=runs[2].run_id, key="a") == []


async def test_a_line_tells_who_is_ahead_and_who_holds(store: Store):
    held = [await asking(store, limit=MAX_HOLDERS_TOLD + 2) for _ in range(MAX_HOLDERS_TOLD + 2)]
    await store.grant_leases(KEY)
    for _ in range(2):
        await asking(store, limit=1)
    last = await asking(store, limit=1)
    line = await store.lease_line(last.run_id, "print")
    assert line is not None
    assert (line.ahead, line.held) == (2, MAX_HOLDERS_TOLD + 2)
    assert [entry.run_id for entry in line.holders] == ids_of(held[:MAX_HOLDERS_TOLD])
    assert await store.lease_line(held[0].run_id, "print") is None
    assert await store.lease_line(last.run_id, "other") is None


async def test_a_line_before_the_first_look_has_no_holders(store: Store):
    run = await asking(store)
    line = await store.lease_line(run.run_id, "print")
    assert line is not None
    assert (line.ahead, line.held, line.holders) == (0, 0, ())


# --- all at once ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
async def test_whatever_happens_at_once_the_limit_holds_and_no_place_is_lost(store: Store, seed: int):
    """Runs ask and leave while several hosts look at the same keys."""
    random = Random(seed)
    keys, limit = ["a", "b"], 2
    runs = [RunWriter() for _ in range(24)]
    key_of = {run.run_id: random.choice(keys) for run in runs}
    await send_all(store, [run.start() for run in runs])
    told: list[str] = []
    waiting = list(runs)
    holding: list[RunWriter] = []

    async def look(key: str) -> None:
        for _ in range(3):
            change = await store.grant_leases(LeaseKey("acme", key))
            told.extend(granted(change))

    async def steps() -> None:
        while waiting or holding:
            batch = []
            for _ in range(random.randint(1, 4)):
                if waiting:
                    run = waiting.pop(random.randrange(len(waiting)))
                    batch.append(run.commit(leases=(wait(key=key_of[run.run_id], limit=limit),)))
                    holding.append(run)
            for _ in range(random.randint(0, 3)):
                known = {commit.run_id for commit in batch}
                leaving = [run for run in holding if run.run_id not in known]
                if leaving:
                    run = random.choice(leaving)
                    holding.remove(run)
                    batch.append(run.commit(leases_gone=("print",)))
            await send_all(store, batch)
            for key in keys:
                assert len(await holders(store, key)) <= limit

    await asyncio.gather(steps(), *(look(key) for key in keys for _ in range(4)))
    for key in keys:
        told.extend(granted(await store.grant_leases(LeaseKey("acme", key))))
    assert await store.leases() == []
    assert len(told) == len(set(told)), "a run was told twice"
