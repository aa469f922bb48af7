"""The endpoint and the metrics of a worker, over real sockets and a real database."""

import asyncio

import pytest

import ductor
from ductor.definitions.build import task, workflow
from ductor.observability.endpoint import Endpoint
from ductor.observability.worker_metrics import WorkerMetrics
from tests.ductor.observability.http import WAIT_S, concern_kinds, report, report_when, scraped, value
from tests.journal.postgres.proxies import CuttingProxy
from tests.postgres_fixtures import Database


async def test_a_worker_is_ready_only_while_it_takes_attempts(database: Database):
    has_begun, may_end = asyncio.Event(), asyncio.Event()

    @ductor.task("slow")
    async def slow() -> None:
        has_begun.set()
        await may_end.wait()

    worker = ductor.Worker(tasks=[slow], database=database.dsn)
    definition = workflow("remote", task("a", "slow"))
    async with ductor.Host(definitions=definition, database=database.dsn) as host, Endpoint(worker) as endpoint:
        before = await report(endpoint, "/ready")
        assert (before[0], before[1]["phase"], concern_kinds(before[1])) == (503, "new", ["starting"])
        assert (await report(endpoint, "/health"))[0] == 200
        await worker.open()
        status, working = await report(endpoint, "/ready")
        assert (status, working["is_ready"], working["concerns"]) == (200, True, [])
        assert working["worker_id"] == (await worker.health()).worker_id
        assert working["host_id"] == ""
        await host.start("remote")
        async with asyncio.timeout(WAIT_S):
            await has_begun.wait()
        closing = asyncio.create_task(worker.close())
        await asyncio.sleep(0)
        draining = await report(endpoint, "/ready")
        assert (draining[0], draining[1]["phase"], concern_kinds(draining[1])) == (503, "draining", ["draining"])
        assert "the worker is draining" in draining[1]["concerns"][0]["detail"]
        assert (await report(endpoint, "/health"))[0] == 200
        may_end.set()
        await closing
        assert (await report(endpoint, "/health"))[0] == 503
        assert concern_kinds((await report(endpoint, "/ready"))[1]) == ["stopped"]


@ductor.task("square")
async def square(n: int) -> int:
    if n < 0:
        raise ArithmeticError("no")
    return n * n


async def test_a_worker_counts_what_its_handlers_did(database: Database):
    metrics = WorkerMetrics()
    worker = ductor.Worker(tasks=[square], database=database.dsn, observers=[metrics])
    definitions = [
        workflow("good", task("a", "square", input={"n": 3})),
        workflow("bad", task("a", "square", input={"n": -3})),
        workflow("lonely", task("a", "nobody.has.it")),
    ]
    host = ductor.Host(definitions=definitions, database=database.dsn)
    async with host, Endpoint(worker, metrics=metrics) as endpoint:
        assert value(await scraped(endpoint), "worker_up") == 0
        async with worker:
            ending = [await host.start(name) for name in ("good", "good", "bad")]
            await host.start("lonely")
            answer = await report_when(endpoint, lambda _, kinds: "handler_missing" in kinds)
            assert answer["is_ready"]
            assert "nobody.has.it" in answer["concerns"][0]["detail"]
            for run in ending:
                await host.engine.outcome(run.run_id)
            found = await scraped(endpoint)
    finished = {
        outcome: value(found, "worker_attempts_finished_total", task="square", outcome=outcome)
        for outcome in ("succeeded", "failed", "cancelled")
    }
    assert finished == {"succeeded": 2, "failed": 1, "cancelled": None}
    assert value(found, "worker_attempt_duration_seconds_count", task="square") == 3
    assert (value(found, "worker_up"), value(found, "worker_store_up"), value(found, "queue_up")) == (1, 1, 1)
    assert (value(found, "worker_attempts_without_handler") or 0) >= 1
    assert value(found, "worker_results_in_keeping") == 0
    assert value(found, "attempts_running") == 0


async def test_while_the_database_is_away_a_worker_is_healthy_and_not_ready(database: Database):
    metrics = WorkerMetrics()
    async with CuttingProxy(database.dsn) as proxy:
        worker = ductor.Worker(tasks=[square], database=proxy.dsn, observers=[metrics])
        async with Endpoint(worker, metrics=metrics) as endpoint, worker:
            assert (await report(endpoint, "/ready"))[0] == 200
            proxy.is_refusing = True
            proxy.cut()
            answer = await report_when(endpoint, lambda status, _: status == 503)
            assert "store_unavailable" in concern_kinds(answer)
            assert (await report(endpoint, "/health"))[0] == 200
            assert value(await scraped(endpoint), "worker_store_up") == 0
            proxy.is_refusing = False
            await report_when(endpoint, lambda status, _: status == 200)


def test_a_worker_that_is_not_open_says_so():
    worker = ductor.Worker(tasks=[square])
    with pytest.raises(RuntimeError, match="not open"):
        _ = worker.store
