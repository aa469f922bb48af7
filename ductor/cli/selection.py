"""Which runs of a database a command is about: by id, or by what they are."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ductor.journal.events import RunStatus

if TYPE_CHECKING:
    from ductor.client import Client

PAGE_RUNS = 200
DEFAULT_LIMIT = 10_000


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RunSelection:
    """Filters; runs must fit them all."""

    definition: Annotated[str | None, Parameter(help="Only runs of this definition.")] = None
    status: Annotated[
        tuple[RunStatus, ...], Parameter(negative="", help="Only runs with this status; may be given several times.")
    ] = ()
    since: Annotated[
        str | None,
        Parameter(help="Only runs started from then on: so long ago, as `7d`, a day (UTC), or a moment (RFC 3339)."),
    ] = None
    limit: Annotated[int, Parameter(help="How many runs at most, the newest.")] = DEFAULT_LIMIT

    @property
    def is_given(self) -> bool:
        """Whether anything is filtered by."""
        return bool(self.definition or self.status or self.since or self.limit != DEFAULT_LIMIT)


async def selected_run_ids(client: "Client", selection: RunSelection) -> AsyncIterator[str]:
    """Ids of the tenant's runs that fit, newest first, read in pages. Raises ArgumentError."""
    from ductor.cli.arguments import ArgumentError, time_bound

    if selection.limit < 1:
        raise ArgumentError("--limit", f"at least 1, found {selection.limit}")
    since = time_bound(selection.since, "--since")
    since_us = 0 if since is None else since.at_us(await client.engine.store.now_us())
    before: str | None = None
    left = selection.limit
    while left > 0:
        heads = await client.runs(
            definition=selection.definition, statuses=selection.status, before=before, limit=min(PAGE_RUNS, left)
        )
        for head in heads:
            if head.started_at_us >= since_us:
                left -= 1
                yield head.run_id
        # ids are in the order of starts: a page that ends before the time has no successor within it
        if not heads or heads[-1].started_at_us < since_us:
            return
        before = heads[-1].run_id


async def with_chains(client: "Client", run_ids: AsyncIterator[str]) -> AsyncIterator[str]:
    """These runs, and with each that is one of a chain the whole chain, from its first run on; each run once."""
    chains: set[str] = set()
    async for run_id in run_ids:
        heads = await client.engine.store.chain(run_id, after_iteration=-1, limit=PAGE_RUNS)
        first = heads[0].run_id if heads else run_id
        if first in chains:
            continue
        chains.add(first)
        if not heads:
            yield run_id
        while heads:
            for head in heads:
                yield head.run_id
            heads = await client.engine.store.chain(run_id, after_iteration=heads[-1].iteration, limit=PAGE_RUNS)
