"""When snapshots are made, and which large values stay in memory."""

import uuid
from collections.abc import Mapping
from itertools import pairwise

import pytest

from ductor.actors import upkeep as upkeep_module
from ductor.actors.upkeep import LARGE_VALUES_TOLERATED, MIN_SNAPSHOT_BYTES, Upkeep
from ductor.journal.codec import decode_state
from ductor.journal.commit import Commit
from ductor.journal.events import PayloadRef
from ductor.journal.records import Snapshot
from ductor.journal.state import FOLD_REVISION, NodeState, RunState

RUN = "01890000-0000-7000-8000-00000000000a"


class Life:
    """A run that commits rows of so many bytes."""

    def __init__(self, state_bytes: int = 0) -> None:
        self.saved: list[Snapshot] = []
        self.upkeep = Upkeep()
        self.state = RunState(run_id=RUN, reason="x" * state_bytes)

    def commit(self, size_bytes: int = 10, named_in_hand: Mapping[str, int] | None = None) -> None:
        self.state.version += 1
        commit = Commit(
            run_id=RUN,
            version=self.state.version,
            commit_id=uuid.UUID(int=0),
            at_us=0,
            events=b" " * size_bytes,
            hash=b"",
        )
        if self.upkeep.appended(commit, self.state):
            self.upkeep.tidy(self.state, self.saved.append, lambda: dict(named_in_hand or {}))


def test_short_journals_have_no_snapshot():
    life = Life()
    for _ in range(MIN_SNAPSHOT_BYTES // 1_000):
        life.commit(1_000)
    assert life.saved == []
    life.commit(1_000)
    assert [(one.version, one.fold_revision) for one in life.saved] == [(life.state.version, FOLD_REVISION)]
    assert decode_state(life.saved[0].state) == life.state


def test_the_next_one_comes_when_the_rows_have_as_many_bytes_as_the_last():
    life = Life(state_bytes=1_000_000)
    for _ in range(100):
        life.commit(100_000)
    versions = [one.version for one in life.saved]
    assert versions[0] == 3
    assert {after - before for before, after in pairwise(versions[1:])} == {11}


def test_many_small_rows_have_a_snapshot_however_large_the_state_is(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(upkeep_module, "MAX_TAIL_ROWS", 50)
    life = Life(state_bytes=1_000_000)
    for _ in range(120):
        life.commit(1)
    assert [one.version for one in life.saved] == [51, 102]


def test_large_values_that_nothing_names_leave_memory_now_and_then():
    life = Life()
    life.state.nodes["kept"] = NodeState(output_ref=PayloadRef("kept", 1))
    life.state.payloads["kept"] = 0
    most = 0
    for number in range(1_000):
        life.state.payloads[f"value {number}"] = number
        life.commit(named_in_hand={f"value {number}": 1})
        most = max(most, len(life.state.payloads))
    assert "kept" in life.state.payloads
    assert "value 999" in life.state.payloads
    assert most <= LARGE_VALUES_TOLERATED + 6
    assert life.saved == []
