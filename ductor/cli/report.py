"""`ductor report`: what runs have done, as tables, files and pictures."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ductor.cli.options import DatabaseOptions
from ductor.cli.report_options import PictureOutput, ReportOutput, ReportTime

if TYPE_CHECKING:
    from ductor.cli.arguments import TimeBound
    from ductor.client import Client
    from ductor.reports import ReportName

Definition = Annotated[str | None, Parameter(help="Only of this definition.")]
Limit = Annotated[int, Parameter(help="How many rows at most.")]


def runs(
    *,
    definition: Definition = None,
    limit: Limit = 1_000,
    time: ReportTime = ReportTime(),
    database: DatabaseOptions = DatabaseOptions(),
    output: ReportOutput = ReportOutput(),
) -> int:
    """Runs that started in a time, newest first. `ductor search` finds some of them."""
    return _print("runs", database, output, time, definition=definition, limit=limit)


def steps(
    *,
    definition: Definition = None,
    time: ReportTime = ReportTime(),
    pictures: PictureOutput = PictureOutput(),
    database: DatabaseOptions = DatabaseOptions(),
    output: ReportOutput = ReportOutput(),
) -> int:
    """What became of each step, and how long it took, over whole hours. The picture shows the durations."""
    from ductor.cli.report_output import deliver
    from ductor.reports import durations_svg
    from ductor.reports.tables import steps_table

    bounds = time.bounds()

    async def work(client: "Client") -> None:
        since_us, until_us = await _times(client, bounds)
        found = await client.step_statistics(definition=definition, since_us=since_us, until_us=until_us)
        title = f"Durations of the steps of {definition}" if definition else "Durations of steps"
        deliver(steps_table(found), output, pictures, lambda: durations_svg(found, title=title))

    return _with_client(work, database, output)


def failures(
    *,
    definition: Definition = None,
    time: ReportTime = ReportTime(),
    pictures: PictureOutput = PictureOutput(),
    database: DatabaseOptions = DatabaseOptions(),
    output: ReportOutput = ReportOutput(),
) -> int:
    """Failures by step and type of error, the most first, over whole hours."""
    from ductor.cli.report_output import deliver
    from ductor.reports import failures_svg
    from ductor.reports.tables import failures_table

    bounds = time.bounds()

    async def work(client: "Client") -> None:
        since_us, until_us = await _times(client, bounds)
        found = await client.step_failures(definition=definition, since_us=since_us, until_us=until_us)
        title = f"Failures of {definition} by cause" if definition else "Failures by cause"
        deliver(failures_table(found), output, pictures, lambda: failures_svg(found, title=title))

    return _with_client(work, database, output)


def usage(
    *,
    time: ReportTime = ReportTime(),
    database: DatabaseOptions = DatabaseOptions(),
    output: ReportOutput = ReportOutput(),
) -> int:
    """What the tenant has used, by day (UTC)."""
    return _print("usage", database, output, time)


def funnel(
    definition: str,
    /,
    *,
    manifest: str | None = None,
    pictures: PictureOutput = PictureOutput(),
    database: DatabaseOptions = DatabaseOptions(),
    output: ReportOutput = ReportOutput(),
) -> int:
    """How runs of a definition went through its graph: what became of each step, how often each edge was taken.

    Parameters
    ----------
    definition
        Which definition.
    manifest
        Hash of one version; without it the table is about all of them, and the picture about the one published now.
    """
    from ductor.cli.report_output import deliver
    from ductor.reports import read_funnel_svg
    from ductor.reports.tables import funnel_table

    async def work(client: "Client") -> None:
        counts = await client.funnel(definition, manifest_hash=manifest)
        if not counts:  # no run of it yet, or a name that nobody knows
            await client.engine.published_definition(definition, tenant=client.tenant, manifest_hash=manifest)
        picture = await read_funnel_svg(client, definition, manifest_hash=manifest) if pictures.is_given else ""
        deliver(funnel_table(counts), output, pictures, lambda: picture)

    return _with_client(work, database, output)


def inbox(
    *,
    definition: Definition = None,
    limit: Limit = 1_000,
    database: DatabaseOptions = DatabaseOptions(),
    output: ReportOutput = ReportOutput(),
) -> int:
    """What waits for people now."""
    return _print("inbox", database, output, ReportTime(), definition=definition, limit=limit)


def health(*, database: DatabaseOptions = DatabaseOptions(), output: ReportOutput = ReportOutput()) -> int:
    """The state of the whole database now, all tenants: what is open, what waits, how far reports are behind."""
    return _print("health", database, output, ReportTime())


def throughput(
    *,
    definition: Definition = None,
    every: str | None = None,
    time: ReportTime = ReportTime(),
    pictures: PictureOutput = PictureOutput(),
    database: DatabaseOptions = DatabaseOptions(),
    output: ReportOutput = ReportOutput(),
) -> int:
    """Runs that began and that ended, over time; of the last day unless said.

    Parameters
    ----------
    every
        Length of a period, as `1h`; what fits the time unless said.
    """
    from ductor.cli.arguments import duration_argument
    from ductor.cli.report_output import deliver
    from ductor.reports import throughput_svg
    from ductor.reports.collecting import fitting_period_ms, throughput_times
    from ductor.reports.tables import throughput_table

    bounds, wanted_ms = time.bounds(), duration_argument(every, "--every")

    async def work(client: "Client") -> None:
        since, until = throughput_times(*await _times(client, bounds), await client.engine.store.now_us())
        period_ms = fitting_period_ms(since, until) if wanted_ms is None else wanted_ms
        found = await client.throughput(definition=definition, since_us=since, until_us=until, period_ms=period_ms)
        title = f"Runs of {definition} over time" if definition else "Runs over time"
        deliver(throughput_table(found), output, pictures, lambda: throughput_svg(found, period_ms, title=title))

    return _with_client(work, database, output)


def timeline(
    run: str,
    /,
    *,
    limit: Annotated[int, Parameter(help="How many steps the picture shows at most.")] = 200,
    pictures: PictureOutput = PictureOutput(),
    database: DatabaseOptions = DatabaseOptions(),
    output: ReportOutput = ReportOutput(),
) -> int:
    """When each step of a run was at work, and when it waited, from its journal: attempts, waits, retries, child runs.

    Parameters
    ----------
    run
        Id of the run.
    """
    from ductor.cli.arguments import ArgumentError
    from ductor.cli.report_output import deliver
    from ductor.reports import read_timeline, timeline_svg
    from ductor.reports.timeline_picture import MAX_PICTURE_NODES

    if not 1 <= limit <= MAX_PICTURE_NODES:
        raise ArgumentError("--limit", f"from 1 to {MAX_PICTURE_NODES}, found {limit}")

    async def work(client: "Client") -> None:
        found = await read_timeline(client, run)
        deliver(found.table(), output, pictures, lambda: timeline_svg(found, limit=limit))

    return _with_client(work, database, output)


def _print(
    name: "ReportName",
    database: DatabaseOptions,
    output: ReportOutput,
    time: ReportTime,
    *,
    definition: str | None = None,
    limit: int = 1_000,
) -> int:
    """A report without pictures."""
    from ductor.cli.report_output import deliver

    bounds = time.bounds()

    async def work(client: "Client") -> None:
        since_us, until_us = await _times(client, bounds)
        table = await client.report(name, definition=definition, since_us=since_us, until_us=until_us, limit=limit)
        deliver(table, output)

    return _with_client(work, database, output)


def _with_client(work: "Callable[[Client], Awaitable[None]]", database: DatabaseOptions, output: ReportOutput) -> int:
    from ductor.cli.report_output import said_as
    from ductor.cli.session import connected, run_async

    async def carry_out() -> int:
        async with connected(database, said_as(output.output)) as client:
            await work(client)
        return 0

    return run_async(carry_out())


async def _times(
    client: "Client", bounds: tuple["TimeBound | None", "TimeBound | None"]
) -> tuple[int | None, int | None]:
    """Both ends, by the database's clock. Raises ArgumentError."""
    from ductor.cli.arguments import times_between

    return times_between(bounds, await client.engine.store.now_us())
