"""The handler that all task steps call, with everything that handlers do to an engine, and the record of its calls."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from ductor.actors.context import TaskContext
from ductor.actors.errors import NonRetryable, RetryAfter
from ductor.actors.tasks import Task
from ductor.definitions.values import JsonObject, JsonValue
from scripts.simulation.chance import Chance
from scripts.simulation.definitions import TASK
from scripts.simulation.repetitions import Repetitions
from scripts.simulation.scheduler import current_lane
from scripts.simulation.violations import Violation, Violations
from scripts.simulation.weather import Weather

FAULTY_SHARE: Final = 0.35
BULKY_TEXT: Final = "y" * 40_000


class Boom(Exception):
    """A failure that a retry may mend."""


class Ledger:
    """Who was called for which attempt, and what it returned. It outlives every process.

    Attributes:
        started: how often each attempt, by token, began in a handler.
        returned: what its handlers returned.
    """

    def __init__(
        self,
        violations: Violations,
        is_dispatched: Callable[[str], bool],
        elapsed_ms: Callable[[], int],
        repetitions: Repetitions,
    ) -> None:
        self._violations, self._is_dispatched, self._elapsed_ms = violations, is_dispatched, elapsed_ms
        self._repetitions = repetitions
        self._running: set[tuple[str, str]] = set()
        self._returned_in: set[tuple[str, str]] = set()
        self._inputs: dict[str, JsonValue] = {}
        self.started: dict[str, int] = {}
        self.returned: dict[str, list[JsonValue]] = {}

    def begin(self, context: TaskContext, value: JsonValue) -> tuple[str, str]:
        """A handler begins."""
        token, process = context.idempotency_key, str(current_lane())
        if not self._is_dispatched(token):
            self._add("dispatched before its commit", token, context)
        if (process, token) in self._running:
            self._add("one attempt twice at once in one process", token, context)
        if (process, token) in self._returned_in:
            self._add("a finished attempt was dropped, and runs again", token, context)
        if self._inputs.setdefault(token, value) != value:
            self._add("another input on redelivery", token, context)
        repeated = self._repetitions.begin(token, process)
        if repeated is not None:
            self._add("carried out twice", f"{token} began {repeated}", context)
        self._running.add((process, token))
        self.started[token] = self.started.get(token, 0) + 1
        return process, token

    def stop(self, call: tuple[str, str]) -> None:
        """A handler is told to stop."""
        self._repetitions.tell_to_stop(call[1])

    def end(self, call: tuple[str, str]) -> None:
        """A handler runs no more."""
        self._running.discard(call)

    def returns(self, call: tuple[str, str], value: JsonValue) -> None:
        """A handler is about to return."""
        self.returned.setdefault(call[1], []).append(value)
        self._returned_in.add(call)

    def _add(self, rule: str, token: str, context: TaskContext) -> None:
        self._violations.add(Violation(rule, f"attempt {token}", context.run_id, self._elapsed_ms()))


def work_task(seed: int, ledger: Ledger, weather: Weather) -> Task[..., Any]:
    """The handler, for one process."""

    async def work(input: JsonValue, context: TaskContext) -> Any:
        call = ledger.begin(context, input)
        try:
            result = await _behave(Chance(seed, "handler", call[1]), weather, context, lambda: ledger.stop(call))
            ledger.returns(call, result)
            return result
        except asyncio.CancelledError:
            ledger.stop(call)
            raise
        finally:
            ledger.end(call)

    return Task(TASK, work)


async def _behave(
    chance: Chance, weather: Weather, context: TaskContext, told_to_stop: Callable[[], None]
) -> JsonValue:
    result: JsonObject = {"n": chance.whole(0, 7), "token": context.idempotency_key}
    fault = weather.handler_fault(chance, FAULTY_SHARE)
    if chance.happens(0.7):
        await asyncio.sleep(chance.waiting(chance.one_of((0.003, 0.05, 0.8))))
    if chance.happens(0.3):
        context.heartbeat({"half": True})
    if fault == "slow":
        await asyncio.sleep(chance.real(0.05, 8))
    elif fault == "failing":
        raise Boom("something broke")
    elif fault == "refusing":
        raise NonRetryable("never", type="Refused")
    elif fault == "asking_to_wait":
        raise RetryAfter(chance.real(0.1, 3), "not now", type="Busy")
    elif fault == "stuck":
        await asyncio.sleep(weather.quiet_in_s)
    elif fault == "stopping_itself":
        raise asyncio.CancelledError
    elif fault == "deaf":
        await _sleep_through(chance.real(0.5, 5), told_to_stop)
    elif fault == "bulky":
        result["text"] = BULKY_TEXT
    return result


async def _sleep_through(seconds: float, told_to_stop: Callable[[], None]) -> None:
    """Sleep, whoever wants to stop it."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + seconds
    while loop.time() < until_s:
        try:
            await asyncio.sleep(until_s - loop.time())
        except asyncio.CancelledError:
            told_to_stop()
