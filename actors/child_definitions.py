"""Which versions of other definitions a run starts its children with: decided once, when the root run starts.

A run is pinned to its manifest for life, and so are its descendants: every name that it or a child of a child may start
is resolved to a manifest hash before the first event is written, which records them. A name that is not published
refuses the start, not a step in the middle of the run.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from ductor.actors.errors import StartRefusedError
from ductor.definitions.program import Program

MAX_CHILD_DEFINITIONS: Final = 1_000
"""Definitions that one run may start, those of its descendants included."""


async def resolved_definitions(program: Program, find: Callable[[str], Awaitable[Program]]) -> dict[str, str]:
    """The manifest hash of each definition that a run of `program` or its descendants may start, by name, sorted.

    A definition that names itself means the version that runs.

    Args:
        find: the newest published version of a name; what it raises leaves this function.

    Raises:
        StartRefusedError: there are more than `MAX_CHILD_DEFINITIONS`.
    """
    found: dict[str, str] = {}
    waiting = list(program.child_definitions)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        if len(found) == MAX_CHILD_DEFINITIONS:
            raise StartRefusedError("definition", f"it may start more than {MAX_CHILD_DEFINITIONS} others")
        child = program if name == program.manifest.name else await find(name)
        found[name] = child.manifest_hash
        waiting.extend(child.child_definitions)
    return dict(sorted(found.items()))
