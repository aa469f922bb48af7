"""Rows that stand for all rows before them: they give the state, keep the chain, and are read for ever."""

import typing
import uuid
from hashlib import sha256
from typing import Any, get_type_hints

import msgspec
import pytest
from hypothesis import given, settings

from ductor.actors.verify import comparable
from ductor.journal import compaction
from ductor.journal.chain import link
from ductor.journal.codec import encode_events, encode_state
from ductor.journal.compaction import COMPACTED_PREFIX, compacted, is_compacted, state_before
from ductor.journal.errors import BrokenChainError, MissingVersionError, UnknownEventError
from ductor.journal.events import PayloadRef, RunCompacted, TickLimited
from ductor.journal.fold import fold_row
from ductor.journal.large_values import forget_unneeded, named_in
from ductor.journal.records import Transition
from ductor.journal.replay import state_at, verify_chain
from ductor.journal.state import NodeState, RunState
from tests import corpus
from tests.journal.event_strategies import rows as random_rows

RUN = "01890000-0000-7000-8000-00000000000a"
STABLE_FORM = {1: "24628670ced060211e573e14161912a3027a30c16799cbc8658f142907f6af68"}
"""Fields of the stable form, and their types, by revision. See `test_the_stable_form_is_what_its_revision_says`."""


def row_after(state: RunState, *further: Any, event: RunCompacted | None = None) -> Transition:
    """The row that compacts the run in this state."""
    events = encode_events([event or compacted(state), *further])
    version, at_us = state.version + 1, state.at_us + 1
    return Transition(
        run_id=state.run_id,
        version=version,
        commit_id=uuid.UUID(int=version),
        at_us=at_us,
        events=events,
        hash=link(state.last_hash, state.run_id, version, at_us, events),
    )


@pytest.mark.parametrize("name", corpus.names())
def test_at_any_moment_the_row_gives_the_state_before_it(name: str):
    rows = corpus.read(name)
    for row in rows:
        state = state_at(row.run_id, rows, row.version)
        compact = row_after(state)
        assert is_compacted(compact.events)
        assert comparable(state_before(compact)) == comparable(state)
        assert compacted(state_before(compact)) == compacted(state)
        after = state_at(row.run_id, [compact])
        assert (after.version, after.last_hash) == (compact.version, compact.hash)
        assert verify_chain(row.run_id, [compact]) == (compact.version, compact.hash)


@settings(max_examples=60, deadline=None)
@given(random_rows)
def test_any_state_comes_back(rows: list[list[Any]]):
    state = RunState(run_id=RUN)
    for version, events in enumerate(rows, 1):
        fold_row(state, version, version, b"%d" % version, events)
    if rows:
        assert comparable(state_before(row_after(state))) == comparable(state)


def test_what_the_scheduler_could_start_is_kept():
    state = RunState(run_id=RUN, version=1, last_hash=b"h", agenda=[(3, "entry"), (4, "done")])
    state.touched.extend(["also", "entry"])
    state.nodes = {"done": NodeState(status="succeeded"), "waits": NodeState(sources_settled=1)}
    assert list(state_before(row_after(state)).touched) == ["also", "entry", "waits"]


def test_what_nobody_looks_at_before_its_turn_is_not_looked_at_and_a_granted_lease_is():
    state = RunState(run_id=RUN, version=1, last_hash=b"h")
    state.nodes = {
        "again": NodeState(generation=1),
        "again.compensate": NodeState(generation=1),
        "each[1]": NodeState(generation=1),
        "asks": NodeState(status="waiting", waiting="lease", lease_key="k"),
        "has[0]": NodeState(status="waiting", waiting="lease", lease_key="k", lease_fence=7),
        "holds": NodeState(status="running", lease_key="k", lease_fence=8),
    }
    assert list(state_before(row_after(state)).touched) == ["again", "has[0]"]


def test_a_row_that_only_looks_alike_stands_for_nothing():
    state = state_at(*whole("completed"))
    row = msgspec.structs.replace(row_after(state), events=encode_events([TickLimited(), compacted(state)]))
    assert not is_compacted(row.events)
    with pytest.raises(MissingVersionError):
        state_at(row.run_id, [row])
    with pytest.raises(BrokenChainError):
        verify_chain(row.run_id, [row])


def test_a_chain_that_was_cut_elsewhere_does_not_hold():
    state = state_at(*whole("completed"))
    forged = msgspec.structs.replace(compacted(state), previous_hash=sha256(b"").hexdigest())
    row = row_after(state, event=forged)
    with pytest.raises(BrokenChainError):
        verify_chain(row.run_id, [row])


def test_a_state_of_newer_software_is_not_guessed_at():
    state = state_at(*whole("completed"))
    newer = compaction.COMPACTED_STATE_REVISION + 1
    row = row_after(state, event=msgspec.structs.replace(compacted(state), state_revision=newer))
    with pytest.raises(UnknownEventError, match=f"revision {newer}"):
        state_at(row.run_id, [row])


def test_a_state_of_an_older_revision_is_converted(monkeypatch: pytest.MonkeyPatch):
    state = state_at(*whole("completed"))
    row = row_after(state)
    monkeypatch.setattr(compaction, "COMPACTED_STATE_REVISION", 3)
    steps = {
        1: lambda values: values | {"reason": "one"},
        2: lambda values: values | {"reason": values["reason"] + "+"},
    }
    monkeypatch.setattr(compaction, "_CONVERSIONS", steps)
    assert state_before(row).reason == "one+"


def test_databases_find_the_row_by_what_it_begins_with():
    assert encode_events([compacted(RunState(run_id=RUN))]).startswith(COMPACTED_PREFIX)


def test_the_stable_form_is_what_its_revision_says():
    """When this fails, the shape of `RunState` has changed. A new field with a default is fine: pin the new form here.
    Anything else needs a new COMPACTED_STATE_REVISION and a conversion from the one before."""
    fields: dict[str, list[str]] = {}
    _collect(RunState, fields)
    text = repr(sorted((name, sorted(of)) for name, of in fields.items()))
    assert sha256(text.encode()).hexdigest() == STABLE_FORM[compaction.COMPACTED_STATE_REVISION]


def test_every_field_but_the_id_has_a_default():
    required = [field.name for field in msgspec.structs.fields(RunState) if field.required]
    assert required == ["run_id"]


def test_large_values_that_nothing_names_leave_memory():
    state = RunState(run_id=RUN, payloads={"a": 1, "b": 2, "c": 3})
    state.nodes["s"] = NodeState(output_ref=PayloadRef("a", 1))
    forget_unneeded(state, encode_state(state), ["c"])
    assert state.payloads == {"a": 1, "c": 3}


def test_names_of_large_values_are_found_wherever_they_stand():
    text = msgspec.json.encode({"x": [PayloadRef("ab" * 32, 7)], "hash": "no reference"})
    assert named_in(text) == {"ab" * 32: 7}


def whole(name: str) -> tuple[str, list[Transition]]:
    """A journal of the corpus."""
    rows = corpus.read(name)
    return rows[0].run_id, rows


def _collect(kind: Any, fields: dict[str, list[str]]) -> None:
    """Fields and types of a struct, and of every struct in them."""
    for inner in typing.get_args(kind):
        _collect(inner, fields)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind.__name__ not in fields:
        hints = get_type_hints(kind)
        # in the text both are arrays, and no more
        types = {name: repr(hint).replace("collections.abc.Sequence", "list") for name, hint in hints.items()}
        fields[kind.__name__] = [f"{name}: {types[name]}" for name in kind.__struct_fields__]
        for hint in hints.values():
            _collect(hint, fields)
