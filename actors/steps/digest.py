"""`digest`: brings an item to a window that runs share, and parks until it is told what became of it.

The window is not the run's: `ductor.journal.digest_store` says how items reach it and how each run is told, once. The
first run of a window goes on with the items of all; for every other one that ends its run, since another one does the
work.
"""

from ductor.actors.correlation_keys import key_text
from ductor.actors.steps.behaviour import Parked
from ductor.actors.tick.activation import StateActivation
from ductor.actors.tick.closing import begin_closing
from ductor.actors.tick.parking import park
from ductor.actors.tick.settle import succeed
from ductor.actors.tick.working import Tick
from ductor.definitions.program import ProgramNode
from ductor.definitions.steps.digest import WINDOW_ITEMS_MAX, DigestStep
from ductor.definitions.values import JsonValue
from ductor.journal.codec import admitted_value
from ductor.journal.digest_store import MAX_DIGEST_ITEM_BYTES, DigestWait
from ductor.journal.errors import ValueRefusedError
from ductor.journal.events import Message, NodeSettled

MERGED = "merged"
"""The outcome of a step whose item went to another run; no edge is taken under it."""


class DigestBehaviour(Parked):
    """It has no timer of its own: the window's time is told by whoever closes it."""

    def start(self, tick: Tick, node: ProgramNode) -> None:
        """Say what the run brings, and park."""
        window = _step(node).window
        what = f"item of step {node.ref}"
        key = node.templates["key"].render(tick.activation)
        item = admitted_value(node.templates["item"].render(tick.activation), what)
        if item.size_bytes > MAX_DIGEST_ITEM_BYTES:
            raise ValueRefusedError(what, "", f"{item.size_bytes} bytes, the limit is {MAX_DIGEST_ITEM_BYTES}")
        assert window.duration_ms is not None
        park(tick, node, "digest", data={"key": key, "item": item.value})
        tick.outbox.digests[node.ref] = DigestWait(
            node=node.ref,
            generation=tick.state.reopened_count,
            key=key_text(key),
            item=item.value,
            duration_ms=window.duration_ms,
            max_items=window.count or WINDOW_ITEMS_MAX,
        )

    def hears(
        self, tick: Tick, node: ProgramNode, message: Message, activation: StateActivation
    ) -> tuple[int, ...] | None:
        """Never called: such a node is filed under no name."""
        raise AssertionError(f"step {node.ref} hears no events")

    def on_timer(self, tick: Tick, node: ProgramNode) -> None:
        """Never called: such a node sets no timer."""
        raise AssertionError(f"step {node.ref} sets no timers")

    def on_message(self, tick: Tick, node: ProgramNode, message: Message) -> None:
        """The window has closed, or the item went to a window that another run leads."""
        told = tick.state.value(message.payload, message.payload_ref)
        assert isinstance(told, dict)
        if "items" in told:
            succeed(tick, node, "success", told, inline=message.payload, ref=message.payload_ref)
        else:
            _merge(tick, node, told)


def _step(node: ProgramNode) -> DigestStep:
    assert isinstance(node.step, DigestStep)
    return node.step


def _merge(tick: Tick, node: ProgramNode, told: JsonValue) -> None:
    """The run has nothing left to do: it completes at once, the rest of its steps is skipped."""
    tick.emit(NodeSettled(node=node.ref, status="succeeded", outcome=MERGED, output=told, untaken=node.targets))
    for other in tick.program.nodes.values():
        if not other.is_defer and tick.node_state(other).status == "pending":
            tick.emit(NodeSettled(node=other.ref, status="skipped", untaken=other.targets))
    begin_closing(tick, "completed", output=told, reason=f"step {node.ref}: another run carries on")
