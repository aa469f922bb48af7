"""Keeps what a load of a run has to fold, and what its coordinator holds in memory, in proportion to its state.

Both are done when as much has happened as they cost, so that no row of the journal pays more than a fixed share: a
snapshot when the rows since the last one have as many bytes as it had, or so many rows that folding them takes long;
a look for large values that nothing names any more when there are twice as many as the last one left.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from ductor.journal.codec import encode_state
from ductor.journal.commit import Commit
from ductor.journal.large_values import forget_unneeded
from ductor.journal.records import LoadedRun, Snapshot
from ductor.journal.state import FOLD_REVISION, RunState

MIN_SNAPSHOT_BYTES: Final = 256 << 10
"""A journal whose rows since the last snapshot are shorter than this is folded as it is."""

MAX_TAIL_ROWS: Final = 10_000
"""Rows since the last snapshot that a load has to fold at most, however large the state is."""

LARGE_VALUES_TOLERATED: Final = 32
"""Large values beyond those that the state needs that stay in memory before somebody looks which ones they are."""


class Upkeep(msgspec.Struct, gc=False):
    """See the module's docstring.

    Attributes:
        tail_bytes, tail_rows: of the journal since the last snapshot.
        snapshot_bytes: of that.
        values_kept: large values that the last look at them has left in memory.
    """

    tail_bytes: int = 0
    tail_rows: int = 0
    snapshot_bytes: int = 0
    values_kept: int = 0

    def loaded(self, loaded: LoadedRun) -> None:
        """The run has been loaded."""
        self.snapshot_bytes = len(loaded.snapshot.state) if loaded.snapshot is not None else 0
        self.tail_bytes = sum(len(row.events) for row in loaded.tail)
        self.tail_rows = len(loaded.tail)
        self.values_kept = len(loaded.payloads)

    def appended(self, commit: Commit, state: RunState) -> bool:
        """A commit is durable, and `state` has it. Whether `tidy` has something to do."""
        self.tail_bytes += len(commit.events)
        self.tail_rows += 1
        return (
            self.tail_bytes > MIN_SNAPSHOT_BYTES
            or self.tail_rows > MAX_TAIL_ROWS
            or len(state.payloads) > LARGE_VALUES_TOLERATED
        )

    def tidy(
        self, state: RunState, save: Callable[[Snapshot], None], named_in_hand: Callable[[], dict[str, int]]
    ) -> None:
        """Do what is due, if anything is.

        Args:
            state: as the last durable row left it.
            save: takes a snapshot.
            named_in_hand: the large values that inputs in hand name, by hash.
        """
        is_long = self.tail_bytes > max(self.snapshot_bytes, MIN_SNAPSHOT_BYTES)
        if is_long or self.tail_rows > MAX_TAIL_ROWS:
            encoded = encode_state(state)
            self.snapshot_bytes, self.tail_bytes, self.tail_rows = len(encoded), 0, 0
            save(Snapshot(run_id=state.run_id, version=state.version, fold_revision=FOLD_REVISION, state=encoded))
        elif len(state.payloads) > 2 * self.values_kept + LARGE_VALUES_TOLERATED:
            encoded = encode_state(state)
        else:
            return
        forget_unneeded(state, encoded, named_in_hand())
        self.values_kept = len(state.payloads)
