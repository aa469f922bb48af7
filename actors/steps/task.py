"""`task`: attempts of a handler in a worker, with retries and `repeat`."""

from ductor.actors.steps.behaviour import Unlistening
from ductor.actors.tick.activation import StateActivation
from ductor.actors.tick.retry import retry_delay_ms
from ductor.actors.tick.settle import expression_failure, fail, own_values, succeed
from ductor.actors.tick.working import Tick
from ductor.definitions.expressions import ExpressionError
from ductor.definitions.program import ProgramNode
from ductor.definitions.steps.task import TaskStep
from ductor.definitions.values import JsonValue
from ductor.journal.events import AttemptDispatched, AttemptFinished, ErrorInfo, NodeParked, NodeSettled


class TaskBehaviour(Unlistening):
    """Each attempt is a generation; a round of `repeat` begins with attempt 1 and a freshly rendered input."""

    def start(self, tick: Tick, node: ProgramNode) -> None:
        """Dispatch the first attempt."""
        step = _step(node)
        if step.tasks:
            _dispatch_round(tick, node, iteration=0)
        else:
            _dispatch(tick, node, step.task, attempt=1, iteration=0)

    def on_result(self, tick: Tick, node: ProgramNode, result: AttemptFinished) -> None:
        """Succeed, go round again, retry, or fail."""
        if result.outcome == "succeeded":
            output = result.output if result.output_ref is None else tick.state.value(None, result.output_ref)
            step = _step(node)
            if step.repeat is None or tick.state.is_winding_down:
                succeed(tick, node, "success", output)
            else:
                _after_round(tick, node, step, output)
        elif result.outcome == "cancelled" and tick.state.is_winding_down and not node.undoes:
            tick.emit(NodeSettled(node=node.ref, status="cancelled"))
        else:
            error = result.error or ErrorInfo(type="Cancelled", message="the handler stopped without being asked to")
            _after_failure(tick, node, error)

    def on_timer(self, tick: Tick, node: ProgramNode) -> None:
        """The pause before a retry or before the next round is over."""
        state = tick.node_state(node)
        if state.waiting == "repeat":
            _dispatch_round(tick, node, iteration=state.iteration + 1)
        else:
            _dispatch(tick, node, state.task, attempt=state.attempt + 1, iteration=state.iteration)


def _step(node: ProgramNode) -> TaskStep:
    assert isinstance(node.step, TaskStep)
    return node.step


def _dispatch_round(tick: Tick, node: ProgramNode, *, iteration: int) -> None:
    step = _step(node)
    if not step.tasks:
        _dispatch(tick, node, step.task, attempt=1, iteration=iteration)
        return
    task = node.templates["task"].render(tick.variables(node))
    if task in step.tasks:
        _dispatch(tick, node, str(task), attempt=1, iteration=iteration)
    else:
        allowed = ", ".join(step.tasks)
        message = f"step {node.ref}: {task!r} is not among its `tasks` ({allowed})"
        fail(tick, node, ErrorInfo(type="TaskNotAllowed", message=message, retryable=False))


def dispatch_first(tick: Tick, node: ProgramNode, activation: StateActivation) -> None:
    """Dispatch the first attempt ever of a task that has one handler.

    Raises:
        ExpressionError, ValueRefusedError: its input could not be made. Nothing was dispatched.
    """
    step, ref = _step(node), node.ref
    assert node.input is not None
    inline, large = tick.keep(node.input.render(activation), f"input of step {ref}")
    tick.emit(
        AttemptDispatched(node=ref, generation=1, task=step.task, input=inline, input_ref=large, queue=step.queue)
    )
    tick.dispatched.append(ref)


def _dispatch(tick: Tick, node: ProgramNode, task: str, *, attempt: int, iteration: int) -> None:
    inline, ref = None, None
    state = tick.node_state(node)
    if attempt == 1 and state.has_next_input:
        inline, ref = state.next_input, state.next_input_ref
    elif attempt == 1:
        assert node.input is not None
        inline, ref = tick.keep(node.input.render(tick.variables(node)), f"input of step {node.ref}")
    tick.emit(
        AttemptDispatched(
            node=node.ref,
            generation=state.generation + 1,
            task=task,
            input=inline,
            input_ref=ref,
            queue=_step(node).queue,
            attempt=attempt,
            iteration=iteration,
        )
    )
    tick.dispatched.append(node.ref)


def _after_round(tick: Tick, node: ProgramNode, step: TaskStep, output: JsonValue) -> None:
    repeat = step.repeat
    assert repeat is not None
    state = tick.node_state(node)
    try:
        activation = tick.variables(node, own_values(tick, node, output, None))
        is_done = node.expressions["repeat.until"].evaluate_boolean(activation)
    except ExpressionError as error:
        fail(tick, node, expression_failure(error), is_work_done=True)
        return
    rounds = state.iteration + 1
    if is_done or (rounds >= repeat.max and repeat.on_max == "continue"):
        succeed(tick, node, "success", output)
    elif rounds >= repeat.max:
        message = f"step {node.ref}: `until` did not hold after {rounds} rounds"
        exhausted = ErrorInfo(type="RepeatExhausted", message=message, retryable=False)
        fail(tick, node, exhausted, is_work_done=True)
    elif repeat.every_ms > 0:
        tick.emit(NodeParked(node=node.ref, waiting="repeat", until_us=tick.now_us + repeat.every_ms * 1_000))
    else:
        _dispatch_round(tick, node, iteration=rounds)


def _after_failure(tick: Tick, node: ProgramNode, error: ErrorInfo) -> None:
    step, state = _step(node), tick.node_state(node)
    elapsed_us = tick.now_us - state.round_started_at_us - tick.state.paused_in_round_us(state)
    if tick.state.closing is not None and not node.is_defer and not node.undoes:
        fail(tick, node, error)
        return
    delay_ms = retry_delay_ms(
        step.retry,
        error,
        attempt=state.attempt,
        elapsed_ms=elapsed_us // 1_000,
        total_ms=step.timeout.total_ms,
        run_id=tick.state.run_id,
        node=node.ref,
        generation=state.generation,
    )
    if delay_ms is None:
        fail(tick, node, error)
    elif tick.state.continuing is not None:
        tick.emit(NodeSettled(node=node.ref, status="cancelled"))  # its retry is for the run that continues this one
    elif delay_ms > 0:
        tick.emit(NodeParked(node=node.ref, waiting="retry", until_us=tick.now_us + delay_ms * 1_000))
    else:
        _dispatch(tick, node, state.task, attempt=state.attempt + 1, iteration=state.iteration)
