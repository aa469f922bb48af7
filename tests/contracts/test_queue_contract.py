"""The rules of `TaskQueue`, for every queue that keeps them."""

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ductor.actors.queue.protocol import TaskQueue
from ductor.actors.queue.syncmatch import SyncMatch


class Item(msgspec.Struct, eq=False):
    number: int
    tenant: str = "acme"
    priority: int = 0


class Collector:
    """A taker that remembers what it was handed."""

    def __init__(self) -> None:
        self.items: list[Item] = []

    def accept(self, item: Item) -> None:
        self.items.append(item)


MakeQueue = Callable[[int], TaskQueue[Item]]


@pytest.fixture(params=[SyncMatch], ids=lambda kind: kind.__name__)
def make_queue(request: pytest.FixtureRequest) -> MakeQueue:
    return request.param  # type: ignore[no-any-return]


def drained(queue: TaskQueue[Item]) -> list[int]:
    found = []
    while (item := queue.take()) is not None:
        found.append(item.number)
    return found


def test_one_tenants_items_go_by_priority_then_arrival(make_queue: MakeQueue):
    queue = make_queue(100)
    for number, priority in enumerate([0, 5, 0, -5, 5]):
        assert queue.offer(Item(number, priority=priority))
    assert drained(queue) == [1, 4, 0, 2, 3]
    assert queue.take() is None


def test_tenants_are_served_in_turn(make_queue: MakeQueue):
    queue = make_queue(100)
    for number, tenant in enumerate(["a", "a", "a", "b", "c", "b"]):
        queue.offer(Item(number, tenant))
    assert drained(queue) == [0, 3, 4, 1, 5, 2]


def test_a_flood_delays_another_tenant_by_one_item(make_queue: MakeQueue):
    queue = make_queue(20_000)
    for number in range(10_000):
        queue.offer(Item(number, "flood", priority=100))
    queue.offer(Item(-1, "quiet", priority=-100))
    assert queue.take() is not None
    item = queue.take()
    assert item is not None
    assert item.tenant == "quiet"


def test_a_waiting_taker_gets_the_next_arrival_and_only_that(make_queue: MakeQueue):
    queue = make_queue(100)
    taker = Collector()
    queue.wait(taker)
    assert queue.offer(Item(1))
    assert [item.number for item in taker.items] == [1]
    assert len(queue) == 0
    queue.offer(Item(2))
    assert len(taker.items) == 1
    assert drained(queue) == [2]


def test_a_full_queue_refuses_and_takes_again_when_there_is_room(make_queue: MakeQueue):
    queue = make_queue(2)
    items = [Item(number) for number in range(3)]
    assert [queue.offer(item) for item in items] == [True, True, False]
    assert len(queue) == 2
    queue.take()
    assert queue.offer(items[2])
    assert drained(queue) == [1, 2]


def test_what_is_withdrawn_goes_to_nobody(make_queue: MakeQueue):
    queue = make_queue(2)
    first, second = Item(1), Item(2)
    queue.offer(first)
    queue.offer(second)
    assert queue.withdraw(first)
    assert not queue.withdraw(first)
    assert not queue.withdraw(Item(2))
    assert len(queue) == 1
    assert queue.offer(Item(3))
    assert drained(queue) == [2, 3]


actions = st.one_of(
    st.tuples(st.just("offer"), st.sampled_from("abc"), st.integers(-1, 1)),
    st.tuples(st.just("take"), st.none(), st.none()),
    st.tuples(st.just("withdraw"), st.integers(0, 30), st.none()),
)


@pytest.mark.parametrize("kind", [SyncMatch])
@given(script=st.lists(actions, max_size=60))
def test_every_item_is_taken_once_in_the_order_of_a_plain_list(
    kind: MakeQueue, script: list[tuple[str, object, object]]
):
    """The model: a list of tenants in order of their turns, each with a list of items."""
    queue = kind(10)
    turns: list[tuple[str, list[Item]]] = []
    offered: list[Item] = []
    for action, first, second in script:
        if action == "offer":
            item = Item(len(offered), str(first), int(str(second)))
            offered.append(item)
            has_room = sum(len(items) for _, items in turns) < 10
            assert queue.offer(item) is has_room
            if has_room:
                lane = next((items for tenant, items in turns if tenant == item.tenant), None)
                if lane is None:
                    turns.append((item.tenant, lane := []))
                lane.append(item)
        elif action == "take":
            taken = queue.take()
            if not turns:
                assert taken is None
                continue
            tenant, items = turns.pop(0)
            best = max(items, key=lambda item: (item.priority, -item.number))
            items.remove(best)
            if items:
                turns.append((tenant, items))
            assert taken is best
        elif int(str(first)) < len(offered):
            item = offered[int(str(first))]
            lane = next((items for _, items in turns if item in items), None)
            assert queue.withdraw(item) is (lane is not None)
            if lane is not None:
                lane.remove(item)
                turns = [turn for turn in turns if turn[1]]
        assert len(queue) == sum(len(items) for _, items in turns)
