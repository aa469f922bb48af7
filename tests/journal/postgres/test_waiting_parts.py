"""The columns of what waits: sorted where order is for locks, kept where it is for readers, none that nobody needs."""

import random
import re
from typing import Any, get_args

from hypothesis import given
from hypothesis import strategies as st

from ductor.journal.commit import (
    BusEvent,
    Commit,
    EventWait,
    HeadUpdate,
    InboxItem,
    MessageDisposition,
    SentMessage,
)
from ductor.journal.events import Message, MessageKind
from ductor.journal.ids import SystemIds
from ductor.journal.memory_messages import ANSWERS
from ductor.journal.postgres.batch import make_batch
from ductor.journal.postgres.statements import commit_statement, read_named
from tests.journal.postgres.commits import start, tick

TARGETS = [SystemIds().run_id() for _ in range(3)]
RUN = "01890000-0000-7000-8000-000000000000"

VALUES: dict[str, Any] = {
    "messages": (MessageDisposition("m2", "buffered"), MessageDisposition("m1", "consumed")),
    "sent": tuple(SentMessage(run_id, Message(id=f"{n}", kind="signal")) for n in (2, 10, 1) for run_id in TARGETS),
    "waits": tuple(EventWait(node=node, index=index, name="e", since_us=1) for node in "ba" for index in (10, 2)),
    "waits_gone": ("z", "y"),
    "inbox": tuple(InboxItem(node=node, kind="approval", title="", people=("x", "w", "x")) for node in "ba"),
    "inbox_gone": ("z", "y"),
    "published": tuple(BusEvent(tenant=tenant, event_id=f"{n}", name="e") for n in (2, 10, 1) for tenant in "ba"),
}


def make_commit(run_id: str, names: set[str], is_start: bool) -> Commit:
    parts: dict[str, Any] = {name: VALUES[name] for name in names}
    return start(run_id, **parts) if is_start else tick(run_id, 2, **parts)


commits = st.lists(
    st.builds(make_commit, st.uuids().map(str), st.sets(st.sampled_from(sorted(VALUES))), st.booleans()),
    min_size=1,
    max_size=6,
    unique_by=lambda commit: commit.run_id,
)


@given(commits)
def test_a_batch_has_the_parts_that_its_commits_need(batch_commits: list[Commit]) -> None:
    needed = {name for commit in batch_commits for name in VALUES if getattr(commit, name)}
    batch = make_batch(batch_commits)
    assert batch.parts - {"starts"} == needed
    assert set(commit_statement(batch.parts).parameters) == set(batch.columns)
    lengths = {name.partition("_")[0]: len(values) for name, values in batch.columns.items()}
    assert all(len(values) == lengths[name.partition("_")[0]] for name, values in batch.columns.items())


@given(commits)
def test_every_part_is_sorted_by_the_key_that_it_locks(batch_commits: list[Commit]) -> None:
    columns = make_batch(batch_commits).columns
    for part, key in (
        ("message", ["run_id", "message_id"]),
        ("sent", ["run_id"]),
        ("wait", ["run_id", "node", "index"]),
        ("waitgone", ["run_id", "node"]),
        ("inbox", ["run_id", "node"]),
        ("inboxgone", ["run_id", "node"]),
        ("person", ["run_id", "node", "person"]),
        ("published", ["tenant"]),
    ):
        if f"{part}_{key[0]}" in columns:
            keys = list(zip(*(columns[f"{part}_{name}"] for name in key), strict=True))
            assert keys == sorted(keys), part


@given(commits, st.randoms(use_true_random=False))
def test_the_order_of_arrival_does_not_matter(batch_commits: list[Commit], chance: random.Random) -> None:
    assert make_batch(chance.sample(batch_commits, len(batch_commits))) == make_batch(batch_commits)


def test_what_a_tick_sends_and_publishes_keeps_its_order() -> None:
    columns = make_batch([tick(RUN, 2, sent=VALUES["sent"], published=VALUES["published"])]).columns
    assert columns["sent_message_id"] == ["2", "10", "1"] * 3
    assert columns["published_event_id"] == ["2", "10", "1"] * 2


def test_a_commit_without_a_row_brings_dispositions_alone() -> None:
    batch = make_batch([tick(RUN, 0, **VALUES)])
    assert (set(batch.parts), batch.row_count) == ({"messages"}, 0)
    assert batch.columns["message_commit_id"] == batch.columns["message_version"] == [None, None]


def test_a_run_that_sends_to_itself_says_what_it_will_be() -> None:
    message = Message(id="m", kind="signal")
    sent = (SentMessage(RUN, message), SentMessage(TARGETS[0], message))
    columns = make_batch([tick(RUN, 2, sent=sent, head=HeadUpdate(status="completed"))]).columns
    by_target = dict(zip(columns["sent_run_id"], columns["sent_own_status"], strict=True))
    assert by_target == {RUN: "completed", TARGETS[0]: None}


def test_every_kind_of_message_but_events_and_answers_counts_for_the_bound() -> None:
    texts = read_named("waiting.sql") | read_named("commit_waiting.sql")
    bounds = re.findall(r"m\.kind IN \(([^)]*)\)", "".join(texts.values()))
    assert len(bounds) == 2
    for kinds in bounds:
        assert set(get_args(MessageKind)) - {"event"} - ANSWERS == set(re.findall(r"'(\w+)'", kinds))
