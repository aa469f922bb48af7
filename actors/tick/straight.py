"""The straight way through a tick: one plain task has succeeded, and the one plain task behind it starts.

Most rows of most journals say that and no more. The phases would find nothing else to do, so they are not gone through;
what is decided is the same, event for event (`tests/actors/tick/test_straight.py` goes both ways). Whatever is out of
the ordinary in the definition (`ductor.definitions.straight`), in the state of the run or in what the tick takes in
goes through the phases.
"""

from functools import lru_cache
from typing import Final

from ductor.actors.steps.task import dispatch_first
from ductor.actors.tick.schedule import schedule
from ductor.actors.tick.settle import expression_failure, fail
from ductor.actors.tick.working import Tick
from ductor.definitions.expressions import ExpressionError
from ductor.journal.errors import ValueRefusedError
from ductor.journal.events import AttemptFinished, NodeSettled
from ductor.journal.fold import APPLY, begin_row
from ductor.journal.state import RunState

_apply_finished, _apply_settled = APPLY[AttemptFinished], APPLY[NodeSettled]

MAX_SETTLED_EVENTS_CACHED: Final = 4_096
"""Events that say that a step has settled and where it leads straight on: each is the same in every run."""


def goes_straight(tick: Tick, result: AttemptFinished) -> bool:
    """Whether the result, which is all that the tick takes in, leads straight on; then all of that is decided."""
    state, follower = tick.state, tick.program.straight_ways.get(result.node)
    if follower is None or follower.ref in state.nodes or result.outcome != "succeeded":
        return False
    node = state.nodes.get(result.node)
    if node is None or node.status != "running" or node.generation != result.generation:
        return False
    if not _is_undisturbed(state, tick.now_us):
        return False
    settled = _settled(result.node, follower.ref)
    begin_row(state, state.version + 1, tick.now_us)
    tick.events += (result, settled)
    _apply_finished(state, result)
    _apply_settled(state, settled)
    state.touched.clear()  # the follower is looked at here
    tick.starts += 1
    try:
        dispatch_first(tick, follower, tick.activation)
    except (ExpressionError, ValueRefusedError) as error:  # its input could not be made
        fail(tick, follower, expression_failure(error))
        schedule(tick)
    return True


@lru_cache(MAX_SETTLED_EVENTS_CACHED)
def _settled(ref: str, follower: str) -> NodeSettled:
    return NodeSettled(node=ref, status="succeeded", outcome="success", taken=(follower,))


def _is_undisturbed(state: RunState, now_us: int) -> bool:
    """Whether there is nothing to look at besides the result."""
    if state.status != "running":
        return False
    if state.closing is not None or state.continuing is not None:
        return False
    if state.touched or state.agenda or state.fanned or state.filling:
        return False
    timers = state.timers
    if not timers.due and not timers.absolute:
        return True
    due_at_us = state.next_due_us
    return due_at_us is None or due_at_us > now_us
