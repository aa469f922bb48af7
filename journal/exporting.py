"""Exports runs of a store, in pages: what is in memory at a time does not grow with the run.

A run that moves on meanwhile is exported up to the version that it had when its export began; payloads are read after
that version is known, so that none is missing that a row names.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Final

from ductor.journal.codec import decode_events
from ductor.journal.compaction import is_compacted, state_before
from ductor.journal.errors import RunNotExportedError, UnknownEventError
from ductor.journal.events import RunStarted
from ductor.journal.export import (
    EXPORT_FORMAT,
    AttemptLine,
    ControlLine,
    End,
    Header,
    Line,
    MessageLine,
    RunEnd,
    RunLine,
    definition_line,
    export_line,
    payload_line,
    transition_line,
)
from ductor.journal.records import Head, PublishedDefinition, Transition
from ductor.journal.store import Store

PAGE_ROWS: Final = 1_000
"""Rows of a run that are read at once."""

PAGE_PAYLOADS: Final = 8
"""Large values that are read at once; each may have 8 MiB."""

MAX_LOOKS: Final = 20
"""How often the head of a run that moves on is read until it fits what was read of its journal."""


class Exporter:
    """Writes one file.

    Args:
        store: where runs come from.
        tenant: whose; None for anybody's.

    Attributes:
        runs: how many have been exported.
    """

    def __init__(self, store: Store, tenant: str | None = None) -> None:
        self._store, self._tenant = store, tenant
        self._manifests: set[str] = set()
        self.runs = 0

    async def header(self) -> bytes:
        """The first line."""
        return export_line(Header(format=EXPORT_FORMAT, exported_at_us=await self._store.now_us()))

    def end(self) -> bytes:
        """The last line."""
        return export_line(End(runs=self.runs))

    async def run(self, run_id: str) -> AsyncIterator[bytes]:
        """The lines of one run.

        Raises:
            RunNotExportedError: there is no such run, or its definition is gone.
        """
        head, last_version = await self._moment(run_id)
        for manifest_hash in await manifest_hashes(self._store, head):
            if manifest_hash not in self._manifests:
                yield export_line(definition_line(await stored_definition(self._store, run_id, manifest_hash)))
                self._manifests.add(manifest_hash)
        yield export_line(RunLine(head=head))
        lines = 0
        async for line in self._rows(head, last_version):
            lines += 1
            yield export_line(line)
        yield export_line(RunEnd(run_id=head.run_id, lines=lines))
        self.runs += 1

    async def _moment(self, run_id: str) -> tuple[Head, int]:
        """A head and the version that it is of: one that is the same before and after the version was read."""
        for _ in range(MAX_LOOKS):
            head, inputs = await self._store.head(run_id), await self._store.inputs(run_id)
            if head is None or inputs is None or self._tenant not in {None, head.tenant}:
                raise RunNotExportedError(run_id, "there is no such run")
            if await self._store.head(run_id) == head:
                return head, inputs.head_version
        raise RunNotExportedError(run_id, "it moves on too fast; try again, or pause it")

    async def _rows(self, head: Head, last_version: int) -> AsyncIterator[Line]:
        store, run_id = self._store, head.run_id
        hash = ""
        while payloads := await store.payload_page(run_id, after_hash=hash, limit=PAGE_PAYLOADS):
            for payload in payloads:
                yield payload_line(payload)
            hash = payloads[-1].hash
        version = 0
        while version < last_version:
            rows = await store.history(run_id, after_version=version, limit=min(PAGE_ROWS, last_version - version))
            if not rows or (version and rows[0].version != version + 1):
                raise RunNotExportedError(run_id, f"version {version + 1} of its journal is not there; export it again")
            for row in rows:
                yield transition_line(row)
            version = rows[-1].version
        async for line in self._inputs(run_id):
            yield line

    async def _inputs(self, run_id: str) -> AsyncIterator[Line]:
        store, after = self._store, ("", 0)
        while attempts := await store.attempt_page(run_id, after=after, limit=PAGE_ROWS):
            for attempt in attempts:
                yield AttemptLine(row=attempt)
            after = attempts[-1].node, attempts[-1].generation
        request_id = ""
        while controls := await store.control_page(run_id, after_request_id=request_id, limit=PAGE_ROWS):
            for control in controls:
                yield ControlLine(row=control)
            request_id = controls[-1].request_id
        position = 0
        while messages := await store.message_page(run_id, after_position=position, limit=PAGE_ROWS):
            for message in messages:
                yield MessageLine(row=message)
            position = messages[-1].message.position


async def manifest_hashes(store: Store, head: Head) -> list[str]:
    """The manifests that a run needs to be carried out or proved: its own first, then those it may start."""
    rows = await store.history(head.run_id, limit=1)
    return [head.manifest_hash, *started_manifests(rows)]


def started_manifests(rows: Sequence[Transition]) -> list[str]:
    """Hashes of the manifests that a run may start, from its first row. What can't be read names none."""
    if not rows:
        return []
    try:
        if is_compacted(rows[0].events):
            return list(dict.fromkeys(state_before(rows[0]).definitions.values()))
        events = decode_events(rows[0].events, run_id=rows[0].run_id, version=rows[0].version)
    except UnknownEventError:
        return []
    started = [event for event in events if isinstance(event, RunStarted)]
    return list(dict.fromkeys(hash for event in started for hash in event.definitions.values()))


async def stored_definition(store: Store, run_id: str, manifest_hash: str) -> PublishedDefinition:
    """A definition of a run. Raises RunNotExportedError."""
    record = await store.manifest(manifest_hash)
    if record is None:
        raise RunNotExportedError(run_id, f"the database holds no manifest {manifest_hash}")
    return record
