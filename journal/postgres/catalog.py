"""Definitions and hosts: what is known to all."""

from collections.abc import Sequence

import msgspec

from ductor.journal.codec import checked_key
from ductor.journal.postgres.database import Database
from ductor.journal.postgres.rows import published
from ductor.journal.records import HostRecord, PublishedDefinition

_decode_host = msgspec.json.Decoder(HostRecord).decode


class Catalog:
    """Published definitions, and the hosts that live."""

    _database: Database

    async def publish(self, definition: PublishedDefinition) -> bool:
        """Store a definition, idempotent by (tenant, name, hash); a repeated one becomes the newest again. True if
        new."""
        row = await self._database.fetch_row(
            "publish",
            tenant=definition.tenant,
            name=definition.name,
            manifest_hash=definition.manifest_hash,
            version=definition.version,
            manifest=definition.manifest.decode(),
            source=definition.source,
            file=definition.file,
            places=definition.places.decode(),
            published_at_us=definition.published_at_us,
        )
        assert row is not None
        return bool(row["is_new"])

    async def unpublish(self, tenant: str, name: str) -> int:
        """Withdraw all versions from new starts; running runs keep theirs. How many versions were withdrawn."""
        row = await self._database.fetch_row("unpublish", tenant=tenant, name=name)
        assert row is not None
        return int(row[0])

    async def definition(
        self, tenant: str, name: str, *, version: str | None = None, manifest_hash: str | None = None
    ) -> PublishedDefinition | None:
        """The newest published version by name, or the one with this label or hash."""
        row = await self._database.fetch_row(
            "definition", tenant=tenant, name=name, version=version, manifest_hash=manifest_hash
        )
        return None if row is None else published(row)

    async def manifest(self, manifest_hash: str) -> PublishedDefinition | None:
        """Any tenant's record of a manifest, withdrawn ones included: runs are pinned to hashes for life."""
        row = await self._database.fetch_row("manifest", manifest_hash=manifest_hash)
        return None if row is None else published(row)

    async def definitions(self, tenant: str | None = None) -> Sequence[PublishedDefinition]:
        """All published definitions, newest first, without manifest and source text."""
        return [published(row) for row in await self._database.fetch("definitions", tenant=tenant)]

    async def beat(self, host: HostRecord) -> Sequence[HostRecord]:
        """Register a host or renew its heartbeat, by the database's clock. All hosts that are registered, in order of
        id."""
        rows = await self._database.fetch(
            "beat",
            host_id=checked_key(host.host_id, "host_id"),
            started_at_us=host.started_at_us,
            tasks=list(host.tasks),
            is_draining=host.is_draining,
            guests=list(host.guests),
            withdrawn=list(host.withdrawn),
        )
        return [_decode_host(row[0]) for row in rows]

    async def leave(self, host_id: str) -> None:
        """Remove a host."""
        await self._database.fetch("leave", host_id=host_id)

    async def hosts(self, *, alive_within_ms: int) -> Sequence[HostRecord]:
        """Hosts whose heartbeat is recent by the database's clock, in order of id."""
        rows = await self._database.fetch("hosts", alive_within_us=alive_within_ms * 1_000)
        return [_decode_host(row[0]) for row in rows]

    async def now_us(self) -> int:
        """The database's clock."""
        row = await self._database.fetch_row("now_us")
        assert row is not None
        return int(row[0])
