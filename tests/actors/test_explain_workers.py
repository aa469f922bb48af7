"""Explaining attempts that go to workers: whether anybody alive could take them, where they are, what was set aside."""

import asyncio

from ductor.actors.client import Client
from ductor.actors.explain import Explanation, explain, lines
from ductor.actors.queue.distributed import MAX_DELIVERIES
from ductor.actors.queue.items import TokenState
from ductor.actors.reasons.reason import Reason
from ductor.actors.tasks import task
from ductor.actors.worker_options import WorkerOptions
from ductor.journal.ids import attempt_token
from ductor.journal.records import HostRecord
from ductor.journal.worker_store import WORKER_ALIVE_MS, WORKER_BEAT_MS, WorkerRecord
from ductor.testing import virtual_time
from tests.actors.hosting import ONE
from tests.actors.remote_bench import RemoteBench
from tests.actors.tick.driver import Driver

STEP = "steps: [{ref: a, type: task, task: work, queue: gpu}]"
STRANGER = HostRecord(host_id="host", started_at_us=0, heartbeat_at_us=0, tasks=("mail",))
OWNER = HostRecord(host_id="host", started_at_us=0, heartbeat_at_us=0, tasks=("work",))


@task("work")
async def work() -> str:
    return "done"


def worker(worker_id: str, queues: tuple[str, ...], *tasks: str) -> WorkerRecord:
    return WorkerRecord(worker_id=worker_id, queues=queues, tasks=tasks)


def told(
    *workers: WorkerRecord, hosts: tuple[HostRecord, ...] = (STRANGER,), state: TokenState | None = None
) -> Reason:
    """The reason of the step, with its attempt in this state in the queue."""
    driver = Driver(STEP)
    token = attempt_token(driver.state.run_id, "a", 1)
    found = explain(
        driver.state,
        driver.program,
        hosts=hosts,
        now_us=driver.now_us,
        workers=workers,
        queued={} if state is None else {token: state},
    )
    return found.steps[0]


def test_a_worker_that_serves_the_queue_and_has_the_handler_is_somebody():
    assert told(worker("w", ("cpu", "gpu"), "work")).children == ()


def test_a_worker_of_another_queue_is_nobody_and_is_named():
    (nobody,) = told(worker("w-1", ("cpu",), "work"), worker("w-2", ("gpu",), "mail")).children
    assert nobody.text == (
        "none of the 1 hosts and 2 workers that are alive has a handler `work` and serves queue `gpu`; "
        "w-1 with this handler serve cpu"
    )
    assert nobody.details == {"task": "work", "hosts": ["host"], "queue": "gpu", "workers": ["w-1", "w-2"]}


def test_a_worker_without_the_handler_is_nobody():
    (nobody,) = told(worker("w", ("gpu",), "mail")).children
    assert nobody.text == "none of the 1 hosts and 1 workers that are alive has a handler `work`"


def test_what_waits_in_a_queue_is_for_workers_alone():
    reason = told(hosts=(OWNER,), state="queued")
    assert "it waits in queue `gpu` for a worker" in reason.text
    assert reason.details["in_queue"] == "queued"
    assert [child.text for child in reason.children] == ["no worker is alive that could run it"]
    assert told(hosts=(OWNER,)).children == ()
    assert told(worker("w", ("gpu",), "work"), state="queued").children == ()


def test_what_a_worker_has_lacks_nobody():
    reason = told(state="leased")
    assert "a worker has it, from queue `gpu`" in reason.text
    assert reason.children == ()


def test_a_dead_letter_is_named_with_what_to_do():
    reason = told(worker("w", ("gpu",), "work"), state="dead")
    (letter,) = reason.children
    token = letter.details["token"]
    assert letter.kind == "dead_letter"
    assert str(token).endswith("/a/1")
    for command in ("ductor queue dead gpu", f"ductor queue replay gpu {token}"):
        assert command in letter.text


def kinds(explanation: Explanation) -> list[str]:
    return [child.kind for child in explanation.steps[0].children]


@virtual_time
async def test_workers_count_from_their_first_heartbeat_until_they_leave():
    bench = RemoteBench()
    async with bench.host(ONE) as host:
        client = Client(bench.store, clock=bench.clock, ids=bench.ids)
        run_id = (await host.start("subject")).run_id
        await asyncio.sleep(1)
        assert kinds(await host.explain(run_id)) == ["no_worker"]
        assert (await host.health()).waiting_for_handler == {"work": 1}

        @task("work")
        async def endless() -> None:
            await asyncio.Event().wait()

        async with bench.worker(endless, options=WorkerOptions(drain_ms=100)) as remote:
            (listed,) = await client.workers()
            assert (listed.worker_id, listed.queues, listed.tasks) == (remote.worker_id, ("default",), ("work",))
            await asyncio.sleep(10 * WORKER_ALIVE_MS / 1_000)
            assert await client.workers() != []
            explanation = await host.explain(run_id)
            assert explanation.steps[0].details["in_queue"] == "leased"
            assert kinds(explanation) == []
            assert (await host.health()).waiting_for_handler == {}
            assert [one.host_id for one in await client.hosts()] == [host.host_id]
        assert await client.workers() == []


@virtual_time
async def test_a_killed_worker_is_missed_after_its_time():
    bench = RemoteBench()
    async with bench.worker(work) as remote:
        for one in remote._tasks:
            one.cancel()
        await asyncio.sleep((WORKER_ALIVE_MS - WORKER_BEAT_MS) / 1_000)
        assert len(await bench.store.workers()) == 1
        await asyncio.sleep(WORKER_BEAT_MS / 1_000 + 0.001)
        assert await bench.store.workers() == []


@virtual_time
async def test_a_host_tells_of_an_attempt_that_was_set_aside():
    bench = RemoteBench()
    async with bench.host(ONE) as host:
        run_id = (await host.start("subject")).run_id
        for _ in range(MAX_DELIVERIES):  # taken, and never heard of again
            leases = await bench.queue.lease(["default"], max_items=1, visibility_ms=1_000, wait_ms=5_000)
            assert len(leases) == 1
        await asyncio.sleep(2)
        await bench.queue.dead_letters("default")
        explanation = await host.explain(run_id)
        assert kinds(explanation) == ["dead_letter"]
        assert f"ductor queue replay default {run_id}/a/1" in "\n".join(lines(explanation))
