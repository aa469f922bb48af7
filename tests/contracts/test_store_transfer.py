"""Everything of one run in pages, and the way in for the rows of a closed run."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec
import pytest

from ductor.journal.commit import AttemptDisposition, ControlDisposition, HeadUpdate, MessageDisposition, Payload
from ductor.journal.errors import ValueRefusedError
from ductor.journal.events import Message
from ductor.journal.records import AttemptRow, Control, Head, PublishedDefinition, RunFilter, Transition
from ductor.journal.store import Store
from ductor.journal.transfer import RunPage, StoredMessage
from tests.contracts.writers import START_US, RunWriter, send_well, started, whole_feed

T = TypeVar("T")

TEXT = '{ "b":1.0,"a" : [123456789012345678901234567890, "😀"]}'.encode()


def definition(manifest_hash: str = "m1", **fields: object) -> PublishedDefinition:
    record = PublishedDefinition(
        tenant="acme",
        name="order",
        version="",
        manifest_hash=manifest_hash,
        manifest=b'{"name":"order"}',
        source="text",
    )
    return msgspec.structs.replace(record, **fields)


def head_of(run: RunWriter, **fields: object) -> Head:
    head = Head(
        run_id=run.run_id,
        tenant="acme",
        definition="order",
        manifest_hash="m1",
        status="completed",
        started_at_us=START_US,
        updated_at_us=START_US + 9,
        ended_at_us=START_US + 9,
    )
    return msgspec.structs.replace(head, **fields)


def transitions_of(run: RunWriter, count: int) -> tuple[Transition, ...]:
    commits = [run.start(), *(run.commit() for _ in range(count - 1))]
    return tuple(
        Transition(
            run_id=commit.run_id,
            version=commit.version,
            commit_id=commit.commit_id,
            at_us=commit.at_us,
            events=commit.events,
            hash=commit.hash,
        )
        for commit in commits
    )


async def pages(*given: RunPage) -> AsyncIterator[RunPage]:
    for page in given:
        yield page


async def a_run_with_everything(store: Store) -> RunWriter:
    """Three payloads, attempts, controls and messages each, two of each disposed of."""
    run = await started(store, payloads=tuple(Payload(hash, TEXT) for hash in ("b2", "a1", "c3")))
    for number in (1, 2, 3):
        await store.append_attempt(
            AttemptRow(run_id=run.run_id, node=f"step{4 - number}", generation=number, outcome="succeeded", output=1.0)
        )
        await store.request_control(run.control(f"z{4 - number}", arguments={"n": 2**70}, requested_at_us=number))
        await store.send_message(run.run_id, Message(id=f"m{4 - number}", kind="signal", name="go", payload=["é"]))
    await send_well(
        store,
        run.commit(
            attempts=tuple(AttemptDisposition(f"step{number}", 4 - number, "applied") for number in (1, 2)),
            controls=(ControlDisposition("z1", "applied"), ControlDisposition("z2", "refused", "because")),
            messages=(MessageDisposition("m1", "consumed"), MessageDisposition("m2", "undelivered")),
            head=HeadUpdate(status="completed", ended_at_us=START_US + 2),
        ),
    )
    return run


async def paged(read: Callable[[Sequence[T]], Awaitable[Sequence[T]]]) -> list[T]:
    """Three rows in pages of two, each page read after the one before."""
    first = await read(())
    assert len(first) == 2
    second = await read(first)
    assert len(second) == 1
    assert len(await read(second)) == 0
    return [*first, *second]


async def test_everything_of_a_run_is_read_in_pages(store: Store):
    run = await a_run_with_everything(store)
    await started(store, payloads=(Payload("of another run", b"1"),))

    async def payloads(last: Sequence[Payload]) -> Sequence[Payload]:
        return await store.payload_page(run.run_id, after_hash=last[-1].hash if last else "", limit=2)

    async def attempts(last: Sequence[AttemptRow]) -> Sequence[AttemptRow]:
        after = (last[-1].node, last[-1].generation) if last else ("", 0)
        return await store.attempt_page(run.run_id, after=after, limit=2)

    async def controls(last: Sequence[Control]) -> Sequence[Control]:
        after = last[-1].request_id if last else ""
        return await store.control_page(run.run_id, after_request_id=after, limit=2)

    async def messages(last: Sequence[StoredMessage]) -> Sequence[StoredMessage]:
        after = last[-1].message.position if last else 0
        return await store.message_page(run.run_id, after_position=after, limit=2)

    found = (await paged(payloads), await paged(attempts), await paged(controls), await paged(messages))
    assert found[0] == [Payload("a1", TEXT), Payload("b2", TEXT), Payload("c3", TEXT)]
    assert [(row.node, row.generation, row.disposition) for row in found[1]] == [
        ("step1", 3, "applied"),
        ("step2", 2, "applied"),
        ("step3", 1, ""),
    ]
    assert repr(found[1][0].output) == "1.0"
    assert [(row.request_id, row.arguments, row.disposition, row.outcome) for row in found[2]] == [
        ("z3", {"n": 2**70}, "", ""),
        ("z2", {"n": 2**70}, "refused", "because"),
        ("z1", {"n": 2**70}, "applied", ""),
    ]
    assert [(row.message.id, row.disposition, row.version) for row in found[3]] == [
        ("m3", "", None),
        ("m2", "undelivered", 2),
        ("m1", "consumed", 2),
    ]
    assert found[3][0].message.payload == ["é"]


async def test_pages_of_a_run_that_is_not_there_are_empty(store: Store):
    for run_id in (RunWriter().run_id, "no id at all"):
        assert list(await store.payload_page(run_id, limit=2)) == []
        assert list(await store.attempt_page(run_id, limit=2)) == []
        assert list(await store.control_page(run_id, limit=2)) == []
        assert list(await store.message_page(run_id, limit=2)) == []


async def test_an_imported_run_is_read_as_it_was(store: Store):
    run = RunWriter()
    rows = transitions_of(run, 4)
    attempt = AttemptRow(
        run_id=run.run_id, node="step", generation=1, outcome="failed", output=None, worker="w", disposition="applied"
    )
    control = Control(
        run_id=run.run_id, request_id="c", kind="pause", by="me", requested_at_us=7, disposition="refused", outcome="no"
    )
    message = StoredMessage(
        message=Message(id="event:e", kind="event", name="paid", payload={"n": 1.0}, at_us=5, position=900),
        disposition="consumed",
        version=2,
    )
    head = head_of(run, key="k-1", error_type="Boom", status="failed", compensated="true", search_attributes={"a": [1]})
    is_new = await store.import_run(
        head,
        [definition()],
        pages(
            RunPage(payloads=(Payload("ab", TEXT),), transitions=rows[:2]),
            RunPage(transitions=rows[2:], attempts=(attempt,), controls=(control,), messages=(message,)),
        ),
    )
    assert is_new
    assert await store.head(run.run_id) == head
    assert tuple(await store.history(run.run_id)) == rows
    assert await store.payload(run.run_id, "ab") == TEXT
    assert list(await store.attempts(run.run_id)) == [attempt]
    assert await store.control(run.run_id, "c") == control
    (read,) = await store.message_page(run.run_id, limit=9)
    assert msgspec.structs.replace(read.message, position=900) == message.message
    assert (read.disposition, read.version) == ("consumed", 2)
    assert [entry.transition for entry in await whole_feed(store)] == list(rows)
    assert [one.run_id for one in await store.heads(RunFilter())] == [run.run_id]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
async def test_an_imported_chain_leads_to_its_latest_run(store: Store, order: tuple[int, ...]):
    runs = [RunWriter() for _ in range(3)]
    ids = [run.run_id for run in runs]
    heads = [
        head_of(
            run,
            status="completed" if place == 2 else "continued",
            chain_run_id=ids[0] if place else None,
            iteration=place,
            successor_run_id=None if place == 2 else ids[place + 1],
        )
        for place, run in enumerate(runs)
    ]
    for place in order:
        rows = RunPage(transitions=transitions_of(runs[place], 1))
        await store.import_run(heads[place], [definition()], pages(rows))
    assert [await store.latest_of_chain(run_id) for run_id in ids] == [ids[2]] * 3
    assert list(await store.chain(ids[1])) == heads
    assert list(await store.chain(ids[0], after_iteration=0, limit=1)) == heads[1:2]


async def test_an_imported_run_reserves_nothing_and_wakes_nobody(store: Store):
    run = RunWriter()
    await store.import_run(head_of(run, key="k-1"), [definition()], pages(RunPage(transitions=transitions_of(run, 1))))
    assert await store.find_start_key("acme", "order", "k-1") is None
    assert list(await store.runs_to_recover(None, 9)) == []
    assert list(await store.runs_to_wake(2**62, 9)) == []
    assert await store.next_due_us() is None
    assert list(await store.open_run_ids("acme", None, None, 9)) == []
    receipt = await store.request_control(run.control())
    assert receipt is not None
    assert receipt.verdict == "refused"


async def test_a_run_that_exists_is_left_as_it_is(store: Store):
    run = await started(store)
    before = await store.history(run.run_id)
    again = RunWriter(run.run_id)
    rows = transitions_of(again, 3)
    assert not await store.import_run(head_of(run), [definition()], pages(RunPage(transitions=rows)))
    assert await store.history(run.run_id) == before
    assert await store.manifest("m1") is None


async def test_an_imported_definition_can_not_be_started_and_changes_none(store: Store):
    first, second = RunWriter(), RunWriter()
    await store.import_run(head_of(first), [definition()], pages(RunPage(transitions=transitions_of(first, 1))))
    kept = await store.manifest("m1")
    assert kept is not None
    assert (kept.manifest, kept.source, kept.is_published) == (b'{"name":"order"}', "text", False)
    assert await store.definition("acme", "order") is None
    assert list(await store.definitions("acme")) == []

    await store.publish(definition("m2", manifest=b'{"name":"order","v":2}'))
    head = head_of(second, manifest_hash="m2")
    rows = transitions_of(second, 1)
    await store.import_run(head, [definition("m2", source="another text")], pages(RunPage(transitions=rows)))
    published = await store.definition("acme", "order")
    assert published is not None
    assert (published.manifest_hash, published.source, published.is_published) == ("m2", "text", True)


async def test_an_open_run_is_refused(store: Store):
    run = RunWriter()
    with pytest.raises(ValueRefusedError, match="is waiting; only closed runs are imported"):
        await store.import_run(head_of(run, status="waiting"), [definition()], pages())
    assert await store.head(run.run_id) is None


async def test_an_import_that_breaks_off_leaves_nothing(store: Store):
    run = RunWriter()
    rows = transitions_of(run, 2)
    broken = msgspec.structs.replace(rows[1], events=b'[{"type":')

    with pytest.raises(ValueRefusedError):
        await store.import_run(
            head_of(run), [definition()], pages(RunPage(transitions=rows[:1]), RunPage(transitions=(broken,)))
        )

    async def breaking() -> AsyncIterator[RunPage]:
        yield RunPage(transitions=rows[:1])
        raise OSError("the file is gone")

    with pytest.raises(Exception, match="the file is gone"):
        await store.import_run(head_of(run), [definition()], breaking())
    assert await store.head(run.run_id) is None
    assert list(await store.history(run.run_id)) == []
    assert await store.manifest("m1") is None
    assert await whole_feed(store) == []
