"""Handlers as a scenario describes them."""

import asyncio
from typing import Any

from ductor.actors.context import TaskContext
from ductor.actors.errors import NonRetryable, RetryAfter
from ductor.actors.tasks import Task
from ductor.definitions.expressions import ExpressionError
from ductor.definitions.values import JsonObject, JsonValue
from ductor.testing.calls import CallLog
from ductor.testing.scenarios.model import Answer, Raised


def answering(name: str, answers: tuple[Answer, ...], log: CallLog) -> Task[..., Any]:
    """A handler that gives the first answer whose `when` holds."""

    async def handler(input: JsonValue, context: TaskContext) -> JsonValue:
        call = log.record(name, input, context)
        try:
            return await _give(answers, {"input": input, "n": call.number})
        except _NoAnswerError:
            reason = f"no answer of the scenario fits its {_ordinal(call.number)} call"
        except ExpressionError as error:
            reason = str(error)
        log.mistakes.append(f"step `{call.step}` called `{name}`: {reason}")
        raise NonRetryable(reason, type="UnexpectedCall")

    return Task(name, handler)


class _NoAnswerError(Exception):
    """None of the answers fits."""


async def _give(answers: tuple[Answer, ...], variables: JsonObject) -> JsonValue:
    for answer in answers:
        if answer.when is None or answer.when.evaluate_boolean(variables):
            if answer.takes_ms:
                await asyncio.sleep(answer.takes_ms / 1_000)
            if answer.raises is not None:
                raise _error(answer.raises, variables)
            assert answer.returns is not None
            return answer.returns.render(variables)
    raise _NoAnswerError


def _error(raised: Raised, variables: JsonObject) -> Exception:
    message = raised.message.render(variables)
    text = message if isinstance(message, str) else str(message)
    details = raised.details.render(variables)
    if not raised.retryable:
        return NonRetryable(text, type=raised.type, details=details)
    if raised.retry_after_ms is not None:
        return RetryAfter(raised.retry_after_ms / 1_000, text, type=raised.type, details=details)
    error: Exception = type(raised.type, (Exception,), {"details": details})(text)
    return error


def _ordinal(number: int) -> str:
    suffix = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"
