"""`subworkflow`: a child run of another definition or of an inline body, waited for or not.

With `repeat` each round is a generation with a child of its own. A timeout never stops the child: it stays on record
as open, and ends on its own or with its parent.
"""

from dataclasses import replace

import msgspec

from ductor.actors.steps.behaviour import Parked
from ductor.actors.tick.activation import StateActivation
from ductor.actors.tick.children import CHILD_TIMEOUT, start_child
from ductor.actors.tick.settle import expression_failure, fail, own_values, succeed, time_out_edges
from ductor.actors.tick.working import Tick
from ductor.definitions.expressions import ExpressionError
from ductor.definitions.program import ProgramNode
from ductor.definitions.steps import SubworkflowStep
from ductor.definitions.steps.subworkflow import CHECKPOINT_PREFIX
from ductor.definitions.values import JsonValue
from ductor.journal.events import ChildReported, ErrorInfo, Message, NodeParked, NodeSettled


class SubworkflowBehaviour(Parked):
    """Waits for its child; what the child tells comes as a report, not as a message that the node takes."""

    def start(self, tick: Tick, node: ProgramNode) -> None:
        """Start the child of the first round."""
        _start_round(tick, node, iteration=0)

    def on_report(self, tick: Tick, node: ProgramNode, report: ChildReported) -> None:
        """The child has ended or reached the checkpoint: succeed, go round again, or fail."""
        if report.status in ("completed", "checkpoint"):
            _after_round(tick, node, tick.state.value(report.output, report.output_ref))
        elif report.status in ("cancelled", "terminated") and tick.state.closing is not None:
            tick.emit(NodeSettled(node=node.ref, status="cancelled"))
        else:
            message = f"step {node.ref}: its child run {report.run_id} ended as {report.status}"
            fail(tick, node, report.error or ErrorInfo(type="ChildFailed", message=message, retryable=False))

    def on_timer(self, tick: Tick, node: ProgramNode) -> None:
        """The pause before the next round is over, or the child took too long."""
        state = tick.node_state(node)
        if state.waiting == "repeat":
            _start_round(tick, node, iteration=state.iteration + 1)
        else:
            _time_out(tick, node)

    def hears(
        self, tick: Tick, node: ProgramNode, message: Message, activation: StateActivation
    ) -> tuple[int, ...] | None:
        """Never called: such a node is filed under no name."""
        raise AssertionError(f"step {node.ref} hears no events")

    def on_message(self, tick: Tick, node: ProgramNode, message: Message) -> None:
        """Never called: such a node takes reports."""
        raise AssertionError(f"step {node.ref} takes no messages")


def _step(node: ProgramNode) -> SubworkflowStep:
    assert isinstance(node.step, SubworkflowStep)
    return node.step


def _start_round(tick: Tick, node: ProgramNode, *, iteration: int) -> None:
    error = start_child(tick, node, iteration=iteration)
    if error is not None:
        fail(tick, node, error)
    elif _step(node).mode == "async":
        _after_round(tick, node, _reference(tick, node), is_new=True)


def _after_round(tick: Tick, node: ProgramNode, output: JsonValue, *, is_new: bool = False) -> None:
    """The round is over with `output`, which is in the row already unless it `is_new`."""
    repeat, rounds = _step(node).repeat, tick.node_state(node).iteration + 1
    inline = output if is_new else None
    if repeat is None or tick.state.is_winding_down:
        succeed(tick, node, "success", output, inline=inline)
        return
    try:
        activation = tick.variables(node, own_values(tick, node, output, None))
        is_done = node.expressions["repeat.until"].evaluate_boolean(activation)
    except ExpressionError as error:
        fail(tick, node, expression_failure(error), is_work_done=True)
        return
    if is_done or (rounds >= repeat.max and repeat.on_max == "continue"):
        succeed(tick, node, "success", output, inline=inline)
    elif rounds >= repeat.max:
        message = f"step {node.ref}: `until` did not hold after {rounds} rounds"
        exhausted = ErrorInfo(type="RepeatExhausted", message=message, retryable=False)
        fail(tick, node, exhausted, is_work_done=True)
    elif repeat.every_ms > 0 or is_new:
        tick.emit(NodeParked(node=node.ref, waiting="repeat", until_us=tick.now_us + repeat.every_ms * 1_000))
    else:
        _start_round(tick, node, iteration=rounds)


def _time_out(tick: Tick, node: ProgramNode) -> None:
    step = _step(node)
    if "timeout" in node.routes:
        time_out_edges(tick, node)
        return
    reference = _reference(tick, node)
    if step.on_timeout == "detach":
        succeed(tick, node, "success", reference, inline=reference)
        return
    checkpoint = step.wait_for.removeprefix(CHECKPOINT_PREFIX)
    what = "end" if checkpoint == step.wait_for else f"reach the checkpoint `{checkpoint}`"
    message = f"step {node.ref}: its child run did not {what} within {step.timeout_ms} ms; it is not stopped for that"
    details: JsonValue = {"timeout_ms": step.timeout_ms, "child": reference}
    error = ErrorInfo(type=CHILD_TIMEOUT, message=message, details=details, retryable=False)
    if step.on_timeout == "continue_with_error":
        node = replace(node, step=msgspec.structs.replace(step, on_error="continue"))
    fail(tick, node, error)


def _reference(tick: Tick, node: ProgramNode) -> JsonValue:
    """What a step gives that does not wait for its child's output."""
    return {"run_id": tick.node_state(node).child_run_id}
