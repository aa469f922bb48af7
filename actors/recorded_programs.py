"""The programs of a recorded run: what it carries out, and what it may start."""

from collections.abc import Iterable, Mapping
from typing import Self

import msgspec

from ductor.actors.publication import places_of
from ductor.definitions.expressions import FunctionLibrary
from ductor.definitions.manifest import decode_manifest
from ductor.definitions.program import Program, load_program
from ductor.journal.records import PublishedDefinition


class RunPrograms(msgspec.Struct, frozen=True):
    """Programs for computing the rows of a run.

    Attributes:
        program: of the definition that the run is pinned to.
        library: of the definitions that it may start, by manifest hash.
    """

    program: Program
    library: Mapping[str, Program] = {}

    @classmethod
    def load(
        cls,
        definition: PublishedDefinition,
        library: Iterable[PublishedDefinition] = (),
        functions: FunctionLibrary | None = None,
    ) -> Self:
        """Compile stored definitions.

        Raises:
            ManifestError: a manifest is none of this version.
            ExpressionSyntaxError: an expression does not compile, as where a function of its host is not known here.
        """
        return cls(
            load_record(definition, functions), {one.manifest_hash: load_record(one, functions) for one in library}
        )


def load_record(record: PublishedDefinition, functions: FunctionLibrary | None) -> Program:
    """Compile one stored definition. Raises as `RunPrograms.load`."""
    return load_program(decode_manifest(record.manifest), places=places_of(record), functions=functions)
