"""The inbox: what waits for whom, found by person and tenant, in pages, gone when its node is."""

from typing import Any

import pytest

from ductor.journal.commit import Appended, InboxItem, Refused
from ductor.journal.store import MAX_INBOX_PEOPLE, Store
from tests.contracts.writers import START_US, RunWriter, send, send_all, send_well, started


def item(node: str = "review", **fields: Any) -> InboxItem:
    return InboxItem(**{"node": node, "kind": "approval", "title": "Approve?", **fields})


async def listed(store: Store, **which: Any) -> list[tuple[str, str]]:
    return [(entry.run_id, entry.item.node) for entry in await store.inbox(**which)]


async def test_an_item_is_read_back_with_its_run(store: Store):
    run = await started(store, tenant="acme", definition="größe")
    full = item(
        kind="interaction", title="Welche Größe? 😀", people=("ann", "bob"), status="asked", since_us=START_US,
        due_at_us=START_US + 5,
    )  # fmt: skip
    await send_well(store, run.commit(inbox=(full,)))
    (entry,) = await store.inbox()
    assert (entry.run_id, entry.tenant, entry.definition, entry.item) == (run.run_id, "acme", "größe", full)


async def test_a_person_sees_what_names_them_or_nobody(store: Store):
    run = await started(store)
    await send_well(
        store,
        run.commit(
            inbox=(
                item("for_ann", people=("ann",)),
                item("for_both", people=("bob", "ann", "ann")),
                item("for_bob", people=("bob",)),
                item("for_anybody"),
            )
        ),
    )
    for person, nodes in (
        (None, ["for_ann", "for_anybody", "for_bob", "for_both"]),
        ("ann", ["for_ann", "for_anybody", "for_both"]),
        ("bob", ["for_anybody", "for_bob", "for_both"]),
        ("eve", ["for_anybody"]),
        ("", ["for_anybody"]),
    ):
        assert [node for _, node in await listed(store, person=person)] == nodes, person
        assert [node for _, node in await listed(store, person=person, tenant="acme")] == nodes, person
        assert await listed(store, person=person, tenant="globex") == []


@pytest.mark.parametrize("person", [None, "ann"])
@pytest.mark.parametrize("tenant", [None, "acme"])
async def test_all_pages_together_are_everything_in_order(store: Store, person: str | None, tenant: str | None):
    expected = []
    for number in range(10):
        run = await started(store, tenant="globex" if number % 3 == 0 else "acme")
        nodes = ("z", "a_b", "ab")
        people = [("ann",), (), ("ann", "bob")]
        inbox = tuple(item(node, people=named) for node, named in zip(nodes, people, strict=True))
        await send_well(store, run.commit(inbox=(*inbox, item("not_for_ann", people=("bob",)))))
        if tenant is None or number % 3:
            expected += [(run.run_id, node) for node in nodes]
            expected += [(run.run_id, "not_for_ann")] if person is None else []
    found: list[tuple[str, str]] = []
    while page := await listed(store, person=person, tenant=tenant, after=found[-1] if found else None, limit=4):
        assert len(page) <= 4
        found += page
    assert found == sorted(expected)


async def test_an_item_takes_the_place_of_the_one_before(store: Store):
    run = await started(store, inbox=(item(people=("ann", "bob")),))
    await send_well(store, run.commit(inbox=(item(people=("bob", "eve"), status="assigned", title="Again"),)))
    assert await listed(store, person="ann") == []
    for person in ("bob", "eve"):
        (entry,) = await store.inbox(person=person)
        assert entry.item == item(people=("bob", "eve"), status="assigned", title="Again")
    await send_well(store, run.commit(inbox=(item(),)))
    assert len(await listed(store, person="ann")) == 1
    await send_well(store, run.commit(inbox=(item(people=("ann",)),)))
    assert await listed(store, person="bob") == []
    assert len(await listed(store)) == 1


async def test_a_node_that_leaves_takes_its_item_along(store: Store):
    run, other = await started(store, inbox=(item("a"), item("b", people=("ann",)))), await started(store)
    await send_well(store, other.commit(inbox=(item("a"),)))
    await send_well(store, run.commit(inbox_gone=("a", "b", "unknown"), inbox=(item("c"),)))
    left = sorted([(run.run_id, "c"), (other.run_id, "a")])
    assert await listed(store) == await listed(store, person="ann") == left


async def test_items_that_begin_with_the_run_know_its_tenant(store: Store):
    run = RunWriter()
    await send_well(store, run.start(tenant="globex", inbox=(item(people=("ann",)),)))
    assert await listed(store, tenant="globex") == await listed(store, tenant="globex", person="ann")
    assert len(await listed(store, tenant="globex")) == 1
    assert await listed(store, tenant="acme") == []


async def test_a_tick_that_loses_changes_no_item(store: Store):
    run = await started(store, inbox=(item("a"),))
    await send_well(store, run.commit())
    assert await send(store, run.commit(version=2, inbox=(item("b"),), inbox_gone=("a",))) != Appended(2)
    await send_well(store, run.dispositions(inbox=(item("b"),), inbox_gone=("a",)))
    assert await listed(store) == await listed(store, person="ann") == [(run.run_id, "a")]


async def test_a_tick_sent_again_changes_nothing(store: Store):
    run = await started(store)
    first = run.commit(inbox=(item("a"),))
    await send_well(store, first, run.commit(inbox_gone=("a",)))
    assert await send(store, first) == Appended(2)
    assert await listed(store) == []


@pytest.mark.parametrize(
    "bad",
    [
        item(title="a\0"),
        item(people=("a\0",)),
        item(people=("",)),
        item(people=("x" * 256,)),
        item(people=tuple(f"p{n}" for n in range(MAX_INBOX_PEOPLE + 1))),
        item(status="\ud800"),
        item(due_at_us=2**63),
    ],
    ids=lambda bad: repr(bad)[:80],
)
async def test_an_item_that_no_store_takes_is_refused_alone(store: Store, bad: InboxItem):
    run, neighbour = await started(store), await started(store)
    answers = await send_all(store, [run.commit(inbox=(bad,)), neighbour.commit(inbox=(item(),))])
    assert isinstance(answers[0], Refused)
    assert answers[1] == Appended(2)
    assert await listed(store) == [(neighbour.run_id, "review")]


async def test_as_many_people_as_the_bound_allows(store: Store):
    people = tuple(f"p{n}" for n in range(MAX_INBOX_PEOPLE))
    run = await started(store, inbox=(item(people=people),))
    assert await listed(store, person=people[-1]) == [(run.run_id, "review")]
