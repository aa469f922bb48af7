"""Searches and reports on the face: what the read models answer, for the client's tenant."""

import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from ductor.actors.client import Client as EngineClient
from ductor.journal.store import Store
from ductor.projections.errors import ProjectionsUnavailableError

if TYPE_CHECKING:
    from ductor.projections.model import Projection
    from ductor.projections.read_models import ProjectionStatus, ReadModels
    from ductor.projections.reports import (
        FlowCount,
        HealthMeasure,
        StepFailures,
        StepStatistics,
        ThroughputPeriod,
        UsageDay,
    )
    from ductor.projections.search import RunPage, RunSearch
    from ductor.reports.collecting import ReportName
    from ductor.reports.table import ReportTable


class ReadModelClient:
    """The part of a client that asks read models. They follow the journal within seconds, as long as a host runs.

    Raises ProjectionsUnavailableError where runs are not kept in PostgreSQL, and ProjectionNotReadyError before a model
    is complete for the first time.
    """

    tenant: str
    _read_models: "ReadModels | None" = None

    @property
    def engine(self) -> EngineClient:
        """What does the work."""
        raise NotImplementedError

    async def search_runs(self, search: "RunSearch") -> "RunPage":
        """Runs of the tenant that match, newest first; the page's `next` continues it.

        Raises:
            InvalidSearchError: what is asked for can't be.
        """
        return await self._models().search_runs(self.tenant, search)

    async def step_statistics(
        self, *, definition: str | None = None, since_us: int | None = None, until_us: int | None = None
    ) -> "Sequence[StepStatistics]":
        """What became of each step: counts, attempts, percentiles of durations.

        Args:
            definition: only steps of this one.
            since_us, until_us: whole hours that begin from the first on and before the second (microseconds since the
                epoch); without them, all there is.
        """
        return await self._models().step_statistics(
            self.tenant, definition=definition, since_us=since_us, until_us=until_us
        )

    async def step_failures(
        self, *, definition: str | None = None, since_us: int | None = None, until_us: int | None = None
    ) -> "Sequence[StepFailures]":
        """Failures by step and type of error, the most first, over a time as of `step_statistics`."""
        return await self._models().step_failures(
            self.tenant, definition=definition, since_us=since_us, until_us=until_us
        )

    async def throughput(
        self, *, definition: str | None = None, since_us: int, until_us: int, period_ms: int
    ) -> "Sequence[ThroughputPeriod]":
        """Runs that started and ended in each period (aligned to the epoch, in UTC), also where there were none.

        Raises:
            InvalidReportError: the periods are too short or too many.
        """
        return await self._models().throughput(
            self.tenant, definition=definition, since_us=since_us, until_us=until_us, period_ms=period_ms
        )

    async def usage(self, *, since_us: int | None = None, until_us: int | None = None) -> "Sequence[UsageDay]":
        """What the tenant has used, by day (UTC): days that begin from `since_us` on and before `until_us`."""
        return await self._models().usage(self.tenant, since_us=since_us, until_us=until_us)

    async def funnel(self, definition: str, *, manifest_hash: str | None = None) -> "Sequence[FlowCount]":
        """How runs of a definition went through its graph, all its versions or one."""
        return await self._models().funnel(self.tenant, definition, manifest_hash=manifest_hash)

    async def health_report(self) -> "Sequence[HealthMeasure]":
        """The state of the whole database now, all tenants: what is open, what waits, how far reports are behind."""
        return await self._models().health()

    async def report(
        self,
        name: "ReportName",
        *,
        definition: str | None = None,
        since_us: int | None = None,
        until_us: int | None = None,
        limit: int = 1_000,
    ) -> "ReportTable":
        """A report as a table, for export: `ductor.reports` has `write_csv` and `write_parquet`.

        Args:
            name: `runs`, `steps`, `failures`, `usage`, `funnel`, `inbox`, `health` or `throughput`.
            definition: only this one; a funnel needs it.
            since_us, until_us: from the first on, before the second (microseconds since the epoch); of `throughput`,
                the last day unless said.
            limit: rows of `runs` and `inbox` at most, which then say whether there are more.

        Raises:
            InvalidReportError: there is no such report, or it can't be about that.
        """
        from ductor.reports.collecting import ReportScope, collect  # noqa: PLC0415 - what most clients don't need

        scope = ReportScope(definition=definition, since_us=since_us, until_us=until_us, limit=limit)
        return await collect(self, name, scope)

    async def projections(self) -> "Sequence[ProjectionStatus]":
        """Every projection of the database, how far behind it is, and why one stands still."""
        return await self._models().projections()

    async def rebuild_projection(self, name: str) -> bool:
        """Have a read model made anew beside the one that is read, by whichever host fills it, within seconds.

        Returns:
            Whether a rebuild begins; False where one is under way.

        Raises:
            ProjectionNotFoundError: there is none of this name.
        """
        return await self._models().rebuild(name)

    async def retry_projection(self, name: str) -> bool:
        """Let a projection that stands still try its event again; False where none of this name does.

        Raises:
            ProjectionNotFoundError: there is none of this name.
        """
        return await self._models().retry(name)

    async def _close_read_models(self) -> None:
        models, self._read_models = self._read_models, None
        if models is not None:
            await models.close()

    def _models(self) -> "ReadModels":
        from ductor.journal.postgres import PostgresStore  # noqa: PLC0415 - a driver that other stores don't need
        from ductor.projections.read_models import ReadModels  # noqa: PLC0415

        store = self.engine.store
        if not isinstance(store, PostgresStore):
            raise ProjectionsUnavailableError(type(store).__name__)
        if self._read_models is None:
            self._read_models = ReadModels(store)
        return self._read_models


async def start_projector(
    store: Store, projections: "Sequence[Projection]", host_id: str, stack: AsyncExitStack
) -> None:
    """Fill the built-in read models and these, until the stack is closed.

    Raises InvalidProjectionError, and ProjectionsUnavailableError where there are some and the store is not PostgreSQL.
    """
    if "ductor.journal.postgres" not in sys.modules:  # a driver that other stores don't need
        if projections:
            raise ProjectionsUnavailableError(type(store).__name__)
        return
    from ductor.journal.postgres import PostgresStore  # noqa: PLC0415
    from ductor.projections.builtin import builtin_projections  # noqa: PLC0415
    from ductor.projections.projector import Projector  # noqa: PLC0415

    if isinstance(store, PostgresStore):
        projector = Projector(store, (*builtin_projections(), *projections), leader=host_id)
        await stack.enter_async_context(projector)
    elif projections:
        raise ProjectionsUnavailableError(type(store).__name__)
