"""What the memory store keeps of bulk controls."""

from collections.abc import Sequence

import msgspec

from ductor.journal.admission import check_bulk_control
from ductor.journal.bulk_controls import (
    MAX_UNFINISHED_BULK_CONTROLS,
    BulkControl,
    BulkControlVerdict,
    bulk_request_id,
)
from ductor.journal.clock import Clock
from ductor.journal.memory_base import MemoryBase
from ductor.journal.records import Control


class MemoryBulkControls(MemoryBase):
    """Bulk controls by id; the unfinished ones by tenant, oldest first; and which tenant had its turn when."""

    _with_controls: dict[str, None]

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._bulk_controls: dict[str, BulkControl] = {}
        self._unfinished: dict[str, dict[str, None]] = {}
        self._turns: dict[str, int] = {}

    async def add_bulk_control(self, bulk: BulkControl) -> BulkControlVerdict:
        """Store a bulk control, idempotent by its id. Refused when too many of the tenant are not finished."""
        check_bulk_control(bulk)
        self._check_open()
        if bulk.bulk_id in self._bulk_controls:
            return "duplicate"
        if len(self._unfinished.get(bulk.tenant, ())) >= MAX_UNFINISHED_BULK_CONTROLS:
            return "refused"
        requested_at_us = bulk.requested_at_us or self._clock.now_us()
        self._bulk_controls[bulk.bulk_id] = msgspec.structs.replace(bulk, requested_at_us=requested_at_us)
        self._unfinished.setdefault(bulk.tenant, {})[bulk.bulk_id] = None
        return "accepted"

    async def bulk_control(self, bulk_id: str) -> BulkControl | None:
        """A bulk control as it stands."""
        self._check_open()
        return self._bulk_controls.get(bulk_id)

    async def next_bulk_control(self) -> BulkControl | None:
        """The oldest unfinished one of the tenant whose last turn is the longest ago."""
        self._check_open()
        tenant = min(self._unfinished, key=lambda tenant: self._turns.get(tenant, 0), default=None)
        return None if tenant is None else self._bulk_controls[next(iter(self._unfinished[tenant]))]

    async def advance_bulk_control(
        self, bulk: BulkControl, run_ids: Sequence[str], *, is_last: bool
    ) -> BulkControl | None:
        """Ask the next runs, and move on past them; None where somebody else has carried it on since it was read."""
        self._check_open()
        stored = self._bulk_controls.get(bulk.bulk_id)
        if stored is None or stored.finished_at_us is not None or stored.after_run_id != bulk.after_run_id:
            return None
        now_us = self._clock.now_us()
        asked = sum(self._ask(stored, run_id, now_us) for run_id in run_ids)
        advanced = self._bulk_controls[bulk.bulk_id] = msgspec.structs.replace(
            stored,
            after_run_id=run_ids[-1] if run_ids else stored.after_run_id,
            requested=stored.requested + asked,
            finished_at_us=now_us if is_last else None,
        )
        self._turns[stored.tenant] = max(self._turns.values(), default=0) + 1
        if is_last:
            del self._unfinished[stored.tenant][bulk.bulk_id]
            if not self._unfinished[stored.tenant]:
                del self._unfinished[stored.tenant]
        return advanced

    def _ask(self, bulk: BulkControl, run_id: str, now_us: int) -> bool:
        run = self._runs.get(run_id)
        request_id = bulk_request_id(bulk.bulk_id, run_id)
        if run is None or run.is_closed or request_id in run.controls:
            return False
        control = Control(
            run_id=run_id,
            request_id=request_id,
            kind=bulk.kind,
            arguments={"reason": bulk.reason},
            by=bulk.by,
            requested_at_us=now_us,
        )
        run.add_control(control)
        self._with_controls[run_id] = None
        return True
