"""`conditional`: evaluates a boolean and takes the `true` or the `false` edges."""

from ductor.actors.steps.behaviour import ComputedInTick
from ductor.actors.tick.settle import succeed
from ductor.actors.tick.working import Tick
from ductor.definitions.program import ProgramNode


class ConditionalBehaviour(ComputedInTick):
    """Done in the tick that starts it; the boolean is the output."""

    def start(self, tick: Tick, node: ProgramNode) -> None:
        """Evaluate and settle."""
        holds = node.expressions["when"].evaluate_boolean(tick.activation)
        succeed(tick, node, "true" if holds else "false", holds, inline=holds)
