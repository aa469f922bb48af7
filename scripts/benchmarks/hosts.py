"""Several hosts on one PostgreSQL and one Redis: steps a second, how soon runs go on after a kill, idle questions.

Every host is a process of its own. Recovery is what the journal says: for each run of a host that was killed the time
from the kill to the first row that another host has written, by the database's clock.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import asyncpg

from ductor.actors.client import Client
from ductor.actors.partitions import PartitionMap
from ductor.definitions.compile import compile_text
from ductor.journal.clock import SystemClock
from ductor.journal.ids import SystemIds
from ductor.journal.postgres import PostgresStore, migrate
from scripts.benchmarks.chain import compiled_chain
from scripts.benchmarks.host_process import STEPS
from scripts.benchmarks.load import percentile
from scripts.benchmarks.remote_work import redis_of_its_own
from scripts.benchmarks.report import Table
from scripts.benchmarks.server import BenchmarkServer

RUNS_PER_HOST = 1_000
COUNTS = (1, 2, 4)
KILLS = 6
BUSY_RUNS = 60
LONG = """
ductor: 1
name: long
steps: [{ref: a, type: task, task: pause, repeat: {until: "false", max: 600}}]
"""
SETTLE_S = 6.0
"""Until hosts know each other, and until those that are killed are forgotten by all."""
BEGUN_S = 2.0
RECOVERED_S = 15.0
IDLE_S = 10.0
_FIRST_ROWS = """
SELECT min(at_us) FROM ductor.eec_workflow_transition WHERE at_us > $1 AND run_id = ANY ($2::uuid[]) GROUP BY run_id
"""


class HostProcess:
    """One host."""

    def __init__(self, process: asyncio.subprocess.Process, host_id: str) -> None:
        self._process, self.host_id = process, host_id

    async def measure(self, runs: int) -> float:
        """The seconds that so many runs take."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"%d\n" % runs)
        return float(await self._process.stdout.readline())

    async def end(self, *, kills: bool) -> None:
        """End it in order, or kill it."""
        if self._process.returncode is None:
            self._process.kill() if kills else self._process.stdin.close()  # type: ignore[union-attr]
            await self._process.wait()


async def measure_hosts(server: BenchmarkServer, *, is_quick: bool) -> list[Table]:
    """Measure 1, 2 and 4 hosts at work, 3 of which one is killed, and 1 and 3 that have nothing to do."""
    with redis_of_its_own() as redis:
        return [
            await _throughput(server, redis.url, is_quick),
            await _recovery(server, redis.url, is_quick),
            await _idle(server, redis.url),
        ]


async def _throughput(server: BenchmarkServer, redis_url: str, is_quick: bool) -> Table:
    table = Table(
        name="hosts",
        title=f"Hosts side by side: runs of {STEPS} steps on one PostgreSQL",
        columns=("hosts", "steps_per_s"),
        note="each host starts its own runs, 64 at a time; hosts, PostgreSQL and Redis share the processors",
    )
    runs = RUNS_PER_HOST // (4 if is_quick else 1)
    for count in COUNTS:
        dsn = await _database(server, f"hosts_{count}")
        async with _hosts(dsn, redis_url, f"hosts-{count}", count) as hosts:
            await asyncio.gather(*(host.measure(64) for host in hosts))  # plans, and who owns what
            seconds = max(await asyncio.gather(*(host.measure(runs) for host in hosts)))
        table.add(count, round(count * runs * STEPS / seconds))
    return table


async def _recovery(server: BenchmarkServer, redis_url: str, is_quick: bool) -> Table:
    table = Table(
        name="recovery",
        title="One of three hosts is killed: until its runs go on at others",
        columns=("runs", "p50_s", "p99_s", "max_s"),
        note="from kill -9 to the first row that another host writes, by run; default settings",
    )
    dsn = await _database(server, "hosts_recovery")
    waits_s: list[float] = []
    async with PostgresStore(dsn) as store:
        client = Client(store, clock=SystemClock(), ids=SystemIds())
        connection: asyncpg.Connection = await asyncpg.connect(dsn)
        for number in range(KILLS // (3 if is_quick else 1)):
            async with _hosts(dsn, redis_url, f"recovery-{number}", 3) as hosts:
                await asyncio.sleep(SETTLE_S)
                run_ids = [(await client.start("long")).run_id for _ in range(BUSY_RUNS)]
                await asyncio.sleep(BEGUN_S)
                victim = hosts[number % 3]
                owners = PartitionMap(victim.host_id, [host.host_id for host in hosts])
                lost = [run_id for run_id in run_ids if owners.owns(run_id)]
                await victim.end(kills=True)
                killed_us = await store.now_us()
                await asyncio.sleep(RECOVERED_S)
                rows = await connection.fetch(_FIRST_ROWS, killed_us, lost)
                waits_s += [(row[0] - killed_us) / 1e6 for row in rows]
                waits_s += [RECOVERED_S] * (len(lost) - len(rows))
        await connection.close()
    table.add(
        len(waits_s), round(percentile(waits_s, 0.5), 2), round(percentile(waits_s, 0.99), 2), round(max(waits_s), 2)
    )
    return table


async def _idle(server: BenchmarkServer, redis_url: str) -> Table:
    table = Table(
        name="idle-hosts",
        title="Hosts that have nothing to do: what they ask PostgreSQL",
        columns=("hosts", "queries_per_s"),
        note="statements of all hosts together",
    )
    for count in (1, 3):
        dsn = await _database(server, f"hosts_idle_{count}")
        async with _hosts(dsn, redis_url, f"idle-{count}", count):
            await asyncio.sleep(SETTLE_S)
            before = await server.counters(f"hosts_idle_{count}")
            await asyncio.sleep(IDLE_S)
            asked = (await server.counters(f"hosts_idle_{count}")).since(before)
        table.add(count, round(asked.statements / IDLE_S, 1))
    return table


async def _database(server: BenchmarkServer, name: str) -> str:
    dsn = await server.fresh_database(name)
    await migrate(dsn)
    async with PostgresStore(dsn) as store:
        client = Client(store, clock=SystemClock(), ids=SystemIds())
        for compiled in (compiled_chain(STEPS), *compile_text(LONG)):
            await client.publish(compiled)
    return dsn


@asynccontextmanager
async def _hosts(dsn: str, redis_url: str, shard: str, count: int) -> AsyncIterator[list[HostProcess]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(_host(dsn, redis_url, shard)) for _ in range(count)]


@asynccontextmanager
async def _host(dsn: str, redis_url: str, shard: str) -> AsyncIterator[HostProcess]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "scripts.benchmarks.host_process", dsn, redis_url, shard),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    host = HostProcess(process, (await process.stdout.readline()).decode().split()[1])
    try:
        yield host
    finally:
        await host.end(kills=False)
