"""What a step type does: four functions, one small module each type.

`start` runs when the node becomes runnable, `on_result` when an attempt of it has finished, `on_timer` when its timer
has come due. Cancelling needs nothing of the type: what is parked or in flight is withdrawn by the tick. Each function
decides through `tick.emit` and the functions of `ductor.actors.tick.settle`; an ExpressionError or ValueRefusedError
that leaves `start` fails the node without retry.
"""

from typing import Protocol

from ductor.actors.tick.working import Tick
from ductor.definitions.program import ProgramNode
from ductor.journal.events import AttemptFinished


class Behaviour(Protocol):
    """The behaviour of one step type."""

    def start(self, tick: Tick, node: ProgramNode) -> None:
        """The node has become runnable and its guard holds."""
        ...

    def on_result(self, tick: Tick, node: ProgramNode, result: AttemptFinished) -> None:
        """An attempt of the node has finished; the result is in the row and in the state."""
        ...

    def on_timer(self, tick: Tick, node: ProgramNode) -> None:
        """The node's timer has come due; it is parked still."""
        ...


class ComputedInTick:
    """Base of the types that are done in the tick that starts them: no attempt, no timer."""

    def on_result(self, tick: Tick, node: ProgramNode, result: AttemptFinished) -> None:
        """Never called: such a node has no attempts."""
        raise AssertionError(f"step {node.ref} runs no attempts")

    def on_timer(self, tick: Tick, node: ProgramNode) -> None:
        """Never called: such a node never parks."""
        raise AssertionError(f"step {node.ref} sets no timers")
