"""The projector: each row once, whatever happens; one that fails stands still alone; rebuilds beside what is read."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, Literal

import asyncpg
import pytest

from ductor.journal.events import AnyEvent, NodeSettled, RunStarted
from ductor.journal.postgres import PostgresStore
from ductor.journal.state import RunState
from ductor.projections.database import DATABASE_AWAY, ModelDatabase
from ductor.projections.funnel import FunnelProjection
from ductor.projections.model import Projection, RunRow, Statement
from ductor.projections.projector import Projector, ProjectorOptions
from ductor.projections.read_models import ReadModels
from ductor.projections.runs import RunsProjection
from tests.postgres_fixtures import Database
from tests.projections.journals import Journal, random_journals, tables_of, write_journals, write_row
from tests.projections.projecting import FailingDatabase, project, projector

WAIT_S = 30.0
PATIENT = ProjectorOptions(batch_rows=40)


class Log(Projection):
    """Every row, in the order in which it was applied."""

    name = "log"
    revision = 1
    schema = "CREATE TABLE log (place serial, run_id uuid, version bigint, PRIMARY KEY (run_id, version))"

    def apply(self, event: AnyEvent, run: RunRow) -> Iterable[Statement]:
        if event is run.events[0]:
            yield Statement("INSERT INTO log (run_id, version) VALUES ($1, $2)", (run.run_id, run.version))


class Fussy(Log):
    """Fails on one row."""

    name = "fussy"

    def __init__(self, run_id: str, version: int) -> None:
        self.at = (run_id, version)
        self.is_mended = False

    def apply(self, event: AnyEvent, run: RunRow) -> Iterable[Statement]:
        if (run.run_id, run.version) == self.at and not self.is_mended:
            raise ValueError("not this one")
        return super().apply(event, run)


async def rows_of(connection: asyncpg.Connection, schema: str) -> list[tuple[str, int]]:
    rows = await connection.fetch(f'SELECT run_id::text, version FROM "{schema}".log ORDER BY place')
    return [(row[0], row[1]) for row in rows]


async def checkpoint(connection: asyncpg.Connection, name: str) -> asyncpg.Record:
    row = await connection.fetchrow("SELECT * FROM ductor.eec_projection WHERE name = $1 AND stage <> 'retired'", name)
    assert row is not None
    return row


async def write_some(connection: asyncpg.Connection, count: int) -> list[Journal]:
    journals = random_journals(count)
    await write_journals(connection, journals)
    return journals


async def test_every_row_is_applied_once_and_in_order(store: PostgresStore, connection: asyncpg.Connection) -> None:
    journals = await write_some(connection, 12)
    await project(store, [Log()])
    found = await rows_of(connection, "ductor_log_1")
    feed = await connection.fetch("SELECT run_id::text, version FROM ductor.eec_workflow_transition ORDER BY position")
    assert found == [tuple(row) for row in feed]
    assert len(found) == sum(len(journal.rows) for journal in journals)
    assert (await checkpoint(connection, "log"))["applied_rows"] == len(found)


async def test_a_transaction_that_commits_late_is_never_skipped(
    store: PostgresStore, connection: asyncpg.Connection, database: Database
) -> None:
    early, late, after = random_journals(3)
    one = projector(store, [Log()])
    writer = await asyncpg.connect(database.dsn)
    try:
        await write_journals(connection, [early])
        transaction = writer.transaction()
        await transaction.start()
        await write_row(writer, RunState(run_id=late.run_id), late.rows[0])
        await write_journals(connection, [after])
        await one.catch_up()
        applied = await rows_of(connection, "ductor_log_1")
        assert applied == [(early.run_id, row.version) for row in early.rows], "it went past an open transaction"
        async with read_models(store) as models:
            (status,) = await models.projections()
        assert status.lag_rows == len(after.rows)
        assert "transaction open" in status.blocked_by
        await transaction.commit()
        await one.catch_up()
    finally:
        await writer.close()
        await one.stop()
    applied = await rows_of(connection, "ductor_log_1")
    assert (late.run_id, 1) in applied
    assert len(applied) == len(early.rows) + 1 + len(after.rows)


class read_models:  # noqa: N801 - used as a function
    def __init__(self, store: PostgresStore) -> None:
        self._models = ReadModels(store)

    async def __aenter__(self) -> ReadModels:
        return self._models

    async def __aexit__(self, *_: object) -> None:
        await self._models.close()


@pytest.mark.parametrize("when", ["before", "after"])
async def test_killed_at_any_point_the_model_is_the_same(
    store: PostgresStore, connection: asyncpg.Connection, when: Literal["before", "after"]
) -> None:
    await write_some(connection, 8)
    projections = [RunsProjection(), FunnelProjection()]
    await project(store, projections)
    undisturbed = [await tables_of(connection, f"ductor_{one.name}_1") for one in projections]
    assert undisturbed[0]["run"]
    at = 0
    has_killed = True
    while has_killed:
        at += 1
        await forget_models(connection)
        database = FailingDatabase(store, at, when)
        killed = projector(store, projections, database=database)
        with contextlib.suppress(*DATABASE_AWAY):
            await killed.catch_up()
        has_killed = database.has_killed
        await database.close()
        await project(store, projections)
        assert [await tables_of(connection, f"ductor_{one.name}_1") for one in projections] == undisturbed, at
    assert at > 50, "hardly anything was tried"


async def forget_models(connection: asyncpg.Connection) -> None:
    for (schema,) in await connection.fetch("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'ductor\\_%'"):
        await connection.execute(f'DROP SCHEMA "{schema}" CASCADE')
    await connection.execute("DELETE FROM ductor.eec_projection")
    # the views went with what they read
    for view in ("runs", "funnel"):
        await connection.execute(f"DROP VIEW IF EXISTS ductor.report_{view}")


async def test_two_projectors_never_apply_a_row_twice(store: PostgresStore, connection: asyncpg.Connection) -> None:
    journals = random_journals(20)
    ones = [projector(store, [Log()], leader=f"host-{number}") for number in range(2)]
    writing = asyncio.create_task(write_journals(connection, journals))
    for one in ones:
        await one.__aenter__()
    try:
        async with asyncio.timeout(WAIT_S):
            await writing
            total = sum(len(journal.rows) for journal in journals)
            while (await checkpoint(connection, "log"))["applied_rows"] < total:
                await ones[0].turned()
    finally:
        for one in ones:
            await one.stop()
    # the primary key of the table would have refused a second time, and the projection would stand still
    found = await checkpoint(connection, "log")
    assert (found["failed_at_us"], found["applied_rows"]) == (None, total)
    assert len(await rows_of(connection, "ductor_log_1")) == total


async def test_who_has_lost_the_lease_changes_nothing(store: PostgresStore, connection: asyncpg.Connection) -> None:
    journals = random_journals(4)
    await write_journals(connection, journals[:2])
    first = projector(store, [Log()], leader="first", options=PATIENT)
    await first.catch_up()
    await connection.execute("UPDATE ductor.eec_projection SET leased_until_us = 0")
    second = projector(store, [Log()], leader="second", options=PATIENT)
    await write_journals(connection, journals[2:])
    await second.catch_up()
    before = await rows_of(connection, "ductor_log_1")
    await first.catch_up()
    assert await rows_of(connection, "ductor_log_1") == before
    await first.stop()
    await second.stop()


async def test_one_that_fails_stands_still_alone_and_says_where(
    store: PostgresStore, connection: asyncpg.Connection
) -> None:
    journals = await write_some(connection, 6)
    at = (journals[3].run_id, journals[3].rows[1].version)
    fussy, log = Fussy(*at), Log()
    one = projector(store, [fussy, log])
    await one.catch_up()
    found = await checkpoint(connection, "fussy")
    assert (str(found["failed_run_id"]), found["failed_version"], found["error"]) == (*at, "ValueError: not this one")
    everything = await rows_of(connection, "ductor_log_1")
    assert len(everything) == sum(len(journal.rows) for journal in journals)
    assert await rows_of(connection, "ductor_fussy_1") == everything[: everything.index(at)]
    async with read_models(store) as models:
        status = {each.name: each.status for each in await models.projections()}
        assert status == {"fussy": "failed", "log": "serving"}
        fussy.is_mended = True
        assert await models.retry("fussy")
        assert not await models.retry("log")
    await one.catch_up()
    assert await rows_of(connection, "ductor_fussy_1") == everything
    await one.stop()


async def test_tables_that_cannot_be_made_stop_one_projection(
    store: PostgresStore, connection: asyncpg.Connection
) -> None:
    class Broken(Log):
        name = "broken"
        schema = "CREATE TABLE log (place serial, run_id nonsense)"

    await write_some(connection, 2)
    await project(store, [Broken(), Log()])
    found = await checkpoint(connection, "broken")
    assert 'type "nonsense" does not exist' in found["error"]
    assert found["failed_run_id"] is None
    assert (await checkpoint(connection, "log"))["stage"] == "serving"


async def test_a_rebuild_serves_the_old_model_until_it_is_swapped(
    store: PostgresStore, connection: asyncpg.Connection
) -> None:
    journals = random_journals(12)
    await write_journals(connection, journals[:6])
    runs = RunsProjection()
    one = projector(store, [runs])
    await one.catch_up()
    async with read_models(store) as models:
        assert await models.rebuild("runs")
        assert not await models.rebuild("runs"), "a second one began"
    counts = []
    writing = asyncio.create_task(write_journals(connection, journals[6:]))
    async with asyncio.timeout(WAIT_S):
        while True:
            has_worked = await one.turn()
            if writing.done():
                counts.append(await connection.fetchval("SELECT count(*) FROM ductor.report_runs"))
                if not has_worked:
                    break
        await writing
    assert min(counts) >= 6, "there was a time without a model"
    assert counts[-1] == 12
    rows = await connection.fetch("SELECT generation, stage FROM ductor.eec_projection")
    assert [tuple(row) for row in rows] == [(2, "serving")]
    assert await connection.fetchval("SELECT to_regnamespace('ductor_runs_1')") is None
    rebuilt = await tables_of(connection, "ductor_runs_2")
    await forget_models(connection)
    await project(store, [runs])
    assert await tables_of(connection, "ductor_runs_1") == rebuilt
    await one.stop()


async def test_a_new_revision_is_built_beside_the_old_one(store: PostgresStore, connection: asyncpg.Connection) -> None:
    class Starts(Projection):
        name = "log"
        revision = 2
        schema = "CREATE TABLE started (run_id uuid PRIMARY KEY)"

        def apply(self, event: AnyEvent, run: RunRow) -> Iterable[Statement]:
            if isinstance(event, RunStarted):
                yield Statement("INSERT INTO started VALUES ($1)", (run.run_id,))

    journals = await write_some(connection, 3)
    await project(store, [Log()])
    await project(store, [Starts()])
    assert await connection.fetchval("SELECT count(*) FROM ductor_log_2.started") == len(journals)
    await project(store, [Log()])  # a host of the old version, still there
    rows = await connection.fetch("SELECT generation, revision, stage FROM ductor.eec_projection")
    assert [tuple(row) for row in rows] == [(2, 2, "serving")]


async def test_a_report_that_is_being_read_puts_the_swap_off(
    store: PostgresStore, connection: asyncpg.Connection, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ductor.projections.generations.LOCK_TIMEOUT_MS", 50)
    await write_some(connection, 2)
    one = projector(store, [RunsProjection()])
    await one.catch_up()
    async with read_models(store) as models:
        await models.rebuild("runs")
    reader = await asyncpg.connect(database.dsn)
    async with reader.transaction():
        await reader.fetch("SELECT * FROM ductor.report_runs")
        await one.catch_up()
        assert await connection.fetchval("SELECT generation FROM ductor.eec_projection WHERE stage = 'serving'") == 1
    await reader.close()
    await one.catch_up()
    assert await connection.fetchval("SELECT generation FROM ductor.eec_projection WHERE stage = 'serving'") == 2
    await one.stop()


async def test_a_page_of_the_feed_is_bounded_in_bytes(store: PostgresStore, connection: asyncpg.Connection) -> None:
    journals = await write_some(connection, 6)
    one = projector(store, [Log()], options=ProjectorOptions(batch_bytes=1_000, claim_ms=0, lease_ms=0))
    turns = 0
    while await one.turn():
        turns += 1
    await one.stop()
    total = sum(len(journal.rows) for journal in journals)
    assert len(await rows_of(connection, "ductor_log_1")) == total
    assert turns > 5, "batches were not cut"


async def test_events_of_newer_software_are_passed_over_and_counted(
    store: PostgresStore, connection: asyncpg.Connection
) -> None:
    (journal,) = random_journals(1)
    await write_journals(connection, [journal])
    await connection.execute(
        "INSERT INTO ductor.eec_workflow_transition (run_id, version, commit_id, at_us, events, hash)"
        " VALUES ($1, $2, gen_random_uuid(), 9, $3, '')",
        journal.run_id,
        len(journal.rows) + 1,
        '[{"type":"of_tomorrow","a":1},{"type":"node_settled","node":"s9","status":"succeeded","of_tomorrow":1}]',
    )
    await project(store)
    rows = await connection.fetch("SELECT name, skipped_events, failed_at_us FROM ductor.eec_projection ORDER BY name")
    assert [tuple(row) for row in rows] == [(name, 1, None) for name in ("funnel", "runs", "steps", "usage")]
    settled = await connection.fetchval(
        "SELECT count FROM ductor.report_funnel WHERE step = 's9' AND measure = 'settled'"
    )
    assert settled == 1


async def test_a_projector_outlives_the_loss_of_its_connections(
    store: PostgresStore, connection: asyncpg.Connection
) -> None:
    journals = random_journals(6)
    async with projector(store, [Log()]) as one, asyncio.timeout(WAIT_S):
        for journal in journals:
            await write_journals(connection, [journal])
            await connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'ductor projections' AND datname = current_database()"
            )
        total = sum(len(journal.rows) for journal in journals)
        while True:
            row = await connection.fetchrow("SELECT applied_rows FROM ductor.eec_projection WHERE name = 'log'")
            if row is not None and row[0] == total:
                break
            await one.turned()
    assert len(await rows_of(connection, "ductor_log_1")) == total


async def test_settled_steps_are_seen_by_a_projection_of_ones_own(
    store: PostgresStore, connection: asyncpg.Connection
) -> None:
    class Settled(Projection):
        name = "settled"
        revision = 1
        schema = "CREATE TABLE settled (step text PRIMARY KEY, count bigint NOT NULL)"
        views = {"report_settled": "SELECT step, count FROM settled"}  # noqa: RUF012

        def apply(self, event: AnyEvent, run: RunRow) -> Iterable[Statement]:
            if isinstance(event, NodeSettled):
                yield Statement(
                    "INSERT INTO settled AS s VALUES ($1, 1) ON CONFLICT (step) DO UPDATE SET count = s.count + 1",
                    (event.node,),
                )

    await write_some(connection, 5)
    await project(store, [Settled(), FunnelProjection()])
    own = await connection.fetch("SELECT * FROM ductor.report_settled ORDER BY step")
    flow = await connection.fetch(
        "SELECT step, sum(count)::bigint FROM ductor.report_funnel WHERE measure = 'settled'"
        " GROUP BY step ORDER BY step"
    )
    assert [tuple(row) for row in own] == [tuple(row) for row in flow]


async def test_rows_that_are_gone_hold_nobody_up(store: PostgresStore, connection: asyncpg.Connection) -> None:
    journals = random_journals(4)
    await write_journals(connection, journals[:2])
    ahead = projector(store, [Log()])
    await ahead.catch_up()
    await connection.execute("DELETE FROM ductor.eec_workflow_transition")
    both = projector(store, [Log(), RunsProjection()])
    await both.catch_up()
    await write_journals(connection, journals[2:])
    await both.catch_up()
    at = [await checkpoint(connection, name) for name in ("log", "runs")]
    assert at[0]["position"] == at[1]["position"] > 0
    assert await connection.fetchval("SELECT count(*) FROM ductor.report_runs") == 2
    await ahead.stop()
    await both.stop()


async def test_an_idle_projector_asks_seldom(store: PostgresStore, connection: asyncpg.Connection) -> None:
    await write_some(connection, 1)
    options = ProjectorOptions(busy_poll_ms=1, idle_poll_ms=30)
    one = Pausing(store, [Log(), RunsProjection(), FunnelProjection()], leader="host", options=options)
    await one.catch_up()
    database = CountingDatabase(store.settings)
    await one._database.close()
    one._database = database
    reads = 0
    feed = store.feed_columns

    async def counted(*arguments: object, **named: object) -> object:
        nonlocal reads
        reads += 1
        return await feed(*arguments, **named)  # type: ignore[arg-type]

    store.feed_columns = counted  # type: ignore[method-assign,assignment]
    async with one, asyncio.timeout(WAIT_S):
        await one.has_paused_often.wait()
        assert one.pauses_ms[:7] == [1, 2, 4, 8, 16, 30, 30]
        # one read of the feed for all projections at each look, and nothing else until it is time to claim anew
        assert reads == len(one.pauses_ms)
        assert database.transactions == 0


class Pausing(Projector):
    """Does not wait, and tells how long it would have."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.pauses_ms: list[int] = []
        self.has_paused_often = asyncio.Event()

    async def _pause(self, ms: int) -> None:
        self.pauses_ms.append(ms)
        if len(self.pauses_ms) == 10:
            self.has_paused_often.set()
            await self._stopping.wait()


class CountingDatabase(ModelDatabase):
    """Counts transactions."""

    transactions = 0

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[asyncpg.Connection]:
        self.transactions += 1
        async with super().transaction() as connection:
            yield connection
