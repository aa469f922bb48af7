"""One control asked of many runs, and what a search for runs to wake makes of paused runs: the same on both stores."""

import asyncio
import uuid

import pytest

from ductor.journal.bulk_controls import MAX_UNFINISHED_BULK_CONTROLS, BulkControl, bulk_request_id
from ductor.journal.commit import HeadUpdate, TimerUpdate
from ductor.journal.errors import ValueRefusedError
from ductor.journal.events import Message
from ductor.journal.records import AttemptRow
from ductor.journal.store import Store
from tests.contracts.writers import RunWriter, send_well, started

LATER_US = 2_000_000_000_000_000


def bulk(**fields: object) -> BulkControl:
    return BulkControl(
        **{"bulk_id": str(uuid.uuid4()), "tenant": "acme", "kind": "pause", "by": "ann", "reason": "audit", **fields}  # type: ignore[arg-type]
    )


async def added(store: Store, **fields: object) -> BulkControl:
    one = bulk(**fields)
    assert await store.add_bulk_control(one) == "accepted"
    stored = await store.bulk_control(one.bulk_id)
    assert stored is not None
    return stored


async def ended(store: Store) -> RunWriter:
    run = await started(store)
    await send_well(store, run.commit(head=HeadUpdate(status="completed", ended_at_us=1)))
    return run


async def test_it_is_stored_once_with_the_time_of_the_store(store: Store):
    one = await added(store, definition="order", kind="cancel")
    assert (one.definition, one.kind, one.by, one.reason) == ("order", "cancel", "ann", "audit")
    assert one.requested_at_us > 0
    assert (one.after_run_id, one.requested, one.finished_at_us) == (None, 0, None)
    assert await store.add_bulk_control(bulk(bulk_id=one.bulk_id, kind="resume")) == "duplicate"
    assert await store.bulk_control(one.bulk_id) == one
    assert await store.bulk_control(str(uuid.uuid4())) is None
    assert await store.bulk_control("no id") is None


async def test_a_page_asks_the_runs_that_are_open_and_moves_on(store: Store):
    first, over, last = await started(store), await ended(store), await started(store)
    one = await added(store)
    run_ids = sorted((first.run_id, over.run_id, last.run_id))
    advanced = await store.advance_bulk_control(one, run_ids, is_last=False)
    assert advanced is not None
    assert (advanced.requested, advanced.after_run_id, advanced.finished_at_us) == (2, run_ids[-1], None)
    assert await store.bulk_control(one.bulk_id) == advanced
    for run in (first, last):
        control = await store.control(run.run_id, bulk_request_id(one.bulk_id, run.run_id))
        assert control is not None
        assert (control.kind, control.by, control.arguments) == ("pause", "ann", {"reason": "audit"})
        assert control.requested_at_us > 0
    assert await store.control(over.run_id, bulk_request_id(one.bulk_id, over.run_id)) is None
    assert set(await store.runs_to_wake(0, 10)) == {first.run_id, last.run_id}


async def test_it_is_finished_with_its_last_page(store: Store):
    one = await added(store)
    advanced = await store.advance_bulk_control(one, [], is_last=True)
    assert advanced is not None
    assert advanced.finished_at_us is not None
    assert (advanced.after_run_id, advanced.requested) == (None, 0)
    assert await store.next_bulk_control() is None
    assert await store.advance_bulk_control(advanced, [], is_last=True) is None


async def test_who_has_read_an_older_place_does_nothing(store: Store):
    run, other = await started(store), await started(store)
    one = await added(store)
    assert await store.advance_bulk_control(one, [run.run_id], is_last=False)
    assert await store.advance_bulk_control(one, [run.run_id, other.run_id], is_last=True) is None
    stored = await store.bulk_control(one.bulk_id)
    assert stored is not None
    assert (stored.requested, stored.finished_at_us) == (1, None)
    assert await store.control(other.run_id, bulk_request_id(one.bulk_id, other.run_id)) is None


async def test_of_many_who_carry_on_at_once_one_does(store: Store, second_store: Store):
    runs = [await started(store) for _ in range(20)]
    one = await added(store)
    run_ids = sorted(run.run_id for run in runs)
    answers = await asyncio.gather(
        *(each.advance_bulk_control(one, run_ids, is_last=True) for _ in range(5) for each in (store, second_store))
    )
    (won,) = (answer for answer in answers if answer is not None)
    assert won.requested == 20
    assert await store.bulk_control(one.bulk_id) == won


async def test_those_of_one_tenant_follow_each_other_and_tenants_take_turns(store: Store):
    runs = [await started(store) for _ in range(3)]
    run_ids = sorted(run.run_id for run in runs)
    pause, resume = await added(store), await added(store, kind="resume")
    others = await added(store, tenant="other")
    order = []
    for run_id, is_last in ((run_ids[0], False), (run_ids[0], True), (run_ids[1], True), (run_ids[0], True)):
        found = await store.next_bulk_control()
        assert found is not None
        order.append(found.bulk_id)
        await store.advance_bulk_control(found, [run_id], is_last=is_last)
    assert order == [pause.bulk_id, others.bulk_id, pause.bulk_id, resume.bulk_id]
    assert await store.next_bulk_control() is None


async def test_a_tenant_has_a_bounded_number_of_them(store: Store):
    for _ in range(MAX_UNFINISHED_BULK_CONTROLS):
        await added(store)
    one = bulk()
    assert await store.add_bulk_control(one) == "refused"
    assert await store.bulk_control(one.bulk_id) is None
    assert await store.add_bulk_control(bulk(tenant="other")) == "accepted"
    oldest = await store.next_bulk_control()
    assert oldest is not None
    assert await store.add_bulk_control(oldest) == "duplicate"
    await store.advance_bulk_control(oldest, [], is_last=True)
    assert await store.add_bulk_control(one) == "accepted"


@pytest.mark.parametrize(
    "fields", [{"bulk_id": "no id"}, {"tenant": ""}, {"tenant": "x" * 256}, {"definition": "x" * 256}, {"by": "\0"}]
)
async def test_what_no_index_or_text_takes_is_refused(store: Store, fields: dict[str, object]):
    with pytest.raises(ValueRefusedError):
        await store.add_bulk_control(bulk(**fields))
    assert await store.next_bulk_control() is None


async def test_of_a_paused_run_only_controls_wake(store: Store):
    paused, other = await started(store), await started(store)
    for run in (paused, other):
        await send_well(store, run.commit(timer=TimerUpdate(1)))
        await store.append_attempt(AttemptRow(run_id=run.run_id, node="a", generation=1, outcome="succeeded"))
        await store.send_message(run.run_id, Message(id="m-1", kind="signal", name="paid"))
    assert set(await store.runs_to_wake(LATER_US, 10)) == {paused.run_id, other.run_id}
    await send_well(store, paused.commit(head=HeadUpdate(status="paused")))
    assert await store.runs_to_wake(LATER_US, 10) == [other.run_id]
    await store.request_control(paused.control())
    assert set(await store.runs_to_wake(LATER_US, 10)) == {paused.run_id, other.run_id}


@pytest.mark.parametrize("cause", ["timer", "attempt", "message"])
async def test_paused_runs_keep_no_others_out(store: Store, cause: str):
    runs = [await started(store) for _ in range(4)]
    for run in runs:
        if cause == "timer":
            await send_well(store, run.commit(timer=TimerUpdate(1)))
        elif cause == "attempt":
            await store.append_attempt(AttemptRow(run_id=run.run_id, node="a", generation=1, outcome="succeeded"))
        else:
            await store.send_message(run.run_id, Message(id="m-1", kind="signal", name="paid"))
    for run in runs[:3]:
        await send_well(store, run.commit(head=HeadUpdate(status="paused")))
    for _ in range(2):
        assert await store.runs_to_wake(LATER_US, 1) == [runs[3].run_id]


async def test_what_was_passed_over_is_found_after_a_restart_in_mid_resume(store: Store):
    """The host that resumed the run died before it had read what waits for it."""
    run = await started(store)
    await send_well(store, run.commit(head=HeadUpdate(status="paused")))
    await store.append_attempt(AttemptRow(run_id=run.run_id, node="a", generation=1, outcome="succeeded"))
    await store.send_message(run.run_id, Message(id="m-1", kind="signal", name="paid"))
    for _ in range(2):
        assert await store.runs_to_wake(LATER_US, 10) == []
    inputs = await store.inputs(run.run_id)
    assert inputs is not None
    assert (len(inputs.attempts), len(inputs.messages)) == (1, 1)
    await send_well(store, run.commit(head=HeadUpdate(status="waiting")))
    assert await store.runs_to_recover(None, 10) == []
    assert await store.runs_to_wake(LATER_US, 10) == [run.run_id]
