"""What the memory store keeps of definitions."""

import msgspec

from ductor.journal.records import PublishedDefinition


class DefinitionRows:
    """Published definitions by tenant and name; of one name the version published last stands last."""

    def __init__(self) -> None:
        self._by_name: dict[tuple[str, str], dict[str, PublishedDefinition]] = {}
        self._by_hash: dict[str, PublishedDefinition] = {}
        self._order: dict[tuple[str, str, str], None] = {}

    def publish(self, definition: PublishedDefinition, now_us: int) -> bool:
        """Store a definition as the newest. True if its manifest is new to this tenant and name."""
        versions = self._by_name.setdefault((definition.tenant, definition.name), {})
        is_new = versions.pop(definition.manifest_hash, None) is None
        published_at_us = definition.published_at_us or now_us
        self._put(msgspec.structs.replace(definition, published_at_us=published_at_us, is_published=True))
        key = (definition.tenant, definition.name, definition.manifest_hash)
        self._order.pop(key, None)
        self._order[key] = None
        return is_new

    def keep(self, definition: PublishedDefinition, now_us: int) -> None:
        """Have a definition at hand for a run, withdrawn from new starts; one that is there stays as it is."""
        if definition.manifest_hash not in self._by_name.get((definition.tenant, definition.name), {}):
            published_at_us = definition.published_at_us or now_us
            self._put_first(msgspec.structs.replace(definition, published_at_us=published_at_us, is_published=False))

    def unpublish(self, tenant: str, name: str) -> int:
        """Withdraw all versions. How many were withdrawn."""
        published = [row for row in self._by_name.get((tenant, name), {}).values() if row.is_published]
        for row in published:
            self._put(msgspec.structs.replace(row, is_published=False))
        return len(published)

    def find(
        self, tenant: str, name: str, version: str | None, manifest_hash: str | None
    ) -> PublishedDefinition | None:
        """The newest published version that fits everything that is given."""
        for row in reversed(self._by_name.get((tenant, name), {}).values()):
            if row.is_published and version in {None, row.version} and manifest_hash in {None, row.manifest_hash}:
                return row
        return None

    def manifest(self, manifest_hash: str) -> PublishedDefinition | None:
        """Any tenant's record of a manifest."""
        return self._by_hash.get(manifest_hash)

    def listing(self, tenant: str | None) -> list[PublishedDefinition]:
        """Published definitions, newest first, without manifest and source text."""
        rows = (self._by_name[owner, name][manifest_hash] for owner, name, manifest_hash in reversed(self._order))
        return [
            msgspec.structs.replace(row, manifest=b"", source="", places=b"{}")
            for row in rows
            if row.is_published and tenant in {None, row.tenant}
        ]

    def _put_first(self, row: PublishedDefinition) -> None:
        """As the oldest of its name."""
        others = self._by_name.get((row.tenant, row.name), {})
        self._by_name[row.tenant, row.name] = {row.manifest_hash: row, **others}
        self._by_hash.setdefault(row.manifest_hash, row)

    def _put(self, row: PublishedDefinition) -> None:
        self._by_name[row.tenant, row.name][row.manifest_hash] = row
        self._by_hash[row.manifest_hash] = row
