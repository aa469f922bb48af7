"""Parking a node until something comes from outside or its time is up, and what a timeout does."""

from ductor.actors.correlation_keys import key_text
from ductor.actors.tick.settle import fail, skip_by_guard, succeed, time_out_edges
from ductor.actors.tick.working import Tick
from ductor.definitions.expressions.correlation import Correlation
from ductor.definitions.program import ProgramNode
from ductor.definitions.steps.step import ParkedStep
from ductor.definitions.values import JsonValue
from ductor.journal.events import ErrorInfo, NodeParked, WaitingType
from ductor.journal.store import EventWait, InboxItem


def park(
    tick: Tick,
    node: ProgramNode,
    waiting: WaitingType,
    *,
    until_us: int | None = None,
    until_is_absolute: bool = False,
    names: tuple[str, ...] = (),
    data: JsonValue = None,
) -> None:
    """Park a node. Its `timeout` counts from now. A signal that came before is taken once the node has parked."""
    step = node.step
    timeout_us = None
    if isinstance(step, ParkedStep) and step.timeout_ms is not None:
        timeout_us = tick.now_us + step.timeout_ms * 1_000
    if timeout_us is not None and (until_us is None or timeout_us < until_us):
        until_us, until_is_absolute = timeout_us, False
    inline, ref = tick.keep(data, f"data of step {node.ref}")
    tick.emit(
        NodeParked(
            node=node.ref,
            waiting=waiting,
            until_us=until_us,
            until_is_absolute=until_is_absolute,
            names=names,
            data=inline,
            data_ref=ref,
        )
    )


def hear_event(
    tick: Tick, node: ProgramNode, index: int, name: str, correlation: Correlation | None, *, lookback_ms: int = 0
) -> None:
    """File the node with the bus, so that an event of this name finds it."""
    key_path, key_value = "", ""
    if correlation is not None:
        key_path, key_value = correlation.path, key_text(correlation.value.evaluate(tick.activation))
    tick.outbox.waits[node.ref, index] = EventWait(
        node=node.ref,
        index=index,
        name=name,
        since_us=tick.now_us - lookback_ms * 1_000,
        key_path=key_path,
        key_value=key_value,
    )


def list_in_inbox(tick: Tick, node: ProgramNode, title: str, people: tuple[str, ...], *, status: str = "open") -> None:
    """Show the parked node to people."""
    state = tick.node_state(node)
    if state.status != "waiting":
        return
    tick.outbox.inbox[node.ref] = InboxItem(
        node=node.ref,
        kind=node.step.type_name,  # type: ignore[arg-type]  # called by the three types that wait for people
        title=title,
        people=people,
        status=status,
        since_us=state.parked_at_us,
        due_at_us=tick.state.timers.due_at_us(node.ref),
    )


def time_out(tick: Tick, node: ProgramNode) -> None:
    """The node's time is up: its `timeout` edge is taken, or `on_timeout` decides."""
    step = node.step
    assert isinstance(step, ParkedStep)
    if "timeout" in node.routes:
        time_out_edges(tick, node)
    elif step.on_timeout == "skip":
        skip_by_guard(tick, node)
    elif step.on_timeout == "approve":
        output: JsonValue = {"decision": "approved", "by": None, "comment": "timeout", "votes": []}
        inline, ref = tick.keep(output, f"output of step {node.ref}")
        succeed(tick, node, "approved", output, inline=inline, ref=ref)
    else:
        message = f"step {node.ref}: nothing came within {step.timeout_ms} ms"
        details: JsonValue = {"timeout_ms": step.timeout_ms}
        fail(tick, node, ErrorInfo(type="Timeout", message=message, details=details, retryable=False))
