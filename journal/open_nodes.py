"""What holds for every node that is under way, whatever made it leave: its place among the open nodes, timer, names."""

from ductor.journal.state import ADDRESSED, NodeState, RunState


def leave(state: RunState, ref: str, node: NodeState) -> None:
    """The node stops being what it is: its place among the open nodes and its timer go."""
    if node.status == "running":
        state.running_count -= 1
        del state.open_nodes[ref]
    elif node.status == "waiting":
        state.timers.cancel(ref)
        state.asked_count -= node.waiting in ADDRESSED
        node.waiting = None
        node.until_us = None
        for name in node.names:
            listening = state.listeners.get(name, {})
            listening.pop(ref, None)
            if not listening:
                state.listeners.pop(name, None)
        node.names = ()
        del state.open_nodes[ref]
