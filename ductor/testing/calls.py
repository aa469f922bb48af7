"""What handlers were asked in a test, and handlers that answer as a test says."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from ductor.actors.context import TaskContext
from ductor.actors.errors import NonRetryable
from ductor.actors.tasks import Task
from ductor.definitions.values import JsonValue
from ductor.testing.clock import VirtualClock


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt that reached a handler.

    Attributes:
        number: which call of this handler it is, from 1, retries counted; a redelivery has the number of the first one.
        token: the attempt's idempotency key.
    """

    task: str
    number: int
    input: JsonValue
    step: str
    attempt: int
    run_id: str
    token: str
    at_us: int


class CallLog:
    """All calls of a test, in order, each attempt once; `mistakes` are what the test itself got wrong."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._by_token: dict[str, Call] = {}
        self._by_task: dict[str, list[Call]] = {}
        self.mistakes: list[str] = []

    def __iter__(self) -> Iterator[Call]:
        return iter(self._by_token.values())

    def __len__(self) -> int:
        return len(self._by_token)

    def record(self, task: str, value: JsonValue, context: TaskContext) -> Call:
        """Note a call; one of an attempt that was noted before gives the first note."""
        token = context.idempotency_key
        call = self._by_token.get(token)
        if call is None:
            calls = self._by_task.setdefault(task, [])
            call = self._by_token[token] = Call(
                task=task,
                number=1 + len(calls),
                input=value,
                step=context.step,
                attempt=context.attempt,
                run_id=context.run_id,
                token=token,
                at_us=self._clock.now_us(),
            )
            calls.append(call)
        return call

    def counts(self) -> Counter[str]:
        """How often each handler was called."""
        return Counter({task: len(calls) for task, calls in self._by_task.items()})

    def of(self, task: str) -> list[Call]:
        """The calls of one handler."""
        return list(self._by_task.get(task, ()))


def recorded(task: Task[..., Any], log: CallLog) -> Task[..., Any]:
    """The same task, noting its calls."""

    async def handler(input: JsonValue, context: TaskContext) -> Any:
        log.record(task.name, input, context)
        if task.is_async:
            return await task.invoke(input, context)
        return await asyncio.to_thread(task.invoke, input, context)

    return Task(task.name, handler)


class Mock:
    """A handler that gives one answer after another; the last one for ever.

    An answer is a value to return, an exception (or its class) to raise, or a function of the input, which may be
    async.

    Args:
        takes_s: virtual seconds before each answer.
    """

    def __init__(self, name: str, answers: Sequence[object], *, takes_s: float = 0.0) -> None:
        if not answers:
            raise ValueError(f"the mock of {name!r} needs an answer")
        self.name = name
        self._answers = tuple(answers)
        self._takes_s = takes_s

    def task(self, log: CallLog) -> Task[..., Any]:
        """The handler."""

        async def handler(input: JsonValue, context: TaskContext) -> Any:
            call = log.record(self.name, input, context)
            if self._takes_s:
                await asyncio.sleep(self._takes_s)
            return await self._answer(self._answers[min(call.number, len(self._answers)) - 1], input)

        return Task(self.name, handler)

    @staticmethod
    async def _answer(answer: object, value: JsonValue) -> object:
        if isinstance(answer, BaseException) or (isinstance(answer, type) and issubclass(answer, BaseException)):
            raise answer
        if callable(answer):
            result = answer(value)
            return await result if asyncio.iscoroutine(result) else result
        return answer


def unexpected(name: str, log: CallLog, reason: str) -> Task[..., Any]:
    """A handler that nobody told how to answer: being called is the test's mistake."""

    async def handler(input: JsonValue, context: TaskContext) -> None:
        call = log.record(name, input, context)
        log.mistakes.append(f"step `{call.step}` called `{name}`: {reason}")
        raise NonRetryable(reason, type="UnexpectedCall")

    return Task(name, handler)
