"""Redrive: a run that has ended badly goes on from where it failed, keeping what succeeded.

These steps are pending again:
- those that ended the run: they failed for good, their `end` ended it on purpose, or its end cancelled them. A failure
  that `on_error: continue` dealt with, and a step that another one cancelled, stay as they are;
- those that `from: [refs]` names, settled or not; of the children of scatters see
  `ductor.actors.tick.redriven_children`;
- those that were undone (`compensate`): what they did is not in effect any more. A step whose undo failed stays as it
  is, and is undone again if the run ends badly again;
- what comes after any of these: after named and undone steps all of it, else what did not succeed;
- deferred steps;
- steps that were pending still, if an edge has said something to them: they are looked at again.

The incoming edges of a step that is put back say again what they said before, as far as their sources are not put back
themselves. `input` replaces the input of a single task step for its next round. The run's own timeout begins anew.
"""

from ductor.actors.tick.children import is_tolerated_timeout
from ductor.actors.tick.event_waits import hear_events_of_handlers
from ductor.actors.tick.redriven_children import (
    is_started_child,
    scatters_and_children,
    scatters_of_raised,
    with_children,
)
from ductor.actors.tick.settle import has_choices
from ductor.actors.tick.working import Tick
from ductor.definitions.fields import UNDO_SUFFIX
from ductor.definitions.steps.task import TaskStep
from ductor.definitions.steps.transform import TransformStep
from ductor.definitions.values import JsonValue
from ductor.journal.errors import ValueRefusedError
from ductor.journal.events import SETTLED_NODE_STATUSES, ControlReceived, NodeReset, PayloadRef, RunReopened


def redrive(tick: Tick, control: ControlReceived) -> str:
    """Reopen the run. Returns why not, empty when done."""
    state = tick.state
    if not state.is_terminal:
        return "the run has not ended"
    named = _named(tick, control)
    if isinstance(named, str):
        return named
    if state.status == "completed" and not named:
        return "the run has completed; name the steps to do anew with `from`"
    ended = [ref for ref in state.nodes if ref in tick.program.nodes and _ended_the_run(tick, ref)]
    edited = _edited_input(tick, control, named or ended)
    if isinstance(edited, str):
        return edited
    input_node, inline, ref = edited
    timeout_ms = tick.program.manifest.timeout_ms
    tick.emit(control)
    tick.emit(
        RunReopened(
            nodes=_reset(tick, [*named, *_undone(tick)], ended),
            input_node=input_node,
            input=inline,
            input_ref=ref,
            timeout_at_us=None if timeout_ms is None else tick.now_us + timeout_ms * 1_000,
        )
    )
    hear_events_of_handlers(tick)
    return ""


def _named(tick: Tick, control: ControlReceived) -> list[str] | str:
    """The steps that `from` names, or what is wrong with it."""
    given = control.arguments.get("from")
    if given is None:
        return []
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, list) or not names:
        return "`from` must be a list of steps"
    nodes = tick.program.nodes
    unknown = [
        name
        for name in names
        if not isinstance(name, str) or (nodes[name].is_defer if name in nodes else not is_started_child(tick, name))
    ]
    if unknown:
        return f"the definition has no step {unknown[0]!r} that can be done anew"
    return list(dict.fromkeys(str(name) for name in names))


def _edited_input(
    tick: Tick, control: ControlReceived, targets: list[str]
) -> tuple[str, JsonValue, PayloadRef | None] | str:
    """The step that gets another input and that input, nothing, or what is wrong with it."""
    if "input" not in control.arguments:
        return "", None, None
    if len(targets) != 1 or not isinstance(tick.program.node(targets[0]).step, TaskStep):
        return "`input` needs exactly one step, of type task; name it with `from`"
    try:
        inline, ref = tick.keep(control.arguments["input"], f"input of step {targets[0]}")
    except ValueRefusedError as error:
        return str(error)
    return targets[0], inline, ref


def _undone(tick: Tick) -> list[str]:
    """Steps and children of scatters whose undo has succeeded."""
    nodes = tick.state.nodes.items()
    return [
        ref.removesuffix(UNDO_SUFFIX) for ref, node in nodes if ref.endswith(UNDO_SUFFIX) and node.status == "succeeded"
    ]


def _ended_the_run(tick: Tick, ref: str) -> bool:
    node, program_node = tick.state.nodes[ref], tick.program.nodes[ref]
    step = program_node.step
    if program_node.is_defer:
        return False
    if node.status == "failed":
        has_broken_choice = has_choices(program_node, "error") and not node.taken
        return has_broken_choice or (step.on_error == "fail" and not is_tolerated_timeout(step, node))
    if node.status == "cancelled":
        return node.outcome != "withdrawn"
    return node.status == "succeeded" and isinstance(step, TransformStep) and step.end is not None


def _reset(tick: Tick, named: list[str], ended: list[str]) -> tuple[NodeReset, ...]:
    state, program = tick.state, tick.program
    steps, children = scatters_and_children(named)
    whole = {*named, *ended, *(raised := scatters_of_raised(tick, [*ended, *steps]))}
    chosen = dict.fromkeys([*steps, *raised])
    _choose_following(tick, chosen, keeps_succeeded=False)
    chosen.update(dict.fromkeys(ended))
    _choose_following(tick, chosen, keeps_succeeded=True)
    for ref, node in program.nodes.items():
        if node.is_defer:
            if ref in state.nodes:
                chosen[ref] = None
        elif not _is_settled(tick, ref) and (
            not node.predecessors or any(_is_settled(tick, source) for source in node.predecessors)
        ):
            chosen[ref] = None
    resets = (_put_back(tick, ref, chosen) for ref in program.nodes if ref in chosen)
    return tuple(with_children(tick, reset, chosen, children, whole) for reset in resets)


def _choose_following(tick: Tick, chosen: dict[str, None], *, keeps_succeeded: bool) -> None:
    """Add what comes after the chosen steps."""
    queue = list(chosen)
    while queue:
        for target in tick.program.nodes[queue.pop()].targets:
            if target not in chosen and not (keeps_succeeded and _is_kept(tick, target)):
                chosen[target] = None
                queue.append(target)


def _is_kept(tick: Tick, ref: str) -> bool:
    node = tick.state.nodes.get(ref)
    return node is not None and node.status in ("succeeded", "failed", "cancelled") and not _ended_the_run(tick, ref)


def _is_settled(tick: Tick, ref: str) -> bool:
    node = tick.state.nodes.get(ref)
    return node is not None and node.status in SETTLED_NODE_STATUSES


def _put_back(tick: Tick, ref: str, chosen: dict[str, None]) -> NodeReset:
    """What the edges from sources that stay settled say."""
    settled = taken = 0
    for source in tick.program.nodes[ref].predecessors:
        if source not in chosen and _is_settled(tick, source):
            settled += 1
            taken += ref in tick.state.nodes[source].taken
    return NodeReset(node=ref, sources_settled=settled, sources_taken=taken)
