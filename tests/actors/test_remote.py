"""Attempts in other processes, as their host sees them: sent, cancelled, timed out, lost, taken back."""

import asyncio

from ductor.actors.context import TaskContext
from ductor.actors.host import EngineHost
from ductor.actors.queue.items import LanePolicy, QueueDisturbance, QueuePolicy
from ductor.actors.queue.policies import QueuePolicies, TenantInQueue
from ductor.actors.tasks import task
from ductor.actors.worker_options import WorkerOptions
from ductor.journal.records import Control
from ductor.testing import virtual_time
from tests.actors.hosting import ONE, TWO
from tests.actors.pools import assignment
from tests.actors.remote_bench import RemoteBench

LARGE = "x" * 100_000
LOOP_STEPS_OF_A_CALL = 12


@task("work")
async def work() -> str:
    return "done"


@task("work")
def blocking() -> str:
    return "done in a thread"


async def status_of(host: EngineHost, run_id: str) -> str:
    return (await host.view(run_id)).status


@virtual_time
async def test_a_worker_carries_out_what_the_host_has_no_handler_for():
    bench = RemoteBench()
    async with bench.host(TWO) as host, bench.worker(work) as worker:
        outcome = await host.outcome((await host.start("subject")).run_id, timeout_ms=5_000)
        assert outcome.output == {"b": "done"}
        view = await host.view(outcome.run_id)
        assert (await worker.health()).finished == 2
        assert host.engine.remote is not None
        assert host.engine.remote.in_flight == 0
        assert all(step.status == "succeeded" for step in view.steps)
    depth = await bench.queue.depth("default")
    assert (depth.queued, depth.in_flight, depth.dead) == (0, 0, 0)


@virtual_time
async def test_ordinary_functions_and_large_values_travel():
    bench = RemoteBench()
    text = 'steps: [{ref: a, type: task, task: echo, input: {text: "${trigger.text}"}}]'

    @task("echo")
    def echo(text: str) -> str:
        return text + "!"

    async with bench.host(text) as host, bench.worker(echo):
        outcome = await host.outcome((await host.start("subject", {"text": LARGE})).run_id, timeout_ms=5_000)
    assert outcome.output == {"a": LARGE + "!"}


@virtual_time
async def test_handlers_of_the_host_never_touch_the_queue():
    bench = RemoteBench()
    async with bench.host(TWO, work) as host:
        assert (await host.outcome((await host.start("subject")).run_id)).status == "completed"
    assert bench.queue.calls == 0


@virtual_time
async def test_a_queue_left_to_workers_goes_to_them_although_the_handler_is_here():
    bench = RemoteBench()
    async with bench.host(ONE, work, remote_queues=("default",)) as host:
        run_id = (await host.start("subject")).run_id
        await asyncio.sleep(60)
        assert await status_of(host, run_id) == "running"
        async with bench.worker(blocking):
            assert (await host.outcome(run_id, timeout_ms=5_000)).output == {"a": "done in a thread"}


@virtual_time
async def test_a_handler_that_comes_late_takes_back_what_waits():
    bench = RemoteBench()
    async with bench.host(ONE) as host:
        run_id = (await host.start("subject")).run_id
        await asyncio.sleep(60)
        assert (await host.health()).waiting_for_handler == {"work": 1}
        host.registry.register(work)
        assert (await host.outcome(run_id, timeout_ms=1_000)).output == {"a": "done"}
    assert await bench.queue.held("default", [f"{run_id}/a/1"]) == {}


@virtual_time
async def test_a_cancellation_takes_back_what_waits_and_stops_what_runs():
    bench = RemoteBench()
    stopped: list[str] = []

    @task("work")
    async def endless(context: TaskContext) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(context.run_id)

    async with bench.host(ONE) as host:
        waiting = (await host.start("subject")).run_id
        await asyncio.sleep(1)
        await host.request(waiting, "cancel")
        assert (await host.outcome(waiting, timeout_ms=1_000)).status == "cancelled"
        assert (await bench.queue.depth("default")).queued == 0
        async with bench.worker(endless):
            running = (await host.start("subject")).run_id
            await asyncio.sleep(1)
            await host.request(running, "cancel")
            assert (await host.outcome(running, timeout_ms=3_000)).status == "cancelled"
            await asyncio.sleep(3)
            assert stopped == [running]


@virtual_time
async def test_the_start_timeout_counts_from_the_dispatch_and_needs_no_worker():
    bench = RemoteBench()
    text = "steps: [{ref: a, type: task, task: work, timeout: {start: 10s}, retry: {max_attempts: 1}}]"
    async with bench.host(text) as host:
        outcome = await host.outcome((await host.start("subject")).run_id, timeout_ms=11_000)
        assert outcome.error is not None
        assert (outcome.status, outcome.error.type) == ("failed", "Timeout")
        assert (await bench.queue.depth("default")).queued == 0


@virtual_time
async def test_the_start_timeout_leaves_what_runs_alone():
    bench = RemoteBench()
    text = "steps: [{ref: a, type: task, task: work, timeout: {start: 10s}, retry: {max_attempts: 1}}]"

    @task("work")
    async def slow() -> str:
        await asyncio.sleep(60)
        return "slow"

    async with bench.host(text) as host, bench.worker(slow):
        outcome = await host.outcome((await host.start("subject")).run_id, timeout_ms=61_000)
        assert outcome.output == {"a": "slow"}


@virtual_time
async def test_the_total_timeout_ends_what_nobody_takes():
    bench = RemoteBench()
    text = "steps: [{ref: a, type: task, task: work, timeout: {total: 20s}}]"
    async with bench.host(text) as host:
        outcome = await host.outcome((await host.start("subject")).run_id, timeout_ms=22_000)
        assert outcome.error is not None
        assert (outcome.status, outcome.error.type) == ("failed", "Timeout")


@virtual_time
async def test_what_the_queue_loses_is_sent_again_when_the_host_is_told():
    bench = RemoteBench()
    async with bench.host(ONE) as host:
        run_id = (await host.start("subject")).run_id
        await asyncio.sleep(1)
        bench.queue.lose_everything()
        for listener in host.on_disturbance:
            listener(QueueDisturbance(tier="memory", reason="epoch_changed"))
        await asyncio.sleep(1)
        assert bench.queue.enqueued == [f"{run_id}/a/1"] * 2
        async with bench.worker(work):
            assert (await host.outcome(run_id, timeout_ms=5_000)).status == "completed"


@virtual_time
async def test_a_full_queue_is_tried_again():
    bench = RemoteBench()
    await bench.queue.set_queue_policy("default", QueuePolicy(max_queued=1))
    async with bench.host(ONE) as host:
        runs = [(await host.start("subject")).run_id for _ in range(3)]
        await asyncio.sleep(1)
        assert (await bench.queue.depth("default")).queued == 1
        async with bench.worker(work):
            for run_id in runs:
                assert (await host.outcome(run_id, timeout_ms=60_000)).status == "completed"


@virtual_time
async def test_a_host_sets_the_policies_of_queues_and_tenants():
    bench = RemoteBench()
    calls: list[str] = []

    @task("work")
    async def counted() -> None:
        calls.append("work")
        await asyncio.sleep(10)

    policies = QueuePolicies(
        queues={"default": QueuePolicy(max_queued=5)},
        tenants=(TenantInQueue(queue="default", tenant="default", policy=LanePolicy(max_in_flight=2)),),
    )
    async with bench.host(ONE, policies=policies) as host, bench.worker(counted):
        runs = [(await host.start("subject")).run_id for _ in range(4)]
        await asyncio.sleep(5)
        assert len(calls) == 2
        for run_id in runs:
            assert (await host.outcome(run_id, timeout_ms=60_000)).status == "completed"


@virtual_time
async def test_a_queue_that_is_away_is_tried_until_it_is_back():
    bench = RemoteBench()
    async with bench.host(ONE) as host, bench.worker(work):
        bench.queue.is_away = True
        run_id = (await host.start("subject")).run_id
        await asyncio.sleep(10)
        bench.queue.is_away = False
        assert (await host.outcome(run_id, timeout_ms=5_000)).status == "completed"


@virtual_time
async def test_the_next_host_does_not_send_a_second_time_what_the_queue_has():
    bench = RemoteBench()
    calls: list[str] = []

    @task("work")
    async def counted() -> str:
        calls.append("work")
        await asyncio.sleep(30)
        return "done"

    async with bench.worker(counted):
        async with bench.host(ONE) as host:
            run_id = (await host.start("subject")).run_id
            await asyncio.sleep(5)
        async with bench.host(ONE, work) as host:  # which has the handler itself, but a worker is at it
            assert (await host.outcome(run_id, timeout_ms=60_000)).output == {"a": "done"}
    assert calls == ["work"]


@virtual_time
async def test_the_next_host_carries_out_itself_what_waits_if_it_can():
    bench = RemoteBench()
    async with bench.host(ONE) as host:
        run_id = (await host.start("subject")).run_id
    async with bench.host(ONE, work) as host:
        assert (await host.outcome(run_id, timeout_ms=1_000)).output == {"a": "done"}
    assert (await bench.queue.depth("default")).queued == 0


@virtual_time
async def test_a_cancelled_run_that_comes_back_is_not_begun_anew():
    """The control waits in the database while no host lives; whoever takes the run up reads both."""
    bench = RemoteBench()
    async with bench.host(ONE) as host:
        run_id = (await host.start("subject")).run_id
    await bench.store.request_control(Control(run_id=run_id, request_id="c", kind="cancel"))
    async with bench.host(ONE, work) as host:
        assert (await host.outcome(run_id, timeout_ms=60_000)).status in ("cancelled", "completed")
    assert (await bench.queue.depth("default")).queued == 0


@virtual_time
async def test_what_a_name_makes_impossible_fails_at_once():
    bench = RemoteBench()
    text = 'steps: [{ref: a, type: task, task: work, queue: "system/x"}]'
    async with bench.host(text) as host, bench.worker(work, options=WorkerOptions(concurrency=1)):
        outcome = await host.outcome((await host.start("subject")).run_id, timeout_ms=1_000)
        assert outcome.status == "failed"


@virtual_time
async def test_what_is_offered_at_any_moment_of_a_call_gets_to_the_queue():
    """Also in the moment between the end of the last call and the word of it."""
    bench = RemoteBench()
    async with bench.host(ONE) as host:
        remote = host.engine.remote
        assert remote is not None
        for loop_steps in range(LOOP_STEPS_OF_A_CALL):
            remote.offer(assignment("elsewhere", number=2 * loop_steps))
            for _ in range(loop_steps):
                await asyncio.sleep(0)
            remote.offer(assignment("elsewhere", number=2 * loop_steps + 1))
            await asyncio.sleep(1)
            assert len(bench.queue.enqueued) == 2 * (loop_steps + 1)
