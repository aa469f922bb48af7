"""What a step type does: seven functions, one small module each type.

`start` runs when the node becomes runnable, `on_result` when an attempt of it has finished, `on_timer` when its timer
has come due, `hears` and `on_message` when something has come from outside, `on_report` when its child run has told how
far it is, `on_resume` when its run goes on after a pause. Cancelling needs nothing of the type: what is parked or in
flight is withdrawn by the tick. Each function decides through `tick.emit` and the functions of
`ductor.actors.tick.settle`; an ExpressionError or ValueRefusedError that leaves one of them fails the node without
retry.
"""

from abc import ABC, abstractmethod
from typing import Protocol

from ductor.actors.tick.activation import StateActivation
from ductor.actors.tick.parking import time_out
from ductor.actors.tick.working import Tick
from ductor.definitions.program import ProgramNode
from ductor.journal.events import AttemptFinished, ChildReported, Message


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

    def hears(
        self, tick: Tick, node: ProgramNode, message: Message, activation: StateActivation
    ) -> tuple[int, ...] | None:
        """Whether an event, whose name the parked node listens for, is one that it waits for; None when it is not.
        An event set says which of its events it is."""
        ...

    def on_message(self, tick: Tick, node: ProgramNode, message: Message) -> None:
        """The parked node has taken a message; it is the last of its state's `messages`."""
        ...

    def on_report(self, tick: Tick, node: ProgramNode, report: ChildReported) -> None:
        """The child run that the node waits for has told how far it is; the report is in the row and in the state."""
        ...

    def on_resume(self, tick: Tick, node: ProgramNode) -> None:
        """The run goes on after a pause; the node is parked still, its relative deadline has moved."""
        ...


class Childless:
    """Base of the types that have no child runs."""

    def on_report(self, tick: Tick, node: ProgramNode, report: ChildReported) -> None:
        """Never called: such a node waits for no child."""
        raise AssertionError(f"step {node.ref} has no child runs")


class Unlistening(Childless):
    """Base of the types that hear nothing from outside."""

    def hears(
        self, tick: Tick, node: ProgramNode, message: Message, activation: StateActivation
    ) -> tuple[int, ...] | None:
        """Never called: such a node is filed under no name."""
        raise AssertionError(f"step {node.ref} hears no events")

    def on_message(self, tick: Tick, node: ProgramNode, message: Message) -> None:
        """Never called: such a node takes no messages."""
        raise AssertionError(f"step {node.ref} takes no messages")

    def on_resume(self, tick: Tick, node: ProgramNode) -> None:
        """Nothing: a pause before a retry or a round has moved like all others."""


class Parked(Childless):
    """Base of the types that park until something comes: they have no attempts."""

    def on_result(self, tick: Tick, node: ProgramNode, result: AttemptFinished) -> None:
        """Never called: such a node has no attempts."""
        raise AssertionError(f"step {node.ref} runs no attempts")

    def on_resume(self, tick: Tick, node: ProgramNode) -> None:
        """Nothing: its timeout has moved."""


class ParkedForPeople(Parked, ABC):
    """Base of the types that wait for a person: messages name the node, events are not heard."""

    def hears(
        self, tick: Tick, node: ProgramNode, message: Message, activation: StateActivation
    ) -> tuple[int, ...] | None:
        """Never called: such a node is filed under no name."""
        raise AssertionError(f"step {node.ref} hears no events")

    def on_timer(self, tick: Tick, node: ProgramNode) -> None:
        """Nobody did what was asked in time."""
        time_out(tick, node)

    def on_resume(self, tick: Tick, node: ProgramNode) -> None:
        """People see when the time is up."""
        if tick.node_state(node).until_us is not None:
            self.show_in_inbox(tick, node)

    @abstractmethod
    def show_in_inbox(self, tick: Tick, node: ProgramNode) -> None:
        """Show the parked node in the inbox, as it stands."""


class ComputedInTick(Unlistening):
    """Base of the types that are done in the tick that starts them: no attempt, no timer."""

    def on_result(self, tick: Tick, node: ProgramNode, result: AttemptFinished) -> None:
        """Never called: such a node has no attempts."""
        raise AssertionError(f"step {node.ref} runs no attempts")

    def on_timer(self, tick: Tick, node: ProgramNode) -> None:
        """Never called: such a node never parks."""
        raise AssertionError(f"step {node.ref} sets no timers")
