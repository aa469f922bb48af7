"""Messages from run to run: written with the sender's row, once, and undelivered at once where nobody can take them."""

import asyncio

import pytest

from ductor.journal.commit import Appended, HeadUpdate, Refused, SentMessage
from ductor.journal.events import Message, PayloadRef
from ductor.journal.store import Store
from tests.contracts.messages import EXACT, LONG_AGO_US, NOBODY, sent_well, signal, waiting_ids
from tests.contracts.writers import START_US, RunWriter, send, send_all, send_well, started


def sent(run: RunWriter | str, *messages: Message) -> tuple[SentMessage, ...]:
    run_id = run if isinstance(run, str) else run.run_id
    return tuple(SentMessage(run_id, message) for message in messages)


async def test_a_tick_sends_to_another_run(store: Store):
    sender, target = await started(store), await started(store)
    messages = [signal(f"base/signal/{n}", payload=EXACT, by=f"run:{sender.run_id}") for n in (2, 10, 1)]
    before_us = await store.now_us()
    await send_well(store, sender.commit(sent=sent(target, *messages)))
    loaded = await store.load(target.run_id)
    assert loaded is not None
    assert [message.id for message in loaded.messages] == [message.id for message in messages]
    assert all(before_us <= message.at_us for message in loaded.messages)
    assert repr(loaded.messages[0].payload) == repr(EXACT)
    assert list(await store.runs_to_wake(LONG_AGO_US, 10)) == [target.run_id]
    receipt = await store.message_receipt(target.run_id, "base/signal/10")
    assert receipt is not None
    assert (receipt.verdict, receipt.disposition) == ("duplicate", "")


async def test_what_is_sent_to_nobody_or_to_a_closed_run_is_undelivered_at_once(store: Store):
    sender, closed = await started(store), await started(store, status="completed", ended_at_us=START_US)
    commit = sender.commit(sent=(*sent(closed, signal("a")), *sent(NOBODY, signal("b"))))
    await send_well(store, commit)
    for run_id, message_id in ((closed.run_id, "a"), (NOBODY, "b")):
        receipt = await store.message_receipt(run_id, message_id)
        assert receipt is not None
        assert receipt.disposition == "undelivered"
    assert await waiting_ids(store, closed) == []
    assert list(await store.runs_to_wake(LONG_AGO_US, 10)) == []


async def test_nothing_goes_to_another_tenants_run(store: Store):
    sender, target = await started(store, tenant="acme"), await started(store, tenant="globex")
    starting = RunWriter()
    await send_well(
        store,
        sender.commit(sent=sent(target, signal("a"))),
        starting.start(tenant="acme", sent=sent(target, signal("b"))),
    )
    assert await waiting_ids(store, target) == []
    assert [await store.message_receipt(target.run_id, name) for name in "ab"] == [None, None]
    await sent_well(store, target, signal("a"))


async def test_a_start_may_send_also_to_itself(store: Store):
    target, run = await started(store), RunWriter()
    await send_well(store, run.start(sent=(*sent(target, signal("to other")), *sent(run, signal("to self")))))
    assert await waiting_ids(store, target) == ["to other"]
    assert await waiting_ids(store, run) == ["to self"]


async def test_a_run_that_ends_or_reopens_with_this_row_is_judged_as_it_is_after(store: Store):
    run = await started(store)
    ended = HeadUpdate(status="completed", ended_at_us=START_US)
    await send_well(store, run.commit(head=ended, sent=sent(run, signal("end"))))
    await send_well(store, run.commit(head=HeadUpdate(status="running"), sent=sent(run, signal("again"))))
    receipt = await store.message_receipt(run.run_id, "end")
    assert receipt is not None
    assert receipt.disposition == "undelivered"
    assert await waiting_ids(store, run) == ["again"]


async def test_a_message_sent_again_is_left_as_it_is(store: Store):
    sender, target = await started(store), await started(store)
    await sent_well(store, target, signal("same", payload="first"))
    commit = sender.commit(sent=sent(target, signal("same", payload="second")))
    assert await send_all(store, [commit, commit]) == [Appended(2)] * 2
    await send_well(store, sender.commit(sent=sent(target, signal("same", payload="third"))))
    loaded = await store.load(target.run_id)
    assert loaded is not None
    assert [message.payload for message in loaded.messages] == ["first"]


async def test_a_tick_that_loses_sends_nothing(store: Store):
    sender, target = await started(store), await started(store)
    await send_well(store, sender.commit())
    assert await send(store, sender.commit(version=2, sent=sent(target, signal()))) != Appended(2)
    await send_well(store, sender.dispositions(sent=sent(target, signal())))
    assert await waiting_ids(store, target) == []


async def test_one_of_two_hosts_sends(store: Store, second_store: Store):
    senders, target = [await started(store) for _ in range(20)], await started(store)
    ours = [run.commit(version=2, sent=sent(target, signal(run.run_id, payload="ours"))) for run in senders]
    theirs = [run.commit(version=2, sent=sent(target, signal(run.run_id, payload="theirs"))) for run in senders]
    our_answers, _ = await asyncio.gather(send_all(store, ours), send_all(second_store, theirs[::-1]))
    loaded = await store.load(target.run_id)
    assert loaded is not None
    assert len(loaded.messages) == 20
    by_id = {message.id: message.payload for message in loaded.messages}
    for run, answer in zip(senders, our_answers, strict=True):
        assert by_id[run.run_id] == ("ours" if answer == Appended(2) else "theirs")


async def test_signals_of_steps_are_bounded_too(store: Store, low_bounds: None):
    sender, target = await started(store), await started(store)
    for n in range(5):
        await send_well(store, sender.commit(sent=sent(target, signal(f"m{n}"))))
    assert await waiting_ids(store, target) == ["m0", "m1", "m2"]
    receipt = await store.message_receipt(target.run_id, "m4")
    assert receipt is not None
    assert receipt.disposition == "undelivered"


POISON: dict[str, tuple[SentMessage, ...]] = {
    "to what is no run": sent("no-id", signal()),
    "NUL in a payload": sent(NOBODY, signal(payload="\0")),
    "an empty id": sent(NOBODY, signal("")),
    "an event": sent(NOBODY, signal("event:1")),
    "a payload elsewhere": sent(NOBODY, signal(payload_ref=PayloadRef("ab12", 1))),
}


@pytest.mark.parametrize("messages", POISON.values(), ids=POISON)
async def test_a_tick_that_sends_what_no_store_takes_is_refused_alone(store: Store, messages: tuple[SentMessage, ...]):
    sender, neighbour = await started(store), await started(store)
    answers = await send_all(store, [sender.commit(sent=messages), neighbour.commit()])
    assert isinstance(answers[0], Refused)
    assert answers[1] == Appended(2)
    await send_well(store, sender.commit(version=2))
