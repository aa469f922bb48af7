"""The scheduler keeps what asyncio promises within a process, and promises nothing between two."""

import asyncio

import pytest

from ductor.testing.clock import VirtualClock
from scripts.simulation.chance import Chance
from scripts.simulation.scheduler import (
    MAX_STEPS_GONE_WRONG,
    Lane,
    SimulatedLoop,
    TooManyStepsError,
    current_lane,
)


@pytest.fixture
def loop():
    made = SimulatedLoop(VirtualClock(), Chance(1, "turns"))
    yield made
    made.end()
    made.close()


async def counting(name: str, count: int, seen: list[str]) -> None:
    for number in range(count):
        seen.append(f"{name}{number}")
        await asyncio.sleep(0)


def seen_with(seed: int) -> list[str]:
    loop = SimulatedLoop(VirtualClock(), Chance(seed, "turns"))
    seen: list[str] = []
    tasks = [loop.new_lane(name).start(counting(name, 5, seen)) for name in "ab"]
    loop.run_until_complete(asyncio.wait(tasks))
    loop.end()
    loop.close()
    return seen


def test_within_a_lane_the_order_is_kept_and_between_lanes_it_is_the_seeds() -> None:
    orders = {tuple(seen_with(seed)) for seed in range(10)}
    assert len(orders) > 1
    for order in orders:
        assert [one for one in order if one.startswith("a")] == [f"a{number}" for number in range(5)]
    assert seen_with(3) == seen_with(3)


def test_tasks_timers_and_futures_stay_in_their_lane(loop: SimulatedLoop) -> None:
    lane = loop.new_lane("host")
    lanes: list[Lane | None] = []

    async def inner() -> None:
        await asyncio.sleep(1)
        lanes.append(current_lane())
        loop.call_later(1, lambda: lanes.append(current_lane()))
        await asyncio.sleep(2)

    async def outer() -> None:
        await asyncio.gather(inner(), inner())

    loop.run_until_complete(lane.start(outer()))
    assert lanes == [lane] * 4


def test_a_dead_lane_runs_nothing_more(loop: SimulatedLoop) -> None:
    lane, told = loop.new_lane("host"), []

    async def work() -> None:
        try:
            await asyncio.sleep(10)
            told.append("woken")
        finally:
            loop.call_soon(told.append, "from finally")

    lane.start(work())
    loop.call_later(1, loop.kill, lane)
    loop.run_until_complete(asyncio.sleep(20))
    assert told == []
    assert loop.complaints == []


def test_a_frozen_lane_goes_on_later(loop: SimulatedLoop) -> None:
    lane, at_s = loop.new_lane("host"), []

    async def work() -> None:
        await asyncio.sleep(1)
        at_s.append(loop.time())

    lane.start(work())
    lane.is_frozen = True
    loop.call_later(5, setattr, lane, "is_frozen", False)
    loop.run_until_complete(asyncio.sleep(6))
    loop.run_until_complete(asyncio.sleep(2))
    assert at_s == [pytest.approx(6, abs=0.01)]


def test_a_loop_that_is_to_end_soon_runs_so_many_callbacks_more(loop: SimulatedLoop) -> None:
    async def for_ever() -> None:
        while True:  # noqa: ASYNC110 - it is never idle
            await asyncio.sleep(0)

    loop.new_lane("host").start(for_ever())
    loop.run_until_complete(asyncio.sleep(0.01))
    loop.end_soon()
    before = loop.steps
    with pytest.raises(TooManyStepsError) as raised:
        loop.run_until_complete(asyncio.sleep(1_000))
    assert raised.value.steps == before + MAX_STEPS_GONE_WRONG + 1


def test_a_lane_dies_at_the_callback_that_was_said(loop: SimulatedLoop) -> None:
    lane = loop.new_lane("host")
    seen: list[str] = []
    lane.dies_at_step = 3
    lane.start(counting("a", 9, seen))
    loop.run_until_complete(asyncio.sleep(1))
    assert seen == ["a0", "a1", "a2"]
    assert lane.is_dead
