"""Who waits on this host for the end of which run."""

import asyncio

from ductor.actors.views import RunOutcome


class Waiters:
    """Futures of ends, as far as runs end on this host."""

    def __init__(self) -> None:
        self._waiters: dict[str, list[asyncio.Future[RunOutcome]]] = {}

    def add(self, run_id: str) -> "asyncio.Future[RunOutcome]":
        """A future of the run's end. Give it back with `forget`."""
        future: asyncio.Future[RunOutcome] = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(run_id, []).append(future)
        return future

    def forget(self, run_id: str, future: "asyncio.Future[RunOutcome]") -> None:
        """The waiter has what it wanted, or gave up."""
        waiters = self._waiters.get(run_id)
        if waiters is not None and future in waiters:
            waiters.remove(future)
            if not waiters:
                del self._waiters[run_id]

    def ended(self, outcome: RunOutcome) -> None:
        """A run has ended: who waits for it learns how."""
        for waiter in self._waiters.pop(outcome.run_id, ()):
            if not waiter.done():
                waiter.set_result(outcome)

    def cancel(self) -> None:
        """Nobody learns anything any more: the host closes."""
        for waiters in self._waiters.values():
            for waiter in waiters:
                waiter.cancel()
