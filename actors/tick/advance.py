"""Phase 1: apply attempt results. A result of another generation, or for a node that is not running, is superseded."""

from ductor.actors.steps import BEHAVIOURS
from ductor.actors.tick.settle import expression_failure, fail
from ductor.actors.tick.working import Tick
from ductor.definitions.expressions import ExpressionError
from ductor.journal.errors import ValueRefusedError
from ductor.journal.events import AttemptFinished


def advance(tick: Tick, results: list[AttemptFinished]) -> list[AttemptFinished]:
    """Apply the results in the order of their arrival. Returns those that are superseded."""
    superseded: list[AttemptFinished] = []
    for result in results:
        state = tick.state.nodes.get(result.node)
        if (
            state is None
            or state.status != "running"
            or state.generation != result.generation
            or tick.state.is_terminal
        ):
            superseded.append(result)
            continue
        node = tick.program.node(result.node)
        tick.emit(result)
        try:
            BEHAVIOURS[node.step.type_name].on_result(tick, node, result)
        except (ExpressionError, ValueRefusedError) as error:
            fail(tick, node, expression_failure(error))
    return superseded
