"""The questions that read models answer, for whoever has a store in PostgreSQL."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Literal, TypeVar

import asyncpg
import msgspec

from ductor.journal.errors import StoreUnavailableError
from ductor.journal.postgres.store import PostgresStore
from ductor.journal.records import FeedLag, FeedPosition
from ductor.projections import checkpoints, reports, search
from ductor.projections.checkpoints import Checkpoint, schema_of
from ductor.projections.database import LOST_CONNECTION, ModelDatabase
from ductor.projections.errors import ProjectionNotFoundError, ProjectionNotReadyError
from ductor.projections.search import RunPage, RunSearch

BEGINNING_US: Final = 0
EVER_US: Final = 2**62
"""Earlier and later than anything: what a time without an end of its own is asked with."""

T = TypeVar("T")


class ProjectionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One generation of one projection.

    Attributes:
        status: `building` beside what is read, `serving`, or `failed`: it stands still.
        is_read: whether it is the one that reports and searches read.
        lag_rows: journal rows that are not in it yet, counted up to 100,000.
        lag_ms: age of the oldest of them.
        blocked_by: the transaction that holds the feed up, empty for none.
        skipped_events: events of newer software that were passed over; a rebuild by that software takes them in.
        failed_run_id, failed_version, error: the row at which it stands still, and why.
    """

    name: str
    generation: int
    revision: int
    status: Literal["building", "serving", "failed"]
    is_read: bool
    applied_rows: int
    applied_at_us: int
    lag_rows: int
    lag_ms: int
    blocked_by: str
    skipped_events: int
    leader: str
    failed_run_id: str | None
    failed_version: int | None
    error: str


class ReadModels:
    """Questions to the read models of one database. Every method raises StoreUnavailableError when it is away."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._database = ModelDatabase(store.settings)

    async def close(self) -> None:
        """Disconnect."""
        await self._database.close()

    async def search_runs(self, tenant: str, wanted: RunSearch) -> RunPage:
        """Runs of a tenant, newest first. Raises InvalidSearchError, ProjectionNotReadyError."""
        search.check(wanted)
        return await self._of_model("runs", lambda on, schema: search.search_runs(on, schema, tenant, wanted))

    async def step_statistics(
        self, tenant: str, *, definition: str | None = None, since_us: int | None = None, until_us: int | None = None
    ) -> Sequence[reports.StepStatistics]:
        """Steps of a tenant over whole hours that begin in the time given."""
        return await self._of_model(
            "steps",
            lambda on, schema: reports.read_step_statistics(
                on,
                schema,
                tenant,
                definition=definition,
                since_us=since_us or BEGINNING_US,
                until_us=_or_ever(until_us),
            ),
        )

    async def step_failures(
        self, tenant: str, *, definition: str | None = None, since_us: int | None = None, until_us: int | None = None
    ) -> Sequence[reports.StepFailures]:
        """Failures of a tenant's steps over whole hours that begin in the time given, the most first."""
        return await self._of_model(
            "steps",
            lambda on, schema: reports.read_step_failures(
                on,
                schema,
                tenant,
                definition=definition,
                since_us=since_us or BEGINNING_US,
                until_us=_or_ever(until_us),
            ),
        )

    async def throughput(
        self, tenant: str, *, definition: str | None = None, since_us: int, until_us: int, period_ms: int
    ) -> Sequence[reports.ThroughputPeriod]:
        """Runs of a tenant by the period in which they started and ended. Raises InvalidReportError."""
        reports.check_periods(since_us, until_us, period_ms)
        return await self._of_model(
            "runs",
            lambda on, schema: reports.read_throughput(
                on,
                schema,
                tenant,
                definition=definition,
                since_us=since_us,
                until_us=until_us,
                period_ms=period_ms,
            ),
        )

    async def usage(
        self, tenant: str, *, since_us: int | None = None, until_us: int | None = None
    ) -> Sequence[reports.UsageDay]:
        """Days of a tenant that begin in the time given."""
        return await self._of_model(
            "usage",
            lambda on, schema: reports.read_usage(on, schema, tenant, since_us or BEGINNING_US, _or_ever(until_us)),
        )

    async def funnel(
        self, tenant: str, definition: str, *, manifest_hash: str | None = None
    ) -> Sequence[reports.FlowCount]:
        """How runs of a definition went through its graph."""
        return await self._of_model(
            "funnel", lambda on, schema: reports.read_funnel(on, schema, tenant, definition, manifest_hash)
        )

    async def health(self) -> Sequence[reports.HealthMeasure]:
        """The state of the whole now."""
        return await self._ask(reports.read_health)

    async def projections(self) -> Sequence[ProjectionStatus]:
        """Every projection that is kept in this database, and how far it is."""
        found = [one for one in await self._ask(checkpoints.all_checkpoints) if one.stage != "retired"]
        lags: dict[FeedPosition, FeedLag] = {}
        for one in found:
            if one.position not in lags:
                lags[one.position] = await self._store.feed_lag(one.position)
        return [_status(one, lags[one.position]) for one in found]

    async def rebuild(self, name: str) -> bool:
        """Have a model made anew beside the one that is read; whether one begins now, or was already under way.

        Raises ProjectionNotFoundError.
        """
        await self._must_exist(name)
        return await self._ask(lambda on: checkpoints.begin_rebuild(on, name))

    async def retry(self, name: str) -> bool:
        """Let a projection that stands still go on; False where it does not. Raises ProjectionNotFoundError."""
        await self._must_exist(name)
        return await self._ask(lambda on: checkpoints.forget_failures(on, name))

    async def _must_exist(self, name: str) -> None:
        if all(one.name != name for one in await self._ask(checkpoints.all_checkpoints)):
            raise ProjectionNotFoundError(name)

    async def _of_model(self, name: str, ask: Callable[[asyncpg.Connection, str], Awaitable[T]]) -> T:
        async def answer(connection: asyncpg.Connection) -> T:
            generation = await checkpoints.serving_generation(connection, name)
            if generation is None:
                raise ProjectionNotReadyError(name)
            return await ask(connection, schema_of(name, generation))

        try:
            return await self._ask(answer)
        except asyncpg.UndefinedTableError:  # a new generation has taken over between the two questions
            return await self._ask(answer)

    async def _ask(self, answer: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
        try:
            async with self._database.transaction() as connection:
                return await answer(connection)
        except LOST_CONNECTION as error:
            raise StoreUnavailableError(checkpoints.failure_text(error)) from error


def _or_ever(until_us: int | None) -> int:
    return EVER_US if until_us is None else until_us


def _status(one: Checkpoint, lag: FeedLag) -> ProjectionStatus:
    is_read = one.stage == "serving"
    return ProjectionStatus(
        name=one.name,
        generation=one.generation,
        revision=one.revision,
        status="failed" if one.failed_at_us is not None else "serving" if is_read else "building",
        is_read=is_read,
        applied_rows=one.applied_rows,
        applied_at_us=one.applied_at_us,
        lag_rows=lag.rows,
        lag_ms=lag.oldest_age_ms,
        blocked_by=lag.blocked_by,
        skipped_events=one.skipped_events,
        leader=one.leader,
        failed_run_id=one.failed_run_id,
        failed_version=one.failed_version,
        error=one.error,
    )
