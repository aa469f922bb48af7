"""Parking a node until something comes from outside or its time is up, and what a timeout does."""

from ductor.actors.tick.settle import fail, skip_by_guard, time_out_edges
from ductor.actors.tick.working import Tick
from ductor.definitions.program import ProgramNode
from ductor.definitions.steps.step import ParkedStep
from ductor.definitions.values import JsonValue
from ductor.journal.codec import MAX_KEY_BYTES, encode_value, safe_text
from ductor.journal.commit import InboxItem
from ductor.journal.errors import ValueRefusedError
from ductor.journal.events import ErrorInfo, NodeParked, WaitingType
from ductor.journal.store import MAX_INBOX_PEOPLE

MAX_TITLE_CHARACTERS = 1_000
"""Of what the inbox shows; a longer title is cut there and stays whole in the node's data."""


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


def list_in_inbox(
    tick: Tick, node: ProgramNode, title: JsonValue, people: tuple[str, ...], *, status: str = "open"
) -> None:
    """Show the parked node to people."""
    text = title if isinstance(title, str) else encode_value(title).decode()
    tick.outbox.inbox[node.ref] = InboxItem(
        node=node.ref,
        kind=node.step.type_name,  # type: ignore[arg-type]  # called by the three types that wait for people
        title=safe_text(text, MAX_TITLE_CHARACTERS),
        people=people,
        status=status,
        since_us=tick.node_state(node).parked_at_us,
        due_at_us=tick.state.timers.due_at_us(node.ref),
    )


def check_people(people: tuple[str, ...], what: str) -> None:
    """Raise ValueRefusedError for people whom the inbox can't name."""
    if len(people) > MAX_INBOX_PEOPLE:
        raise ValueRefusedError(what, "", f"{len(people)} people, the limit is {MAX_INBOX_PEOPLE}")
    for person in people:
        if not is_person(person):
            raise ValueRefusedError(what, "", f"a name has between 1 and {MAX_KEY_BYTES} bytes, not {person[:80]!r}")


def is_person(name: str) -> bool:
    """Whether the inbox can name this person or group."""
    return 0 < len(name.encode("utf-8", "surrogatepass")) <= MAX_KEY_BYTES


def time_out(tick: Tick, node: ProgramNode) -> None:
    """The node's time is up: its `timeout` edge is taken, or `on_timeout` decides between `skip` and `fail`."""
    step = node.step
    assert isinstance(step, ParkedStep)
    if "timeout" in node.routes:
        time_out_edges(tick, node)
    elif step.on_timeout == "skip":
        skip_by_guard(tick, node)
    else:
        message = f"step {node.ref}: nothing came within {step.timeout_ms} ms"
        details: JsonValue = {"timeout_ms": step.timeout_ms}
        fail(tick, node, ErrorInfo(type="Timeout", message=message, details=details, retryable=False))
