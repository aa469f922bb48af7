"""The worker pool: attempts, tokens, results, handlers that come late, drain."""

import asyncio
import contextvars
import itertools
import logging
from typing import Any

import pytest

from ductor.actors import worker
from ductor.actors.context import TaskContext
from ductor.actors.errors import NonRetryable
from ductor.actors.messages import AttemptResult
from ductor.actors.tasks import Task
from ductor.journal.codec import MAX_INLINE_BYTES
from ductor.journal.events import ErrorInfo
from ductor.testing.loop import virtual_time
from tests.actors.pools import Desk, assignment, loop_clock, settled


async def add(left: int, right: int) -> int:
    return left + right


async def wait(seconds: float) -> float:
    await asyncio.sleep(seconds)
    return seconds


@virtual_time
async def test_an_attempt_gives_a_result_with_its_times():
    desk = Desk(wait)
    begun_us = loop_clock().now_us()
    finished = await desk.run(assignment("wait", {"seconds": 2}, number=3))
    assert (finished.node, finished.generation, finished.outcome, finished.output) == ("wait", 3, "succeeded", 2.0)
    assert (finished.worker, finished.error) == ("worker-1", None)
    assert (finished.started_at_us, finished.finished_at_us) == (begun_us, begun_us + 2_000_000)
    result = desk.delivered[0]
    assert (result.run_id, result.payload, result.value) == ("run", None, None)


@virtual_time
async def test_failures_are_values():
    async def fails() -> None:
        raise NonRetryable("no", type="Declined")

    desk = Desk(fails, add)
    finished = await desk.run(assignment("fails"))
    assert (finished.outcome, finished.error) == ("failed", ErrorInfo(type="Declined", message="no", retryable=False))
    finished = await desk.run(assignment("add", {"left": 1}))
    assert finished.error is not None
    assert (finished.error.type, finished.error.retryable) == ("InvalidInput", False)
    finished = await desk.run(assignment("add", {"left": 1, "right": 2}, number=2))
    assert finished.output == 3


@virtual_time
async def test_a_result_that_is_no_json_fails_the_attempt():
    async def strange() -> Any:
        return {"a": [object()]}

    finished = await Desk(strange).run(assignment("strange"))
    assert finished.error is not None
    assert finished.error.type == "ResultNotEncodable"
    assert finished.error.details["path"] == "a[0]"  # type: ignore[index, call-overload]


@virtual_time
async def test_a_large_output_comes_as_reference_payload_and_value():
    async def large() -> str:
        return "x" * MAX_INLINE_BYTES

    desk = Desk(large)
    finished = await desk.run(assignment("large"))
    result = desk.delivered[0]
    assert finished.output is None
    assert finished.output_ref is not None
    assert result.payload is not None
    assert result.payload.hash == finished.output_ref.hash
    assert result.value == "x" * MAX_INLINE_BYTES


@virtual_time
async def test_the_context_tells_of_the_attempt(caplog: pytest.LogCaptureFixture):
    seen: list[Any] = []

    async def aware(context: TaskContext, sku: str) -> None:
        seen.extend([context.run_id, context.tenant, context.definition, context.step, context.task, context.attempt])
        seen.extend([context.iteration, context.idempotency_key, context.is_redelivery, context.is_cancelled])
        seen.append(context.deadline)
        context.logger.warning("reserving %s", sku, extra={"sku": sku})

    desk = Desk(aware)
    with caplog.at_level(logging.WARNING, "ductor.task"):
        await desk.run(assignment("aware", {"sku": "A1"}, attempt=2, iteration=1))
    assert seen == ["run", "acme", "order", "aware", "aware", 2, 1, "run/aware/1", False, False, None]
    (record,) = caplog.records
    assert record.getMessage() == "reserving A1"
    assert {name: vars(record)[name] for name in ("run_id", "step", "attempt", "sku")} == {
        "run_id": "run",
        "step": "aware",
        "attempt": 2,
        "sku": "A1",
    }


@virtual_time
async def test_the_deadline_is_the_earlier_of_attempt_and_total():
    async def deadline(context: TaskContext) -> str:
        return str(context.deadline)

    desk = Desk(deadline)
    now_us = loop_clock().now_us()
    assert (await desk.run(assignment("deadline", attempt_ms=2_000))).output == "2026-01-01 00:00:02+00:00"
    total = assignment("deadline", attempt_ms=2_000, total_deadline_us=now_us + 1_000_000, number=2)
    assert (await desk.run(total)).output == "2026-01-01 00:00:01+00:00"
    total = assignment("deadline", total_deadline_us=now_us + 1_000_000, number=3)
    assert (await desk.run(total)).output == "2026-01-01 00:00:01+00:00"


@virtual_time
async def test_a_held_token_is_not_taken_twice():
    desk = Desk(wait)
    for _ in range(3):
        assert desk.pool.offer(assignment("wait", {"seconds": 1}))
    assert desk.pool.in_flight == 1
    await desk.results(1)
    await settled()
    assert len(desk.delivered) == 1


@virtual_time
async def test_a_result_is_kept_and_delivered_again_until_it_is_confirmed():
    desk = Desk(add)
    one = assignment("add", {"left": 1, "right": 2})
    desk.pool.offer(one)
    await desk.results(1)
    assert desk.pool.unconfirmed() == desk.delivered
    desk.pool.offer(one)
    await desk.results(2)
    assert desk.delivered[0] is desk.delivered[1]
    assert desk.pool.holds(one.token)
    desk.pool.offer(one)
    desk.pool.confirm(one.token)
    await settled()
    assert len(desk.delivered) == 2
    assert desk.pool.unconfirmed() == []
    assert not desk.pool.holds(one.token)
    desk.pool.confirm("never heard of")


@virtual_time
async def test_a_delivery_that_raises_leaves_the_result_unconfirmed_and_the_worker_alive():
    def refuse(result: AttemptResult) -> None:
        raise RuntimeError("nobody is there")

    desk = Desk(add, on_deliver=refuse, concurrency=1)
    for number in (1, 2):
        desk.pool.offer(assignment("add", {"left": 1, "right": 2}, number=number))
    await desk.results(2)
    assert len(desk.pool.unconfirmed()) == 2


@virtual_time
async def test_attempts_beyond_the_workers_wait_their_turn():
    desk = Desk(wait, concurrency=2)
    for number in range(5):
        desk.pool.offer(assignment("wait", {"seconds": 1}, number=number))
    await settled()
    assert (desk.pool.load.running, desk.pool.load.waiting, desk.pool.load.busy_workers) == (2, 3, 2)
    begun_us = loop_clock().now_us()
    finished = await desk.results(5)
    assert [(one.finished_at_us - begun_us) // 1_000_000 for one in finished] == [1, 1, 2, 2, 3]
    assert desk.pool.load.busy_workers == 0


@virtual_time
async def test_a_worker_serves_priorities_in_order_and_tenants_in_turn():
    order: list[str] = []

    async def note(name: str) -> None:
        order.append(name)

    desk = Desk(note, wait, concurrency=1)
    desk.pool.offer(assignment("wait", {"seconds": 1}))
    await settled()
    waiting = [("a", 0), ("a", 0), ("a", 5), ("b", -5), ("b", 5)]
    for number, (tenant, priority) in enumerate(waiting):
        name = f"{tenant}{priority} {number}"
        desk.pool.offer(assignment("note", {"name": name}, number=number, tenant=tenant, priority=priority))
    await desk.results(6)
    assert order == ["a5 2", "b5 4", "a0 0", "b-5 3", "a0 1"]


@virtual_time
async def test_handlers_that_never_wait_do_not_starve_the_loop():
    desk = Desk(add, concurrency=2)
    for number in range(1_000):
        desk.pool.offer(assignment("add", {"left": 1, "right": 1}, number=number))
    progress = []
    while len(desk.delivered) < 1_000:
        progress.append(len(desk.delivered))
        await asyncio.sleep(0)
    assert max(after - before for before, after in itertools.pairwise(progress)) <= 4


@virtual_time
async def test_no_task_is_made_for_an_attempt_that_finds_an_idle_worker():
    tasks: list[Any] = []

    async def which() -> None:
        tasks.append(asyncio.current_task())

    desk = Desk(which)
    for number in range(5):
        await desk.run(assignment("which", number=number))
    assert len(set(tasks)) == 1


@virtual_time
async def test_a_worker_that_a_handler_left_changed_is_replaced():
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="clean")
    seen: list[str] = []
    tasks: list[Any] = []

    async def change() -> None:
        tasks.append(asyncio.current_task())
        seen.append(variable.get())
        variable.set("dirty")

    async def restore() -> None:
        tasks.append(asyncio.current_task())
        seen.append(variable.get())
        variable.reset(variable.set("passing"))

    desk = Desk(change, restore, concurrency=1)
    for number, name in enumerate(["change", "change", "restore", "restore"]):
        desk.pool.offer(assignment(name, number=number))
    await desk.results(4)
    assert seen == ["clean"] * 4
    assert len(set(tasks)) == 3


@virtual_time
async def test_timeouts_of_asyncio_work_inside_handlers():
    async def impatient() -> str:
        try:
            async with asyncio.timeout(1):
                await asyncio.sleep(10)
        except TimeoutError:
            return "timed out"
        return "slept"

    async def gives_up() -> None:
        await asyncio.wait_for(asyncio.sleep(10), 1)

    desk = Desk(impatient, gives_up, concurrency=1)
    assert (await desk.run(assignment("impatient"))).output == "timed out"
    finished = await desk.run(assignment("gives_up"))
    assert finished.error is not None
    assert finished.error.type == "TimeoutError"


@virtual_time
async def test_attempts_wait_for_a_handler_that_comes_later():
    desk = Desk()
    for number in (1, 2):
        desk.pool.offer(assignment("add", {"left": number, "right": 1}, number=number))
    await settled()
    assert dict(desk.pool.waiting_for_handler()) == {"add": 2}
    assert desk.pool.load.waiting_for_handler == 2
    desk.registry.register(Task("add", add))
    assert [one.output for one in await desk.results(2)] == [2, 3]
    assert dict(desk.pool.waiting_for_handler()) == {}
    assert desk.pool.task_names() == ("add",)


@virtual_time
async def test_the_number_that_waits_for_handlers_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(worker, "MAX_WAITING_FOR_HANDLER", 2)
    desk = Desk()
    assert [desk.pool.offer(assignment("none", number=number)) for number in range(3)] == [True, True, False]
    assert not desk.pool.holds("run/none/2")
    desk.pool.cancel("run/none/0")
    assert desk.pool.offer(assignment("none", number=2))


@virtual_time
async def test_the_number_that_waits_for_workers_is_bounded_also_when_a_handler_comes_late():
    desk = Desk(wait, concurrency=1)
    desk.pool._coroutine_crew.queue._limit = 2
    answers = [desk.pool.offer(assignment("wait", {"seconds": 1}, number=number)) for number in range(4)]
    assert answers == [True, True, True, False]
    for number in range(3):
        desk.pool.offer(assignment("add", {"left": 0, "right": number}, number=number))
    desk.registry.register(Task("add", add))
    assert dict(desk.pool.waiting_for_handler()) == {"add": 3}
    assert [one.output for one in await desk.results(6)] == [1.0, 1.0, 1.0, 0, 1, 2]
    assert desk.pool.load.waiting_for_handler == 0


@virtual_time
async def test_drain_lets_handlers_end_forgets_what_waits_and_takes_nothing_new():
    desk = Desk(wait, concurrency=1)
    for number in (1, 2):
        desk.pool.offer(assignment("wait", {"seconds": 2}, number=number))
    desk.pool.offer(assignment("unknown"))
    await settled()
    draining = asyncio.get_running_loop().create_task(desk.pool.drain(5_000))
    await settled()
    assert not desk.pool.offer(assignment("wait", {"seconds": 0}, number=3))
    assert await draining == 0
    assert [result.token for result in desk.delivered] == ["run/wait/1"]
    assert desk.pool.in_flight == 0
    assert await desk.pool.drain(5_000) == 0
    await desk.pool.close()


@virtual_time
async def test_drain_interrupts_what_takes_too_long_without_a_result():
    async def rescued() -> str:
        try:
            await asyncio.sleep(3_600)
        except asyncio.CancelledError:
            return "saved my work"
        return "slept"

    async def breaks() -> None:
        try:
            await asyncio.sleep(3_600)
        except asyncio.CancelledError as error:
            raise ValueError from error

    async def stubborn() -> None:
        for _ in range(3):
            try:
                await asyncio.sleep(3_600)
            except asyncio.CancelledError:
                continue

    desk = Desk(wait, rescued, breaks, stubborn, grace_ms=1_000)
    for name, value in (("wait", {"seconds": 3_600}), ("rescued", {}), ("breaks", {}), ("stubborn", {})):
        desk.pool.offer(assignment(name, value))
    await settled()
    begun = asyncio.get_running_loop().time()
    assert await desk.pool.drain(2_000) == 4
    assert asyncio.get_running_loop().time() - begun == pytest.approx(3)
    assert [result.finished.output for result in desk.delivered] == ["saved my work"]
    assert (desk.pool.load.stragglers, desk.pool.load.running, desk.pool.in_flight) == (1, 0, 0)
    assert desk.pool.unconfirmed() == desk.delivered


@virtual_time
async def test_close_ends_every_task_of_the_pool():
    desk = Desk(wait, add, grace_ms=100)
    desk.pool.offer(assignment("wait", {"seconds": 3_600}))
    await desk.run(assignment("add", {"left": 1, "right": 1}))
    await desk.pool.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert desk.pool.in_flight == 0
