"""The compiled programs of a host, by manifest hash: runs are pinned to hashes, so a program never goes stale."""

from collections import OrderedDict

from ductor.actors.errors import ManifestMissingError
from ductor.actors.publication import places_of
from ductor.definitions.expressions import FunctionLibrary
from ductor.definitions.manifest import decode_manifest
from ductor.definitions.program import Program, load_program
from ductor.journal.events import RunStarted
from ductor.journal.records import PublishedDefinition
from ductor.journal.state import RunState
from ductor.journal.store import Store

MAX_PROGRAMS = 1_000
"""Compiled programs kept; the least recently used goes first."""


class ProgramCache:
    """See the module's docstring.

    Args:
        functions: the host's own functions, which expressions may call.
    """

    def __init__(self, store: Store, functions: FunctionLibrary | None) -> None:
        self._store, self._functions = store, functions
        self._programs: OrderedDict[str, Program] = OrderedDict()

    async def program(self, manifest_hash: str) -> Program:
        """The program of a manifest. Raises ManifestMissingError."""
        program = self._programs.get(manifest_hash)
        if program is None:
            record = await self._store.manifest(manifest_hash)
            if record is None:
                raise ManifestMissingError(manifest_hash)
            program = self.add(record)
        return program

    async def of_run(self, state: RunState) -> tuple[Program, dict[str, Program]]:
        """What a run carries out, and what it may start by manifest hash. Raises ManifestMissingError."""
        program = await self.program(state.manifest_hash)
        library = {digest: await self.program(digest) for digest in state.definitions.values()}
        return program.carried_out_by(state.body), library

    def of_start(self, started: RunStarted) -> tuple[Program, dict[str, Program]]:
        """As `of_run`, of a run that starts: whoever starts it has had them just before."""
        library = {digest: self.loaded(digest) for digest in started.definitions.values()}
        return self.loaded(started.manifest_hash), library

    def loaded(self, manifest_hash: str) -> Program:
        """A program that `program` or `add` gave before."""
        program = self._programs[manifest_hash]
        self._programs.move_to_end(manifest_hash)
        return program

    def add(self, record: PublishedDefinition) -> Program:
        """Compile a published definition, once."""
        program = self._programs.get(record.manifest_hash)
        if program is None:
            program = load_program(
                decode_manifest(record.manifest), places=places_of(record), functions=self._functions
            )
            self._programs[record.manifest_hash] = program
            if len(self._programs) > MAX_PROGRAMS:
                self._programs.popitem(last=False)
        return program
