"""Phase 1: apply attempt results. A result of another generation, or for a node that is not running, is superseded."""

from collections.abc import Sequence

from ductor.actors.steps import BEHAVIOURS
from ductor.actors.tick.settle import expression_failure, fail
from ductor.actors.tick.working import Tick
from ductor.definitions.expressions import ExpressionError
from ductor.journal.errors import ValueRefusedError
from ductor.journal.events import TERMINAL_RUN_STATUSES, AttemptFinished


def advance(tick: Tick, results: Sequence[AttemptFinished]) -> list[AttemptFinished]:
    """Apply the results in the order of their arrival. Returns those that are superseded."""
    superseded: list[AttemptFinished] = []
    state, program = tick.state, tick.program
    for result in results:
        node_state = state.nodes.get(result.node)
        if (
            node_state is None
            or node_state.status != "running"
            or node_state.generation != result.generation
            or state.status in TERMINAL_RUN_STATUSES
        ):
            superseded.append(result)
            continue
        node = program.node(result.node)
        tick.emit(result)
        try:
            BEHAVIOURS[node.step.type_name].on_result(tick, node, result)
        except (ExpressionError, ValueRefusedError) as error:
            fail(tick, node, expression_failure(error))
    return superseded
