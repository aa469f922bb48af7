"""Attempts in the worker pool: what one costs besides its handler, input conversion and result check included."""

import asyncio
import time

from ductor.actors.messages import Assignment, AttemptResult
from ductor.actors.tasks import TaskRegistry, task
from ductor.actors.worker import WorkerPool
from ductor.definitions.policies import Timeouts
from ductor.journal.clock import SystemClock
from scripts.benchmarks.report import Table

ATTEMPTS = 20_000
WAVE = 64
ROUNDS = 3
NO_LIMITS = Timeouts()
LIMITS = Timeouts(attempt_ms=60_000, start_ms=60_000)


@task("coroutine")
async def coroutine_handler(sku: str, qty: int, ok: bool) -> dict[str, object]:
    """Return the input without ever waiting."""
    return {"sku": sku, "qty": qty, "ok": ok}


@task("waiting")
async def waiting_handler(sku: str, qty: int, ok: bool) -> dict[str, object]:
    """Return the input after one step of the loop."""
    await asyncio.sleep(0)
    return {"sku": sku, "qty": qty, "ok": ok}


@task("function")
def function_handler(sku: str, qty: int, ok: bool) -> dict[str, object]:
    """Return the input from a thread."""
    return {"sku": sku, "qty": qty, "ok": ok}


async def measure_attempts(*, is_quick: bool) -> Table:
    """Offer waves of attempts and confirm their results."""
    attempts = ATTEMPTS // 10 if is_quick else ATTEMPTS
    table = Table(
        name="attempts",
        title=f"Attempts, {WAVE} offered at a time",
        columns=("handler", "limits", "us_per_attempt", "us_processor"),
        note="From offer to confirmed result: queue, input conversion, call, result check, delivery.",
    )
    for name, limits in (
        ("coroutine", NO_LIMITS),
        ("coroutine", LIMITS),
        ("waiting", NO_LIMITS),
        ("function", NO_LIMITS),
    ):
        samples = [await _attempt_us(name, limits, attempts, number) for number in range(ROUNDS)]
        elapsed_us, processor_us = min(samples)
        described = "none" if limits is NO_LIMITS else "start, attempt"
        table.add(name, described, round(elapsed_us, 2), round(processor_us, 2))
    return table


async def _attempt_us(name: str, limits: Timeouts, count: int, round_number: int) -> tuple[float, float]:
    """Microseconds of one attempt: by the clock, and of the processor."""
    done = 0
    wave_done = asyncio.Event()
    clock = SystemClock()

    def deliver(result: AttemptResult) -> None:
        nonlocal done
        assert result.finished.outcome == "succeeded", result
        pool.confirm(result.token)
        done += 1
        if done % WAVE == 0:
            wave_done.set()

    registry = TaskRegistry([coroutine_handler, waiting_handler, function_handler])
    pool = WorkerPool(registry, deliver=deliver, clock=clock, name="bench")
    waves = count // WAVE
    prepared = [
        [_assignment(name, limits, wave * WAVE + number, round_number, clock.now_us()) for number in range(WAVE)]
        for wave in range(waves)
    ]
    began, began_processor = time.perf_counter(), time.process_time()
    for wave_of_assignments in prepared:
        wave_done.clear()
        for assignment in wave_of_assignments:
            pool.offer(assignment)
        await wave_done.wait()
    elapsed, processor = time.perf_counter() - began, time.process_time() - began_processor
    await pool.close()
    return elapsed / (waves * WAVE) * 1e6, processor / (waves * WAVE) * 1e6


def _assignment(name: str, limits: Timeouts, number: int, round_number: int, now_us: int) -> Assignment:
    return Assignment(
        token=f"run-{round_number}/{name}/{number}",
        run_id=f"run-{round_number}",
        tenant=f"tenant-{number % 3}",
        definition="bench",
        node=name,
        generation=number,
        attempt=1,
        iteration=0,
        task=name,
        input={"sku": "ABC-123", "qty": 2, "ok": True},
        queue="default",
        priority=0,
        timeouts=limits,
        dispatched_at_us=now_us,
    )
