"""Child runs as the ticks of their parent and of themselves see them: starting, asking to stop, telling the parent.

```
  parent:  start_child ──▶ waits ──ChildReported──▶ settles           (sync)
                 │           └─timeout─▶ settles, the child goes on   (`detach` and the other policies)
                 └──▶ settles at once                                 (async)
  child:   row 1, written with the parent's row ──▶ … ──▶ end: a message for the parent, in the same commit
```

Invariants:
- A child exists if and only if the row that says `child_started` does: both are written by one statement.
- Each generation of a node has a child of its own, whose id is derived from it: a tick that is computed again starts
  the same child.
- `RunState.open_children` holds every child that was started and not heard of the end of, however its node settled,
  but for those that outlive their parent (`on_parent_close: abandon`). A run that ends badly asks all of them to stop;
  one that completes leaves alone those that nothing waits for.
- A child tells its end once, in the first life of its run; what it does after a redrive is its own affair.

Failure cases: what can't be started (too deep, a trigger that does not fit) fails the node, and nothing is started. A
child whose key belongs to another run is not started either; the store tells the parent so.
"""

from typing import Final

import msgspec

from ductor.actors.errors import StartRefusedError
from ductor.actors.start import Ancestry, first_event
from ductor.actors.tick.activation import child_values
from ductor.actors.tick.gathering import output_of
from ductor.actors.tick.outbox import StartedRun
from ductor.actors.tick.working import Tick
from ductor.definitions.program import Program, ProgramNode
from ductor.definitions.steps import AnyStep, SubworkflowStep
from ductor.definitions.steps.subworkflow import CHECKPOINT_PREFIX
from ductor.definitions.triggers import TriggerError
from ductor.definitions.values import JsonObject, JsonValue
from ductor.journal.child_reports import ChildReport, report_message
from ductor.journal.codec import MAX_ERROR_DETAILS_BYTES, encode_value, safe_error
from ductor.journal.commit import Payload, SentControl, SentMessage
from ductor.journal.events import (
    CheckpointReached,
    ChildStarted,
    ChildStatus,
    EndStatus,
    ErrorInfo,
    PayloadRef,
    RunEnded,
)
from ductor.journal.ids import derived_run_id
from ductor.journal.state import NodeState
from ductor.journal.trace_context import tick_span_id, traceparent_below

MAX_DEPTH: Final = 16
"""Runs below each other, the root not counted. An abandoned child begins anew."""

CHILD_TIMEOUT: Final = "ChildTimeout"
"""The type of the error of a step whose child took too long."""

TERMINAL: Final = "terminal"
"""What a parent waits for that waits for the end."""


def start_child(tick: Tick, node: ProgramNode, *, iteration: int) -> ErrorInfo | None:
    """Start the child run of the node's next generation with this row; the node waits for it.

    Args:
        node: a subworkflow step, or a scatter's child that is a run of its own.
        iteration: the round of `repeat`, from 0.

    Returns:
        Why nothing was started; None when it was.

    Raises:
        ExpressionError, ValueRefusedError: input or key could not be evaluated or stored. Nothing was started.
    """
    step, state = _step(node), tick.state
    is_abandoned = step.on_parent_close == "abandon"
    if state.depth >= MAX_DEPTH and not is_abandoned:
        message = f"step {node.ref}: this run is {state.depth} levels below its root, and {MAX_DEPTH} are allowed"
        return ErrorInfo(type="DepthExceeded", message=message, details={"max_depth": MAX_DEPTH}, retryable=False)
    program = _child_program(tick, node, step)
    if isinstance(program, ErrorInfo):
        return program
    generation = tick.node_state(node).generation + 1
    run_id = derived_run_id(tick.now_us, state.run_id, node.ref, str(generation))
    key = _key(tick, node, program)
    if isinstance(key, ErrorInfo):
        return key
    trigger = _trigger(tick, node)
    run = _started_run(tick, program, run_id, trigger, key, _ancestry(tick, node, step, generation))
    if isinstance(run, ErrorInfo):
        return run
    inline, ref = (None, None) if node.input is None else tick.keep(trigger, f"input of step {node.ref}")
    tick.emit(
        ChildStarted(
            node=node.ref,
            generation=generation,
            run_id=run_id,
            definition=program.manifest.name,
            manifest_hash=program.manifest_hash,
            body=program.body,
            iteration=iteration,
            is_abandoned=is_abandoned,
            until_us=None if step.timeout_ms is None else tick.now_us + step.timeout_ms * 1_000,
            input=inline,
            input_ref=ref,
        )
    )
    tick.outbox.started.append(run)
    return None


def cancel_child(tick: Tick, node: ProgramNode) -> None:
    """Ask the child run that the node waits for to stop, as the node will not. The caller settles the node.

    Nothing is asked of a child that outlives its parent, and nothing happens for a node that has none.
    """
    state = tick.node_state(node)
    if state.waiting == "child" and state.child_run_id in tick.state.open_children:
        _ask(tick, state.child_run_id, "cancel", f"its parent's step {node.ref} was cancelled")


def stop_children(tick: Tick, status: EndStatus) -> None:
    """The run is going to end as `status`: ask the children that do not outlive it to stop.

    A run that completes leaves alone those that no step waits for.
    """
    state = tick.state
    kind: EndStatus = "terminated" if status == "terminated" else "cancelled"
    for run_id, ref in state.open_children.items():
        node = state.nodes.get(ref)  # none for a child that an earlier run of the chain has started
        if status != "completed" or (node is not None and is_awaited(node, run_id)):
            _ask(tick, run_id, "terminate" if kind == "terminated" else "cancel", f"its parent ends as {status}")


def is_awaited(node: NodeState, run_id: str) -> bool:
    """Whether the node waits for this child run."""
    return node.waiting == "child" and node.child_run_id == run_id


def may_report(tick: Tick, ref: str) -> bool:
    """Whether an open node waits for a child run that is asked to stop when its parent ends, and will say when it
    has."""
    node = tick.state.nodes[ref]
    return node.waiting == "child" and node.child_run_id in tick.state.open_children


def is_tolerated_timeout(step: AnyStep, node: NodeState) -> bool:
    """Whether the node has failed because its child took too long, and its run went on all the same."""
    return (
        isinstance(step, SubworkflowStep)
        and step.on_timeout == "continue_with_error"
        and node.error is not None
        and node.error.type == CHILD_TIMEOUT
    )


def tell_parent(tick: Tick) -> None:
    """Tell the run's parent what this row has reached, if that is what the parent wants to know."""
    state = tick.state
    if not state.parent_waits_for or state.parent_run_id is None or state.reopened_count:
        return
    checkpoint = state.parent_waits_for.removeprefix(CHECKPOINT_PREFIX)
    for event in tick.events:
        if isinstance(event, CheckpointReached) and state.parent_waits_for != TERMINAL:
            if event.checkpoint == checkpoint:
                reached = output_of(state, event.node, state.nodes[event.node])  # that of a gather stands nowhere
                output, ref = tick.keep(reached, f"output of step {event.node}")
                _tell(tick, "checkpoint", output, ref, checkpoint=checkpoint)
        elif isinstance(event, RunEnded):
            error = None if event.status == "completed" else _error_for_parent(tick, event.status)
            _tell(tick, event.status, state.output, state.output_ref, error=error)


def _step(node: ProgramNode) -> SubworkflowStep:
    assert isinstance(node.step, SubworkflowStep)
    return node.step


def _started_run(
    tick: Tick, program: Program, run_id: str, trigger: JsonValue, key: str | None, ancestry: Ancestry
) -> StartedRun | ErrorInfo:
    """The child at its first event, or why it can't begin."""
    state = tick.state
    try:
        started, large = first_event(
            program,
            run_id,
            tick.now_us,
            trigger,
            tenant=state.tenant,
            key=key,
            definitions=state.definitions if program.child_definitions else {},
            ancestry=ancestry,
        )
    except (TriggerError, StartRefusedError) as error:
        kind = "InvalidTrigger" if isinstance(error, TriggerError) else "StartRefused"
        text = f"step {ancestry.parent_node} can't start {program.manifest.name}: {error}"
        return safe_error(ErrorInfo(type=kind, message=text, retryable=False))
    tick.value_bytes += sum(len(payload.text) for payload, _ in large)
    return StartedRun(run_id, started, tuple(payload for payload, _ in large))


def _child_program(tick: Tick, node: ProgramNode, step: SubworkflowStep) -> Program | ErrorInfo:
    if node.body:
        return tick.program.bodies[node.body]
    assert step.definition is not None
    digest = tick.state.definitions.get(step.definition)
    if digest is None:
        message = f"step {node.ref}: the definition {step.definition} was not known when this run began"
        return ErrorInfo(type="DefinitionNotFound", message=message, retryable=False)
    return tick.library[digest]


def _key(tick: Tick, node: ProgramNode, program: Program) -> str | ErrorInfo | None:
    template = node.templates.get("key")
    if template is None:
        return None
    value = template.render(tick.variables(node))
    key = value if isinstance(value, str) else encode_value(value).decode()
    if key == tick.state.key and program.manifest.name == tick.state.definition:
        return key_taken(node.ref, program.manifest.name, tick.state.run_id)
    return key


def key_taken(ref: str, definition: str, owner: str) -> ErrorInfo:
    """The error of a node whose child was not started, as its key belongs to the run `owner`."""
    message = f"step {ref}: the key belongs to run {owner}" + (f" of {definition}" if definition else "")
    return ErrorInfo(type="ChildKeyTaken", message=message, details={"run_id": owner}, retryable=False)


def _trigger(tick: Tick, node: ProgramNode) -> JsonValue:
    """The child's trigger: the node's input; of a body that has none, the trigger of this run."""
    if node.input is not None:
        return node.input.render(tick.variables(node))
    return tick.state.value(tick.state.trigger, tick.state.trigger_ref)


def _ancestry(tick: Tick, node: ProgramNode, step: SubworkflowStep, generation: int) -> Ancestry:
    state = tick.state
    scope: JsonObject = {}
    context: JsonObject | None = None
    if node.body:
        context = dict(state.context)
        if context:
            tick.value_bytes += len(encode_value(context))
        if node.scatter:
            values = child_values(state, node.scatter, node.index)
            scope = {name: tick.keep_inline(value, f"{name} of step {node.ref}") for name, value in values.items()}
    return Ancestry(
        parent_run_id=state.run_id,
        root_run_id=state.root_run_id or state.run_id,
        depth=0 if step.on_parent_close == "abandon" else state.depth + 1,
        parent_node=node.ref,
        parent_generation=generation,
        parent_waits_for="" if step.mode == "async" else step.wait_for,
        scope=scope,
        context=context,
        traceparent=_traceparent(tick),
    )


def _traceparent(tick: Tick) -> str:
    """A child's parent in the trace is the decision to start it; empty where this run is not traced."""
    state = tick.state
    version = state.version if tick.events else state.version + 1
    return traceparent_below(state.traceparent, tick_span_id(state.run_id, version))


def _ask(tick: Tick, run_id: str, kind: str, why: str) -> None:
    """Ids are those of the parent's life: what it asks twice is asked once."""
    state = tick.state
    tick.outbox.controls.append(
        SentControl(
            run_id=run_id,
            request_id=f"run:{state.run_id}/{kind}/{state.reopened_count}",
            kind="terminate" if kind == "terminate" else "cancel",
            arguments={"reason": why},
            by=f"run:{state.run_id}",
        )
    )


def _tell(
    tick: Tick,
    status: ChildStatus,
    output: JsonValue,
    output_ref: PayloadRef | None,
    *,
    checkpoint: str = "",
    error: ErrorInfo | None = None,
) -> None:
    state = tick.state
    assert state.parent_run_id is not None
    report = ChildReport(
        run_id=state.chain_run_id or state.run_id,
        status=status,
        generation=state.parent_generation,
        checkpoint=checkpoint,
        output=output,
        error=error,
        compensated=state.compensated,
    )
    payload = None
    if output_ref is not None:
        payload = Payload(output_ref.hash, encode_value(state.payloads[output_ref.hash]))
    message = report_message(report, state.parent_node, output_ref)
    tick.outbox.sent.append(SentMessage(state.parent_run_id, message, payload))


_ENDED_FROM_OUTSIDE: Final[dict[str, str]] = {"cancelled": "ChildCancelled", "terminated": "ChildTerminated"}


def _error_for_parent(tick: Tick, status: EndStatus) -> ErrorInfo:
    """The error that the parent's step fails with: the run's own, and which run it was. `details.child` leads down to
    the run that failed first."""
    state = tick.state
    error = state.error or ErrorInfo(type="ChildFailed", message=state.reason)
    details = error.details if isinstance(error.details, dict) else {}
    child: JsonObject = {"run_id": state.run_id, "definition": state.definition, "status": status}
    if "child" in details:
        child["child"] = details["child"]
    elif error.details is not None and not details:
        child["details"] = error.details
    mapped: JsonObject = {**details, "child": child}
    if len(encode_value(mapped)) > MAX_ERROR_DETAILS_BYTES:
        mapped = {"child": {"run_id": state.run_id, "definition": state.definition, "status": status}}
    return msgspec.structs.replace(error, type=_ENDED_FROM_OUTSIDE.get(status, error.type), details=mapped)
