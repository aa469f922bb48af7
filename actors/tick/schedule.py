"""Phase 4: start what has become runnable, in Kahn order, and see whether the run is done.

A node is looked at each time one of its incoming edges settles, and only then. Its join gives one of three answers:
run, skip (no edge can lead here any more), or not yet.
"""

import heapq
from typing import Final

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
from ductor.journal.events import TERMINAL_RUN_STATUSES, TickLimited
from ductor.journal.state import NodeState, RunState

UNTOUCHED: Final = NodeState()
"""A node that nothing has happened to yet."""


def schedule(tick: Tick) -> None:
    """Start runnable nodes until none is left or the tick is full, and carry a decided end further."""
    state, program = tick.state, tick.program
    if program.manifest.continue_as_new_after is not None:
        watch_length(tick)
    while True:
        if program.lease_key is not None and run_waits_for_lease(tick):
            return
        has_more = _start_runnable(tick)
        if state.status in TERMINAL_RUN_STATUSES:
            return
        if has_more:
            tick.emit(TickLimited())
            return
        if state.open_nodes or not _carry_end_on(tick):
            return


def _carry_end_on(tick: Tick) -> bool:
    """Nothing is open: decide the end of the run, or carry it further. Whether there may be more to start now."""
    state = tick.state
    if state.closing is None:
        if state.continuing is not None:
            advance_continuing(tick)
            return False
        if not state.nodes:
            return False
        if goes_another_round(tick):
            return True
        complete(tick)
    if state.wants_undo and tick.is_full:
        tick.emit(TickLimited())
        return False
    if not undo_next(tick):
        advance_closing(tick)
    return True


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
    if state.closing is not None or state.continuing is not None:
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
        if not state.touched:
            return has_more_children or bool(state.agenda)


def _drain_agenda(tick: Tick) -> None:
    """Start what has become runnable. The agenda keeps what the tick has no room for, and nothing where there is no
    such: what `touched` holds beyond that depends on whether the state was folded, and the row must not."""
    state, program = tick.state, tick.program
    touched, agenda = state.touched, state.agenda
    while touched or agenda:
        if not agenda and len(touched) == 1:
            ref = touched.popleft()
        else:
            while touched:
                ref = touched.popleft()
                heapq.heappush(agenda, (program.node(ref).position, ref))
            _, ref = heapq.heappop(agenda)
        node = program.node(ref)
        answer = _answer(state, node)
        if answer is None:
            continue
        if tick.is_full:
            heapq.heappush(agenda, (node.position, ref))
            return
        tick.starts += 1
        if answer:
            _start(tick, node)
        else:
            skip_dead(tick, node)


def _answer(run: RunState, node: ProgramNode) -> bool | None:
    """Whether a node that is looked at runs (True), is skipped (False), or has nothing decided of it now (None)."""
    state = run.nodes.get(node.ref, UNTOUCHED)
    if state.status == "pending":
        return readiness(run, node, state.sources_settled, state.sources_taken)
    return True if has_lease_to_start(state) else None


def _start(tick: Tick, node: ProgramNode) -> None:
    if tick.node_state(node).status != "pending":  # it has got its lease
        begin(tick, node)
        return
    if tick.program.manifest.continue_as_new_after is not None and makes_way(tick, node):
        return
    if node.step.cancel_rest:
        for ref in sorted(node.ancestors):
            withdraw(tick, tick.program.nodes[ref])
    if node.run_if is None and node.step.lease is None:
        begin(tick, node)
    else:
        _start_if_guard_holds(tick, node)


def _start_if_guard_holds(tick: Tick, node: ProgramNode) -> None:
    try:
        if node.run_if is not None and not node.run_if.evaluate_boolean(tick.activation):
            skip_by_guard(tick, node)
        elif not asks_for_lease(tick, node):
            begin(tick, node)
    except (ExpressionError, ValueRefusedError) as error:
        fail(tick, node, expression_failure(error))


def begin(tick: Tick, node: ProgramNode) -> None:
    """Start a node; one that can't be fails."""
    try:
        BEHAVIOURS[node.step.type_name].start(tick, node)
        if tick.state.inbox and tick.node_state(node).names:
            take_buffered(tick, node.ref)
    except (ExpressionError, ValueRefusedError) as error:
        fail(tick, node, expression_failure(error))
