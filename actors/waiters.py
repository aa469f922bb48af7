"""Who waits on this host for the end of which run."""

import asyncio

from ductor.actors.views import RunOutcome

REMOTE_POLL_S = 1.0
"""Who waits on this host for a run that may end on another one looks in the database so often."""

ALONE_POLL_S = 60.0
"""So often where there are no other hosts, which is a safety net and no more."""


class Waiters:
    """Futures of ends, as far as runs end on this host."""

    def __init__(self) -> None:
        self._waiters: dict[str, list[asyncio.Future[RunOutcome | None]]] = {}
        self._is_closed = False

    def add(self, run_id: str) -> "asyncio.Future[RunOutcome | None]":
        """A future of the run's end; of None when the run may end elsewhere. Give it back with `forget`.

        It is cancelled when the host closes, and at once on one that has closed.
        """
        future: asyncio.Future[RunOutcome | None] = asyncio.get_running_loop().create_future()
        if self._is_closed:
            future.cancel()
        self._waiters.setdefault(run_id, []).append(future)
        return future

    def forget(self, run_id: str, future: "asyncio.Future[RunOutcome | None]") -> None:
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

    def may_end_elsewhere(self) -> None:
        """Other hosts have come: who counted on hearing of an end here has to look for it from now on."""
        waiting, self._waiters = self._waiters, {}
        for waiters in waiting.values():
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    def cancel(self) -> None:
        """Nobody learns anything any more: the host closes."""
        self._is_closed = True
        for waiters in self._waiters.values():
            for waiter in waiters:
                waiter.cancel()
