"""Leases: who holds a key, and who waits for it.

A look at a key happens under a lock of its name that ends with the transaction: of two hosts the second sees what the
first has granted. Fences come from one sequence for all keys, so that no row has to be kept for a key that nobody
holds.
"""

from collections.abc import Sequence

from asyncpg import Record

from ductor.journal.events import Message
from ductor.journal.ids import is_run_id
from ductor.journal.lease_store import (
    MAX_GRANTED_AT_ONCE,
    MAX_HOLDERS_TOLD,
    LeaseChange,
    LeaseEntry,
    LeaseGrant,
    LeaseKey,
    LeaseLine,
    LeasePlace,
)
from ductor.journal.postgres.database import Database

LAST_TEXT = chr(0x10FFFF)
"""Comes after every other text."""


class Leases:
    """Places at keys, which runs compete for."""

    _database: Database

    async def grant_leases(self, key: LeaseKey) -> LeaseChange:
        """Look at a key: grant what is free to those who wait first."""
        rows = await self._database.fetch("grant_leases", tenant=key.tenant, key=key.key, limit=MAX_GRANTED_AT_ONCE)
        return LeaseChange(grants=tuple(_grant(row) for row in rows), is_complete=len(rows) < MAX_GRANTED_AT_ONCE)

    async def lease_work(self, after: LeaseKey | None, limit: int) -> Sequence[LeaseKey]:
        """Keys that have to be looked at, a page in their order."""
        after = after or LeaseKey("", "")
        rows = await self._database.fetch("lease_work", after_tenant=after.tenant, after_key=after.key, limit=limit)
        return [LeaseKey(*row) for row in rows]

    async def leases(
        self,
        *,
        tenant: str | None = None,
        key: str | None = None,
        run_id: str | None = None,
        after: LeasePlace | None = None,
        limit: int = 100,
    ) -> Sequence[LeaseEntry]:
        """Holders and waiters, a page in order of tenant, key and position."""
        first = (tenant or "", key or "" if tenant is not None else "", 0)
        after_tenant, after_key, after_position = first if after is None else max(first, after)
        values: dict[str, object] = {
            "key": key,
            "after_tenant": after_tenant,
            "after_key": after_key,
            "after_position": after_position,
            "last_tenant": LAST_TEXT if tenant is None else tenant,
            "last_key": LAST_TEXT if tenant is None or key is None else key,
            "limit": limit,
        }
        if run_id is None:
            return [_entry(row) for row in await self._database.fetch("leases", **values)]
        if not is_run_id(run_id):
            return []
        return [_entry(row) for row in await self._database.fetch("leases_of_run", run_id=run_id, **values)]

    async def lease_line(self, run_id: str, node: str) -> LeaseLine | None:
        """What the waiter of a node has before it. None where it does not wait."""
        if not is_run_id(run_id):
            return None
        rows = await self._database.fetch("lease_line", run_id=run_id, node=node, limit=MAX_HOLDERS_TOLD)
        if not rows:
            return None
        holders = tuple(_entry(row, first=2) for row in rows if row["run_id"] is not None)
        return LeaseLine(ahead=rows[0]["ahead"], held=rows[0]["held"], holders=holders)


def _grant(row: Record) -> LeaseGrant:
    message = Message(
        id=row["message_id"],
        kind="lease",
        node=row["node"],
        payload={"run_id": row["run_id"], "fence": row["fence"], "generation": row["generation"]},
        at_us=row["at_us"],
        position=row["message_position"],
    )
    return LeaseGrant(row["run_id"], message)


def _entry(row: Record, first: int = 0) -> LeaseEntry:
    tenant, key, run_id, node, generation, limit, position, since_us, fence = tuple(row)[first : first + 9]
    return LeaseEntry(
        tenant=tenant,
        key=key,
        run_id=run_id,
        node=node,
        generation=generation,
        limit=limit,
        position=position,
        since_us=since_us,
        fence=fence,
    )
