"""Runs that another run's commit starts, and the controls and reports that pass between them."""

import pytest

from ductor.definitions.values import JsonObject
from ductor.journal.chain import link
from ductor.journal.child_reports import ChildReport, report_message, report_message_id, report_of
from ductor.journal.codec import stored_value
from ductor.journal.commit import Appended, Conflict, HeadStart, HeadUpdate, NewRun, Refused, SentControl, SentMessage
from ductor.journal.errors import ValueRefusedError
from ductor.journal.records import FeedPosition, RunFilter
from ductor.journal.store import MAX_UNCONSUMED_SENT_MESSAGES, Store
from tests.contracts.messages import LONG_AGO_US, signal
from tests.contracts.writers import EVENTS, RESENDS, START_US, RunWriter, ids, send, send_all, send_well, started

LARGE = stored_value("x" * 40_000, "a large value")


def new_run(parent: RunWriter, node: str = "child", **fields: object) -> NewRun:
    run_id, at_us = ids.run_id(), START_US + 7
    due_at_us, payloads = fields.pop("due_at_us", None), fields.pop("payloads", ())
    head = {
        "tenant": "acme",
        "definition": "order",
        "manifest_hash": "m1",
        "status": "pending",
        "started_at_us": at_us,
        "parent_run_id": parent.run_id,
        "parent_node": node,
        "root_run_id": parent.run_id,
        **fields,
    }
    return NewRun(
        run_id=run_id,
        at_us=at_us,
        events=EVENTS,
        hash=link(b"", run_id, 1, at_us, EVENTS),
        start=HeadStart(**head),  # type: ignore[arg-type]  # the fields of a head
        payloads=payloads,  # type: ignore[arg-type]
        due_at_us=due_at_us,  # type: ignore[arg-type]
    )


def child_writer(new: NewRun) -> RunWriter:
    """Goes on with a run that another one has started."""
    writer = RunWriter(new.run_id)
    writer.version, writer.last_hash = 1, new.hash
    return writer


def control(run_id: str, request_id: str = "run:parent/cancel/0", **fields: object) -> SentControl:
    return SentControl(**{"run_id": run_id, "request_id": request_id, "kind": "cancel", **fields})  # type: ignore[arg-type]


async def statuses(store: Store, *news: NewRun) -> list[str | None]:
    heads = [await store.head(new.run_id) for new in news]
    return [None if head is None else head.status for head in heads]


async def report_for(store: Store, parent: RunWriter, new: NewRun) -> ChildReport | None:
    loaded = await store.load(parent.run_id)
    assert loaded is not None
    found = [message for message in loaded.messages if message.id == report_message_id(new.run_id)]
    return report_of(found[0]) if found else None


async def test_a_commit_starts_runs(store: Store):
    parent = await started(store)
    assert LARGE.payload is not None
    new = new_run(parent, due_at_us=START_US + 99, payloads=(LARGE.payload,), search_attributes={"a": 1})
    plain = new_run(parent, node="each[3]")
    await send_well(store, parent.commit(new_runs=(new, plain)))
    loaded = await store.load(new.run_id)
    assert loaded is not None
    head = loaded.head
    assert (head.status, head.parent_run_id, head.parent_node, head.root_run_id) == (
        "pending",
        parent.run_id,
        "child",
        parent.run_id,
    )
    assert (head.started_at_us, head.updated_at_us, head.search_attributes) == (START_US + 7, START_US + 7, {"a": 1})
    assert [(row.version, row.events, row.hash) for row in loaded.tail] == [(1, EVENTS, new.hash)]
    assert await store.payload(new.run_id, LARGE.payload.hash) == LARGE.payload.text
    assert await store.next_due_us() == START_US + 99
    assert set(await store.runs_to_wake(START_US + 7, 10)) == {new.run_id, plain.run_id}
    assert list(await store.runs_to_wake(START_US + 6, 10)) == []  # they are still the affair of who began them
    await send_well(store, child_writer(plain).commit(head=HeadUpdate(status="running")))
    assert await statuses(store, new, plain) == ["pending", "running"]


async def test_the_rows_of_new_runs_are_in_the_feed(store: Store):
    parent = await started(store)
    new = new_run(parent)
    commit = parent.commit(new_runs=(new,))
    await send_well(store, commit)
    entries = await store.feed(FeedPosition(), 10)
    rows = [(entry.transition.run_id, entry.transition.version, entry.transition.commit_id) for entry in entries]
    assert (new.run_id, 1, commit.commit_id) in rows


async def test_a_commit_that_loses_starts_nothing(store: Store):
    parent = await started(store)
    won, lost = new_run(parent), new_run(parent, key="k")
    await send_well(store, parent.commit(new_runs=(won,)))
    loser = parent.commit(version=2, new_runs=(lost,), sent_controls=(control(won.run_id),))
    assert await send(store, loser) == Conflict(parent.run_id, 2)
    assert await statuses(store, won, lost) == ["pending", None]
    assert await store.find_start_key("acme", "order", "k") is None
    assert await store.control(won.run_id, "run:parent/cancel/0") is None


async def test_a_commit_without_a_row_starts_nothing(store: Store):
    parent = await started(store)
    new = new_run(parent)
    assert await send(store, parent.dispositions(new_runs=(new,), sent_controls=(control(parent.run_id),))) == Appended(
        0
    )
    assert await statuses(store, new) == [None]
    assert await store.control(parent.run_id, "run:parent/cancel/0") is None


async def test_a_start_may_start_runs_itself(store: Store):
    parent = RunWriter()
    new = new_run(parent)
    await send_well(store, parent.start(new_runs=(new,)))
    assert await statuses(store, new) == ["pending"]


@pytest.mark.parametrize("way", sorted(RESENDS))
async def test_a_lost_answer_starts_and_asks_once(store: Store, way: str):
    parent = await started(store)
    new, other = new_run(parent, key="k"), await started(store)
    commit = parent.commit(new_runs=(new,), sent_controls=(control(other.run_id),))
    assert await RESENDS[way](store, commit) == Appended(2)
    child = child_writer(new)
    await send_well(store, child.commit(head=HeadUpdate(status="running")))
    assert await send(store, commit) == Appended(2)
    assert await statuses(store, new) == ["running"]
    assert [await store.find_start_key("acme", "order", "k"), await report_for(store, parent, new)] == [
        new.run_id,
        None,
    ]


async def test_many_commits_at_once_start_their_runs(store: Store):
    parents = [await started(store) for _ in range(8)]
    news = {parent.run_id: [new_run(parent, node=f"each[{n}]") for n in range(20)] for parent in parents}
    commits = [parent.commit(new_runs=tuple(news[parent.run_id])) for parent in parents]
    lost = [parent.commit(version=2, new_runs=(new_run(parent),)) for parent in parents]
    answers = await send_all(store, [*commits, *lost])
    assert answers == [Appended(2)] * 8 + [Conflict(parent.run_id, 2) for parent in parents]
    for parent in parents:
        children = await store.heads(RunFilter(parent_run_ids=(parent.run_id,), limit=100))
        assert {head.run_id for head in children} == {new.run_id for new in news[parent.run_id]}


# --- keys -------------------------------------------------------------------------------------------------------------


async def test_a_key_is_the_childs(store: Store):
    parent = await started(store)
    new = new_run(parent, key="k")
    await send_well(store, parent.commit(new_runs=(new,)))
    assert await store.find_start_key("acme", "order", "k") == new.run_id
    head = await store.head(new.run_id)
    assert head is not None
    assert head.key == "k"


async def test_a_taken_key_refuses_the_child_and_tells_the_parent(store: Store):
    owner, parent = await started(store, key="k"), await started(store)
    new, free = new_run(parent, key="k"), new_run(parent, key="free")
    await send_well(store, parent.commit(new_runs=(new, free)))
    assert await statuses(store, new, free) == [None, "pending"]
    assert await report_for(store, parent, new) == ChildReport(run_id=new.run_id, status="refused", owner=owner.run_id)
    assert await report_for(store, parent, free) is None
    assert parent.run_id in await store.runs_to_wake(LONG_AGO_US, 10)


async def test_of_two_children_with_one_key_the_first_gets_it(store: Store):
    parent = await started(store)
    first, second = sorted((new_run(parent, key="k") for _ in range(2)), key=lambda new: new.run_id, reverse=True)
    await send_well(store, parent.commit(new_runs=(first, second)))
    assert await statuses(store, first, second) == ["pending", None]
    report = await report_for(store, parent, second)
    assert report is not None
    assert report.owner == first.run_id


@pytest.mark.parametrize(
    ("status", "node", "is_taken_over"),
    [("failed", "child", True), ("running", "child", False), ("failed", "another", False)],
)
async def test_a_step_takes_the_key_over_from_its_own_ended_child(
    store: Store, status: str, node: str, is_taken_over: bool
):
    parent = await started(store)
    before, after = new_run(parent, key="k"), new_run(parent, node, key="k")
    await send_well(store, parent.commit(new_runs=(before,)))
    await send_well(store, child_writer(before).commit(head=HeadUpdate(status=status, ended_at_us=START_US)))  # type: ignore[arg-type]
    await send_well(store, parent.commit(new_runs=(after,)))
    assert await statuses(store, after) == ["pending" if is_taken_over else None]
    owner = after if is_taken_over else before
    assert await store.find_start_key("acme", "order", "k") == owner.run_id


async def test_another_parents_ended_child_keeps_its_key(store: Store):
    parent, other = await started(store), await started(store)
    before, after = new_run(parent, key="k"), new_run(other, key="k")
    await send_well(store, parent.commit(new_runs=(before,)))
    await send_well(store, child_writer(before).commit(head=HeadUpdate(status="failed", ended_at_us=START_US)))
    await send_well(store, other.commit(new_runs=(after,)))
    assert await statuses(store, after) == [None]


async def test_keys_of_starts_and_of_children_meet_in_one_batch(store: Store):
    parents = [await started(store) for _ in range(4)]
    news = [new_run(parent, key="same") for parent in parents]
    commits = [parent.commit(new_runs=(new,)) for parent, new in zip(parents, news, strict=True)]
    starting = RunWriter()
    answers = await send_all(store, [starting.start(key="same"), *commits])
    assert answers[1:] == [Appended(2)] * 4
    owner = await store.find_start_key("acme", "order", "same")
    existing = [new.run_id for new in news if await store.head(new.run_id)]
    existing += [starting.run_id] if isinstance(answers[0], Appended) else []
    assert existing == [owner]
    for parent, new in zip(parents, news, strict=True):
        report = await report_for(store, parent, new)
        assert (report is None) == (new.run_id == owner)


# --- controls ---------------------------------------------------------------------------------------------------------


async def test_a_control_goes_to_an_open_run(store: Store):
    parent, child = await started(store), await started(store)
    sent = control(child.run_id, arguments={"reason": "its parent ends"}, by="run:parent")
    await send_well(store, parent.commit(sent_controls=(sent, sent)))
    loaded = await store.load(child.run_id)
    assert loaded is not None
    (stored,) = loaded.controls
    assert (stored.kind, stored.arguments, stored.by) == ("cancel", {"reason": "its parent ends"}, "run:parent")
    assert stored.requested_at_us > 0
    assert list(await store.runs_to_wake(LONG_AGO_US, 10)) == [child.run_id]
    await send_well(store, parent.commit(sent_controls=(control(child.run_id, kind="terminate"),)))
    loaded = await store.load(child.run_id)
    assert loaded is not None
    assert [one.kind for one in loaded.controls] == ["cancel"]


async def test_a_control_reaches_a_run_that_the_same_commit_starts(store: Store):
    parent = await started(store)
    new = new_run(parent)
    await send_well(store, parent.commit(new_runs=(new,), sent_controls=(control(new.run_id),)))
    assert await store.control(new.run_id, "run:parent/cancel/0") is not None


@pytest.mark.parametrize("kind", ["cancel", "terminate", "compensate"])
async def test_unknown_and_foreign_runs_are_asked_nothing_and_closed_ones_only_to_undo(store: Store, kind: str):
    parent, child = await started(store), await started(store)
    ended = await started(store, status="completed", ended_at_us=START_US)
    foreign = await started(store, tenant="globex")
    sent = [control(one, kind=kind) for one in (child.run_id, ended.run_id, foreign.run_id, ids.run_id())]
    await send_well(store, parent.commit(sent_controls=tuple(sent)))
    found = [await store.control(one.run_id, one.request_id) is not None for one in sent]
    assert found == [True, kind == "compensate", False, False]


REFUSED = {
    "an id that is none": {"sent_controls": (control("nobody"),)},
    "an empty request id": {"sent_controls": (control(ids.run_id(), request_id=""),)},
    "NUL in arguments": {"sent_controls": (control(ids.run_id(), arguments={"reason": "\0"}),)},
}


@pytest.mark.parametrize("what", sorted(REFUSED))
async def test_controls_that_no_store_takes_are_refused(store: Store, what: str):
    parent = await started(store)
    assert isinstance(await send(store, parent.commit(**REFUSED[what])), Refused)


async def test_a_new_run_that_no_store_takes_is_refused(store: Store):
    parent = await started(store)
    bad, good = new_run(parent, key="k" * 300), new_run(parent)
    assert isinstance(await send(store, parent.commit(new_runs=(good, bad))), Refused)
    assert await statuses(store, good) == [None]


# --- reports ----------------------------------------------------------------------------------------------------------


async def test_a_large_output_goes_with_the_report(store: Store):
    parent, child = await started(store), await started(store)
    assert LARGE.payload is not None
    message = report_message(ChildReport(run_id=child.run_id, status="completed"), "child", LARGE.ref)
    sent = SentMessage(parent.run_id, message, LARGE.payload)
    commit = child.commit(sent=(sent,), head=HeadUpdate(status="completed", ended_at_us=START_US))
    await send_well(store, commit)
    inputs = await store.inputs(parent.run_id)
    assert inputs is not None
    assert [(one.kind, one.node, one.payload_ref) for one in inputs.messages] == [("child", "child", LARGE.ref)]
    assert inputs.payloads == (LARGE.payload,)


async def test_an_end_is_told_once(store: Store):
    parent, child = await started(store), await started(store)
    for status in ("failed", "completed"):
        report = report_message(ChildReport(run_id=child.run_id, status=status), "child")
        await send_well(store, child.commit(sent=(SentMessage(parent.run_id, report),)))
    loaded = await store.load(parent.run_id)
    assert loaded is not None
    assert [report_of(message).status for message in loaded.messages] == ["failed"]


async def test_nobody_else_tells_of_a_child(store: Store):
    parent = await started(store)
    for message in (
        signal(report_message_id(ids.run_id())),
        report_message(ChildReport(run_id="a", status="failed"), "n"),
    ):
        with pytest.raises(ValueRefusedError):
            await store.send_message(parent.run_id, message)


async def test_reports_are_not_held_up_by_a_full_inbox(store: Store):
    parent, sender = await started(store), await started(store)
    crowd = tuple(SentMessage(parent.run_id, signal(f"m{n}")) for n in range(MAX_UNCONSUMED_SENT_MESSAGES))
    await send_well(store, sender.commit(sent=crowd))
    report = report_message(ChildReport(run_id=sender.run_id, status="completed"), "child")
    await send_well(
        store, sender.commit(sent=(SentMessage(parent.run_id, report), SentMessage(parent.run_id, signal("x"))))
    )
    receipts = [await store.message_receipt(parent.run_id, id) for id in (report.id, "x")]
    assert [receipt and receipt.disposition for receipt in receipts] == ["", "undelivered"]


# --- lineage ----------------------------------------------------------------------------------------------------------


async def test_children_and_descendants_are_listed_in_pages(store: Store):
    root = await started(store)
    children = [new_run(root) for _ in range(3)]
    await send_well(store, root.commit(new_runs=tuple(children)))
    parent = child_writer(children[0])
    grandchild = new_run(parent, root_run_id=root.run_id)
    await send_well(store, parent.commit(new_runs=(grandchild,)))
    newest_first = sorted((new.run_id for new in children), reverse=True)
    page = await store.heads(RunFilter(parent_run_ids=(root.run_id,), limit=2))
    assert [head.run_id for head in page] == newest_first[:2]
    rest = await store.heads(RunFilter(parent_run_ids=(root.run_id,), before_run_id=page[-1].run_id))
    assert [head.run_id for head in rest] == newest_first[2:]
    everything = await store.heads(RunFilter(root_run_id=root.run_id, statuses=("pending",)))
    assert {head.run_id for head in everything} == {*newest_first, grandchild.run_id}


def undo(run_id: str) -> SentControl:
    """What a parent asks a child of to undo itself."""
    arguments: JsonObject = {"report_to": "child.compensate", "report_id": f"child:{run_id}:compensated:3"}
    return control(run_id, "undo:parent:child.compensate:3", kind="compensate", arguments=arguments)


async def test_who_asks_a_run_to_undo_itself_that_does_not_exist_is_answered_at_once(store: Store):
    parent, missing = await started(store), ids.run_id()
    commit = parent.commit(sent_controls=(undo(missing), control(missing, "run:parent/cancel/3")))
    assert await send_all(store, [commit, commit]) == [Appended(2), Appended(2)]
    loaded = await store.load(parent.run_id)
    assert loaded is not None
    (message,) = loaded.messages
    assert (message.id, message.kind, message.node) == (f"child:{missing}:compensated:3", "child", "child.compensate")
    report = report_of(message)
    assert (report.run_id, report.generation, report.status, report.compensated) == (missing, 3, "cancelled", "")
    assert set(await store.runs_to_wake(START_US + 7, 10)) == {parent.run_id}


@pytest.mark.parametrize("is_new", [True, False])
async def test_a_run_that_exists_answers_for_itself(store: Store, is_new: bool):
    parent = await started(store)
    new = new_run(parent)
    if is_new:
        await send_well(store, parent.commit(new_runs=(new,), sent_controls=(undo(new.run_id),)))
    else:
        await send_well(store, parent.commit(new_runs=(new,)))
        await send_well(store, parent.commit(sent_controls=(undo(new.run_id),)))
    loaded = await store.load(parent.run_id)
    assert loaded is not None
    assert loaded.messages == ()
    assert await store.control(new.run_id, "undo:parent:child.compensate:3") is not None


async def test_a_child_whose_key_is_taken_in_the_commit_that_undoes_it_is_answered_for(store: Store):
    parent = await started(store)
    await send_well(store, parent.commit(new_runs=(new_run(parent, node="before", key="k"),)))
    refused = new_run(parent, key="k")
    await send_well(store, parent.commit(new_runs=(refused,), sent_controls=(undo(refused.run_id),)))
    loaded = await store.load(parent.run_id)
    assert loaded is not None
    assert {message.id for message in loaded.messages} == {
        f"child:{refused.run_id}",
        f"child:{refused.run_id}:compensated:3",
    }
