"""Calls a step's handler again with its recorded input, for somebody who wants to see what it does.

No store is opened for writing and no run gets the result. The handler is called in the calling thread, coroutine or
not, without limits of time, so that a debugger can stop in it; `TaskContext.is_replay` tells it what it is called for.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from ductor.actors.attempt_history import AttemptRecord, all_attempts
from ductor.actors.commits import assignment_of
from ductor.actors.context import TaskContext
from ductor.actors.errors import AttemptNotRecordedError, HandlerMissingError
from ductor.actors.failures import error_info
from ductor.actors.messages import Assignment
from ductor.actors.recorded_programs import RunPrograms
from ductor.actors.task_output import json_of_result
from ductor.actors.tasks import Task, TaskRegistry
from ductor.definitions.values import JsonValue
from ductor.journal.events import ErrorInfo
from ductor.journal.recorded import RecordedRun
from ductor.journal.state import RunState

Caller = Callable[[Callable[[], Any]], Any]
"""Calls what it is given, or lets a debugger call it."""


class HandlerReplay(msgspec.Struct, frozen=True, kw_only=True):
    """What the handler did this time, beside the record.

    Attributes:
        recorded: the attempt that was called again.
        output, error: of this call; `error` is None where it returned.
        is_same: it ended as recorded, with the same output, or the same type of error.
    """

    run_id: str
    step: str
    recorded: AttemptRecord
    output: JsonValue = None
    error: ErrorInfo | None = None
    is_same: bool = False


def recorded_attempts(run: RecordedRun, step: str) -> list[AttemptRecord]:
    """The attempts of a step, one at least.

    Raises:
        AttemptNotRecordedError: it has none.
        UnknownEventError: a row can't be read by this version of the software.
    """
    attempts = all_attempts(run)
    found = [attempt for attempt in attempts if attempt.step == step]
    if not found:
        raise AttemptNotRecordedError(run.run_id, step, None, 0, list(dict.fromkeys(one.step for one in attempts)))
    return found


def recorded_assignment(
    run: RecordedRun, programs: RunPrograms, step: str, generation: int | None = None
) -> tuple[Assignment, AttemptRecord]:
    """The attempt as its worker got it, and what is on record of it.

    Args:
        generation: which attempt; None for the last one.

    Raises:
        AttemptNotRecordedError: the step has no such attempt.
        UnknownEventError: a row can't be read by this version of the software.
    """
    attempts = recorded_attempts(run, step)
    wanted = [one for one in attempts if generation in {None, one.generation}]
    if not wanted:
        raise AttemptNotRecordedError(run.run_id, step, generation, len(attempts))
    recorded = wanted[-1]
    state = _state_after(run, recorded.dispatched_version)
    node = programs.program.carried_out_by(state.body).node(step)
    assignment = assignment_of(state, node.step, step, is_redelivery=True)
    # a later event of the same row may have moved the node on; what was dispatched stands in the record
    given = {
        "generation": recorded.generation,
        "attempt": recorded.attempt,
        "iteration": recorded.iteration,
        "task": recorded.task,
        "input": recorded.input,
        "queue": recorded.queue,
        "is_replay": True,
    }
    return msgspec.structs.replace(assignment, **given), recorded


async def call_again(
    assignment: Assignment,
    recorded: AttemptRecord,
    tasks: TaskRegistry,
    *,
    caller: Caller | None = None,
    on_error: Callable[[Exception], None] | None = None,
) -> HandlerReplay:
    """Call the handler of a recorded attempt.

    Args:
        caller: calls the handler, as a debugger does; None calls it directly.
        on_error: is shown what the handler raised, with its traceback.

    Raises:
        HandlerMissingError: none of the tasks has the recorded name.
        asyncio.CancelledError, KeyboardInterrupt, SystemExit: whoever watches has had enough.
    """
    task = tasks.get(assignment.task)
    if task is None:
        raise HandlerMissingError(assignment.task, tasks.names)
    output: JsonValue = None
    error: ErrorInfo | None = None
    try:
        output = json_of_result(task.name, await _called(task, assignment, caller))
    except Exception as raised:  # noqa: BLE001 - a handler's failure is what was asked for
        if on_error is not None:
            on_error(raised)
        error = error_info(raised)
    return HandlerReplay(
        run_id=assignment.run_id,
        step=assignment.node,
        recorded=recorded,
        output=output,
        error=error,
        is_same=_is_same(recorded, output, error),
    )


async def _called(task: Task[..., Any], assignment: Assignment, caller: Caller | None) -> object:
    context = TaskContext(assignment, asyncio.get_running_loop(), deadline_us=None)
    arguments = task.binding.arguments(assignment.input, context)

    def call() -> Any:
        return task.handler(**arguments)

    result = call() if caller is None else caller(call)
    return await _awaited(result) if inspect.isawaitable(result) else result


async def _awaited(result: Awaitable[object]) -> object:
    return await result


def _state_after(run: RecordedRun, version: int) -> RunState:
    return next(state for state in run.states() if state.version == version)


def _is_same(recorded: AttemptRecord, output: JsonValue, error: ErrorInfo | None) -> bool:
    if error is not None:
        return recorded.outcome == "failed" and recorded.error is not None and recorded.error.type == error.type
    return recorded.outcome == "succeeded" and msgspec.json.encode(recorded.output) == msgspec.json.encode(output)
