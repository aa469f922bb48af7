"""Phase 3: what child runs tell, in the order of the inbox.

A report is recorded as `child_reported` if it says anything that the run does not know: the node still waits for that
child, or the child counted as open. Everything else is late (the node has settled, or waits for a child of another
generation) and is undelivered. Reports are heard while the run is closing too: children that were asked to stop say
when they have.
"""

from ductor.actors.steps import BEHAVIOURS
from ductor.actors.tick.children import is_awaited, key_taken
from ductor.actors.tick.compensation import undo_reported
from ductor.actors.tick.settle import expression_failure, fail
from ductor.actors.tick.working import Tick
from ductor.definitions.expressions import ExpressionError
from ductor.definitions.fields import UNDO_SUFFIX
from ductor.journal.child_reports import ChildReport, report_of
from ductor.journal.commit import MessageDisposition
from ductor.journal.errors import ValueRefusedError
from ductor.journal.events import ChildReported, ErrorInfo, Message


def absorb_report(tick: Tick, message: Message) -> None:
    """Take up one message of kind `child`."""
    report = report_of(message)
    state = tick.state
    node = state.nodes.get(message.node)
    is_current = _is_current(tick, message.node, report.run_id, report.generation)
    if state.is_terminal or not (is_current or report.run_id in state.open_children):
        tick.outbox.messages[message.id] = MessageDisposition(message.id, "undelivered")
        return
    tick.outbox.messages[message.id] = MessageDisposition(message.id, "consumed")
    apply_report(
        tick,
        ChildReported(
            node=message.node,
            generation=report.generation or (0 if node is None else node.generation),
            run_id=report.run_id,
            status=report.status,
            checkpoint=report.checkpoint,
            output=report.output,
            output_ref=message.payload_ref,
            error=_error(message.node, report),
            compensated=report.compensated,
        ),
    )


def apply_report(tick: Tick, event: ChildReported) -> None:
    """Record what a child has told, and go on where a node waits for it."""
    is_current = _is_current(tick, event.node, event.run_id, event.generation)
    tick.emit(event)
    if not is_current:
        return
    program_node = tick.program.node(event.node)
    if program_node.undoes:
        undo_reported(tick, program_node, event)
        return
    try:
        BEHAVIOURS[program_node.step.type_name].on_report(tick, program_node, event)
    except (ExpressionError, ValueRefusedError) as error:
        fail(tick, program_node, expression_failure(error))


def _is_current(tick: Tick, ref: str, run_id: str, generation: int) -> bool:
    """Whether the node waits for this report. An undo asks a child that has ended, in its own life of the run."""
    node = tick.state.nodes.get(ref)
    if node is None:
        return False
    if ref.endswith(UNDO_SUFFIX):
        return node.status == "waiting" and generation == tick.state.reopened_count
    return is_awaited(node, run_id)


def _error(ref: str, report: ChildReport) -> ErrorInfo | None:
    return key_taken(ref, "", report.owner) if report.status == "refused" else report.error
