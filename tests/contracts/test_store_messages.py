"""Messages to runs: accepted once, in order, bounded, refused by closed runs, and never lost on the way to a tick."""

import asyncio
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from ductor.definitions.values import JsonObject
from ductor.journal import admission
from ductor.journal.errors import ValueRefusedError
from ductor.journal.events import Message, PayloadRef
from ductor.journal.postgres.statements import commit_statement
from ductor.journal.store import (
    MAX_UNCONSUMED_MESSAGES,
    Appended,
    AttemptRow,
    BusEvent,
    ControlDisposition,
    HeadUpdate,
    MessageDisposition,
    MessageReceipt,
    Payload,
    Refused,
    SentMessage,
    Store,
)
from tests.contracts.writers import START_US, RunWriter, send, send_all, send_well, started

EXACT: JsonObject = {"b": 1.0, "a": 2**70, "é": "😀", "list": [None, True, 1e22, []], "nested": {"z": {}}}
LONG_AGO_US = START_US - 1_000_000
NOBODY = "01890000-0000-7000-8000-000000000000"


def signal(message_id: str = "message-1", **fields: Any) -> Message:
    return Message(**{"id": message_id, "kind": "signal", "name": "paid", **fields})


async def sent_well(store: Store, run: RunWriter, message: Message, **arguments: Any) -> MessageReceipt:
    receipt = await store.send_message(run.run_id, message, **arguments)
    assert receipt is not None
    assert receipt.verdict == "accepted", receipt
    return receipt


async def waiting_ids(store: Store, run: RunWriter) -> list[str]:
    """Messages that wait, which both ways of reading them agree on."""
    loaded, inputs = await store.load(run.run_id), await store.inputs(run.run_id)
    assert loaded is not None
    assert inputs is not None
    assert inputs.messages == loaded.messages
    return [message.id for message in loaded.messages]


def disposed(message_id: str, disposition: Any) -> dict[str, Any]:
    return {"messages": (MessageDisposition(message_id, disposition),)}


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


@pytest.fixture
def low_bounds(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Bounds that a test can reach with a few rows."""
    for module in ("ductor.journal.memory_messages", "ductor.journal.postgres.messages"):
        monkeypatch.setattr(f"{module}.MAX_UNCONSUMED_MESSAGES", 2)
        monkeypatch.setattr(f"{module}.MAX_UNCONSUMED_EVENTS", 3)
    for module in ("ductor.journal.memory_messages", "ductor.journal.postgres.statements"):
        monkeypatch.setattr(f"{module}.MAX_UNCONSUMED_SENT_MESSAGES", 3)
    commit_statement.cache_clear()
    yield
    commit_statement.cache_clear()


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


# --- from run to run --------------------------------------------------------------------------------------------------


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


def test_the_two_kinds_of_ids_never_meet():
    with pytest.raises(ValueRefusedError):
        admission.check_message(signal(admission.event_message_id("1")))
