"""Leases that one tier handed out and another one counts: which are told, which are forgotten, how many are kept."""

import asyncio

import pytest

from ductor.actors.queue import holdings as module
from ductor.actors.queue.distributed import MAX_ITEMS_PER_CALL
from ductor.actors.queue.holdings import Holdings
from ductor.actors.queue.items import Lease, system_queue
from ductor.actors.queue.memory import MemoryQueue
from ductor.journal.clock import SystemClock
from tests.queue_harness import Q, item


def lease(token: object, queue: str = Q) -> Lease:
    return Lease(item=item(token, queue=queue), receipt=1, delivery=1, tier="first")


def in_a_minute_s() -> float:
    return asyncio.get_running_loop().time() + 60


async def adopted(held: Holdings) -> tuple[MemoryQueue, int]:
    """A tier that has adopted everything, and how much that is."""
    tier = MemoryQueue(SystemClock())
    await held.adopt_into(tier, "second")
    return tier, (await tier.depth(Q)).in_flight


async def test_all_are_adopted_once_however_many():
    held = Holdings()
    leases = [lease(number) for number in range(MAX_ITEMS_PER_CALL * 2 + 1)]
    held.add(leases, in_a_minute_s())
    tier, count = await adopted(held)
    assert count == len(leases)
    assert len(held.copies(leases, "second")) == len(leases)
    assert held.copies(leases, "first") == []
    await tier.withdraw(Q, ["0"])
    await held.adopt_into(tier, "second")
    assert await tier.held(Q, ["0"]) == {}
    held.ask_again()
    await held.adopt_into(tier, "second")
    assert await tier.held(Q, ["0"]) == {"0": "leased"}


async def test_what_ran_out_was_given_back_or_is_a_wakeup_is_left_out():
    held = Holdings()
    held.add([lease("over")], asyncio.get_running_loop().time())
    held.add([lease("back"), lease("held"), lease("wakeup", system_queue("me"))], in_a_minute_s())
    assert [one.lease for one in held.take([lease("back")])] == [lease("back")]
    held.renew([lease("back")], in_a_minute_s())
    tier, count = await adopted(held)
    assert count == 1
    assert await tier.held(Q, ["held"]) == {"held": "leased"}


async def test_a_later_lease_of_the_same_item_is_another_one():
    held = Holdings()
    held.add([lease("again")], in_a_minute_s())
    later = Lease(item=item("again"), receipt=2, delivery=2, tier="first")
    held.add([later], in_a_minute_s())
    assert held.take([lease("again")]) == []
    assert [one.lease for one in held.take([later])] == [later]


async def test_the_oldest_makes_room(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MAX_HELD", 2)
    held = Holdings()
    held.add([lease(number) for number in range(3)], in_a_minute_s())
    tier, count = await adopted(held)
    assert count == 2
    assert await tier.held(Q, ["0"]) == {}
