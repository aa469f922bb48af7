"""A compiled definition as the store keeps it. No I/O."""

from collections.abc import Iterator

import msgspec

from ductor.actors.start import checked_key
from ductor.definitions.compile import Compiled
from ductor.definitions.documents.places import edge_place_key, field_key
from ductor.definitions.errors import Place
from ductor.definitions.manifest import CompiledManifest
from ductor.definitions.program_bodies import body_sources
from ductor.journal.records import PublishedDefinition

_PLACES = msgspec.json.Decoder(dict[str, Place])


def publication(compiled: Compiled, *, tenant: str, source: str, now_us: int) -> PublishedDefinition:
    """The record of a definition that `tenant` publishes; `source` is its text.

    Raises:
        StartRefusedError: the tenant's name does not fit an index.
    """
    places = {key: place for key in _expression_keys(compiled.manifest) if (place := compiled.places.get(key))}
    return PublishedDefinition(
        tenant=checked_key(tenant, "tenant"),
        name=compiled.manifest.name,
        version=compiled.manifest.version,
        manifest_hash=compiled.manifest_hash,
        manifest=compiled.canonical,
        source=source,
        file=next((place.file for place in places.values()), ""),
        places=msgspec.json.encode(places),
        published_at_us=now_us,
    )


def places_of(record: PublishedDefinition) -> dict[str, Place]:
    """Where the expressions of a published definition stand in its document."""
    return _PLACES.decode(record.places)


def _expression_keys(manifest: CompiledManifest) -> Iterator[str]:
    """The keys under which programs of a manifest look up the places of their expressions."""
    yield from _step_keys(manifest, "")
    yield from ("output", "search_attributes", "repeat.until", "lease.key")
    for index, handler in enumerate(manifest.on):
        yield f"on[{index}].match"
        yield from (f"on[{index}].effects.{name}" for name in handler.effects)
    for body in body_sources(manifest):
        yield from _step_keys(body.manifest, f"{body.key}/")
        yield f"steps.{body.key}.do.output"


def _step_keys(manifest: CompiledManifest, prefix: str) -> Iterator[str]:
    """Those of steps and edges. Args: `prefix` is that of the refs, of a body as `outer/`."""
    for step in (*manifest.steps, *manifest.defer):
        for field in step.compiled_fields():
            yield field_key(f"{prefix}{step.ref}", field.path)
    for edge in manifest.edges:
        if edge.when is not None:
            yield edge_place_key(edge, prefix)
