"""Chains of runs that continue each other, as clients see them: one run, of which the latest is carried out.

What is asked of any run of a chain is asked of the latest. The store sends messages and controls there; what is looked
at is followed here. A single run of a chain is looked at by its own id with `follows=False`.
"""

from collections.abc import Sequence

from ductor.actors.errors import RunNotFoundError
from ductor.actors.start import checked_run_id
from ductor.actors.views import HistoryRow, history_row
from ductor.journal.records import Head, LoadedRun
from ductor.journal.store import Store


class Chains:
    """See the module's docstring. All methods raise StoreUnavailableError when the database can't be reached."""

    store: Store

    async def latest(self, run_id: str) -> str:
        """The run that carries on what this one began: itself, or the latest one that continues it.

        Raises RunNotFoundError.
        """
        latest = await self.store.latest_of_chain(checked_run_id(run_id))
        if latest is None:
            raise RunNotFoundError(run_id)
        return latest

    async def _loaded(self, run_id: str, tenant: str | None, *, follows: bool = True) -> LoadedRun:
        """A run as its rows are, the latest of its chain where that is wanted. Raises RunNotFoundError."""
        loaded = await self.store.load(checked_run_id(run_id))
        if follows and loaded is not None and loaded.head.status == "continued":
            loaded = await self.store.load(await self.latest(run_id))
        if loaded is None or (tenant is not None and loaded.head.tenant != tenant):
            raise RunNotFoundError(run_id)
        return loaded

    async def chain(self, run_id: str, *, after_iteration: int = -1, limit: int = 1_000) -> Sequence[Head]:
        """The runs of the chain that this one belongs to, in order. Raises RunNotFoundError."""
        heads = await self.store.chain(checked_run_id(run_id), after_iteration=after_iteration, limit=limit)
        if not heads and await self.store.head(run_id) is None:
            raise RunNotFoundError(run_id)
        return heads

    async def chain_history(
        self, run_id: str, *, after: tuple[int, int] = (0, 0), limit: int = 1_000
    ) -> list[HistoryRow]:
        """Rows of the journals of a chain, as if they were one, a page in order.

        Args:
            after: iteration and version of the last row of the page before.

        Raises RunNotFoundError.
        """
        iteration, version = after
        rows: list[HistoryRow] = []
        while len(rows) < limit:
            heads = await self.chain(run_id, after_iteration=iteration - 1, limit=limit)
            for head in heads:
                after_version = version if head.iteration == iteration else 0
                found = await self.store.history(head.run_id, after_version=after_version, limit=limit - len(rows))
                rows.extend(history_row(row, head.iteration) for row in found)
                if len(rows) == limit:
                    return rows
            if len(heads) < limit:
                return rows
            iteration, version = heads[-1].iteration + 1, 0
        return rows
