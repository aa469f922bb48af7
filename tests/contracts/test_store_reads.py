"""What a store answers about runs, definitions, hosts, and in its feed."""

import asyncio
import os
import uuid

from ductor.journal.codec import encode_events, encode_state
from ductor.journal.commit import HeadUpdate, Payload
from ductor.journal.events import Message, NodeSettled, PayloadRef
from ductor.journal.records import FeedPosition, HostRecord, PublishedDefinition, RunFilter, Snapshot
from ductor.journal.state import FOLD_REVISION, NodeState, RunState
from ductor.journal.store import Store
from tests.contracts.writers import START_US, RunWriter, send_all, send_well, started, whole_feed


def _run_id(number: int) -> str:
    return str(uuid.UUID(int=number << 64 | 7 << 76))


# --- heads ------------------------------------------------------------------------------------------------------------


async def test_a_head_is_read_back_as_it_was_started(store: Store):
    parent, root = RunWriter().run_id, RunWriter().run_id
    attributes = {"b": 1.0, "a": 2**70, "large": 1e22, "é": "😀", "list": [None, True, {"x": []}]}
    run = await started(
        store,
        key="order-7",
        status="waiting",
        manifest_hash="m9",
        parent_run_id=parent,
        root_run_id=root,
        search_attributes=attributes,
    )
    head = await store.head(run.run_id)
    assert head is not None
    assert (head.run_id, head.tenant, head.definition, head.key) == (run.run_id, "acme", "order", "order-7")
    assert (head.status, head.manifest_hash, head.started_at_us, head.ended_at_us) == ("waiting", "m9", START_US, None)
    assert (head.parent_run_id, head.root_run_id, head.error_type) == (parent, root, None)
    assert {name: repr(value) for name, value in head.search_attributes.items()} == {
        name: repr(value) for name, value in attributes.items()
    }
    loaded = await store.load(run.run_id)
    assert loaded is not None
    assert loaded.head == head
    assert list(await store.heads(RunFilter())) == [head]


async def test_heads_are_listed_newest_first_in_pages(store: Store):
    run_ids = [_run_id(number) for number in (3, 1, 5, 2, 4)]
    for run_id in run_ids:
        await started(store, run_id=run_id)
    listed: list[str] = []
    while page := await store.heads(RunFilter(limit=2, before_run_id=listed[-1] if listed else None)):
        assert len(page) <= 2
        listed += [head.run_id for head in page]
    assert listed == sorted(run_ids, reverse=True)


async def test_heads_are_filtered(store: Store):
    one = await started(store, tenant="acme", definition="order", status="running")
    two = await started(store, tenant="acme", definition="refund", status="waiting")
    three = await started(store, tenant="globex", definition="order", status="waiting")
    await send_well(store, one.commit(head=HeadUpdate(status="failed", error_type="Declined")))

    async def listed(**fields) -> set[str]:
        return {head.run_id for head in await store.heads(RunFilter(**fields))}

    assert await listed(tenant="acme") == {one.run_id, two.run_id}
    assert await listed(definition="order") == {one.run_id, three.run_id}
    assert await listed(statuses=("running",)) == set()
    assert await listed(statuses=("failed", "waiting")) == {one.run_id, two.run_id, three.run_id}
    assert await listed(tenant="acme", definition="refund", statuses=("waiting",)) == {two.run_id}
    assert await listed(tenant="initech") == set()
    assert await listed(before_run_id=two.run_id, tenant="acme") == {one.run_id}


async def test_runs_to_recover_are_the_pending_and_running_in_pages(store: Store):
    for number, status in enumerate(["pending", "running", "waiting", "paused", "completed", "running", "failed"]):
        await started(store, run_id=_run_id(number), status=status)
    stopped = await started(store, run_id=_run_id(9))
    resumed = await started(store, run_id=_run_id(8), status="waiting")
    await send_well(store, stopped.commit(head=HeadUpdate(status="waiting")))
    await send_well(store, resumed.commit(head=HeadUpdate(status="running")))

    expected = [_run_id(number) for number in (0, 1, 5, 8)]
    assert list(await store.runs_to_recover(None, 100)) == expected
    first = await store.runs_to_recover(None, 3)
    assert list(first) == expected[:3]
    assert list(await store.runs_to_recover(first[-1], 3)) == expected[3:]
    assert list(await store.runs_to_recover(expected[-1], 3)) == []


# --- history, payloads, snapshots -------------------------------------------------------------------------------------


async def test_history_is_read_in_pages(store: Store):
    run = await started(store)
    await send_well(store, *(run.commit() for _ in range(6)))
    assert [row.version for row in await store.history(run.run_id)] == [1, 2, 3, 4, 5, 6, 7]
    assert [row.version for row in await store.history(run.run_id, after_version=2, limit=3)] == [3, 4, 5]
    assert [row.version for row in await store.history(run.run_id, after_version=5, limit=3)] == [6, 7]
    assert list(await store.history(run.run_id, after_version=7)) == []
    assert list(await store.history(RunWriter().run_id)) == []


async def test_payloads_belong_to_their_run_and_the_first_stays(store: Store):
    text = '{ "b":1.0,"a" : [123456789012345678901234567890, "😀"]}'.encode()
    run = await started(store, events=naming("ab12", "cd34"), payloads=(Payload("ab12", text), Payload("cd34", b"[1]")))
    other = await started(store)
    await send_well(store, run.commit(payloads=(Payload("ab12", b'"changed"'),)))

    assert await store.payload(run.run_id, "ab12") == text
    assert await store.payload(run.run_id, "cd34") == b"[1]"
    assert await store.payload(run.run_id, "ef56") is None
    assert await store.payload(other.run_id, "ab12") is None
    loaded = await store.load(run.run_id)
    assert loaded is not None
    assert sorted(loaded.payloads, key=lambda payload: payload.hash) == [
        Payload("ab12", text),
        Payload("cd34", b"[1]"),
    ]


def naming(*hashes: str) -> bytes:
    """A row in which each step settles with a large output."""
    settled = [
        NodeSettled(node=f"step {n}", status="succeeded", output_ref=PayloadRef(hash, 1))
        for n, hash in enumerate(hashes)
    ]
    return encode_events(settled)


async def test_a_load_brings_the_large_values_that_state_and_inputs_name(store: Store):
    run = await started(store, events=naming("a", "b"), payloads=(Payload("a", b"1"), Payload("b", b"2")))
    await send_well(store, run.commit(payloads=(Payload("of nothing", b"3"),)))
    loaded = await store.load(run.run_id)
    assert loaded is not None
    assert loaded.payloads == (Payload("a", b"1"), Payload("b", b"2"))

    await send_well(store, run.commit(events=naming("c"), payloads=(Payload("c", b"4"),)))  # instead of `a`
    message = Message(id="m", kind="signal", name="n", payload_ref=PayloadRef("sent", 1))
    await store.send_message(run.run_id, message, (Payload("sent", b"5"),))
    loaded = await store.load(run.run_id)
    assert loaded is not None
    assert [payload.hash for payload in loaded.payloads] == ["b", "c", "sent"]


async def test_large_values_are_found_through_a_snapshot(store: Store):
    run = await started(store, events=naming("a"), payloads=(Payload("a", b"1"),))
    state = RunState(run_id=run.run_id, version=1, nodes={"s": NodeState(output_ref=PayloadRef("a", 1))})
    await store.save_snapshot(
        Snapshot(run_id=run.run_id, version=1, fold_revision=FOLD_REVISION, state=encode_state(state))
    )
    loaded = await store.load(run.run_id)
    assert loaded is not None
    assert (loaded.tail, loaded.payloads) == ((), (Payload("a", b"1"),))


async def test_a_load_takes_the_newest_snapshot_of_this_revision_and_the_rows_after_it(store: Store):
    run = await started(store)
    await send_well(store, *(run.commit() for _ in range(4)))

    def snapshot(version: int, revision: int, state: bytes) -> Snapshot:
        return Snapshot(run_id=run.run_id, version=version, fold_revision=revision, state=state)

    await store.save_snapshot(snapshot(5, FOLD_REVISION + 1, b"of a newer revision"))
    loaded = await store.load(run.run_id)
    assert loaded is not None
    assert (loaded.snapshot, [row.version for row in loaded.tail]) == (None, [1, 2, 3, 4, 5])

    newest = snapshot(3, FOLD_REVISION, b"\x00\xff not text")
    for each in (snapshot(2, FOLD_REVISION, b"older"), newest, snapshot(1, FOLD_REVISION, b"oldest, late")):
        await store.save_snapshot(each)
    loaded = await store.load(run.run_id)
    assert loaded is not None
    assert loaded.snapshot == newest
    assert [row.version for row in loaded.tail] == [4, 5]


async def test_many_loads_at_once_get_each_their_own(store: Store):
    runs = [await started(store, definition=f"definition {n}") for n in range(30)]
    for run in runs[::2]:
        await send_well(store, run.commit())
    wanted = [*runs, RunWriter(), runs[0]]
    loads = await asyncio.gather(*(store.load(run.run_id) for run in wanted))
    for run, loaded in zip(wanted, loads, strict=True):
        if not run.version:
            assert loaded is None
        else:
            assert loaded is not None
            assert loaded.head.run_id == run.run_id
            assert [row.run_id for row in loaded.tail] == [run.run_id] * run.version


# --- definitions ------------------------------------------------------------------------------------------------------


def _definition(manifest_hash: str, **fields) -> PublishedDefinition:
    return PublishedDefinition(
        **{
            "tenant": "acme",
            "name": "order",
            "version": f"label of {manifest_hash}",
            "manifest_hash": manifest_hash,
            "manifest": b'{"name": "order", "n": 1.0}',
            "source": "name: order # 😀\n",
            "file": "order.yaml",
            "places": b'{"steps[0]":[1,2]}',
            "published_at_us": START_US,
            **fields,
        }
    )


async def test_a_definition_is_read_back_as_it_was_published(store: Store):
    published = _definition("m1")
    assert await store.publish(published) is True
    assert await store.definition("acme", "order") == published
    assert await store.manifest("m1") == published
    assert await store.definition("acme", "order", version="label of m1") == published
    assert await store.definition("acme", "order", manifest_hash="m1") == published
    assert await store.definition("globex", "order") is None
    assert await store.definition("acme", "refund") is None
    assert await store.definition("acme", "order", version="other") is None
    assert await store.definition("acme", "order", manifest_hash="m2") is None
    assert await store.manifest("m2") is None


async def test_the_definition_published_last_is_the_newest(store: Store):
    assert [await store.publish(_definition(name)) for name in ("m1", "m2", "m1")] == [True, True, False]
    newest = await store.definition("acme", "order")
    assert newest is not None
    assert newest.manifest_hash == "m1"
    assert [row.manifest_hash for row in await store.definitions()] == ["m1", "m2"]


async def test_a_label_used_twice_means_the_newest(store: Store):
    await store.publish(_definition("m1", version="v1"))
    await store.publish(_definition("m2", version="v1"))
    labelled = await store.definition("acme", "order", version="v1")
    assert labelled is not None
    assert labelled.manifest_hash == "m2"


async def test_withdrawn_definitions_start_nothing_but_stay_for_their_runs(store: Store):
    for published in (_definition("m1"), _definition("m2"), _definition("m1", tenant="globex")):
        await store.publish(published)
    assert await store.unpublish("acme", "order") == 2
    assert await store.unpublish("acme", "order") == 0
    assert await store.definition("acme", "order") is None
    assert await store.definition("acme", "order", manifest_hash="m2") is None
    assert await store.definition("globex", "order") is not None
    withdrawn = await store.manifest("m2")
    assert withdrawn is not None
    assert not withdrawn.is_published

    assert await store.publish(_definition("m2")) is False
    assert await store.definition("acme", "order") == _definition("m2")
    assert await store.definition("acme", "order", manifest_hash="m1") is None


async def test_definitions_are_listed_without_their_texts(store: Store):
    await store.publish(_definition("m1"))
    await store.publish(_definition("m2", tenant="globex", name="refund"))
    await store.publish(_definition("m3", name="gone"))
    await store.unpublish("acme", "gone")
    listed = await store.definitions()
    assert [(row.tenant, row.name, row.manifest_hash) for row in listed] == [
        ("globex", "refund", "m2"),
        ("acme", "order", "m1"),
    ]
    assert {(row.manifest, row.source) for row in listed} == {(b"", "")}
    assert [row.manifest_hash for row in await store.definitions("acme")] == ["m1"]


# --- hosts and health -------------------------------------------------------------------------------------------------


async def test_hosts_beat_by_the_stores_clock(store: Store):
    before_us = await store.now_us()
    claimed = HostRecord(
        host_id="host-b", started_at_us=START_US, heartbeat_at_us=1, tasks=("reserve", "zahlung.prüfen")
    )
    await store.beat(claimed)
    await store.beat(HostRecord(host_id="host-a", started_at_us=START_US, heartbeat_at_us=1))
    first, second = await store.hosts(alive_within_ms=60_000)
    assert (first.host_id, second.host_id) == ("host-a", "host-b")
    assert second.tasks == claimed.tasks
    assert before_us <= second.started_at_us <= second.heartbeat_at_us <= await store.now_us()

    await store.beat(HostRecord(host_id="host-b", started_at_us=START_US, heartbeat_at_us=1, tasks=("ship",)))
    renewed = (await store.hosts(alive_within_ms=60_000))[1]
    assert renewed.heartbeat_at_us >= second.heartbeat_at_us
    assert renewed.started_at_us == second.started_at_us
    assert renewed.tasks == ("ship",)

    await store.leave("host-a")
    await store.leave("host-never-there")
    assert [host.host_id for host in await store.hosts(alive_within_ms=60_000)] == ["host-b"]
    assert list(await store.hosts(alive_within_ms=-60_000)) == []


async def test_hosts_tell_of_guests_and_of_those_they_have_withdrawn(store: Store):
    claimed = HostRecord(
        host_id="host-a",
        started_at_us=1,
        heartbeat_at_us=1,
        is_draining=True,
        guests=("run/a/1", "run/b/2"),
        withdrawn=("other/a/1",),
    )
    await store.beat(claimed)
    (read,) = await store.hosts(alive_within_ms=60_000)
    assert (read.is_draining, read.guests, read.withdrawn) == (True, claimed.guests, claimed.withdrawn)
    first, _ = await store.beat(HostRecord(host_id="host-b", started_at_us=1, heartbeat_at_us=1))
    assert first.withdrawn == claimed.withdrawn
    await store.beat(HostRecord(host_id="host-a", started_at_us=1, heartbeat_at_us=1))
    assert [host.withdrawn for host in await store.hosts(alive_within_ms=60_000)] == [(), ()]


async def test_an_open_store_is_healthy(store: Store):
    health = await store.health()
    assert (health.is_available, health.queued_commits, health.reason) == (True, 0, "")
    assert health.queue_limit > 0


# --- the feed ---------------------------------------------------------------------------------------------------------


async def test_the_feed_holds_every_row_once_in_order(store: Store):
    runs = [RunWriter() for _ in range(10)]
    await send_all(store, [run.start() for run in runs])
    await send_all(store, [run.commit() for _ in range(3) for run in runs])
    entries = await whole_feed(store, limit=7)

    positions = [entry.position for entry in entries]
    assert positions == sorted(set(positions))
    for run in runs:
        rows = [entry.transition for entry in entries if entry.transition.run_id == run.run_id]
        assert rows == list(await store.history(run.run_id))
    assert len(entries) == 40


async def test_a_row_answered_before_another_is_sent_stands_before_it(store: Store):
    runs = [RunWriter() for _ in range(6)]
    for run in reversed(runs):
        await send_well(store, run.start())
    assert [entry.transition.run_id for entry in await whole_feed(store)] == [run.run_id for run in reversed(runs)]


async def test_the_feed_goes_on_from_a_position(store: Store):
    await started(store)
    first = await whole_feed(store)
    assert list(await store.feed(first[-1].position, 10)) == []
    run = await started(store)
    (entry,) = await store.feed(first[-1].position, 10)
    assert entry.transition.run_id == run.run_id


async def test_a_page_of_the_feed_ends_with_the_row_that_fills_it(store: Store):
    runs = [RunWriter() for _ in range(6)]
    large = b'[{"type":"run_paused","reason":"' + os.urandom(2_000).hex().encode() + b'"}]'
    for run in runs:
        await send_well(store, run.start(events=large))
    assert len(await store.feed(FeedPosition(), 10, max_bytes=1)) == 1
    page = await store.feed(FeedPosition(), 10, max_bytes=2 * len(large))
    assert 2 <= len(page) < 6  # a database may keep them compressed
    assert len(await store.feed(FeedPosition(), 10)) == 6


async def test_the_lag_counts_what_is_unread(store: Store):
    lag = await store.feed_lag(FeedPosition())
    assert (lag.rows, lag.oldest_age_ms, lag.blocked_by) == (0, 0, "")
    now_us = await store.now_us()
    run = await started(store, at_us=now_us - 5_000_000)
    await send_well(store, run.commit(at_us=now_us))
    entries = await whole_feed(store)
    behind = await store.feed_lag(FeedPosition())
    assert behind.rows == 2
    assert 5_000 <= behind.oldest_age_ms < 60_000
    assert (await store.feed_lag(entries[0].position)).rows == 1
    assert (await store.feed_lag(entries[1].position)).rows == 0
