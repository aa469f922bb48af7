"""Bulk controls: one control asked of many runs."""

from collections.abc import Sequence

import msgspec

from ductor.journal.admission import check_bulk_control
from ductor.journal.bulk_controls import MAX_UNFINISHED_BULK_CONTROLS, BulkControl, BulkControlVerdict
from ductor.journal.ids import is_run_id
from ductor.journal.postgres.database import Database

_decode = msgspec.json.Decoder(BulkControl).decode


class BulkControls:
    """See `ductor.journal.bulk_controls`."""

    _database: Database

    async def add_bulk_control(self, bulk: BulkControl) -> BulkControlVerdict:
        """Store a bulk control, idempotent by its id. Refused when too many of the tenant are not finished."""
        check_bulk_control(bulk)
        row = await self._database.fetch_row(
            "add_bulk_control",
            bulk_id=bulk.bulk_id,
            tenant=bulk.tenant,
            definition=bulk.definition,
            kind=bulk.kind,
            by=bulk.by,
            reason=bulk.reason,
            requested_at_us=bulk.requested_at_us,
            bound=MAX_UNFINISHED_BULK_CONTROLS,
        )
        assert row is not None
        if row["is_accepted"]:
            return "accepted"
        # present already, or inserted by somebody else while this statement ran
        return "refused" if row["is_full"] and not row["is_present"] else "duplicate"

    async def bulk_control(self, bulk_id: str) -> BulkControl | None:
        """A bulk control as it stands."""
        if not is_run_id(bulk_id):
            return None
        row = await self._database.fetch_row("bulk_control", bulk_id=bulk_id)
        return None if row is None else _decode(row[0])

    async def next_bulk_control(self) -> BulkControl | None:
        """The oldest unfinished one of the tenant whose last turn is the longest ago."""
        row = await self._database.fetch_row("next_bulk_control")
        return None if row is None else _decode(row[0])

    async def advance_bulk_control(
        self, bulk: BulkControl, run_ids: Sequence[str], *, is_last: bool
    ) -> BulkControl | None:
        """Ask the next runs, and move on past them; None where somebody else has carried it on since it was read."""
        row = await self._database.fetch_row(
            "advance_bulk_control",
            bulk_id=bulk.bulk_id,
            after_run_id=bulk.after_run_id,
            run_ids=list(run_ids),
            last_run_id=run_ids[-1] if run_ids else None,
            is_last=is_last,
        )
        return None if row is None else _decode(row[0])
