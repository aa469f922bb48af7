"""The endpoint over real sockets: what it says while a host lives and ends, and what it refuses."""

import asyncio
import os
import shutil
import signal

import pytest

import ductor
from ductor.definitions.build import task, workflow
from ductor.errors import PortUnavailableError
from ductor.journal.clock import SystemClock
from ductor.journal.embedded import EmbeddedPostgres
from ductor.journal.memory import MemoryStore
from ductor.journal.postgres import migrate
from ductor.observability import endpoint as endpoints
from ductor.observability.endpoint import MAX_CONNECTIONS, MAX_HEAD_BYTES, Endpoint
from ductor.observability.metrics import Metrics
from ductor.projections.model import Projection
from tests.ductor.observability.http import WAIT_S, concern_kinds, get, report, report_when, scraped, send, value
from tests.journal.postgres.proxies import CuttingProxy
from tests.postgres_fixtures import make_directory
from tests.redis_server import reserve_port


@pytest.fixture
async def store():
    made = MemoryStore(SystemClock())
    await made.open()
    yield made
    await made.close()


async def test_a_host_is_ready_only_while_it_takes_up_runs(store):
    has_begun, may_end = asyncio.Event(), asyncio.Event()

    @ductor.task("slow")
    async def slow() -> None:
        has_begun.set()
        await may_end.wait()

    host = ductor.Host(tasks=[slow], definitions=workflow("slow", task("a", "slow")), database=store)
    async with Endpoint(host) as endpoint:
        before = await report(endpoint, "/ready")
        assert (before[0], before[1]["phase"], concern_kinds(before[1])) == (503, "new", ["starting"])
        assert (await report(endpoint, "/health"))[0] == 200
        await host.open()
        status, working = await report(endpoint, "/ready")
        assert (status, working["is_ready"], working["concerns"]) == (200, True, [])
        assert working["host_id"] == host.engine.host_id
        await host.start("slow")
        await has_begun.wait()
        closing = asyncio.create_task(host.close())
        await asyncio.sleep(0)
        draining = await report(endpoint, "/ready")
        assert (draining[0], draining[1]["phase"], concern_kinds(draining[1])) == (503, "draining", ["draining"])
        assert (await report(endpoint, "/health"))[0] == 200
        may_end.set()
        await closing
        assert (await report(endpoint, "/health"))[0] == 503
        assert concern_kinds((await report(endpoint, "/ready"))[1]) == ["stopped"]


async def test_missing_handlers_and_runs_set_aside_are_concerns_but_not_the_end(store):
    lonely = workflow("lonely", task("a", "nobody.has.it"))
    async with ductor.Host(definitions=lonely, database=store) as host, Endpoint(host) as endpoint:
        await host.start("lonely")
        host.engine.engine.set_aside("0190-bad", ValueError("it kills its actor"))
        answer = await report_when(endpoint, lambda _, kinds: "handler_missing" in kinds)
        assert (answer["is_ready"], concern_kinds(answer)) == (True, ["handler_missing", "run_set_aside"])
        assert "nobody.has.it" in answer["concerns"][0]["detail"]
        assert "it kills its actor" in answer["concerns"][1]["detail"]


async def test_a_database_that_is_killed_makes_the_host_unready_until_it_is_back():
    directory = make_directory()
    metrics = Metrics()
    try:
        async with EmbeddedPostgres(directory / "server", stop_on_parent_death=True) as server:  # it comes back
            await migrate(server.dsn())
            host = ductor.Host(database=server.dsn(), observers=[metrics])
            async with Endpoint(host, metrics=metrics) as endpoint, host:
                assert (await report(endpoint, "/ready"))[0] == 200
                os.kill(server.pid, signal.SIGKILL)
                away = await report_when(endpoint, lambda status, _: status != 200)
                assert away["phase"] == "running"
                assert "store_unavailable" in concern_kinds(away)
                await report_when(endpoint, lambda status, _: status == 200)
                assert value(await scraped(endpoint), "store_up") == 1
    finally:
        shutil.rmtree(directory)


async def test_while_the_database_is_away_counters_are_there_and_the_host_is_healthy(database):
    metrics = Metrics()
    async with CuttingProxy(database.dsn) as proxy:
        host = ductor.Host(database=proxy.dsn, observers=[metrics])
        async with Endpoint(host, metrics=metrics) as endpoint, host:
            proxy.is_refusing = True
            proxy.cut()
            assert "store_unavailable" in concern_kinds(await report_when(endpoint, lambda status, _: status == 503))
            assert (await report(endpoint, "/health"))[0] == 200  # a restart would not bring the database back
            found = await scraped(endpoint)
            assert value(found, "store_up") == 0
            assert value(found, "lookup_failed", what="projections") == 1
            assert value(found, "tick_duration_seconds_count") == 0
            proxy.is_refusing = False
            await report_when(endpoint, lambda status, _: status == 200)


async def test_a_redis_that_is_away_is_a_concern_and_no_more(database):
    port, reservation = reserve_port()
    with reservation:
        host = ductor.Host(database=database.dsn, redis=f"redis://127.0.0.1:{port}/0")
        async with host, Endpoint(host) as endpoint:
            status, answer = await report(endpoint, "/ready")
    assert (status, concern_kinds(answer)) == (200, ["queue_unavailable"])
    assert "redis: ConnectionError" in answer["concerns"][0]["detail"]


class Broken(Projection):
    name = "broken"
    revision = 1
    schema = "CREATE TABLE broken (id int)"

    def apply(self, event, run):
        raise ValueError("this projection has a defect")


async def test_a_projection_that_stands_still_is_a_concern(database):
    host = ductor.Host(
        definitions=workflow("empty", {"ref": "a", "type": "transform", "value": 1}),
        database=database.dsn,
        projections=[Broken()],
    )
    async with host, Endpoint(host, metrics=Metrics()) as endpoint:
        await (await host.start("empty")).result(timeout=30)
        answer = await report_when(endpoint, lambda _, kinds: "projection_stopped" in kinds)
        assert answer["is_ready"]
        assert "this projection has a defect" in answer["concerns"][0]["detail"]
        assert value(await scraped(endpoint), "projection_failed", projection="broken", generation="1") == 1


async def test_what_is_not_a_request_for_a_page_is_refused(store):
    async with ductor.Host(database=store) as host, Endpoint(host) as endpoint:
        assert (await get(endpoint, "/"))[0] == 404
        assert (await get(endpoint, "/metrics"))[0] == 404  # nobody counts
        assert (await get(endpoint, "/ready?x=1"))[0] == 200
        assert b" 405 " in await send(endpoint.port, b"POST /ready HTTP/1.1\r\n\r\n")
        head = await send(endpoint.port, b"HEAD /ready HTTP/1.1\r\n\r\n")
        assert b" 200 " in head
        assert head.endswith(b"\r\n\r\n")
        assert await send(endpoint.port, b"GET /ready HTTP/1.1\r\nX: " + b"x" * 2 * MAX_HEAD_BYTES) == b""


async def test_connections_are_bounded(store):
    async with ductor.Host(database=store) as host, Endpoint(host) as endpoint:
        silent = [await asyncio.open_connection("127.0.0.1", endpoint.port) for _ in range(MAX_CONNECTIONS)]
        assert await send(endpoint.port, b"GET /ready HTTP/1.1\r\n\r\n") == b""
        for _, writer in silent:
            writer.close()
        async with asyncio.timeout(WAIT_S):
            while not await send(endpoint.port, b"GET /ready HTTP/1.1\r\n\r\n"):
                pass


async def test_a_connection_that_says_nothing_is_dropped(store, monkeypatch):
    async with ductor.Host(database=store) as host, Endpoint(host) as endpoint:
        with monkeypatch.context() as impatient:
            impatient.setattr(endpoints, "REQUEST_TIMEOUT_S", 0.05)
            silent = [await asyncio.open_connection("127.0.0.1", endpoint.port) for _ in range(3)]
            async with asyncio.timeout(WAIT_S):
                assert [await reader.read() for reader, _ in silent] == [b""] * 3
        for _, writer in silent:
            writer.close()
        assert (await get(endpoint, "/ready"))[0] == 200


async def test_processes_of_a_group_take_a_port_each_and_no_more(store):
    host = ductor.Host(database=store)
    async with Endpoint(host) as somebody:
        first = Endpoint(host, port=somebody.port, ports=2)
        async with first:
            assert first.port == somebody.port + 1
            with pytest.raises(PortUnavailableError, match="in use; name another one"):
                await Endpoint(host, port=somebody.port, ports=2).__aenter__()
