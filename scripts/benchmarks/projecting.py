"""Read models: how fast they catch up beside a bare read of the feed, and how long a search takes among many runs."""

import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack

import asyncpg

from ductor.journal.codec import decode_events
from ductor.journal.postgres import PostgresStore, migrate
from ductor.journal.records import FeedPosition
from ductor.projections.builtin import builtin_projections
from ductor.projections.checkpoints import begin_rebuild, schema_of, serving_generation
from ductor.projections.model import Projection
from ductor.projections.projector import Projector, ProjectorOptions
from ductor.projections.read_models import ReadModels
from ductor.projections.runs import RunsProjection
from ductor.projections.search import RunSearch
from scripts.benchmarks.chain import RUN_ID, chain_name, chain_program, whole_run
from scripts.benchmarks.load import percentile
from scripts.benchmarks.report import Table
from scripts.benchmarks.server import BenchmarkServer

STEPS = 10
JOURNAL_ROWS = 500_000
QUICK_JOURNAL_ROWS = 50_000
ROUNDS = 2
IN_FLIGHT = 64
"""Runs whose rows follow each other in turns, as on a host."""
SEARCHED_RUNS = 1_000_000
QUICK_SEARCHED_RUNS = 100_000
SEARCHES_OF_A_KIND = 200
QUICK_SEARCHES_OF_A_KIND = 50
FEED_PAGE = ProjectorOptions().batch_rows
YEAR_US = 365 * 24 * 3_600_000_000
RUNS_OF_A_CUSTOMER = 10

_HEADS = """
INSERT INTO ductor.eec_workflow_run (run_id, tenant, definition, manifest_hash, status, started_at_us, updated_at_us,
    ended_at_us, search_attributes)
SELECT ('01700000-0000-7000-8000-' || lpad(to_hex(number), 12, '0'))::uuid, 'default', $2, 'none', 'completed',
    number * 1000, number * 1000, number * 1000 + 50,
    json_build_object('customer', 'c-' || number % 1000, 'region', (ARRAY['eu', 'us'])[1 + number % 2])
FROM generate_series(1, $1::integer) AS number
"""
_ROWS = """
INSERT INTO ductor.eec_workflow_transition (run_id, version, commit_id, at_us, events, hash)
SELECT ('01700000-0000-7000-8000-' || lpad(to_hex(number), 12, '0'))::uuid, version, gen_random_uuid(),
    number * 1000 + version, ($2::json[])[version], sha256(number::text::bytea)
FROM generate_series(1, $1::integer) AS number, generate_series(1, cardinality($2::json[])) AS version
ORDER BY number / $3::integer, version, number
"""
# what a million runs of many customers look like: a hundred definitions, one run of fifty failed
_RUNS = """
INSERT INTO "{schema}".run
SELECT ('01700000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'default', 'flow-' || n % 100, 'none',
    CASE WHEN n % 50 = 0 THEN 'failed' WHEN n % 997 = 0 THEN 'waiting' ELSE 'completed' END,
    n * ($2::bigint / $1), n * ($2::bigint / $1) + 5000000, n * ($2::bigint / $1) + 5000000, 'key-' || n, NULL, NULL,
    NULL,
    CASE WHEN n % 50 = 0 THEN 'CardError' END, CASE WHEN n % 50 = 0 THEN 'card of customer declined' END,
    jsonb_build_object('customer', 'c-' || n % ($1 / $3), 'region', (ARRAY['eu', 'us'])[1 + n % 2]), 12, 10, 10, 4000,
    array_to_tsvector(ARRAY['flow', (n % 100)::text, 'key', 'n' || n::text, 'c', 'c' || n % ($1 / $3)]
        || CASE WHEN n % 50 = 0 THEN ARRAY['card', 'error', 'declined'] ELSE '{}'::text[] END)
FROM generate_series(1, $1::integer) AS n ON CONFLICT DO NOTHING
"""
_SECONDARY = """
SELECT i.indexrelid::regclass::text FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
WHERE c.relnamespace = $1::regnamespace AND NOT i.indisprimary
"""


async def measure_projections(server: BenchmarkServer, *, is_quick: bool) -> list[Table]:
    """Both measurements, each on a database of its own."""
    return [
        await _measure_catching_up(server, QUICK_JOURNAL_ROWS if is_quick else JOURNAL_ROWS),
        await _measure_search(
            server,
            QUICK_SEARCHED_RUNS if is_quick else SEARCHED_RUNS,
            QUICK_SEARCHES_OF_A_KIND if is_quick else SEARCHES_OF_A_KIND,
        ),
    ]


async def _measure_catching_up(server: BenchmarkServer, rows: int) -> Table:
    dsn = await server.fresh_database(f"projections_{rows}")
    await migrate(dsn)
    table = Table(
        name="projections",
        title=f"Read models of {rows:,} journal rows: {STEPS}-step runs, {IN_FLIGHT} side by side",
        columns=("what", "seconds", "rows_per_s", "events_per_s", "of_bare_read", "of_bytes_read", "us_per_row_python"),
        note=f"bare read: the feed in pages of {FEED_PAGE:,} rows, one after the other, each row decoded into its"
        f" events; read as bytes: the same, not decoded. Best of {ROUNDS} rounds in turns",
    )
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(PostgresStore(dsn))
        connection: asyncpg.Connection = await asyncpg.connect(dsn)
        stack.push_async_callback(connection.close)
        total, events = await _fill_journal(connection, rows)
        best: dict[str, tuple[float, float]] = {}
        for _ in range(ROUNDS):
            async for what, took in _one_round(server, store, connection):
                best[what] = min(best.get(what, took), took)
        for what, (seconds, cpu_s) in best.items():
            table.add(
                what,
                round(seconds, 2),
                round(total / seconds),
                round(events / seconds),
                round(best["bare read"][0] / seconds, 2),
                round(best["read as bytes"][0] / seconds, 2),
                round(cpu_s / total * 1e6, 1),
            )
    return table


async def _one_round(
    server: BenchmarkServer, store: PostgresStore, connection: asyncpg.Connection
) -> AsyncIterator[tuple[str, tuple[float, float]]]:
    """Everything once; what was measured, with seconds and seconds of this process's own work."""
    yield "read as bytes", await _timed(lambda: _bare_read(store, decodes=False))
    yield "bare read", await _timed(lambda: _bare_read(store, decodes=True))
    everything = builtin_projections()
    for what, chosen in (("all four", everything), *((one.name, (one,)) for one in everything)):
        await _fall_behind(store, connection, chosen)
        await server.checkpoint()
        yield f"catch-up: {what}", await _timed(lambda: _catch_up(store, chosen))  # noqa: B023 - awaited at once
        for projection in chosen:
            assert await begin_rebuild(connection, projection.name)
        await server.checkpoint()
        yield f"rebuild: {what}", await _timed(lambda: _catch_up(store, chosen))  # noqa: B023
        await _assert_complete(connection, chosen)


async def _fall_behind(store: PostgresStore, connection: asyncpg.Connection, projections: Sequence[Projection]) -> None:
    """Have models that are read, with all their indexes, and nothing in them."""
    await connection.execute("UPDATE ductor.eec_projection SET leased_until_us = 0")
    await _catch_up(store, projections)
    for projection in projections:
        generation = await serving_generation(connection, projection.name)
        assert generation is not None
        schema = schema_of(projection.name, generation)
        for (name,) in await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = $1", schema):
            await connection.execute(f'TRUNCATE "{schema}"."{name}"')
        await connection.execute(
            "UPDATE ductor.eec_projection SET era = 0, transaction_id = 0, position = 0, applied_rows = 0"
            " WHERE name = $1",
            projection.name,
        )


async def _assert_complete(connection: asyncpg.Connection, projections: Sequence[Projection]) -> None:
    for projection in projections:
        behind = await connection.fetchval(
            "SELECT count(*) FROM ductor.eec_projection WHERE name = $1 AND stage = 'serving'"
            " AND applied_rows = (SELECT count(*) FROM ductor.eec_workflow_transition)",
            projection.name,
        )
        assert behind == 1, f"{projection.name} is not complete"


async def _catch_up(store: PostgresStore, projections: Sequence[Projection]) -> None:
    projector = Projector(store, projections, leader="bench")
    await projector.catch_up()
    await projector.stop()


async def _fill_journal(connection: asyncpg.Connection, rows: int) -> tuple[int, int]:
    texts = [row.events for row in whole_run(chain_program(STEPS))]
    count = -(-rows // len(texts))
    await connection.execute(_HEADS, count, chain_name(STEPS))
    await connection.execute(_ROWS, count, [text.decode() for text in texts], IN_FLIGHT, timeout=600)
    await connection.execute("ANALYZE")
    events = sum(len(decode_events(text, run_id=RUN_ID, version=1)) for text in texts)
    return count * len(texts), count * events


async def _bare_read(store: PostgresStore, *, decodes: bool) -> None:
    position = FeedPosition()
    while page := await store.feed(position, FEED_PAGE):
        position = page[-1].position
        if decodes:
            for entry in page:
                row = entry.transition
                decode_events(row.events, run_id=row.run_id, version=row.version)


async def _timed(work: Callable[[], Awaitable[None]]) -> tuple[float, float]:
    began_s, cpu_s = time.perf_counter(), time.process_time()
    await work()
    return time.perf_counter() - began_s, time.process_time() - cpu_s


async def _measure_search(server: BenchmarkServer, runs: int, count: int) -> Table:
    dsn = await server.fresh_database(f"search_{runs}")
    await migrate(dsn)
    table = Table(
        name="search",
        title=f"Search among {runs:,} runs: pages of 50",
        columns=("what", "found", "p50_ms", "p95_ms", "max_ms"),
        note=f"{count} searches of each kind, one after the other, with other values each time",
    )
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(PostgresStore(dsn))
        projector = Projector(store, [RunsProjection()], leader="bench")
        stack.push_async_callback(projector.stop)
        await projector.catch_up()
        began_s = time.perf_counter()
        await _fill_runs(dsn, runs)
        table.note += f"; the runs were made in {time.perf_counter() - began_s:.0f} s"
        await server.checkpoint()
        models = ReadModels(store)
        stack.push_async_callback(models.close)
        for what, searches in _searches(runs, count):
            took_ms: list[float] = []
            found = 0
            for search in searches:
                began_s = time.perf_counter()
                page = await models.search_runs("default", search)
                took_ms.append((time.perf_counter() - began_s) * 1e3)
                found = max(found, len(page.runs))
            took_ms.sort()
            table.add(what, found, *(round(percentile(took_ms, share), 2) for share in (0.5, 0.95, 1.0)))
    return table


async def _fill_runs(dsn: str, runs: int) -> None:
    schema = "ductor_runs_1"
    connection: asyncpg.Connection = await asyncpg.connect(dsn)
    try:
        for (index,) in await connection.fetch(_SECONDARY, schema):
            await connection.execute(f"DROP INDEX {index}")
        fill = _RUNS.replace("{schema}", schema)
        await connection.execute(fill, runs, YEAR_US, RUNS_OF_A_CUSTOMER, timeout=1_800)
        await connection.execute(f"SET search_path TO {schema}")
        await connection.execute(RunsProjection.indexes, timeout=1_800)
        await connection.execute("VACUUM ANALYZE run", timeout=1_800)
    finally:
        await connection.close()


def _searches(runs: int, count: int) -> Iterator[tuple[str, list[RunSearch]]]:
    """What people ask, each kind `count` times with other values."""
    chance = random.Random(1)  # noqa: S311 - the same questions each time
    customers = runs // RUNS_OF_A_CUSTOMER

    def some(make: Callable[[], RunSearch]) -> list[RunSearch]:
        return [make() for _ in range(count)]

    def flow() -> str:
        return f"flow-{chance.randrange(100)}"

    def customer() -> str:
        return f"c-{chance.randrange(customers)}"

    def at_us() -> int:
        return chance.randrange(YEAR_US)

    yield "the newest", some(RunSearch)
    yield "a page in the middle", some(lambda: RunSearch(after=f"{at_us()}-ffffffff-ffff-ffff-ffff-ffffffffffff"))
    yield "definition", some(lambda: RunSearch(definition=flow()))
    yield "status failed", some(lambda: RunSearch(statuses=("failed",)))
    yield "definition and statuses", some(lambda: RunSearch(definition=flow(), statuses=("failed", "waiting")))
    yield "a day", some(lambda: RunSearch(started_after_us=(day := at_us()), started_before_us=day + YEAR_US // 365))
    yield "attribute that few have", some(lambda: RunSearch(attributes={"customer": customer()}))
    yield "attribute that half have", some(lambda: RunSearch(attributes={"region": chance.choice(("eu", "us"))}))
    yield (
        "attribute, status, time",
        some(lambda: RunSearch(attributes={"customer": customer()}, statuses=("completed",), started_after_us=at_us())),
    )
    yield "two attributes", some(lambda: RunSearch(attributes={"customer": customer(), "region": "eu"}))
    yield "a key by its word", some(lambda: RunSearch(text=f"n{chance.randrange(1, runs)}"))
    yield "a word that 2 % have", some(lambda: RunSearch(text="declin"))
    yield "two words", some(lambda: RunSearch(text=f"card {chance.randrange(100)}"))
    yield "nothing", some(lambda: RunSearch(attributes={"customer": "nobody"}, text="nothing"))
