"""What reaches a run from outside through the store: controls, attempt rows, timers; and who has to be woken for it."""

import asyncio
from typing import Any

import pytest

from ductor.definitions.values import JsonObject
from ductor.journal.commit import (
    Appended,
    AttemptDisposition,
    ControlDisposition,
    HeadUpdate,
    Payload,
    TimerUpdate,
)
from ductor.journal.errors import ValueRefusedError
from ductor.journal.events import REOPENING_KINDS, ControlKind, ErrorInfo, PayloadRef
from ductor.journal.records import AttemptRow
from ductor.journal.store import Store
from tests.contracts.writers import START_US, RunWriter, send, send_all, send_well, started, whole_feed

EXACT: JsonObject = {
    "b": 1.0,
    "a": 2**70,
    "é": "😀",
    "list": [None, True, -0.5, 1e22, []],
    "nested": {"z": {}, "y": "'\"\\"},
}
LONG_AGO_US = START_US - 1_000_000


def _attempt(run: RunWriter, node: str = "pay", generation: int = 1, **fields: Any) -> AttemptRow:
    return AttemptRow(run_id=run.run_id, node=node, generation=generation, **{"outcome": "succeeded", **fields})


# --- controls ---------------------------------------------------------------------------------------------------------


async def test_a_request_is_stored_and_waits(store: Store):
    run = await started(store)
    control = run.control(kind="pause", arguments=EXACT, by="ann@example.com", requested_at_us=START_US)
    receipt = await store.request_control(control)

    assert receipt is not None
    assert (receipt.request_id, receipt.verdict) == ("request-1", "accepted")
    assert await store.control(run.run_id, "request-1") == control
    loaded = await store.load(run.run_id)
    assert loaded is not None
    assert loaded.controls == (control,)
    assert repr(loaded.controls[0].arguments) == repr(EXACT)


@pytest.mark.parametrize("name", ["report_to", "report_id"])
async def test_nobody_but_a_parent_run_has_an_undo_reported(store: Store, name: str):
    run = await started(store)
    with pytest.raises(ValueRefusedError, match="by commits of parent runs alone"):
        await store.request_control(run.control(kind="compensate", arguments={name: "x"}))
    assert await store.control(run.run_id, "request-1") is None


async def test_a_request_without_a_time_gets_the_stores(store: Store):
    run = await started(store)
    before_us = await store.now_us()
    await store.request_control(run.control())
    control = await store.control(run.run_id, "request-1")
    assert control is not None
    assert before_us <= control.requested_at_us <= await store.now_us()


async def test_what_a_sender_changes_afterwards_is_not_stored(store: Store):
    run = await started(store, search_attributes=(attributes := {"city": ["Ulm"]}))
    arguments = {"reason": ["late"]}
    await store.request_control(run.control(arguments=arguments))
    arguments["reason"].append("changed")
    attributes["city"].append("changed")

    control, head = await store.control(run.run_id, "request-1"), await store.head(run.run_id)
    assert control is not None
    assert head is not None
    assert (control.arguments, head.search_attributes) == ({"reason": ["late"]}, {"city": ["Ulm"]})


async def test_requests_wait_in_the_order_of_their_arrival(store: Store):
    run = await started(store)
    names = ["z", "a", "m", "b"]
    for name in names:
        await store.request_control(run.control(name))
    loaded = await store.load(run.run_id)
    assert loaded is not None
    assert [control.request_id for control in loaded.controls] == names


async def test_a_request_is_accepted_once(store: Store):
    run = await started(store)
    receipts = await asyncio.gather(*(store.request_control(run.control(by=f"sender {n}")) for n in range(10)))
    verdicts = sorted(receipt.verdict for receipt in receipts if receipt is not None)
    assert verdicts == ["accepted"] + ["duplicate"] * 9
    loaded = await store.load(run.run_id)
    assert loaded is not None
    assert len(loaded.controls) == 1


async def test_a_request_id_belongs_to_its_run(store: Store):
    runs = [await started(store), await started(store)]
    for run in runs:
        receipt = await store.request_control(run.control("cancel-1"))
        assert receipt is not None
        assert receipt.verdict == "accepted"


async def test_nobody_asks_a_run_that_does_not_exist_or_is_anothers(store: Store):
    run = await started(store, tenant="acme")
    assert await store.request_control(RunWriter().control()) is None
    assert await store.request_control(run.control(), tenant="globex") is None
    assert await store.control(run.run_id, "request-1") is None

    receipt = await store.request_control(run.control(), tenant="acme")
    assert receipt is not None
    assert receipt.verdict == "accepted"


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled", "terminated", "continued"])
async def test_a_closed_run_refuses(store: Store, status):
    run = await started(store)
    await store.request_control(run.control("early"))
    await send_well(store, run.commit(head=HeadUpdate(status=status, ended_at_us=START_US)))

    receipt = await store.request_control(run.control("late"))
    assert receipt is not None
    assert receipt.verdict == "refused"
    assert status in receipt.reason
    assert await store.control(run.run_id, "late") is None

    again = await store.request_control(run.control("early"))
    assert again is not None
    assert again.verdict == "duplicate"


@pytest.mark.parametrize("kind", sorted(REOPENING_KINDS))
async def test_a_closed_run_takes_what_reopens_it(store: Store, kind: ControlKind):
    run = await started(store, head=HeadUpdate(status="failed", ended_at_us=START_US))
    receipt = await store.request_control(run.control(kind=kind))
    assert receipt is not None
    assert receipt.verdict == "accepted"
    assert list(await store.runs_to_wake(LONG_AGO_US, 10)) == [run.run_id]


async def test_a_request_that_races_with_the_end_is_refused_or_kept(store: Store):
    for attempt in range(10):
        run = await started(store)
        end = run.commit(head=HeadUpdate(status="completed", ended_at_us=START_US))
        answer, receipt = await asyncio.gather(send(store, end), store.request_control(run.control()))
        assert answer == Appended(2)
        assert receipt is not None
        stored = await store.control(run.run_id, "request-1")
        waiting = await store.runs_to_wake(LONG_AGO_US, 100)
        assert (stored is not None, run.run_id in waiting) == ((receipt.verdict == "accepted"),) * 2, attempt


@pytest.mark.parametrize("with_row", [True, False])
async def test_a_disposition_ends_the_waiting_and_stays(store: Store, with_row: bool):
    run = await started(store)
    await store.request_control(run.control("one"))
    await store.request_control(run.control("two"))
    fields = {"controls": (ControlDisposition("one", "refused", "not now"),)}
    await send_well(store, run.commit(**fields) if with_row else run.dispositions(**fields))
    await send_well(store, run.dispositions(controls=(ControlDisposition("one", "applied", "changed my mind"),)))

    control = await store.control(run.run_id, "one")
    assert control is not None
    assert (control.disposition, control.outcome) == ("refused", "not now")
    loaded = await store.load(run.run_id)
    assert loaded is not None
    assert [waiting.request_id for waiting in loaded.controls] == ["two"]
    assert loaded.head.updated_at_us == START_US + 1


async def test_dispositions_alone_write_no_row(store: Store):
    run = await started(store)
    await store.request_control(run.control())
    answers = await send_all(
        store,
        [run.dispositions(controls=(ControlDisposition("request-1", "applied"),)), RunWriter().start()],
    )
    assert answers == [Appended(0), Appended(1)]
    assert [row.version for row in await store.history(run.run_id)] == [1]
    assert len(await whole_feed(store)) == 2
    await send_well(store, run.commit())


# --- attempt rows -----------------------------------------------------------------------------------------------------


async def test_an_attempt_row_is_read_back_exactly(store: Store):
    run = await started(store)
    rows = [
        _attempt(run, "a", output=EXACT, worker="w1", started_at_us=START_US, finished_at_us=START_US + 5),
        _attempt(run, "b", outcome="failed", error=ErrorInfo(type="Declined", message="no", details=EXACT)),
        _attempt(run, "b", 2, output_ref=PayloadRef("ab12", 40_000)),
        _attempt(run, "😀", outcome="cancelled"),
        _attempt(run, "é", output=0),
    ]
    for row in reversed(rows):
        await store.append_attempt(row)

    by_key = {(row.node, row.generation): row for row in await store.attempts(run.run_id)}
    assert by_key == {(row.node, row.generation): row for row in rows}
    assert repr(by_key["a", 1].output) == repr(EXACT)
    loaded = await store.load(run.run_id)
    assert loaded is not None
    assert sorted(loaded.attempts, key=lambda row: (row.node, row.generation)) == sorted(
        rows, key=lambda row: (row.node, row.generation)
    )


async def test_the_first_row_of_an_attempt_stays(store: Store):
    run = await started(store)
    await asyncio.gather(*(store.append_attempt(_attempt(run, output=n)) for n in range(10)))
    first = await store.attempts(run.run_id)
    await store.append_attempt(_attempt(run, output="late"))
    assert len(first) == 1
    assert list(await store.attempts(run.run_id)) == list(first)


async def test_an_attempts_payload_is_stored_with_it(store: Store):
    run = await started(store)
    text = b'{"large":[1.0, 1]}'
    await store.append_attempt(_attempt(run, output_ref=PayloadRef("ab12", len(text))), [Payload("ab12", text)])
    assert await store.payload(run.run_id, "ab12") == text
    loaded = await store.load(run.run_id)
    assert loaded is not None
    assert loaded.payloads == (Payload("ab12", text),)


async def test_many_results_at_once_are_all_stored_with_what_is_theirs(store: Store):
    runs = [await started(store) for _ in range(30)]
    text = b'{"large":true}'
    gone = RunWriter().run_id
    rows = [_attempt(run, f"n{n}", output=n) for run in runs for n in range(12)]
    large = [_attempt(run, "large", output_ref=PayloadRef("ab12", len(text))) for run in runs]
    nobody = AttemptRow(run_id=gone, node="a", generation=1, outcome="succeeded")
    await asyncio.gather(
        *(store.append_attempt(row) for row in rows),
        *(store.append_attempt(row, [Payload("ab12", text)]) for row in large),
        store.append_attempt(nobody, [Payload("ab12", text)]),
    )
    for run in runs:
        found = {row.node: row.output for row in await store.attempts(run.run_id)}
        assert found == {**{f"n{n}": n for n in range(12)}, "large": None}
        assert await store.payload(run.run_id, "ab12") == text
    assert list(await store.attempts(gone)) == []


async def test_a_result_that_is_refused_does_not_keep_others_out(store: Store):
    run = await started(store)
    bad = _attempt(run, "bad", error=ErrorInfo(type="x\x00", message="no"))
    answers = await asyncio.gather(
        *(store.append_attempt(_attempt(run, f"n{n}")) for n in range(5)),
        store.append_attempt(bad),
        *(store.append_attempt(_attempt(run, f"m{n}")) for n in range(5)),
        return_exceptions=True,
    )
    refused = [answer for answer in answers if answer is not None]
    assert [type(answer) for answer in refused] in ([], [ValueRefusedError])
    stored = {row.node for row in await store.attempts(run.run_id)}
    assert stored - {"bad"} == {f"{letter}{n}" for letter in "nm" for n in range(5)}


@pytest.mark.parametrize("disposition", ["applied", "superseded", "refused"])
@pytest.mark.parametrize("with_row", [True, False])
async def test_a_disposed_attempt_is_kept_but_waits_no_more(store: Store, disposition, with_row: bool):
    run = await started(store)
    await store.append_attempt(_attempt(run, "pay", 1))
    await store.append_attempt(_attempt(run, "pay", 2))
    fields = {"attempts": (AttemptDisposition("pay", 1, disposition),)}
    await send_well(store, run.commit(**fields) if with_row else run.dispositions(**fields))
    await send_well(store, run.dispositions(attempts=(AttemptDisposition("pay", 1, "refused"),)))

    assert [row.disposition for row in await store.attempts(run.run_id)] == [disposition, ""]
    loaded = await store.load(run.run_id)
    assert loaded is not None
    assert [row.generation for row in loaded.attempts] == [2]


# --- timers and wakeups -----------------------------------------------------------------------------------------------


async def test_a_timer_is_replaced_and_removed(store: Store):
    assert await store.next_due_us() is None
    run, other = await started(store, timer=TimerUpdate(START_US + 9)), await started(store)
    await send_well(store, other.commit(timer=TimerUpdate(START_US + 5)))
    assert await store.next_due_us() == START_US + 5
    await send_well(store, other.commit(timer=TimerUpdate(START_US + 20)))
    assert await store.next_due_us() == START_US + 9
    await send_well(store, run.commit(timer=TimerUpdate(START_US + 1)))
    assert await store.next_due_us() == START_US + 1
    await send_well(store, run.commit(timer=TimerUpdate(None)))
    assert await store.next_due_us() == START_US + 20
    await send_well(store, run.commit(), other.commit(timer=TimerUpdate(None)))
    assert await store.next_due_us() is None


async def test_a_timer_wakes_when_it_is_due(store: Store):
    early = await started(store, timer=TimerUpdate(START_US + 5))
    late = await started(store, timer=TimerUpdate(START_US + 9))
    assert list(await store.runs_to_wake(START_US + 4, 10)) == []
    assert list(await store.runs_to_wake(START_US + 5, 10)) == [early.run_id]
    assert list(await store.runs_to_wake(START_US + 9, 10)) == [early.run_id, late.run_id]
    assert list(await store.runs_to_wake(START_US + 9, 1)) == [early.run_id]
    await send_well(store, early.commit(timer=TimerUpdate(None)))
    assert list(await store.runs_to_wake(START_US + 9, 10)) == [late.run_id]


async def test_inputs_and_pending_runs_wake_until_they_are_disposed_of(store: Store):
    asked, reported, pending = await started(store), await started(store), await started(store, status="pending")
    await started(store, status="waiting")
    await store.request_control(asked.control())
    await store.append_attempt(_attempt(reported))
    woken = await store.runs_to_wake(LONG_AGO_US, 10)
    assert sorted(woken) == sorted([asked.run_id, reported.run_id, pending.run_id])

    await send_well(
        store,
        asked.dispositions(controls=(ControlDisposition("request-1", "refused"),)),
        reported.commit(attempts=(AttemptDisposition("pay", 1, "applied"),)),
        pending.commit(head=HeadUpdate(status="waiting")),
    )
    assert list(await store.runs_to_wake(LONG_AGO_US, 10)) == []


async def test_a_run_with_several_causes_is_named_once(store: Store):
    run = await started(store, status="pending", timer=TimerUpdate(START_US))
    await store.request_control(run.control("one"))
    await store.request_control(run.control("two"))
    await store.append_attempt(_attempt(run))
    await store.append_attempt(_attempt(run, generation=2))
    assert list(await store.runs_to_wake(START_US, 10)) == [run.run_id]


async def test_no_cause_keeps_the_others_from_their_turn(store: Store):
    for _ in range(10):
        await started(store, timer=TimerUpdate(START_US))
    asked, reported, pending = await started(store), await started(store), await started(store, status="pending")
    await store.request_control(asked.control())
    await store.append_attempt(_attempt(reported))
    woken = await store.runs_to_wake(START_US, 4)
    assert len(woken) == 4
    assert {asked.run_id, reported.run_id, pending.run_id} < set(woken)
