"""What the engine needs of a database to remove what a compacted row stands for.

A `run_compacted` row makes all rows before it needless to everybody but projectors that have not seen them yet, and
people who look at history. Removing them is no part of the commit: it is done in bounded batches, oldest first, by
whoever finds the row, at any time, by several hosts at once if it so happens. So the version check never meets a hole:
the newest row always stays, and of a journal only the beginning is missing.

Large values that only removed rows named go with the last of these rows. A value may be named again at any moment by
what is just being written: so PostgreSQL looks for the last time while nobody writes large values.
"""

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

MAX_REMOVED_ROWS: Final = 1_000
"""Journal rows that one call removes."""

MAX_REMOVED_VALUES: Final = 100
"""Large values that one call removes; each may have 8 MiB."""

REMOVAL_LOCK_MS: Final = 50
"""For so long at most writers of large values may have to wait for one call to get its turn."""


class CompactedRun(msgspec.Struct, frozen=True):
    """A run with a row that stands for all rows before it.

    Attributes:
        version: that row.
        has_older_rows: whether rows before it are still there.
    """

    run_id: str
    version: int
    has_older_rows: bool


class CompactionStore(Protocol):
    """See the module's docstring."""

    async def compacted_runs(self, after_run_id: str | None, limit: int) -> Sequence[CompactedRun]:
        """Runs that were compacted, each with the newest such row, in order of id."""
        ...

    async def remove_compacted_rows(self, run_id: str, *, before_us: int, limit: int = MAX_REMOVED_ROWS) -> int:
        """Remove rows that the run's newest compacted row stands for, oldest first, and what only they named.

        Args:
            before_us: rows of this time or later stay, for those who are reading them.
            limit: rows removed at most.

        Returns:
            How many rows and large values were removed. 0: nothing is left, or the rest has to wait for its time, for a
            projector that has not seen it, or for a writer of large values.
        """
        ...
