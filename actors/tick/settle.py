"""Settling a node: effects, choices, which edges are taken, and what a failure means for the run.

Rules (design of the language, "Edges" and "Settling"):
- Effects are applied on success, before choices; choices see the patched context. When either fails to evaluate, the
  node fails without retry and keeps its output.
- Under the outcome all plain edges and one branch of each choice group are taken, then those under `done`.
- A failure with `on_error: fail` takes no edge at all, not even `done`, and closes the run as failed.
- A node skipped by its guard takes `success` and `done` unless `on_skip: stop`; one skipped because no edge led to it,
  or cancelled, takes none.
- A step that settles while its run is closing does all of this as well: nothing starts any more where its edges lead,
  but a redrive finds what they say.
"""

from collections.abc import Sequence
from functools import partial
from typing import Literal

from ductor.actors.tick.activation import StateActivation
from ductor.actors.tick.children import cancel_child
from ductor.actors.tick.closing import begin_closing
from ductor.actors.tick.gathering import error_value
from ductor.actors.tick.sending import Sending, prepared, send
from ductor.actors.tick.working import Tick
from ductor.definitions.expressions import ExpressionError
from ductor.definitions.program import ProgramNode, Route
from ductor.definitions.steps.gather import GatherStep
from ductor.definitions.values import JsonObject, JsonValue
from ductor.journal.errors import ValueRefusedError
from ductor.journal.events import (
    SETTLED_NODE_STATUSES,
    CheckpointReached,
    ContextPatched,
    ErrorInfo,
    NodeSettled,
    PayloadRef,
)

SettledStatus = Literal["succeeded", "failed", "skipped", "cancelled"]

Edges = tuple[tuple[str, ...], tuple[str, ...]]
"""Targets taken and targets not taken."""

NOTHING = ""
"""The outcome under which no edge is taken."""

NO_ROUTE = Route(targets=(), groups=())


def expression_failure(error: ExpressionError | ValueRefusedError) -> ErrorInfo:
    """A failing expression, or a value it made that can't be stored, as the step's error. No retry can mend it."""
    kind = "ExpressionError" if isinstance(error, ExpressionError) else "ValueRefused"
    return ErrorInfo(type=kind, message=str(error), retryable=False)


def own_values(tick: Tick, node: ProgramNode, output: JsonValue, error: ErrorInfo | None) -> JsonObject:
    """What a step's own effects, choices and `repeat` see besides the run's variables."""
    state = tick.node_state(node)
    return {
        "output": output,
        "error": error_value(error),
        "iteration": state.iteration,
        "previous": tick.state.value(state.previous, state.previous_ref),
    }


def succeed(
    tick: Tick,
    node: ProgramNode,
    outcome: str,
    output: JsonValue,
    *,
    inline: JsonValue = None,
    ref: PayloadRef | None = None,
) -> bool:
    """The step's work is done. False when effects or a choice failed to evaluate and the node failed instead.

    Args:
        output: what the step's own expressions see.
        inline, ref: what the event carries of it; nothing for worker steps, whose result is in the row already.
    """
    step = node.step
    edges = None if node.effects or node.sends else node.plain_edges.get(outcome)
    sent: Sequence[Sending] = ()
    if edges is None:
        try:
            patch, edges = _effects_and_edges(tick, node, outcome, output)
            sent = prepared(tick, node, own_values(tick, node, output, None)) if node.sends else ()
        except (ExpressionError, ValueRefusedError) as error:
            fail(tick, node, expression_failure(error), inline=inline, ref=ref, is_work_done=True)
            return False
        if patch:
            tick.emit(ContextPatched(node=node.ref, patch=patch))
    _emit_settled(tick, node, "succeeded", outcome, edges, value=(inline, ref), is_work_done=True)
    for sending in sent:
        send(tick, sending)
    if step.checkpoint is not None:
        tick.emit(CheckpointReached(node=node.ref, checkpoint=step.checkpoint))
    for other in step.cancels:
        withdraw(tick, tick.program.nodes[other])
    return True


def fail(
    tick: Tick,
    node: ProgramNode,
    error: ErrorInfo,
    *,
    inline: JsonValue = None,
    ref: PayloadRef | None = None,
    is_work_done: bool = False,
) -> None:
    """The step has failed for good. `is_work_done`: what it does was done before, and may have to be undone."""
    settled = partial(_emit_settled, tick, node, "failed", "error", value=(inline, ref), is_work_done=is_work_done)
    if node.scatter:  # what becomes of its siblings is for the scatter and the gather to say
        settled(node.plain_edges[NOTHING], error=error)
        return
    if node.step.on_error == "fail":
        settled(node.plain_edges[NOTHING], error=error)
        begin_closing(tick, "failed", error=error, reason=f"step {node.ref} failed")
        return
    try:
        edges = _edges(node, "error", _seen_by_choices(tick, node, error))
    except ExpressionError as broken:
        broken_error = expression_failure(broken)
        settled(node.plain_edges[NOTHING], error=broken_error)
        begin_closing(tick, "failed", error=broken_error, reason=f"a choice of step {node.ref} failed")
        return
    settled(edges, error=error)


def skip_by_guard(tick: Tick, node: ProgramNode) -> None:
    """The guard `run_if` was false: the step does nothing, the path goes on."""
    edges = node.plain_edges[NOTHING]
    if node.step.on_skip == "continue":
        try:
            edges = _edges(node, "success", _seen_by_choices(tick, node, None))
        except ExpressionError as error:
            fail(tick, node, expression_failure(error))
            return
    _emit_settled(tick, node, "skipped", "", edges)


def skip_dead(tick: Tick, node: ProgramNode) -> None:
    """No edge can lead here any more: neither can one lead on from here."""
    _emit_settled(tick, node, "skipped", "", node.plain_edges[NOTHING])


def time_out_edges(tick: Tick, node: ProgramNode) -> None:
    """The parked node's time is up and it has a `timeout` edge: the path goes on there, without effects or output."""
    try:
        edges = _edges(node, "timeout", _seen_by_choices(tick, node, None))
    except ExpressionError as error:
        fail(tick, node, expression_failure(error))
        return
    _emit_settled(tick, node, "succeeded", "timeout", edges)


def withdraw(tick: Tick, node: ProgramNode) -> None:
    """Cancel a node that has not settled yet: an attempt in flight is told to stop, and its result no longer counts."""
    state = tick.node_state(node)
    if state.status in SETTLED_NODE_STATUSES:
        return
    if state.fanout is not None:
        withdraw_children(tick, node)
    if state.status == "running":
        tick.withdraw(node.ref, state.generation)
    cancel_child(tick, node)
    _emit_settled(tick, node, "cancelled", "withdrawn", node.plain_edges[NOTHING])


def withdraw_children(tick: Tick, scatter: ProgramNode) -> None:
    """Cancel the children of a scatter that are under way."""
    prefix = f"{scatter.ref}["
    for ref in [ref for ref in tick.state.open_nodes if ref.startswith(prefix)]:
        withdraw(tick, tick.program.node(ref))


def _effects_and_edges(tick: Tick, node: ProgramNode, outcome: str, output: JsonValue) -> tuple[JsonObject, Edges]:
    is_choosing = has_choices(node, outcome)
    if not node.effects and not is_choosing:
        return {}, _edges(node, outcome, tick.activation)
    own = own_values(tick, node, output, None)
    activation = tick.variables(node, own)
    patch: JsonObject = {}
    if node.effects:
        for key, template in node.effects.items():
            patch[key] = tick.keep_inline(template.render(activation), f"effect {key} of step {node.ref}")
        if is_choosing:
            activation = tick.variables(node, {**own, "context": {**tick.state.context, **patch}})
    return patch, _edges(node, outcome, activation)


def has_choices(node: ProgramNode, outcome: str) -> bool:
    """Whether something is chosen under the outcome; what is, is never nothing."""
    return bool(node.routes.get(outcome, NO_ROUTE).groups or node.routes.get("done", NO_ROUTE).groups)


def _edges(node: ProgramNode, outcome: str, activation: StateActivation) -> Edges:
    plain = node.plain_edges.get(outcome)
    if plain is not None:
        return plain
    taken: set[str] = set()
    for key in (outcome, "done"):
        route = node.routes.get(key, NO_ROUTE)
        taken.update(route.targets)
        for group in route.groups:
            for when, target in group.branches:
                if when is None or when.evaluate_boolean(activation):
                    taken.add(target)
                    break
    return (
        tuple(target for target in node.targets if target in taken),
        tuple(target for target in node.targets if target not in taken),
    )


def _seen_by_choices(tick: Tick, node: ProgramNode, error: ErrorInfo | None) -> StateActivation:
    return tick.variables(node, own_values(tick, node, None, error))


def _emit_settled(
    tick: Tick,
    node: ProgramNode,
    status: SettledStatus,
    outcome: str,
    edges: Edges,
    *,
    value: tuple[JsonValue, PayloadRef | None] = (None, None),
    error: ErrorInfo | None = None,
    is_work_done: bool = False,
) -> None:
    step = node.step
    gathers = strategy = ""
    if type(step) is GatherStep and status == "succeeded":
        gathers, strategy = step.scatter_ref, step.strategy
    tick.emit(
        NodeSettled(
            node=node.ref,
            status=status,
            outcome=outcome,
            output=value[0],
            output_ref=value[1],
            # a worker step's error stands in its attempt_finished event already
            error=None if error is None or error is tick.node_state(node).error else error,
            taken=edges[0],
            untaken=edges[1],
            gathers=gathers,
            gather_strategy=strategy,
            is_undoable=is_work_done and step.compensate is not None,
        )
    )
