"""`gather`: shapes the results of a scatter's children into one value."""

from ductor.actors.steps.behaviour import ComputedInTick
from ductor.actors.tick.gathering import gathered
from ductor.actors.tick.settle import fail, succeed
from ductor.actors.tick.working import Tick
from ductor.definitions.program import ProgramNode
from ductor.definitions.steps.gather import GatherStep
from ductor.definitions.values import JsonValue
from ductor.journal.codec import safe_error
from ductor.journal.events import SETTLED_NODE_STATUSES, ErrorInfo
from ductor.journal.state import Fanout, RunState, child_place


class GatherBehaviour(ComputedInTick):
    """Done in the tick that starts it. Its event names the scatter; the results are not written down again."""

    def start(self, tick: Tick, node: ProgramNode) -> None:
        """Settle, or fail with the first child that failed where the strategy is `raise`."""
        step, state = node.step, tick.state
        assert isinstance(step, GatherStep)
        scatter = state.nodes.get(step.scatter_ref)
        if scatter is None or scatter.status not in SETTLED_NODE_STATUSES:
            message = f"step {node.ref}: the scatter `{step.scatter_ref}` has not settled"
            fail(tick, node, ErrorInfo(type="ScatterNotSettled", message=message, retryable=False))
            return
        if step.strategy == "raise" and scatter.fanout is not None and scatter.fanout.failed:
            fail(tick, node, _first_error(state, scatter.fanout))
            return
        output = state.gathered[node.ref] = gathered(state, step.scatter_ref, step.strategy)
        succeed(tick, node, "success", output)


def _first_error(state: RunState, fanout: Fanout) -> ErrorInfo:
    """The error of the child that failed first, which says whose it is."""
    place, error = child_place(fanout.first_failed), state.nodes[fanout.first_failed].error
    assert place is not None
    assert error is not None
    index = place[1]
    details: JsonValue = {"key": fanout.key(index), "index": index, "details": error.details}
    return safe_error(ErrorInfo(type=error.type, message=error.message, details=details, retryable=False))
