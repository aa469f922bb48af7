"""The columns of a batch: sorted, complete, and as few parts as its commits need."""

import random
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ductor.journal.commit import (
    AttemptDisposition,
    Commit,
    ControlDisposition,
    HeadUpdate,
    Payload,
    TimerUpdate,
)
from ductor.journal.errors import ValueRefusedError
from ductor.journal.postgres.batch import ROW_FIELDS, make_batch, with_more_than_a_row
from ductor.journal.postgres.statements import (
    LONE_COMMITS,
    QUERIES,
    RESOLVE_LOSERS,
    commit_statement,
    heads_statement,
    number_parameters,
)
from tests.journal.postgres.commits import start, tick

PARTS = ("head", "timer", "payloads", "controls", "attempts")


def full_tick(run_id: str, parts: set[str]) -> Commit:
    """A tick with the parts that are asked for, their rows in no order."""
    values: dict[str, Any] = {
        "head": HeadUpdate(status="waiting"),
        "timer": TimerUpdate(7),
        "payloads": (Payload("b", b"2"), Payload("a", b"1")),
        "controls": (ControlDisposition("r2", "applied"), ControlDisposition("r1", "refused", "no")),
        "attempts": (AttemptDisposition("n", 2, "applied"), AttemptDisposition("n", 1, "superseded")),
    }
    return tick(run_id, 2, **{part: values[part] for part in parts})


commits = st.lists(
    st.tuples(st.uuids(), st.sets(st.sampled_from(PARTS)), st.booleans()),
    min_size=1,
    max_size=8,
    unique_by=lambda row: row[0],
).map(
    lambda rows: [
        start(str(run_id), key=str(run_id)) if is_start else full_tick(str(run_id), parts)
        for run_id, parts, is_start in rows
    ]
)


@given(commits)
def test_every_part_is_sorted_by_its_primary_key(batch_commits: list[Commit]) -> None:
    batch = make_batch(batch_commits)
    columns = batch.columns
    assert columns["row_run_id"] == sorted(commit.run_id for commit in batch_commits)
    for part, key in (
        ("start", ["run_id"]),
        ("head", ["run_id"]),
        ("timer", ["run_id"]),
        ("payload", ["run_id", "hash"]),
        ("control", ["run_id", "request_id"]),
        ("attempt", ["run_id", "node", "generation"]),
    ):
        names = [f"{part}_{name}" for name in key]
        if names[0] in columns:
            keys = list(zip(*(columns[name] for name in names), strict=True))
            assert keys == sorted(keys), part


@given(commits, st.randoms(use_true_random=False))
def test_the_order_of_arrival_does_not_matter(batch_commits: list[Commit], chance: random.Random) -> None:
    shuffled = chance.sample(batch_commits, len(batch_commits))
    assert make_batch(shuffled) == make_batch(batch_commits)


@given(commits)
def test_a_statement_finds_all_its_parameters_and_no_column_is_left_over(batch_commits: list[Commit]) -> None:
    batch = make_batch(batch_commits)
    statement = commit_statement(batch.parts)
    assert set(statement.parameters) == set(batch.columns)
    lengths = {name.partition("_")[0]: len(values) for name, values in batch.columns.items()}
    assert all(len(values) == lengths[name.partition("_")[0]] for name, values in batch.columns.items())


@pytest.mark.parametrize(
    ("commit", "parts"),
    [
        (tick("01890000-0000-7000-8000-000000000000", 2), set()),
        (start("01890000-0000-7000-8000-000000000000"), {"starts"}),
        (tick("01890000-0000-7000-8000-000000000000", 2, head=HeadUpdate(status="failed")), {"heads"}),
    ],
)
def test_a_lone_commit_has_a_statement_with_all_its_values(commit: Commit, parts: set[str]) -> None:
    batch = make_batch([commit])
    assert batch.is_lone
    assert set(batch.parts) == parts
    said_twice = {"start_run_id": "row_run_id", "head_run_id": "row_run_id", "head_commit_id": "row_commit_id"}
    parameters = {said_twice.get(name, name) for name in LONE_COMMITS[batch.parts].parameters}
    assert parameters == {said_twice.get(name, name) for name in batch.columns}


def test_commits_without_a_row_make_a_batch_that_is_not_lone() -> None:
    without_row = tick("01890000-0000-7000-8000-000000000001", 0)
    assert not make_batch([without_row]).is_lone
    assert not make_batch([tick("01890000-0000-7000-8000-000000000000", 2), without_row]).is_lone


def test_a_start_that_already_changed_its_head_is_written_once_as_it_stands_after() -> None:
    batch = make_batch([start(head=HeadUpdate(status="completed", ended_at_us=9, error_type="E"))])
    assert batch.parts == {"starts"}
    outcome = [batch.columns[f"start_{name}"] for name in ("status", "ended_at_us", "error_type")]
    assert outcome == [["completed"], [9], ["E"]]


def test_dispositions_alone_write_no_row_and_depend_on_none() -> None:
    commit = tick("01890000-0000-7000-8000-000000000000", 0, controls=(ControlDisposition("r", "applied"),))
    batch = make_batch([commit])
    assert batch.row_count == 0
    assert batch.columns["control_commit_id"] == [None]
    assert batch.columns["control_version"] == [None]


@pytest.mark.parametrize(
    ("parts", "what"), [({"events": b"\xff"}, "events"), ({"payloads": (Payload("h", b"\xff"),)}, "payload")]
)
def test_bytes_that_are_no_text_are_named(parts: dict[str, Any], what: str) -> None:
    with pytest.raises(ValueRefusedError) as refused:
        make_batch([tick("01890000-0000-7000-8000-000000000000", 2, **parts)])
    assert refused.value.what == what


def test_parameters_are_numbered_by_first_use_and_casts_are_left_alone() -> None:
    statement = number_parameters("SELECT :b::text, :a, x::int WHERE y = :b")
    assert statement.text == "SELECT $1::text, $2, x::int WHERE y = $1"
    assert statement.parameters == ("b", "a")
    assert statement.arguments({"a": 1, "b": 2}) == [2, 1]


def test_no_statement_keeps_a_named_parameter_or_an_unfilled_mark() -> None:
    combinations = [frozenset(parts) for parts in ((), ("starts",), ("starts", "keys"), ("heads", "timers"))]
    heads = [heads_statement(frozenset(conditions)) for conditions in ((), ("tenant", "statuses"))]
    for statement in [
        *QUERIES.values(),
        *LONE_COMMITS.values(),
        RESOLVE_LOSERS,
        *heads,
        *map(commit_statement, combinations),
    ]:
        assert not re.search(r"\{\w+\}|(?<!:):\w", statement.text)
        assert len(set(re.findall(r"\$\d+", statement.text))) == len(statement.parameters)


def test_what_stands_beside_a_row_is_told_from_the_row_by_its_place_among_the_fields() -> None:
    assert Commit.__struct_fields__[: len(ROW_FIELDS)] == ROW_FIELDS


@pytest.mark.parametrize("field", Commit.__struct_fields__[len(ROW_FIELDS) :])
def test_a_commit_with_anything_beside_its_row_is_not_a_row_alone(field: str) -> None:
    anything: Any = "x" if field == "forwards_to" else object() if field in ("start", "head", "timer") else (object(),)
    row_alone, with_more = tick("r", 2, events=b"[1]"), tick("r", 2, **{field: anything})
    assert with_more_than_a_row([row_alone, with_more]) == [with_more]
