"""Redrive: a run that has ended badly goes on from where it failed, keeping what succeeded.

Without arguments every failed or cancelled step is pending again, and with it what comes after it and did not succeed.
`from: [refs]` names steps instead: those and everything after them are done anew, succeeded or not. `input` replaces
the input of a single named task step for its next round.

The incoming edges of a step that is put back say again what they said before, as far as their sources are not put back
themselves.
"""

from ductor.actors.tick.working import Tick
from ductor.definitions.steps.task import TaskStep
from ductor.definitions.values import JsonValue
from ductor.journal.errors import ValueRefusedError
from ductor.journal.events import SETTLED_NODE_STATUSES, ControlReceived, NodeReset, PayloadRef, RunReopened


def redrive(tick: Tick, control: ControlReceived) -> str:
    """Reopen the run. Returns why not, empty when done."""
    state, program = tick.state, tick.program
    if not state.is_terminal:
        return "the run has not ended"
    if state.status == "continued":
        return "the run has been continued as another one"
    named = control.arguments.get("from")
    if named is None:
        targets = [ref for ref, node in state.nodes.items() if node.status in ("failed", "cancelled")]
        targets = [ref for ref in targets if not program.nodes[ref].is_defer]
        if not targets and state.status == "completed":
            return "no step of the run has failed; name the steps to do anew with `from`"
    else:
        names = [named] if isinstance(named, str) else named
        if not isinstance(names, list) or not names:
            return "`from` must be a list of steps"
        unknown = [str(ref) for ref in names if ref not in program.nodes or program.nodes[str(ref)].is_defer]
        if unknown:
            return f"the definition has no step {unknown[0]!r}"
        targets = [str(ref) for ref in names]
    edited = _edited_input(tick, control, targets)
    if isinstance(edited, str):
        return edited
    reset = _reset(tick, targets, keeps_succeeded=named is None)
    input_node, inline, ref = edited
    tick.emit(control)
    tick.emit(RunReopened(nodes=tuple(reset), input_node=input_node, input=inline, input_ref=ref))
    return ""


def _edited_input(
    tick: Tick, control: ControlReceived, targets: list[str]
) -> tuple[str, JsonValue, PayloadRef | None] | str:
    if "input" not in control.arguments:
        return "", None, None
    if len(targets) != 1 or not isinstance(tick.program.nodes[targets[0]].step, TaskStep):
        return "`input` needs exactly one step, of type task, named with `from`"
    try:
        inline, ref = tick.keep(control.arguments["input"], f"input of step {targets[0]}")
    except ValueRefusedError as error:
        return str(error)
    return targets[0], inline, ref


def _reset(tick: Tick, targets: list[str], *, keeps_succeeded: bool) -> list[NodeReset]:
    state, program = tick.state, tick.program
    chosen: dict[str, None] = dict.fromkeys(targets)
    queue = list(targets)
    while queue:
        for target in program.nodes[queue.pop()].targets:
            node = state.nodes.get(target)
            settled = node is not None and node.status in SETTLED_NODE_STATUSES
            kept = settled and keeps_succeeded and node is not None and node.status == "succeeded"
            if target not in chosen and not kept:
                chosen[target] = None
                queue.append(target)
    for ref in program.defers:
        if ref in state.nodes:
            chosen[ref] = None
    return [_said_before(tick, ref, chosen) for ref in sorted(chosen, key=lambda ref: program.nodes[ref].position)]


def _said_before(tick: Tick, ref: str, chosen: dict[str, None]) -> NodeReset:
    """What the edges from sources that stay settled say."""
    settled = taken = 0
    for source in tick.program.nodes[ref].predecessors:
        node = tick.state.nodes.get(source)
        if source not in chosen and node is not None and node.status in SETTLED_NODE_STATUSES:
            settled += 1
            taken += ref in node.taken
    return NodeReset(node=ref, sources_settled=settled, sources_taken=taken)
