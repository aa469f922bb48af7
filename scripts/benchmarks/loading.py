"""Loading: what it costs to get a run into memory, by how long and how wide it is.

Long runs are one step that goes round and round: a row for each round, with a valid chain, copied into the database.
A load begins at a snapshot that is as old as coordinators let it become, or at the row that compacted the run. Wide
runs hold the results of so many children; the pause is what writing their snapshot costs the loop, once in as many
bytes of journal.
"""

import time
import tracemalloc
import uuid
from collections.abc import AsyncIterator, Callable
from functools import partial

import asyncpg

from ductor.actors.upkeep import MAX_TAIL_ROWS
from ductor.journal.chain import link
from ductor.journal.codec import decode_state, encode_events, encode_state
from ductor.journal.compaction import compacted
from ductor.journal.events import (
    AnyEvent,
    AttemptDispatched,
    AttemptFinished,
    NodeSettled,
    RunStarted,
    ScatterStarted,
)
from ductor.journal.fold import fold_row
from ductor.journal.ids import SystemIds
from ductor.journal.postgres import PostgresStore, migrate
from ductor.journal.records import Snapshot
from ductor.journal.replay import loaded_state
from ductor.journal.state import FOLD_REVISION, RunState
from scripts.benchmarks.load import percentile
from scripts.benchmarks.report import Table
from scripts.benchmarks.server import BenchmarkServer

ROWS = (1_000, 100_000, 1_000_000)
QUICK_ROWS = (1_000, 20_000)
CHILDREN = (100, 10_000)
LOADS = 20
START_US = 1_767_225_600_000_000

_Row = tuple[uuid.UUID, int, uuid.UUID, int, str, bytes]


async def measure_loading(server: BenchmarkServer, *, is_quick: bool) -> list[Table]:
    """Measure long runs and wide ones."""
    dsn = await server.fresh_database("loading")
    await migrate(dsn)
    async with PostgresStore(dsn) as store:
        connection = await asyncpg.connect(dsn)
        try:
            long_runs = await _measure_long(store, connection, QUICK_ROWS if is_quick else ROWS)
        finally:
            await connection.close()
    return [long_runs, _measure_wide(CHILDREN)]


async def _measure_long(store: PostgresStore, connection: asyncpg.Connection, sizes: tuple[int, ...]) -> Table:
    table = Table(
        name="load",
        title="Load of one run from PostgreSQL and fold",
        columns=("begins_at", "transitions", "tail_rows", "p50_ms", "max_ms", "peak_memory_mib"),
    )
    for size in sizes:
        run_id = await _copy_long_run(connection, size)
        state = await _folded(connection, run_id, max(1, size - MAX_TAIL_ROWS))
        snapshot = Snapshot(
            run_id=run_id, version=state.version, fold_revision=FOLD_REVISION, state=encode_state(state)
        )
        await store.save_snapshot(snapshot)
        table.add("oldest snapshot", size, *await _loads(store, run_id))
        await connection.execute("DELETE FROM ductor.eec_workflow_snapshot WHERE run_id = $1", uuid.UUID(run_id))
        await _compact(connection, run_id, size)
        table.add("compacted row", size + 1, *await _loads(store, run_id))
    return table


async def _loads(store: PostgresStore, run_id: str) -> tuple[int, float, float, float]:
    took: list[float] = []
    tail_rows = 0
    for _ in range(LOADS):
        began = time.perf_counter()
        loaded = await store.load(run_id)
        assert loaded is not None
        loaded_state(loaded)
        took.append((time.perf_counter() - began) * 1_000)
        tail_rows = len(loaded.tail)
    tracemalloc.start()
    loaded = await store.load(run_id)
    assert loaded is not None
    loaded_state(loaded)
    peak_mib = tracemalloc.get_traced_memory()[1] / (1 << 20)
    tracemalloc.stop()
    return tail_rows, round(percentile(took, 0.5), 2), round(max(took), 2), round(peak_mib, 1)


def _events(version: int) -> list[AnyEvent]:
    if version == 1:
        return [
            RunStarted(tenant="t", definition="round", manifest_hash="m", entrypoints=("a",)),
            AttemptDispatched(node="a", generation=1, task="work"),
        ]
    before, at_us = version - 1, START_US + version
    return [
        AttemptFinished(
            node="a", generation=before, outcome="succeeded", output=before, worker="w", started_at_us=at_us
        ),
        AttemptDispatched(node="a", generation=version, task="work", iteration=before, input={"round": version}),
    ]


async def _copy_long_run(connection: asyncpg.Connection, size: int) -> str:
    run_id = SystemIds().run_id()
    columns = ("run_id", "version", "commit_id", "at_us", "events", "hash")

    async def rows() -> AsyncIterator[_Row]:
        last_hash, run = b"", uuid.UUID(run_id)
        for version in range(1, size + 1):
            events = encode_events(_events(version))
            last_hash = link(last_hash, run_id, version, START_US + version, events)
            yield run, version, uuid.UUID(int=version), START_US + version, events.decode(), last_hash

    await connection.copy_records_to_table(
        "eec_workflow_transition", schema_name="ductor", columns=columns, records=rows()
    )
    await connection.execute(
        "INSERT INTO ductor.eec_workflow_run (run_id, tenant, definition, manifest_hash, status, started_at_us,"
        " updated_at_us, search_attributes) VALUES ($1, 't', 'round', 'm', 'running', $2, $2, '{}')",
        uuid.UUID(run_id),
        START_US,
    )
    await connection.execute("ANALYZE ductor.eec_workflow_transition")
    return run_id


async def _folded(connection: asyncpg.Connection, run_id: str, version: int) -> RunState:
    """The state after so many rows: what folding all of them would give, from the last one of them alone."""
    state = RunState(run_id=run_id)
    fold_row(state, 1, START_US + 1, b"", _events(1))
    if version > 1:
        fold_row(state, version, START_US + version, b"", _events(version))
    state.last_hash = await connection.fetchval(
        "SELECT hash FROM ductor.eec_workflow_transition WHERE run_id = $1 AND version = $2",
        uuid.UUID(run_id),
        version,
    )
    return state


async def _compact(connection: asyncpg.Connection, run_id: str, size: int) -> None:
    state = await _folded(connection, run_id, size)
    events, at_us = encode_events([compacted(state)]), START_US + size + 1
    await connection.execute(
        "INSERT INTO ductor.eec_workflow_transition (run_id, version, commit_id, at_us, events, hash)"
        " VALUES ($1, $2, $3, $4, $5, $6)",
        uuid.UUID(run_id),
        size + 1,
        uuid.UUID(int=0),
        at_us,
        events.decode(),
        link(state.last_hash, run_id, size + 1, at_us, events),
    )


def _measure_wide(sizes: tuple[int, ...]) -> Table:
    table = Table(
        name="snapshot",
        title="Snapshot of a run with many children, 200 bytes of result each",
        columns=("children", "kib", "write_ms", "read_ms", "write_us_per_row"),
        note="a snapshot is written when the rows since the last one have as many bytes: the last column spreads it",
    )
    for children in sizes:
        state = _wide_state(children)
        encoded = encode_state(state)
        write_ms = _milliseconds(partial(encode_state, state))
        read_ms = _milliseconds(partial(decode_state, encoded))
        table.add(
            children,
            round(len(encoded) / 1_024),
            round(write_ms, 2),
            round(read_ms, 2),
            round(write_ms * 1_000 / children, 2),
        )
    return table


def _wide_state(children: int) -> RunState:
    state = RunState(run_id=SystemIds().run_id())
    first: list[AnyEvent] = [
        RunStarted(tenant="t", definition="wide", manifest_hash="m", entrypoints=("each",)),
        ScatterStarted(node="each", total=children, items=list(range(children))),
    ]
    fold_row(state, 1, START_US, b"h", first)
    for index in range(children):
        node = f"each[{index}]"
        events: list[AnyEvent] = [
            AttemptDispatched(node=node, generation=1, task="work"),
            AttemptFinished(node=node, generation=1, outcome="succeeded", output={"text": "x" * 190}),
            NodeSettled(node=node, status="succeeded"),
        ]
        fold_row(state, index + 2, START_US, b"h", events)
    return state


def _milliseconds(work: Callable[[], object]) -> float:
    """The fastest of five times."""
    took: list[float] = []
    for _ in range(5):
        began = time.perf_counter()
        work()
        took.append((time.perf_counter() - began) * 1_000)
    return min(took)
