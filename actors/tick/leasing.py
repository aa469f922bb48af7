"""Leases: a step, or a whole run, waits for its place at a key before it starts, and has it until it has settled.

```
  runnable, guard holds ──asks──▶ parked (`lease`) ──granted──▶ starts ──…──▶ settled
                                     │ `timeout`, cancel, end of the run: settled without having begun
```
Who holds a key, and who comes next, is the store's business (`ductor.journal.lease_store`). Here is what a run says to
it: it asks with the row that parks the node, and its place is gone with the row that settles it, whichever way that is.
Retries, rounds of `repeat` and pauses keep it. So a place is held by what is open in some run, and by nothing else.

The lease of the definition is asked for under the name `@run`, before any step starts, and again after a redrive;
deferred steps and undos of a run that never got it run without. A run that is continued hands it on.

A node that holds its lease and has not begun yet is still parked, so that whatever ends the run meanwhile cancels it
like any other; the scheduler knows it by its fence.
"""

from ductor.actors.correlation_keys import key_text
from ductor.actors.tick.closing import begin_closing
from ductor.actors.tick.settle import expression_failure, fail, time_out_edges
from ductor.actors.tick.working import Tick
from ductor.definitions.expressions import ExpressionError
from ductor.definitions.policies import Lease
from ductor.definitions.program import ProgramNode
from ductor.definitions.values import JsonValue
from ductor.journal.codec import MAX_KEY_BYTES
from ductor.journal.commit import LeaseWait, MessageDisposition
from ductor.journal.errors import ValueRefusedError
from ductor.journal.events import RUN_LEASE, ErrorInfo, LeaseGranted, Message, NodeParked
from ductor.journal.state import NodeState


def asks_for_lease(tick: Tick, node: ProgramNode) -> bool:
    """Whether the step has to wait for a lease before it starts; then it does from now on."""
    lease = node.step.lease
    if lease is None:
        return False
    value = node.templates["lease.key"].render(tick.variables(node))
    _ask(tick, node.ref, lease, lease_key(value, f"lease key of step {node.ref}"))
    return True


def has_lease_to_start(state: NodeState) -> bool:
    """Whether a parked node has got its lease and is to start now."""
    return state.waiting == "lease" and state.lease_fence > 0


def run_waits_for_lease(tick: Tick) -> bool:
    """Whether the run has to wait for the lease of its definition before anything starts; it asks if it has not yet."""
    program, state = tick.program, tick.state
    lease = program.manifest.lease
    if lease is None or program.lease_key is None or state.lease_fence or state.is_winding_down or state.is_terminal:
        return False
    if RUN_LEASE not in state.nodes:
        try:
            key = lease_key(program.lease_key.render(tick.activation), "lease key of the definition")
        except (ExpressionError, ValueRefusedError) as error:
            begin_closing(tick, "failed", error=expression_failure(error), reason="the definition's `lease.key` failed")
            return False
        _ask(tick, RUN_LEASE, lease, key)
    return True


def lease_key(value: JsonValue, what: str) -> str:
    """What a key template gave, as the store files it: a text as it stands, by hash where it is too long, any other
    value as canonical JSON.

    Raises:
        ValueRefusedError: it is null or empty: all whose key is missing would share a place.
    """
    if value is None or value == "":
        raise ValueRefusedError(what, "", "it is empty")
    if isinstance(value, str) and len(value.encode("utf-8", "surrogatepass")) <= MAX_KEY_BYTES:
        return value
    return key_text(value)


def absorb_grant(tick: Tick, message: Message) -> None:
    """A store has made a waiter of this run a holder. One that waits no longer has given its place back already."""
    state, told = tick.state, message.payload
    node = state.nodes.get(message.node)
    assert isinstance(told, dict)
    waits = node is not None and node.waiting == "lease" and not node.lease_fence
    if waits and told["run_id"] == state.run_id and told["generation"] == state.reopened_count:
        fence = told["fence"]
        assert isinstance(fence, int)
        tick.emit(LeaseGranted(node=message.node, generation=state.reopened_count, fence=fence))
        tick.outbox.messages.setdefault(message.id, MessageDisposition(message.id, "consumed"))
    else:
        tick.outbox.messages.setdefault(message.id, MessageDisposition(message.id, "undelivered"))


def lease_timed_out(tick: Tick, ref: str) -> None:
    """The lease did not come in time."""
    state = tick.state.nodes[ref]
    lease = tick.program.manifest.lease if ref == RUN_LEASE else tick.program.node(ref).step.lease
    assert lease is not None
    message = f"the lease `{state.lease_key}` was not free within {lease.timeout_ms} ms"
    details: JsonValue = {"key": state.lease_key, "limit": lease.limit, "timeout_ms": lease.timeout_ms}
    if ref == RUN_LEASE:
        error = ErrorInfo(type="LeaseTimeout", message=message, details=details, retryable=False)
        begin_closing(tick, "failed", error=error, reason=message)
        return
    node = tick.program.node(ref)
    if "timeout" in node.routes:
        time_out_edges(tick, node)
    else:
        text = f"step {ref}: {message}"
        fail(tick, node, ErrorInfo(type="LeaseTimeout", message=text, details=details, retryable=False))


def _ask(tick: Tick, ref: str, lease: Lease, key: str) -> None:
    until_us = None if lease.timeout_ms is None else tick.now_us + lease.timeout_ms * 1_000
    tick.emit(NodeParked(node=ref, waiting="lease", until_us=until_us, data={"key": key, "limit": lease.limit}))
    tick.outbox.leases[ref] = LeaseWait(node=ref, generation=tick.state.reopened_count, key=key, limit=lease.limit)
