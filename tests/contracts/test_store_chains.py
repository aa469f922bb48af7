"""Runs that another one continues: the head and the way to the latest, and where what is sent to any of them goes."""

from typing import Any

import pytest

from ductor.journal.chain import link
from ductor.journal.codec import stored_value
from ductor.journal.commit import (
    BusEvent,
    Commit,
    Conflict,
    ControlDisposition,
    HeadStart,
    HeadUpdate,
    MessageDisposition,
    NewRun,
    SentControl,
    SentMessage,
)
from ductor.journal.events import Message
from ductor.journal.records import Control, ControlReceipt, MessageReceipt, RunFilter
from ductor.journal.store import Store
from tests.contracts.messages import disposed, sent_well, signal, waiting_ids
from tests.contracts.writers import EVENTS, START_US, RunWriter, send, send_well


def continuing(run: RunWriter, chain: RunWriter, iteration: int, **fields: Any) -> tuple[RunWriter, Commit]:
    """The commit with which `run` is continued, and the writer of the run that continues it."""
    successor = RunWriter()
    successor.version, successor.last_hash = 1, link(b"", successor.run_id, 1, START_US, EVENTS)
    start = HeadStart(
        tenant="acme",
        definition="order",
        manifest_hash="m1",
        status="pending",
        started_at_us=START_US,
        key="k-1",
        root_run_id=chain.run_id,
        chain_run_id=chain.run_id,
        iteration=iteration,
    )
    new = NewRun(run_id=successor.run_id, at_us=START_US, events=EVENTS, hash=successor.last_hash, start=start)
    head = HeadUpdate(status="continued", ended_at_us=START_US, successor_run_id=successor.run_id)
    return successor, run.commit(head=head, new_runs=(new,), forwards_to=successor.run_id, **fields)


async def chain_of(store: Store, length: int) -> list[RunWriter]:
    """A chain of so many runs, of which the last is open."""
    first = RunWriter()
    await send_well(store, first.start(key="k-1"))
    runs = [first]
    for iteration in range(1, length):
        successor, commit = continuing(runs[-1], first, iteration)
        await send_well(store, commit)
        runs.append(successor)
    return runs


async def asked(store: Store, run: RunWriter, request_id: str, kind: Any = "cancel") -> ControlReceipt:
    receipt = await store.request_control(Control(run_id=run.run_id, request_id=request_id, kind=kind))
    assert receipt is not None
    return receipt


async def receipt_of(store: Store, run: RunWriter, message_id: str = "message-1") -> MessageReceipt:
    receipt = await store.message_receipt(run.run_id, message_id)
    assert receipt is not None
    return receipt


async def test_heads_tell_of_the_chain(store: Store) -> None:
    first, second, third = await chain_of(store, 3)
    heads = [await store.head(run.run_id) for run in (first, second, third)]
    assert [(head.chain_run_id, head.iteration, head.successor_run_id, head.status) for head in heads if head] == [
        (None, 0, second.run_id, "continued"),
        (first.run_id, 1, third.run_id, "continued"),
        (first.run_id, 2, None, "pending"),
    ]
    for run in (first, second, third):
        assert await store.latest_of_chain(run.run_id) == third.run_id
    assert await store.latest_of_chain(RunWriter().run_id) is None


async def test_the_key_leads_to_the_first_run_and_stays_visible(store: Store) -> None:
    first, second = await chain_of(store, 2)
    assert await store.find_start_key("acme", "order", "k-1") == first.run_id
    head = await store.head(second.run_id)
    assert head is not None
    assert head.key == "k-1"


async def test_a_run_that_continues_in_its_first_row_says_so(store: Store) -> None:
    first, successor = RunWriter(), RunWriter()
    start = HeadStart(
        tenant="acme", definition="order", manifest_hash="m1", status="pending", started_at_us=START_US,
        chain_run_id=first.run_id, iteration=1,
    )  # fmt: skip
    new = NewRun(run_id=successor.run_id, at_us=START_US, events=EVENTS, hash=b"h", start=start)
    fields = {"status": "continued", "successor_run_id": successor.run_id}
    await send_well(store, first.start(**fields, new_runs=(new,), forwards_to=successor.run_id))
    head = await store.head(first.run_id)
    assert head is not None
    assert head.successor_run_id == successor.run_id
    assert await store.latest_of_chain(first.run_id) == successor.run_id


async def test_a_lost_commit_continues_nothing(store: Store) -> None:
    (first,) = await chain_of(store, 1)
    await sent_well(store, first, signal())
    await send_well(store, first.commit())
    first.version -= 1
    loser_run, loser = continuing(first, first, 1)
    assert isinstance(await send(store, loser), Conflict)
    assert await store.head(loser_run.run_id) is None
    assert await store.latest_of_chain(first.run_id) == first.run_id
    assert await waiting_ids(store, first) == ["message-1"]


async def test_what_waits_goes_to_the_successor_in_order(store: Store) -> None:
    (first,) = await chain_of(store, 1)
    stored = stored_value("x" * 40_000, "payload")
    assert stored.payload is not None
    sent: list[dict[str, Any]] = [{"payload": 1}, {"payload_ref": stored.ref}, {"payload": 3}, {"payload": 4}]
    for number, fields in enumerate(sent):
        payloads = (stored.payload,) if "payload_ref" in fields else ()
        await sent_well(store, first, signal(f"message-{number}", **fields), payloads=payloads)
    await send_well(store, first.commit(**disposed("message-0", "buffered")))
    await send_well(store, first.commit(**disposed("message-3", "consumed")))
    before = await receipt_of(store, first)
    second, commit = continuing(first, first, 1, **disposed("message-2", "undelivered"))
    await send_well(store, commit)
    assert await waiting_ids(store, second) == ["message-0", "message-1"]
    loaded = await store.load(second.run_id)
    assert loaded is not None
    assert loaded.messages[0].payload == 1
    assert loaded.messages[1].payload_ref == stored.ref
    assert await store.payload(second.run_id, stored.payload.hash) == stored.payload.text
    assert await waiting_ids(store, first) == []
    after = await receipt_of(store, first)
    assert (after.run_id, after.disposition, after.at_us) == (second.run_id, "", before.at_us)
    assert (await receipt_of(store, first, "message-2")).disposition == "undelivered"
    assert (await receipt_of(store, second, "message-3")).disposition == "consumed"


async def test_what_only_the_run_itself_can_take_stays_behind(store: Store) -> None:
    (first,) = await chain_of(store, 1)
    report = Message(
        id=f"child:{RunWriter().run_id}", kind="child", node="sub", payload={"run_id": "x", "status": "completed"}
    )
    sender = RunWriter()
    await send_well(store, sender.start())
    await send_well(store, sender.commit(sent=(SentMessage(first.run_id, report),)))
    second, commit = continuing(first, first, 1)
    await send_well(store, commit)
    assert await waiting_ids(store, second) == [report.id]


async def test_controls_that_wait_go_along_but_for_the_one_that_was_taken_up(store: Store) -> None:
    (first,) = await chain_of(store, 1)
    await asked(store, first, "continue-1", "continue_as_new")
    await asked(store, first, "cancel-1")
    taken = ControlDisposition("continue-1", "applied")
    second, commit = continuing(first, first, 1, controls=(taken,))
    await send_well(store, commit)
    loaded = await store.load(second.run_id)
    assert loaded is not None
    assert [(control.run_id, control.request_id, control.kind) for control in loaded.controls] == [
        (second.run_id, "cancel-1", "cancel")
    ]
    moved = await store.control(first.run_id, "cancel-1")
    assert moved is not None
    assert (moved.run_id, moved.disposition) == (second.run_id, "")
    done = await store.control(first.run_id, "continue-1")
    assert done is not None
    assert done.disposition == "applied"
    assert await store.runs_to_wake(START_US, 10) == [second.run_id]


@pytest.mark.parametrize("index", [0, 1])
async def test_what_is_sent_to_an_earlier_run_goes_to_the_latest(store: Store, index: int) -> None:
    runs = await chain_of(store, 3)
    receipt = await sent_well(store, runs[index], signal())
    assert receipt.run_id == runs[2].run_id
    assert await waiting_ids(store, runs[2]) == ["message-1"]
    assert (await asked(store, runs[index], "c-1")).run_id == runs[2].run_id
    for run in runs:
        again = await store.send_message(run.run_id, signal())
        assert again is not None
        assert (again.verdict, again.position, again.run_id) == ("duplicate", receipt.position, runs[2].run_id)
        assert await asked(store, run, "c-1") == ControlReceipt(
            request_id="c-1", verdict="duplicate", run_id=runs[2].run_id
        )


async def test_ids_are_unique_in_the_whole_chain(store: Store) -> None:
    (first,) = await chain_of(store, 1)
    sent = await sent_well(store, first, signal())
    await asked(store, first, "c-1")
    await send_well(
        store, first.commit(**disposed("message-1", "consumed"), controls=(ControlDisposition("c-1", "applied"),))
    )
    second, commit = continuing(first, first, 1)
    await send_well(store, commit)
    third, commit = continuing(second, first, 2)
    await send_well(store, commit)
    for run in (first, second, third):
        again = await store.send_message(run.run_id, signal())
        assert again is not None
        assert (again.verdict, again.position, again.disposition) == ("duplicate", sent.position, "consumed")
        assert (await asked(store, run, "c-1")).verdict == "duplicate"
    assert await waiting_ids(store, third) == []


async def test_what_slipped_in_is_found_and_goes_to_the_latest(store: Store) -> None:
    """A tick of another run, which knew nothing of the chain, has sent to its first run."""
    first, second, third = await chain_of(store, 3)
    sender = RunWriter()
    await send_well(store, sender.start())
    control = SentControl(run_id=first.run_id, request_id="parent", kind="cancel")
    await send_well(store, sender.commit(sent=(SentMessage(first.run_id, signal()),), sent_controls=(control,)))
    assert first.run_id in await store.runs_to_wake(START_US, 10)
    for _ in range(2):  # whoever finds it, and however often
        await send_well(store, first.dispositions(forwards_to=second.run_id))
    assert await waiting_ids(store, third) == ["message-1"]
    loaded = await store.load(third.run_id)
    assert loaded is not None
    assert [control.request_id for control in loaded.controls] == ["parent"]
    assert (await receipt_of(store, first)).run_id == third.run_id
    assert first.run_id not in await store.runs_to_wake(START_US, 10)


async def test_what_slipped_in_and_was_sent_again_meanwhile_is_taken_up_once(store: Store) -> None:
    """A later run of the chain has had the same message and the same request, and is done with them."""
    first, second = await chain_of(store, 2)
    await sent_well(store, second, signal())
    await asked(store, second, "c-1", "pause")
    done = second.commit(controls=(ControlDisposition("c-1", "applied"),), **disposed("message-1", "consumed"))
    await send_well(store, done)
    third, commit = continuing(second, first, 2)
    await send_well(store, commit)
    sender = RunWriter()
    await send_well(store, sender.start())
    late = SentControl(run_id=first.run_id, request_id="c-1", kind="pause")
    await send_well(store, sender.commit(sent=(SentMessage(first.run_id, signal()),), sent_controls=(late,)))
    await send_well(store, first.dispositions(forwards_to=second.run_id))
    loaded = await store.load(third.run_id)
    assert loaded is not None
    assert (loaded.messages, loaded.controls) == ((), ())
    control = await store.control(first.run_id, "c-1")
    assert control is not None
    assert (control.run_id, control.disposition) == (second.run_id, "applied")
    assert (await receipt_of(store, first)).run_id == second.run_id
    assert first.run_id not in await store.runs_to_wake(START_US, 10)


async def test_an_event_reaches_the_latest_run_once(store: Store) -> None:
    (first,) = await chain_of(store, 1)
    event = BusEvent(tenant="acme", event_id="e-1", name="paid", published_at_us=START_US)
    assert await store.deliver_event(event, [first.run_id]) == [first.run_id]
    await send_well(store, first.commit(messages=(MessageDisposition("event:e-1", "consumed"),)))
    second, commit = continuing(first, first, 1)
    await send_well(store, commit)
    assert await store.deliver_event(event, [first.run_id, second.run_id]) == []
    later = BusEvent(tenant="acme", event_id="e-2", name="paid", published_at_us=START_US)
    assert await store.deliver_event(later, [first.run_id]) == [second.run_id]
    assert await waiting_ids(store, second) == ["event:e-2"]


async def test_another_tenant_does_not_reach_the_chain(store: Store) -> None:
    first, second = await chain_of(store, 2)
    assert await store.send_message(first.run_id, signal(), tenant="other") is None
    control = Control(run_id=first.run_id, request_id="c", kind="cancel")
    assert await store.request_control(control, tenant="other") is None
    assert await waiting_ids(store, second) == []


async def test_a_list_of_runs_shows_each_chain_once(store: Store) -> None:
    runs = await chain_of(store, 3)
    shown = await store.heads(RunFilter(tenant="acme"))
    assert [head.run_id for head in shown] == [runs[2].run_id]
    every = await store.heads(RunFilter(tenant="acme", shows_continued=True))
    assert {head.run_id for head in every} == {run.run_id for run in runs}
    assert len(await store.heads(RunFilter(tenant="acme", statuses=("continued",)))) == 2


async def test_the_runs_of_a_chain_in_order(store: Store) -> None:
    runs = await chain_of(store, 4)
    for run in runs:
        heads = await store.chain(run.run_id, after_iteration=-1, limit=10)
        assert [head.run_id for head in heads] == [each.run_id for each in runs]
    page = await store.chain(runs[3].run_id, after_iteration=1, limit=1)
    assert [head.run_id for head in page] == [runs[2].run_id]
