"""The straight way through a tick: one plain task has succeeded, and the one plain task behind it starts.

Most rows of most journals say that and no more. The phases would find nothing else to do, so they are not gone through;
what is decided is the same, event for event (`tests/actors/tick/test_straight.py` goes both ways). Whatever is out of
the ordinary in the definition (`ductor.definitions.straight`), in the state of the run or in what the tick takes in
goes through the phases.
"""

from ductor.actors.tick.schedule import begin, schedule
from ductor.actors.tick.working import Tick
from ductor.journal.events import AttemptFinished, NodeSettled
from ductor.journal.state import RunState


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
    tick.emit(result)
    tick.emit(NodeSettled(node=result.node, status="succeeded", outcome="success", taken=(follower.ref,)))
    state.touched.clear()  # the follower is looked at here
    tick.starts += 1
    begin(tick, follower)
    if state.nodes[follower.ref].status != "running":  # its input could not be made
        schedule(tick)
    return True


def _is_undisturbed(state: RunState, now_us: int) -> bool:
    """Whether there is nothing to look at besides the result."""
    if state.status != "running":
        return False
    if state.closing is not None or state.continuing is not None:
        return False
    if state.touched or state.agenda or state.fanned or state.filling:
        return False
    due_at_us = state.next_due_us
    return due_at_us is None or due_at_us > now_us
