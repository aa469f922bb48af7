"""Who waits on this host for the end of which run."""

import asyncio

from ductor.actors.errors import HostStoppedError
from ductor.actors.views import RunOutcome

REMOTE_POLL_S = 1.0
"""Who waits on this host for a run that may end on another one looks in the database so often."""

ALONE_POLL_S = 60.0
"""So often where there are no other hosts, which is a safety net and no more."""


def _wake_to_look(waiter: "asyncio.Future[RunOutcome | None]") -> None:
    """Enough waited: let who waits look for the end in the database."""
    if not waiter.done():
        waiter.set_result(None)


class Waiters:
    """Futures of ends, as far as runs end on this host."""

    def __init__(self) -> None:
        self._waiters: dict[str, list[asyncio.Future[RunOutcome | None]]] = {}
        self._is_closed = False

    def add(self, run_id: str) -> "asyncio.Future[RunOutcome | None]":
        """A future of the run's end; of None when it is time to look for that elsewhere. Give it back with `forget`.

        It is cancelled when the host closes, and at once on one that has closed.
        """
        future: asyncio.Future[RunOutcome | None] = asyncio.get_running_loop().create_future()
        if self._is_closed:
            future.cancel()
        self._waiters.setdefault(run_id, []).append(future)
        return future

    async def hear(self, waiter: "asyncio.Future[RunOutcome | None]", at_most_s: float) -> RunOutcome | None:
        """Wait for a future of `add`: the outcome, or None when it is time to look for that elsewhere.

        Raises HostStoppedError.
        """
        look = asyncio.get_running_loop().call_later(at_most_s, _wake_to_look, waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._is_closed and task is not None and not task.cancelling():
                raise HostStoppedError from None
            raise
        finally:
            look.cancel()

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
                _wake_to_look(waiter)

    def cancel(self) -> None:
        """Nobody learns anything any more: the host closes."""
        self._is_closed = True
        for waiters in self._waiters.values():
            for waiter in waiters:
                waiter.cancel()
