"""Phase 4: start what has become runnable, in Kahn order, and see whether the run is done.

A node is looked at each time one of its incoming edges settles, and only then. Its join gives one of three answers:
run, skip (no edge can lead here any more), or not yet.
"""

import heapq

from ductor.actors.steps import BEHAVIOURS
from ductor.actors.tick.closing import advance_closing, complete
from ductor.actors.tick.compensation import undo_next
from ductor.actors.tick.continuing import advance_continuing, goes_another_round, makes_way, watch_length
from ductor.actors.tick.fanout import judge_scatters, start_children
from ductor.actors.tick.leasing import asks_for_lease, has_lease_to_start, run_waits_for_lease
from ductor.actors.tick.messages import take_buffered
from ductor.actors.tick.settle import expression_failure, fail, skip_by_guard, skip_dead, withdraw
from ductor.actors.tick.working import Tick
from ductor.definitions.expressions import ExpressionError
from ductor.definitions.program import ProgramNode
from ductor.journal.errors import ValueRefusedError
from ductor.journal.events import TickLimited
from ductor.journal.state import RunState


def schedule(tick: Tick) -> None:
    """Start runnable nodes until none is left or the tick is full, and carry a decided end further."""
    state = tick.state
    watch_length(tick)
    while True:
        if run_waits_for_lease(tick):
            return
        has_more = _start_runnable(tick)
        if state.is_terminal:
            return
        if has_more:
            tick.emit(TickLimited())
            return
        if state.open_nodes:
            return
        if state.closing is None:
            if not state.nodes and state.continuing is None:
                return
            if state.continuing is not None:
                advance_continuing(tick)
                return
            if goes_another_round(tick):
                continue
            complete(tick)
        if state.wants_undo and tick.is_full:
            tick.emit(TickLimited())
            return
        if not undo_next(tick):
            advance_closing(tick)


def join_answer(join: str | int, sources: int, settled: int, taken: int) -> bool | None:
    """Whether a node with `sources` incoming edges runs (True), is skipped (False) or waits (None)."""
    if sources == 0:
        return True
    if join == "all":
        return None if settled < sources else taken > 0
    if join == "every":
        return False if settled > taken else True if settled == sources else None
    needed = 1 if join == "any" else int(join)
    if taken >= needed:
        return True
    return False if sources - settled + taken < needed else None


def readiness(state: RunState, node: ProgramNode, sources_settled: int, sources_taken: int) -> bool | None:
    """Whether a pending node runs (True), is skipped (False) or waits (None) in this state of the run."""
    if node.is_defer:
        return True if state.closing is not None and state.closing.defers_started else None
    if state.is_winding_down:
        return None  # no step starts any more; a redrive looks again
    return join_answer(node.step.join, node.sources, sources_settled, sources_taken)


def _start_runnable(tick: Tick) -> bool:
    """Start what can be started, steps before children. Returns whether some of it is left for the next tick."""
    state = tick.state
    while True:
        _drain_agenda(tick)
        has_more_children = False
        if state.fanned or state.filling:
            judge_scatters(tick)
            has_more_children = start_children(tick)
        if tick.is_full or not state.touched:
            return has_more_children or bool(state.agenda or state.touched)


def _drain_agenda(tick: Tick) -> None:
    state, program = tick.state, tick.program
    agenda = state.agenda
    while True:
        while state.touched:
            ref = state.touched.popleft()
            heapq.heappush(agenda, (program.node(ref).position, ref))
        if not agenda or tick.is_full:
            return
        _, ref = heapq.heappop(agenda)
        _look_at(tick, program.node(ref))


def _look_at(tick: Tick, node: ProgramNode) -> None:
    if node.ref not in tick.state.nodes and readiness(tick.state, node, 0, 0) is None:
        return  # looking leaves no trace: nothing has happened to the node
    state = tick.node_state(node)
    if has_lease_to_start(state):
        tick.starts += 1
        _begin(tick, node)
        return
    if state.status != "pending":
        return
    answer = readiness(tick.state, node, state.sources_settled, state.sources_taken)
    if answer is None:
        return
    tick.starts += 1
    if not answer:
        skip_dead(tick, node)
        return
    if makes_way(tick, node):
        return
    if node.step.cancel_rest:
        for ref in sorted(node.ancestors):
            withdraw(tick, tick.program.nodes[ref])
    _start(tick, node)


def _start(tick: Tick, node: ProgramNode) -> None:
    try:
        if node.run_if is not None and not node.run_if.evaluate_boolean(tick.activation):
            skip_by_guard(tick, node)
        elif not asks_for_lease(tick, node):
            _begin(tick, node)
    except (ExpressionError, ValueRefusedError) as error:
        fail(tick, node, expression_failure(error))


def _begin(tick: Tick, node: ProgramNode) -> None:
    try:
        BEHAVIOURS[node.step.type_name].start(tick, node)
        if tick.state.inbox and tick.node_state(node).names:
            take_buffered(tick, node.ref)
    except (ExpressionError, ValueRefusedError) as error:
        fail(tick, node, expression_failure(error))
