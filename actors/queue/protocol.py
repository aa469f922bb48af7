"""What a queue between dispatch and workers has to offer."""

from typing import Protocol, TypeVar


class Queued(Protocol):
    """Something that waits for a worker. Items are told apart by identity."""

    @property
    def tenant(self) -> str:
        """Whose it is: tenants are served in turn."""
        ...

    @property
    def priority(self) -> int:
        """Among one tenant's items the highest goes first."""
        ...


T = TypeVar("T", bound=Queued)
T_contra = TypeVar("T_contra", bound=Queued, contravariant=True)


class Taker(Protocol[T_contra]):
    """An idle worker."""

    def accept(self, item: T_contra) -> None:
        """Take the item and do it. Called once for each time that the taker asked."""
        ...


class TaskQueue(Protocol[T]):
    """A queue of work.

    Rules every queue keeps:
    - Among one tenant's items the higher priority goes first, then the earlier arrival.
    - Tenants that have items are served one item each in turn: a tenant's flood delays others by one item a turn.
    - An item goes to exactly one taker, unless it is withdrawn before.
    - An item that arrives while a taker waits is handed over at once.
    - The number of waiting items is bounded, and beyond the bound an offer is refused, never dropped in silence.
    """

    def offer(self, item: T) -> bool:
        """Hand the item to a waiting taker, else queue it. False when the queue is full."""
        ...

    def take(self) -> T | None:
        """The next item; None when there is none."""
        ...

    def wait(self, taker: Taker[T]) -> None:
        """Have the next item that arrives handed to `taker`. Only when no item waits."""
        ...

    def withdraw(self, item: T) -> bool:
        """Remove an item that waits; whether it did."""
        ...

    def __len__(self) -> int:
        """How many items wait."""
        ...
