"""Everything works through a transaction pooler, with named prepared statements and without."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

from ductor.journal.commit import (
    Appended,
    BusEvent,
    Conflict,
    EventWait,
    HeadUpdate,
    InboxItem,
    Payload,
    Refused,
    SentMessage,
    StartKeyTaken,
    TimerUpdate,
)
from ductor.journal.events import Message
from ductor.journal.postgres import ConnectionSettings, PostgresStore, migrate
from ductor.journal.records import (
    AttemptRow,
    Control,
    FeedPosition,
    PublishedDefinition,
    RunFilter,
    StartTrigger,
)
from tests.journal.postgres.commits import answered, start, started_runs, tick
from tests.journal.postgres.proxies import PoolingProxy
from tests.journal.waiting import until
from tests.postgres_fixtures import Database, make_directory


@pytest.fixture(params=[True, False], ids=["prepared", "unprepared"])
async def pooled(request: pytest.FixtureRequest, database: Database) -> AsyncIterator[ConnectionSettings]:
    """The way through a pooler with two server connections."""
    async with PoolingProxy(database.dsn, size=2, tracks_statements=request.param) as proxy:
        yield ConnectionSettings(dsn=proxy.dsn, through_pooler=True, prepared_statements=request.param)
        assert proxy.handovers > 0


async def use_everything(one: PostgresStore, other: PostgresStore) -> None:
    """Two hosts at work on the same runs, through every kind of statement."""
    runs = await started_runs(one, 20)
    parts: dict[str, Any] = {
        "head": HeadUpdate(status="waiting"),
        "timer": TimerUpdate(5),
        "payloads": (Payload("h", b"1"),),
    }
    for version in range(2, 8):
        there, back = await asyncio.gather(
            answered(one, *(tick(run_id, version, **(parts if version % 2 else {})) for run_id in runs)),
            answered(other, *(tick(run_id, version) for run_id in runs)),
        )
        for pair in zip(there, back, strict=True):
            assert {type(answer) for answer in pair} == {Appended, Conflict}
        loads = await asyncio.gather(*(store.load(run_id) for run_id in runs for store in (one, other)))
        assert all(loaded is not None and len(loaded.tail) == version for loaded in loads)
    first = start(key="k")
    assert await answered(one, first) == [Appended(1)]
    assert await answered(other, start(key="k")) == [StartKeyTaken(first.run_id)]
    answers = await answered(one, tick(runs[0], 8, events=b"{"), tick(runs[1], 8))
    assert isinstance(answers[0], Refused)
    assert answers[1] == Appended(8)
    receipt = await other.request_control(Control(run_id=runs[0], request_id="r", kind="cancel"))
    assert receipt is not None
    assert receipt.verdict == "accepted"
    await one.append_attempt(AttemptRow(run_id=runs[0], node="n", generation=1, outcome="succeeded"))
    assert await one.publish(PublishedDefinition(tenant="t", name="n", version="1", manifest_hash="m", manifest=b"{}"))
    await use_what_waits(one, other, runs)
    assert len(await other.heads(RunFilter(limit=100))) == 21
    assert len(await one.feed(FeedPosition(), 1_000)) == 20 * 7 + 3


async def use_what_waits(one: PostgresStore, other: PostgresStore, runs: list[str]) -> None:
    """Messages, the bus, the inbox and triggers."""
    event = BusEvent(tenant="acme", event_id="e", name="shipped")
    parts: dict[str, Any] = {
        "waits": (EventWait(node="n", index=0, name="shipped", since_us=1),),
        "inbox": (InboxItem(node="n", kind="approval", title="?", people=("ann",)),),
        "sent": (SentMessage(runs[3], Message(id="m", kind="signal")),),
    }
    assert await answered(one, tick(runs[2], 8, **parts)) == [Appended(8)]
    assert (await other.publish_event(event)).verdict == "accepted"
    (wait,) = await other.waits_for_event("acme", "shipped", [("", "")], after=None, limit=10)
    assert list(await other.deliver_event(event, [wait.run_id])) == [runs[2]]
    inputs = await asyncio.gather(*(one.inputs(run_id) for run_id in runs[2:4]))
    assert [message.id for each in inputs if each is not None for message in each.messages] == ["event:e", "m"]
    assert [entry.run_id for entry in await other.inbox(tenant="acme", person="ann")] == [runs[2]]
    trigger = StartTrigger(tenant="acme", definition="order", manifest_hash="m", index=0, next_at_us=1)
    await one.replace_triggers("acme", "order", [trigger])
    assert await other.advance_schedule(trigger, 2)


async def test_two_hosts_through_a_pooler(pooled: ConnectionSettings) -> None:
    async with PostgresStore(pooled) as one, PostgresStore(pooled) as other:
        await use_everything(one, other)


async def test_migrating_through_a_pooler(pooled: ConnectionSettings) -> None:
    assert await migrate(pooled.dsn) == []


async def test_unprepared_statements_without_a_pooler(database: Database) -> None:
    settings = ConnectionSettings(dsn=database.dsn, prepared_statements=False)
    async with PostgresStore(settings) as one, PostgresStore(settings) as other:
        await use_everything(one, other)


async def test_the_writer_plans_with_its_own_settings_through_a_pooler(
    pooled: ConnectionSettings, database: Database
) -> None:
    """They hold for the writer's transaction and are gone after it."""
    connection = await asyncpg.connect(database.dsn)
    await connection.execute(
        "CREATE TABLE seen (setting text);"
        "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " INSERT INTO seen VALUES (current_setting('enable_seqscan') || ' ' || current_setting('lock_timeout'));"
        " RETURN NULL; END $$;"
        "CREATE TRIGGER note AFTER INSERT ON ductor.eec_workflow_transition EXECUTE FUNCTION note()"
    )
    async with PostgresStore(pooled) as store:
        await started_runs(store, 1)
        assert await connection.fetchval("SELECT setting FROM seen") == "off 100ms"
    await connection.close()
    through = await asyncpg.connect(pooled.dsn, statement_cache_size=0)
    async with through.transaction():
        assert await through.fetchval("SELECT current_setting('enable_seqscan')") == "on"
    await through.close()


@pytest.mark.skipif(shutil.which("pgbouncer") is None, reason="pgbouncer is not installed")
async def test_two_hosts_through_pgbouncer(database: Database) -> None:
    said = subprocess.run(["pgbouncer", "--version"], check=True, capture_output=True, text=True).stdout
    follows_statements = tuple(int(part) for part in said.split()[1].split(".")[:2]) >= (1, 21)
    query = parse_qs(urlsplit(database.dsn).query)
    directory = make_directory()
    configuration = directory / "pgbouncer.ini"
    configuration.write_text(
        f"[databases]\n* = host={query['host'][0]} port={query['port'][0]} user=postgres\n"
        f"[pgbouncer]\nunix_socket_dir = {directory}\nlisten_port = 6432\nauth_type = any\npool_mode = transaction\n"
        f"default_pool_size = 2\n{'max_prepared_statements = 200' if follows_statements else ''}\n"
    )
    directory.chmod(0o777)
    # it refuses root, and the server's socket is open to its own account
    account = None if os.geteuid() else Path(query["host"][0]).stat().st_uid
    bouncer = subprocess.Popen(["pgbouncer", "-q", str(configuration)], user=account)
    try:
        await until((directory / ".s.PGSQL.6432").exists)
        dsn = f"postgresql://postgres@/{database.name}?host={directory}&port=6432"
        settings = ConnectionSettings(dsn=dsn, through_pooler=True, prepared_statements=follows_statements)
        async with PostgresStore(settings) as one, PostgresStore(settings) as other:
            await use_everything(one, other)
    finally:
        bouncer.terminate()
        bouncer.wait()
        shutil.rmtree(directory)
