"""Messages to runs: accepted once, in order, bounded, refused by closed runs, and never lost on the way to a tick."""

import asyncio
from random import Random
from typing import Any

import pytest

from ductor.journal import admission
from ductor.journal.commit import (
    Appended,
    BusEvent,
    ControlDisposition,
    HeadUpdate,
    MessageDisposition,
    Payload,
)
from ductor.journal.errors import ValueRefusedError
from ductor.journal.events import Message, PayloadRef
from ductor.journal.records import AttemptRow, MessageReceipt
from ductor.journal.store import MAX_UNCONSUMED_MESSAGES, Store
from tests.contracts.messages import EXACT, LONG_AGO_US, NOBODY, disposed, sent_well, signal, waiting_ids
from tests.contracts.writers import START_US, send, send_well, started

# --- sending ----------------------------------------------------------------------------------------------------------


async def test_a_message_is_read_back_exactly_with_time_and_position(store: Store):
    run = await started(store)
    message = signal(payload=EXACT, by="ann@example.com", node="review", kind="vote", name="größe")
    before_us = await store.now_us()
    receipt = await sent_well(store, run, message)
    after_us = await store.now_us()

    assert (receipt.message_id, receipt.disposition, receipt.version) == ("message-1", "", None)
    assert before_us <= receipt.at_us <= after_us
    loaded = await store.load(run.run_id)
    assert loaded is not None
    (stored,) = loaded.messages
    assert stored == signal(
        payload=EXACT, by="ann@example.com", node="review", kind="vote", name="größe", at_us=receipt.at_us,
        position=receipt.position,
    )  # fmt: skip
    assert repr(stored.payload) == repr(EXACT)


async def test_time_and_position_are_the_stores_not_the_senders(store: Store):
    run = await started(store)
    receipt = await sent_well(store, run, signal(at_us=5, position=10**12))
    assert receipt.at_us > START_US
    assert receipt.position != 10**12


async def test_messages_wait_in_the_order_of_their_arrival(store: Store):
    run, other = await started(store), await started(store)
    names = [f"m{number}" for number in Random(7).sample(range(100), 20)]
    positions = []
    for name in names:
        positions.append((await sent_well(store, run, signal(name))).position)
        await sent_well(store, other, signal(name))
    assert await waiting_ids(store, run) == names
    assert positions == sorted(set(positions))


async def test_a_large_payload_is_stored_with_its_message(store: Store):
    run = await started(store)
    payload = Payload("ab12", b'{"large":[1.0, 1]}')
    await sent_well(store, run, signal(payload_ref=PayloadRef("ab12", 18)), payloads=[payload])
    inputs, loaded = await store.inputs(run.run_id), await store.load(run.run_id)
    assert inputs is not None
    assert loaded is not None
    assert inputs.payloads == loaded.payloads == (payload,)
    assert inputs.messages[0].payload_ref == PayloadRef("ab12", 18)


async def test_inputs_bring_only_the_payloads_that_they_name(store: Store):
    run = await started(store, payloads=(Payload("old", b"1"), Payload("out", b"2")))
    await store.append_attempt(
        AttemptRow(run_id=run.run_id, node="pay", generation=1, outcome="succeeded", output_ref=PayloadRef("out", 1))
    )
    await store.request_control(run.control())
    await send_well(store, run.commit())
    inputs = await store.inputs(run.run_id)
    assert inputs is not None
    assert (inputs.head_version, inputs.messages, inputs.payloads) == (2, (), (Payload("out", b"2"),))
    assert [attempt.node for attempt in inputs.attempts] == ["pay"]
    assert [control.request_id for control in inputs.controls] == ["request-1"]
    await send_well(store, run.dispositions(controls=(ControlDisposition("request-1", "applied"),)))
    later = await store.inputs(run.run_id)
    assert later is not None
    assert later.controls == ()


async def test_many_ask_for_inputs_at_once(store: Store):
    runs = [await started(store) for _ in range(10)]
    for run in runs[::2]:
        await sent_well(store, run, signal(run.run_id))
    found = await asyncio.gather(*(store.inputs(run_id) for run_id in [*(run.run_id for run in runs), NOBODY]))
    assert [inputs and [message.id for message in inputs.messages] for inputs in found] == [
        *([run.run_id] if number % 2 == 0 else [] for number, run in enumerate(runs)),
        None,
    ]


async def test_what_a_sender_changes_afterwards_is_not_stored(store: Store):
    run = await started(store)
    payload = {"reason": ["late"]}
    await sent_well(store, run, signal(payload=payload))
    payload["reason"].append("changed")
    loaded = await store.load(run.run_id)
    assert loaded is not None
    assert loaded.messages[0].payload == {"reason": ["late"]}


async def test_nobody_sends_to_a_run_that_does_not_exist_or_is_anothers(store: Store):
    run = await started(store, tenant="acme")
    assert await store.send_message(NOBODY, signal()) is None
    assert await store.send_message("no-id", signal()) is None
    assert await store.send_message(run.run_id, signal(), tenant="globex") is None
    assert await store.message_receipt(run.run_id, "message-1") is None
    assert await store.message_receipt("no-id", "message-1") is None
    assert await store.inputs(NOBODY) is None
    assert await store.inputs("no-id") is None
    await sent_well(store, run, signal(), tenant="acme")


REFUSED: dict[str, Any] = {
    "an empty id": signal(""),
    "an id that is too long": signal("x" * 256),
    "an id of an event": signal("event:1"),
    "an event": signal(kind="event"),
    "NUL in the name": signal(name="a\0"),
    "a lone surrogate in the node": signal(node="\ud800"),
    "NUL in the sender": signal(by="a\0"),
    "NUL in the payload": signal(payload={"a": "\0"}),
    "not a number": signal(payload=float("nan")),
    "a payload that does not come": signal(payload_ref=PayloadRef("ab12", 5)),
}


@pytest.mark.parametrize("message", REFUSED.values(), ids=REFUSED)
async def test_what_no_store_takes_is_refused_to_its_sender(store: Store, message: Message):
    run = await started(store)
    with pytest.raises(ValueRefusedError):
        await store.send_message(run.run_id, message)
    assert await waiting_ids(store, run) == []


@pytest.mark.parametrize("text", [b'{"a"', b'"\xff"', b""])
async def test_a_payload_that_is_no_json_is_refused(store: Store, text: bytes):
    run = await started(store)
    with pytest.raises(ValueRefusedError):
        await store.send_message(run.run_id, signal(payload_ref=PayloadRef("ab12", 4)), [Payload("ab12", text)])
    assert await store.message_receipt(run.run_id, "message-1") is None


# --- duplicates -------------------------------------------------------------------------------------------------------


async def test_a_message_is_accepted_once_whoever_sends_it_again(store: Store, second_store: Store):
    run = await started(store)
    receipts = await asyncio.gather(
        *((store, second_store)[n % 2].send_message(run.run_id, signal(payload=n)) for n in range(20))
    )
    accepted = [receipt for receipt in receipts if receipt is not None and receipt.verdict == "accepted"]
    duplicates = [receipt for receipt in receipts if receipt is not None and receipt.verdict == "duplicate"]
    assert (len(accepted), len(duplicates)) == (1, 19)
    assert {(receipt.position, receipt.at_us) for receipt in duplicates} == {(accepted[0].position, accepted[0].at_us)}
    assert await waiting_ids(store, run) == ["message-1"]


async def test_a_duplicate_gets_the_first_ones_receipt_through_its_whole_life(store: Store):
    run = await started(store)
    first = await sent_well(store, run, signal())
    for version, disposition in ((2, "buffered"), (3, "consumed")):
        await send_well(store, run.commit(**disposed("message-1", disposition)))
        expected = MessageReceipt(
            message_id="message-1",
            verdict="duplicate",
            position=first.position,
            at_us=first.at_us,
            disposition=disposition,  # type: ignore[arg-type]
            version=2,
            run_id=run.run_id,
        )
        assert await store.message_receipt(run.run_id, "message-1") == expected, version
        assert await store.send_message(run.run_id, signal(payload="other")) == expected
    await send_well(store, run.commit(head=HeadUpdate(status="completed", ended_at_us=START_US)))
    again = await store.send_message(run.run_id, signal())
    assert again is not None
    assert (again.verdict, again.disposition, again.version) == ("duplicate", "consumed", 2)


async def test_an_id_belongs_to_its_run(store: Store):
    for run in [await started(store), await started(store)]:
        await sent_well(store, run, signal("same"))


# --- closed runs, bounds ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled", "terminated", "continued"])
async def test_a_closed_run_refuses(store: Store, status: Any):
    run = await started(store)
    await send_well(store, run.commit(head=HeadUpdate(status=status, ended_at_us=START_US)))
    receipt = await store.send_message(run.run_id, signal())
    assert receipt is not None
    assert receipt.verdict == "refused"
    assert status in receipt.reason
    assert await store.message_receipt(run.run_id, "message-1") is None
    await send_well(store, run.commit(head=HeadUpdate(status="running")))
    await sent_well(store, run, signal())


@pytest.mark.parametrize("status", ["pending", "running", "waiting", "paused"])
async def test_an_open_run_accepts(store: Store, status: Any):
    await sent_well(store, await started(store, status=status), signal())


async def test_a_message_that_races_with_the_end_is_refused_or_kept(store: Store):
    for attempt in range(10):
        run = await started(store)
        end = run.commit(head=HeadUpdate(status="completed", ended_at_us=START_US))
        answer, receipt = await asyncio.gather(send(store, end), store.send_message(run.run_id, signal()))
        assert answer == Appended(2)
        assert receipt is not None
        is_accepted = receipt.verdict == "accepted"
        woken = await store.runs_to_wake(LONG_AGO_US, 100)
        assert (await waiting_ids(store, run) == ["message-1"], run.run_id in woken) == (is_accepted,) * 2, attempt
        await send_well(store, run.dispositions(**disposed("message-1", "undelivered")))
        kept = await store.message_receipt(run.run_id, "message-1")
        assert (kept.disposition if kept else "") == ("undelivered" if is_accepted else "")
        assert list(await store.runs_to_wake(LONG_AGO_US, 100)) == []


async def test_unconsumed_messages_are_bounded(store: Store):
    run = await started(store)
    half = MAX_UNCONSUMED_MESSAGES // 2
    receipts = await asyncio.gather(
        *(store.send_message(run.run_id, signal(f"m{n}")) for n in range(MAX_UNCONSUMED_MESSAGES - 1))
    )
    assert {receipt and receipt.verdict for receipt in receipts} == {"accepted"}
    buffered = tuple(MessageDisposition(f"m{n}", "buffered") for n in range(half))
    await send_well(store, run.commit(messages=buffered))
    await sent_well(store, run, signal("last"))
    refused = await store.send_message(run.run_id, signal("beyond"))
    assert refused is not None
    assert refused.verdict == "refused"
    assert str(MAX_UNCONSUMED_MESSAGES) in refused.reason
    assert await store.message_receipt(run.run_id, "beyond") is None
    again = await store.send_message(run.run_id, signal("last"))
    assert again is not None
    assert again.verdict == "duplicate"

    await send_well(store, run.commit(**disposed("m0", "consumed")))
    await sent_well(store, run, signal("beyond"))
    await sent_well(store, await started(store), signal("another run"))


async def test_events_have_a_bound_of_their_own(store: Store, low_bounds: None):
    run = await started(store)
    events = [BusEvent(tenant="acme", event_id=f"e{n}", name="shipped", published_at_us=START_US) for n in range(5)]
    assert [list(await store.deliver_event(event, [run.run_id])) for event in events] == [[run.run_id]] * 3 + [[]] * 2
    receipts = [await store.message_receipt(run.run_id, f"event:e{n}") for n in range(5)]
    assert [receipt and receipt.disposition for receipt in receipts] == ["", "", "", "undelivered", "undelivered"]
    assert await waiting_ids(store, run) == ["event:e0", "event:e1", "event:e2"]

    for n in range(2):
        await sent_well(store, run, signal(f"m{n}"))
    refused = await store.send_message(run.run_id, signal("beyond"))
    assert refused is not None
    assert refused.verdict == "refused"


# --- dispositions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_row", [True, False])
@pytest.mark.parametrize("final", ["consumed", "undelivered"])
async def test_a_final_disposition_stays(store: Store, with_row: bool, final: Any):
    run = await started(store)
    await sent_well(store, run, signal("one"))
    await sent_well(store, run, signal("two"))
    fields = disposed("one", final)
    await send_well(store, run.commit(**fields) if with_row else run.dispositions(**fields))
    for other in ("buffered", "consumed", "undelivered"):
        await send_well(store, run.dispositions(**disposed("one", other)), run.commit(**disposed("one", other)))
    receipt = await store.message_receipt(run.run_id, "one")
    assert receipt is not None
    assert receipt.disposition == final
    assert receipt.version == (2 if with_row else None)
    assert await waiting_ids(store, run) == ["two"]


async def test_a_buffered_message_waits_no_more_and_keeps_the_version_that_took_it_up(store: Store):
    run = await started(store)
    await sent_well(store, run, signal())
    await send_well(store, run.commit(**disposed("message-1", "buffered")))
    assert await waiting_ids(store, run) == []
    assert list(await store.runs_to_wake(LONG_AGO_US, 10)) == []
    await send_well(store, run.commit(), run.commit(**disposed("message-1", "undelivered")))
    receipt = await store.message_receipt(run.run_id, "message-1")
    assert receipt is not None
    assert (receipt.disposition, receipt.version) == ("undelivered", 2)


async def test_a_tick_that_loses_disposes_of_nothing(store: Store):
    run = await started(store)
    await sent_well(store, run, signal())
    await send_well(store, run.commit())
    answer = await send(store, run.commit(version=2, **disposed("message-1", "consumed")))
    assert answer != Appended(2)
    assert await waiting_ids(store, run) == ["message-1"]


async def test_messages_wake_their_run_with_its_turn(store: Store):
    quiet, told = await started(store), await started(store)
    for _ in range(3):
        await started(store, status="pending")
    await sent_well(store, told, signal("one"))
    await sent_well(store, told, signal("two"))
    assert list(await store.runs_to_wake(LONG_AGO_US, 1)) == [told.run_id]
    woken = list(await store.runs_to_wake(LONG_AGO_US, 10))
    assert woken.count(told.run_id) == 1
    assert quiet.run_id not in woken
    await send_well(store, told.commit(**disposed("one", "consumed")))
    assert told.run_id in await store.runs_to_wake(LONG_AGO_US, 10)
    await send_well(store, told.commit(**disposed("two", "consumed")))
    assert told.run_id not in await store.runs_to_wake(LONG_AGO_US, 10)


def test_the_two_kinds_of_ids_never_meet():
    with pytest.raises(ValueRefusedError):
        admission.check_message(signal(admission.event_message_id("1")))
