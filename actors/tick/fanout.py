"""Phase 2, and the part of phase 4 that starts children: scatters.

```
  items made ──▶ children start, as concurrency and interval allow ──▶ judged whenever some have settled
                                      ▲                                       │ all have, enough have (`complete_when`),
                                      └───────────────────────────────────────┤ or one failed and a gather raises
                                                                              ▼
                                                            the rest is cancelled, the scatter settles
```
A child is a node of the run like any other: it has attempts, retries and rounds of its own, and its failure is never
that of the run. The scatter keeps counts, so nothing here looks at all children but cancelling them, once.

Invariants:
- A scatter is judged once in each phase in which children of it settled, with all that settled there. `complete_when`
  is never evaluated without a reason in the row, so that computing the row again evaluates it as often.
- It settles at most once, and from then on no child of it is open, unless its run is closing: then attempts in flight
  have the grace time that all have.
- Children start in the order of the items, those that a redrive does anew before any others; what did not fit into a
  tick follows in the next one.
"""

from ductor.actors.steps import BEHAVIOURS
from ductor.actors.tick.leasing import asks_for_lease
from ductor.actors.tick.settle import expression_failure, fail, succeed, withdraw_children
from ductor.actors.tick.working import Tick
from ductor.definitions.expressions import ExpressionError
from ductor.definitions.program import ProgramNode
from ductor.definitions.steps.scatter import ScatterStep
from ductor.definitions.values import JsonObject
from ductor.journal.errors import ValueRefusedError
from ductor.journal.state import Fanout, RunState


def judge_scatters(tick: Tick) -> None:
    """Settle the scatters that are done with what has happened to their children."""
    fanned = tick.state.fanned
    while fanned:
        ref = next(iter(fanned))
        del fanned[ref]
        _judge(tick, tick.program.nodes[ref])


def start_children(tick: Tick) -> bool:
    """Start the children that may start, as long as the tick is not full.

    Returns:
        Whether there are more of them, for the next tick.
    """
    state = tick.state
    for ref in list(state.filling):
        node = tick.program.nodes[ref]
        while (index := startable_index(state, node)) is not None:
            if tick.is_full:
                return True
            _start_child(tick, node, index)
            judge_scatters(tick)
    return False


def startable_index(state: RunState, scatter: ProgramNode) -> int | None:
    """The child of the scatter that may start now; None where none may."""
    if scatter.ref not in state.filling:
        return None
    fanout, step = state.nodes[scatter.ref].fanout, scatter.step
    assert fanout is not None
    assert isinstance(step, ScatterStep)
    if step.concurrency is not None and fanout.open >= step.concurrency:
        return None
    if fanout.interval_ms and state.timers.due_at_us(scatter.ref) is not None:
        return None
    return fanout.next_index


def counts(fanout: Fanout) -> JsonObject:
    """The output of a scatter: what became of its children."""
    return {
        "total": fanout.total,
        "succeeded": fanout.succeeded,
        "failed": fanout.failed,
        "cancelled": fanout.total - fanout.succeeded - fanout.failed,
    }


def _start_child(tick: Tick, scatter: ProgramNode, index: int) -> None:
    child = tick.program.node(f"{scatter.ref}[{index}]")
    tick.starts += 1
    try:
        if not asks_for_lease(tick, child):
            BEHAVIOURS[child.step.type_name].start(tick, child)
    except (ExpressionError, ValueRefusedError) as error:
        fail(tick, child, expression_failure(error))
    fanout = tick.state.nodes[scatter.ref].fanout
    assert fanout is None or fanout.next_index != index, f"child {child.ref} has not begun"


def _judge(tick: Tick, node: ProgramNode) -> None:
    state = tick.state.nodes[node.ref]
    fanout = state.fanout
    if state.status != "waiting" or fanout is None:
        return
    try:
        is_done = fanout.settled == fanout.total or (node.is_raising and fanout.failed > 0) or _is_enough(tick, node)
    except ExpressionError as error:
        withdraw_children(tick, node)
        fail(tick, node, expression_failure(error))
        return
    if is_done:
        withdraw_children(tick, node)
        output = counts(fanout)
        succeed(tick, node, "success", output, inline=output)


def _is_enough(tick: Tick, node: ProgramNode) -> bool:
    """Whether `complete_when` holds; it is asked when a child has settled, and not before."""
    condition, fanout = node.expressions.get("complete_when"), tick.state.nodes[node.ref].fanout
    if condition is None or fanout is None:
        return False
    own: JsonObject = {"total": fanout.total, "succeeded": fanout.succeeded, "failed": fanout.failed}
    return condition.evaluate_boolean(tick.variables(node, own))
