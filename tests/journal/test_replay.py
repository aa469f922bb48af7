from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ductor.definitions.values import JsonValue
from ductor.journal.chain import link
from ductor.journal.codec import encode_events, encode_state
from ductor.journal.commit import Payload
from ductor.journal.errors import BrokenChainError, MissingVersionError, UnknownEventError, UnreadableSnapshotError
from ductor.journal.events import (
    AnyEvent,
    AttemptDispatched,
    ContextPatched,
    Message,
    MessageReceived,
    NodeParked,
    NodeSettled,
    RunEnded,
    RunStarted,
)
from ductor.journal.ids import SystemIds
from ductor.journal.records import Head, LoadedRun, Snapshot, Transition
from ductor.journal.replay import Change, difference, loaded_state, state_at, verify_chain
from ductor.journal.state import FOLD_REVISION, RunState
from tests.journal.event_strategies import rows
from tests.journal.test_fold import RUN_ID as RUN
from tests.journal.test_fold import folded

ids = SystemIds()

JOURNAL: list[list[AnyEvent]] = [
    [
        RunStarted(
            tenant="acme", definition="order", manifest_hash="m1", entrypoints=("pay",), context={"total": 1, "x": 1}
        ),
        AttemptDispatched(node="pay", generation=1, task="charge", input={"n": 1}),
    ],
    [NodeParked(node="pay", waiting="retry", until_us=9_000)],
    [
        NodeSettled(node="pay", status="succeeded", output=1, taken=("ship",)),
        ContextPatched(node="pay", patch={"total": 1.0, "paid": None}),
    ],
    [RunEnded(status="completed", output="done")],
]


def written(journal: list[list[AnyEvent]], run_id: str = RUN) -> list[Transition]:
    """The rows of a journal as a store holds them."""
    transitions: list[Transition] = []
    previous = b""
    for version, row in enumerate(journal, 1):
        text = encode_events(row)
        previous = link(previous, run_id, version, version * 1_000, text)
        transitions.append(
            Transition(
                run_id=run_id,
                version=version,
                commit_id=ids.commit_id(),
                at_us=version * 1_000,
                events=text,
                hash=previous,
            )
        )
    return transitions


def snapshot_of(past: RunState, **fields: Any) -> Snapshot:
    """A snapshot of `past`."""
    return Snapshot(
        **{
            "run_id": RUN,
            "version": past.version,
            "fold_revision": FOLD_REVISION,
            "state": encode_state(past),
            **fields,
        }
    )


# --- states of the past -----------------------------------------------------------------------------------------------


def test_the_state_at_each_version():
    transitions = written(JOURNAL)
    states = [state_at(RUN, transitions, version) for version in range(5)]
    assert [state.version for state in states] == [0, 1, 2, 3, 4]
    assert [state.status for state in states] == ["pending", "running", "waiting", "running", "completed"]
    assert states[0] == RunState(run_id=RUN)
    assert states[4].last_hash == transitions[-1].hash
    assert encode_state(state_at(RUN, transitions)) == encode_state(states[4])


@given(rows, st.data())
def test_a_snapshot_changes_the_cost_and_not_the_state(journal: list[list[AnyEvent]], data: st.DataObject):
    transitions = written(journal)
    snapshot = snapshot_of(state_at(RUN, transitions, data.draw(st.integers(0, len(journal)))))
    version = data.draw(st.integers(0, len(journal)))
    rows_at_hand = transitions[data.draw(st.integers(0, min(snapshot.version, version))) :]
    if snapshot.version > version:
        rows_at_hand = transitions
    state = state_at(RUN, rows_at_hand, version, snapshot=snapshot)
    assert encode_state(state) == encode_state(state_at(RUN, transitions, version))


def test_a_snapshot_of_another_revision_is_not_used():
    transitions = written(JOURNAL)
    foreign = snapshot_of(state_at(RUN, transitions, 3), fold_revision=FOLD_REVISION + 1, state=b"of another revision")
    assert encode_state(state_at(RUN, transitions, 4, snapshot=foreign)) == encode_state(state_at(RUN, transitions, 4))


def test_a_snapshot_that_cant_be_read_is_an_error():
    with pytest.raises(UnreadableSnapshotError):
        state_at(RUN, [], snapshot=snapshot_of(folded(JOURNAL), state=b"{"))


@pytest.mark.parametrize(
    ("kept", "version", "missing"),
    [([0, 1], 3, 3), ([], 1, 1), ([1, 2], 3, 1), ([0, 2, 3], 4, 2), ([0, 1, 2, 3], 5, 5)],
)
def test_rows_that_are_not_at_hand_are_named(kept: list[int], version: int, missing: int):
    transitions = written(JOURNAL)
    with pytest.raises(MissingVersionError) as error:
        state_at(RUN, [transitions[index] for index in kept], version)
    assert (error.value.run_id, error.value.version) == (RUN, missing)


def test_a_hole_is_an_error_when_everything_is_asked_for():
    transitions = written(JOURNAL)
    with pytest.raises(MissingVersionError) as error:
        state_at(RUN, [transitions[0], transitions[2]])
    assert error.value.version == 2


def test_a_row_of_a_newer_vocabulary_names_itself():
    transitions = written(JOURNAL)
    transitions[2] = msgspec.structs.replace(transitions[2], events=b'[{"type":"run_forgotten"}]')
    with pytest.raises(UnknownEventError) as error:
        state_at(RUN, transitions)
    assert error.value.version == 3
    assert state_at(RUN, transitions, 2).version == 2


def test_rows_beyond_the_version_are_not_read():
    def endless():
        yield from written(JOURNAL)[:2]
        raise AssertionError("read on")

    assert state_at(RUN, endless(), 2).version == 2


def _loaded(snapshot: Snapshot | None, tail: list[Transition]) -> LoadedRun:
    head = Head(
        run_id=RUN,
        tenant="acme",
        definition="order",
        manifest_hash="m1",
        status="completed",
        started_at_us=1_000,
        updated_at_us=4_000,
    )
    payloads = (Payload("ab12", b'{"n":1.0}'), Payload("cd34", b"[18446744073709551616]"))
    return LoadedRun(head=head, snapshot=snapshot, tail=tuple(tail), payloads=payloads, controls=(), attempts=())


@pytest.mark.parametrize("cut", [0, 2, 4])
def test_a_loaded_run_has_its_state_and_its_payloads(cut: int):
    transitions = written(JOURNAL)
    snapshot = snapshot_of(state_at(RUN, transitions, cut)) if cut else None
    state = loaded_state(_loaded(snapshot, transitions[cut:]))
    assert encode_state(state) == encode_state(state_at(RUN, transitions))
    assert state.payloads == {"ab12": {"n": 1.0}, "cd34": [2**64]}


def test_a_loaded_run_with_a_hole_is_an_error():
    with pytest.raises(MissingVersionError):
        loaded_state(_loaded(None, written(JOURNAL)[1:]))


# --- the chain --------------------------------------------------------------------------------------------------------


def test_an_untouched_chain_holds_page_by_page():
    transitions = written(JOURNAL)
    assert verify_chain(RUN, transitions) == (4, transitions[3].hash)
    assert verify_chain(RUN, []) == (0, b"")
    version, last_hash = verify_chain(RUN, transitions[:2])
    assert verify_chain(RUN, transitions[2:], after_version=version, after_hash=last_hash) == (4, transitions[3].hash)


@pytest.mark.parametrize(
    "tampered",
    [
        {"events": encode_events([])},
        {"at_us": 2_001},
        {"hash": b"\x00" * 32},
        {"version": 3},
        {"run_id": ids.run_id()},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_a_changed_row_breaks_the_chain_where_it_stands(tampered: dict[str, object]):
    transitions = written(JOURNAL)
    transitions[1] = msgspec.structs.replace(transitions[1], **tampered)
    with pytest.raises(BrokenChainError) as error:
        verify_chain(RUN, transitions)
    assert (error.value.run_id, error.value.version) == (RUN, 2)


def test_a_row_changed_with_its_hash_breaks_the_chain_at_the_next():
    transitions = written(JOURNAL)
    transitions[1] = written([JOURNAL[0], []])[1]
    with pytest.raises(BrokenChainError) as error:
        verify_chain(RUN, transitions)
    assert error.value.version == 3


def test_a_removed_and_an_inserted_row_break_the_chain():
    transitions = written(JOURNAL)
    for broken, version in (
        (transitions[1:], 1),
        (transitions[:1] + transitions[2:], 2),
        ([transitions[0], transitions[0], *transitions[1:]], 2),
    ):
        with pytest.raises(BrokenChainError) as error:
            verify_chain(RUN, broken)
        assert error.value.version == version


def test_a_journal_copied_under_another_run_does_not_hold():
    with pytest.raises(BrokenChainError):
        verify_chain(ids.run_id(), written(JOURNAL))


# --- differences ------------------------------------------------------------------------------------------------------


def test_a_state_does_not_differ_from_itself():
    state = folded(JOURNAL)
    assert difference(state, folded(JOURNAL)) == []
    assert difference(RunState(run_id=RUN), RunState(run_id=RUN)) == []


def test_what_changed_between_two_versions():
    changes = difference(folded(JOURNAL[:1]), folded(JOURNAL[:2]))
    assert changes == [
        Change(("status",), "running", "waiting"),
        Change(("nodes", "pay", "status"), "running", "waiting"),
        Change(("nodes", "pay", "waiting"), None, "retry"),
        Change(("nodes", "pay", "until_us"), None, 9_000),
        Change(("nodes", "pay", "parked_at_us"), 0, 2_000),
        Change(("timers", "pay"), after=9_000),
    ]


def test_a_difference_tells_numbers_apart_and_what_was_not_there():
    changes = {change.path: change for change in difference(folded(JOURNAL[:2]), folded(JOURNAL[:3]))}
    total = changes["context", "total"]
    assert (repr(total.before), repr(total.after)) == ("1", "1.0")
    assert changes["context", "paid"] == Change(("context", "paid"), msgspec.UNSET, None)
    assert ("context", "x") not in changes
    assert changes["timers", "pay"] == Change(("timers", "pay"), 9_000, msgspec.UNSET)
    assert changes["nodes", "ship", "sources_taken"] == Change(("nodes", "ship", "sources_taken"), 0, 1)
    assert msgspec.json.encode(changes["timers", "pay"]) == b'{"path":["timers","pay"],"before":9000}'


def test_the_order_of_keys_is_no_difference():
    def state(output: JsonValue) -> RunState:
        return folded([[NodeSettled(node="pay", status="succeeded", output=output)]])

    assert difference(state({"a": 1, "b": [2]}), state({"b": [2], "a": 1})) == []
    assert [change.path for change in difference(state([1, 2]), state([2, 1]))] == [("nodes", "pay", "output")]


@given(rows, rows)
def test_differences_are_total_and_run_both_ways(one: list[list[AnyEvent]], other: list[list[AnyEvent]]):
    before, after = folded(one), folded(other)
    forward, backward = difference(before, after), difference(after, before)
    assert {change.path: (change.before, change.after) for change in forward} == {
        change.path: (change.after, change.before) for change in backward
    }
    msgspec.json.encode(forward)


def test_messages_that_wait_are_told_apart():
    paid, shipped = Message(id="message-1", kind="signal"), Message(id="message-2", kind="event", payload={"n": 1.0})
    listening = NodeParked(node="pay", waiting="signal", names=("signal:paid",))
    before = folded([[listening, MessageReceived(message=paid)]])
    after = folded([[listening, MessageReceived(message=paid)], [MessageReceived(message=shipped)]])
    assert difference(before, after) == [
        Change(("inbox", "message-2"), after={"id": "message-2", "kind": "event", "payload": {"n": 1.0}})
    ]
