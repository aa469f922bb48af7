"""Races of results, cancellations, limits, repeated offers and dying workers: any order keeps the pool's promises."""

import asyncio
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ductor.actors.context import TaskContext
from ductor.actors.messages import AttemptResult
from ductor.testing.loop import run_in_virtual_time
from tests.actors.pools import Desk, assignment, loop_clock, settled

TOKENS = 4
LONG_S = 10_000

Action = tuple[str, int, Any]

behaviours = st.fixed_dictionaries(
    {
        "seconds": st.sampled_from([0, 1, 2, 5]),  # until it returns, unless it is cancelled
        "ignores": st.integers(0, 2),  # cancellations that it ignores
        "error": st.booleans(),  # whether it raises instead of returning
    }
)
limits = st.fixed_dictionaries(
    {}, optional={name: st.sampled_from([1_000, 2_000, 3_000]) for name in ("attempt_ms", "start_ms", "heartbeat_ms")}
)
numbers = st.integers(0, TOKENS - 1)
actions = st.one_of(
    st.tuples(st.just("offer"), numbers, st.tuples(behaviours, limits)),
    st.tuples(st.sampled_from(["cancel", "abandon", "confirm", "again"]), numbers, st.none()),
    st.tuples(st.just("sleep"), st.sampled_from([0, 1, 2]), st.none()),
    st.tuples(st.just("kill"), st.integers(0, 1), st.none()),
)


class Model:
    """What the pool has promised so far, kept by the simplest means."""

    def __init__(self) -> None:
        self.lives: Counter[str] = Counter()  # how often a token was taken
        self.calls: Counter[str] = Counter()  # how often its handler was called
        self.abandoned: Counter[str] = Counter()  # lives that ended without a result
        self.results: dict[str, list[AttemptResult]] = {}
        self.held: set[str] = set()
        self.finished: set[str] = set()
        self.cancelled: set[str] = set()
        self.limited: set[str] = set()
        self.kills = 0

    def delivered(self, result: AttemptResult) -> None:
        known = self.results.setdefault(result.token, [])
        if any(one is result for one in known):
            assert result.token in self.finished, "delivered again only while it is kept"
            return
        assert result.token in self.held, "a result comes once, and only of what is held"
        known.append(result)
        self.held.discard(result.token)
        self.finished.add(result.token)
        finished = result.finished
        if finished.outcome == "cancelled":
            assert result.token in self.cancelled
        if finished.error is not None and finished.error.type == "Timeout":
            assert result.token in self.limited
        if finished.error is not None and finished.error.type == "CancelledError":
            assert self.kills


class Scenario:
    """Plays actions on a pool of two workers, beside the model."""

    def __init__(self) -> None:
        self.model = Model()
        self.broken: list[AssertionError] = []
        self.desk = Desk(self.work, on_deliver=self.observe, concurrency=2)

    def observe(self, result: AttemptResult) -> None:
        """The pool survives what its callback raises, so a broken promise is kept for the end."""
        try:
            self.model.delivered(result)
        except AssertionError as error:
            self.broken.append(error)

    async def work(self, context: TaskContext, seconds: float, ignores: int, error: bool) -> str:
        self.model.calls[context.idempotency_key] += 1
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while loop.time() < until:
            try:
                await asyncio.sleep(until - loop.time())
            except asyncio.CancelledError:
                ignores -= 1
                if ignores < 0:
                    raise
        if error:
            raise ValueError
        return context.idempotency_key

    def offer(self, number: int, details: Any) -> None:
        behaviour, timeouts = details
        wanted = assignment("work", behaviour, number=number, **timeouts)
        token, model = wanted.token, self.model
        if token not in model.held and token not in model.finished:
            model.lives[token] += 1
            model.held.add(token)
            model.cancelled.discard(token)
            model.limited.discard(token)
            if timeouts:
                model.limited.add(token)
        assert self.desk.pool.offer(wanted)

    async def play(self, action: str, number: int, details: Any) -> None:
        token, model, pool = f"run/work/{number}", self.model, self.desk.pool
        if action == "offer":
            self.offer(number, details)
        elif action == "again" and pool.holds(token):
            assert pool.offer(assignment("work", number=number))
        elif action == "cancel":
            model.cancelled.add(token)
            pool.cancel(token)
        elif action == "abandon":
            if token in model.held:
                model.abandoned[token] += 1
            model.held.discard(token)
            model.finished.discard(token)
            pool.abandon(token)
        elif action == "confirm":
            model.finished.discard(token)
            pool.confirm(token)
        elif action == "sleep":
            await asyncio.sleep(number)
        elif action == "kill":
            workers = tuple(pool._coroutine_crew._workers)
            if number < len(workers):
                model.kills += 1
                workers[number].cancel()

    def check_end(self) -> None:
        model, pool = self.model, self.desk.pool
        assert self.broken == []
        for token, lives in model.lives.items():
            assert len(model.results.get(token, [])) == lives - model.abandoned[token]
            assert model.calls[token] <= lives
        assert {result.token for result in pool.unconfirmed()} == model.finished
        load = pool.load
        assert (load.running, load.waiting, load.stragglers, load.busy_workers, pool.in_flight) == (0, 0, 0, 0, 0)
        for results in model.results.values():
            for result in results:
                assert result.finished.started_at_us <= result.finished.finished_at_us <= loop_clock().now_us()


@given(st.lists(actions, max_size=30))
def test_every_attempt_has_exactly_one_result_and_leaves_nothing_behind(script: list[Action]):
    async def main() -> None:
        scenario = Scenario()
        for action, number, details in script:
            await scenario.play(action, number, details)
        await asyncio.sleep(LONG_S)
        await settled()
        scenario.check_end()
        # What is left of the workers is fit for more work, more of it than there are workers.
        for number in range(3):
            scenario.desk.pool.offer(
                assignment("work", {"seconds": 1, "ignores": 0, "error": False}, number=100 + number)
            )
            scenario.model.held.add(f"run/work/{100 + number}")
        await asyncio.sleep(LONG_S)
        assert [scenario.model.results[f"run/work/{100 + number}"][0].finished.output for number in range(3)] == [
            f"run/work/{100 + number}" for number in range(3)
        ]

    run_in_virtual_time(main())


@given(st.lists(actions, max_size=20), st.integers(0, 3))
def test_drain_ends_in_time_whatever_goes_on(script: list[Action], timeout_s: int):
    async def main() -> None:
        scenario = Scenario()
        for action, number, details in script:
            await scenario.play(action, number, details)
        loop = asyncio.get_running_loop()
        begun = loop.time()
        pool = scenario.desk.pool
        interrupted = await pool.drain(timeout_s * 1_000)
        took_s = loop.time() - begun
        assert took_s <= timeout_s + 5.001  # the grace
        assert not interrupted or took_s >= timeout_s - 0.001
        assert pool.in_flight == 0
        assert not pool.offer(assignment("work", number=99))
        await asyncio.sleep(LONG_S)
        assert pool.load.stragglers == 0
        assert scenario.broken == []  # above all: nothing is cancelled that nobody cancelled

    run_in_virtual_time(main())
