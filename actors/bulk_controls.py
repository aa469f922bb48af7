"""Bulk controls: pause, resume, cancel or terminate every open run of a tenant or of one of its definitions.

Asking stores a row (`ductor.journal.bulk_controls`). Every host carries it on, a page with each of its sweeps: it reads
the next open runs, stores the control of each, and wakes them. Each run decides on its control as on any other one, so
a run that is paused already refuses to be paused, on record.
"""

import uuid
from collections.abc import Callable

import msgspec

from ductor.actors.errors import BulkControlRefusedError
from ductor.actors.start import checked_key
from ductor.journal.bulk_controls import (
    MAX_UNFINISHED_BULK_CONTROLS,
    BulkControl,
    BulkControlKind,
    BulkControlVerdict,
)
from ductor.journal.clock import Clock
from ductor.journal.store import Store

RUNS_PER_STEP = 500
"""Runs that one sweep of one host asks."""

_BULK_NAMESPACE = uuid.UUID("6f1d2f55-5ec1-4b7c-9a53-0b9d9fc7f6a4")


class BulkReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a bulk control: `accepted` now, or a `duplicate` of the one with the same request id.

    Attributes:
        bulk_id: what `Client.bulk` tells its progress by.
    """

    bulk_id: str
    verdict: BulkControlVerdict


class BulkRequests:
    """The part of a client that asks many runs at once. All methods raise StoreUnavailableError as any other."""

    store: Store
    clock: Clock

    async def request_all(
        self,
        kind: BulkControlKind,
        *,
        tenant: str,
        definition: str | None = None,
        request_id: str | None = None,
        by: str = "",
        reason: str = "",
    ) -> BulkReceipt:
        """Ask a control of every open run, durably: of a tenant, or of one of its definitions.

        It asks the runs that exist when it passes; runs that start after it has finished are not asked. Progress is
        told by `bulk`, and what becomes of each run by the run.

        Args:
            request_id: makes it idempotent within the tenant: a repeated one gives the first one's receipt.

        Raises:
            BulkControlRefusedError: too many bulk controls of the tenant are not finished.
        """
        key = checked_key(request_id, "request id") if request_id is not None else str(uuid.uuid4())
        bulk = BulkControl(
            bulk_id=str(uuid.uuid5(_BULK_NAMESPACE, f"{checked_key(tenant, 'tenant')}\0{key}")),
            tenant=tenant,
            kind=kind,
            definition=definition,
            by=by,
            reason=reason,
            requested_at_us=self.clock.now_us(),
        )
        verdict = await self.store.add_bulk_control(bulk)
        if verdict == "refused":
            raise BulkControlRefusedError(tenant, kind, MAX_UNFINISHED_BULK_CONTROLS)
        return BulkReceipt(bulk_id=bulk.bulk_id, verdict=verdict)

    async def bulk(self, bulk_id: str, *, tenant: str | None = None) -> BulkControl | None:
        """How far a bulk control has come; None when there is none, or it is another tenant's."""
        found = await self.store.bulk_control(bulk_id)
        return None if found is None or tenant not in (None, found.tenant) else found


class BulkCarrier:
    """Carries bulk controls on. `wake` tells a run that a control waits for it."""

    def __init__(self, store: Store, wake: Callable[[str], None]) -> None:
        self._store = store
        self._wake = wake

    async def sweep(self, _now_us: int) -> None:
        """One page of the bulk control whose turn it is."""
        bulk = await self._store.next_bulk_control()
        if bulk is None:
            return
        run_ids = await self._store.open_run_ids(bulk.tenant, bulk.definition, bulk.after_run_id, RUNS_PER_STEP)
        advanced = await self._store.advance_bulk_control(bulk, run_ids, is_last=len(run_ids) < RUNS_PER_STEP)
        if advanced is not None:  # None: another host was faster, and wakes them
            for run_id in run_ids:
                self._wake(run_id)
