"""What the engine needs of a database for bulk controls: one control asked of many runs.

A bulk control is a row. Whoever finds it carries it on by a page: the control of each run of the page is stored and the
row's `after_run_id` moves past them in one transaction, so that a kill in between loses nothing and asks nobody twice.
It passes over the open runs of its scope in the order of their ids, which is that of their starts, and ends when none
is left. So it asks every run that is open when it passes: those that start meanwhile too, not those that start later.

The bulk controls of one tenant are carried out one after the other, as they were asked: a run that is to be paused and
resumed is never resumed first. Those of different tenants take turns.
"""

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

MAX_UNFINISHED_BULK_CONTROLS = 100
"""Bulk controls of one tenant that are not finished; the next one is refused."""

BulkControlKind = Literal["pause", "resume", "cancel", "terminate"]
BulkControlVerdict = Literal["accepted", "duplicate", "refused"]


class BulkControl(msgspec.Struct, frozen=True, kw_only=True):
    """One control asked of every open run of a tenant, and how far it has come.

    Attributes:
        bulk_id: a UUID.
        definition: of the runs, None for all of the tenant.
        after_run_id: the last run that it has passed, None before the first.
        requested: runs that have been asked so far.
        finished_at_us: when it had passed all runs, None as long as it has not.
    """

    bulk_id: str
    tenant: str
    kind: BulkControlKind
    definition: str | None = None
    by: str = ""
    reason: str = ""
    requested_at_us: int = 0
    after_run_id: str | None = None
    requested: int = 0
    finished_at_us: int | None = None


class BulkControlStore(Protocol):
    """See the module's docstring."""

    async def add_bulk_control(self, bulk: BulkControl) -> BulkControlVerdict:
        """Store a bulk control, idempotent by its id; its time is the store's where it has none. Refused when
        `MAX_UNFINISHED_BULK_CONTROLS` of the tenant are not finished. Raises ValueRefusedError."""
        ...

    async def bulk_control(self, bulk_id: str) -> BulkControl | None:
        """A bulk control as it stands."""
        ...

    async def next_bulk_control(self) -> BulkControl | None:
        """The one to be carried on: the oldest unfinished one of the tenant whose last turn is the longest ago."""
        ...

    async def advance_bulk_control(
        self, bulk: BulkControl, run_ids: Sequence[str], *, is_last: bool
    ) -> BulkControl | None:
        """Ask the next runs, and move on past them.

        Each of the runs that is open gets the control with the request id `<bulk id>/<run id>`.

        Args:
            bulk: as it was read.
            run_ids: the next ones, in order.
            is_last: whether no others come after these.

        Returns:
            It as it stands then; None where somebody else has carried it on since it was read, and nothing was done.
        """
        ...


def bulk_request_id(bulk_id: str, run_id: str) -> str:
    """The request id of one run's control."""
    return f"{bulk_id}/{run_id}"
