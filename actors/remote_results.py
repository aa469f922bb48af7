"""Results of workers, looked for by the host that waits for them, where nothing faster than PostgreSQL tells it.

```
  idle ──an attempt goes to a queue──▶ looking ──nothing for so long that sweeps come as soon──▶ idle
                                        │   ▲     or nothing is in other processes any more
                                        └───┘ a pause that grows with the quiet time (see `queue.pacing`)
```
One look is one question to the database, however many runs wait, by an index of the results that were not applied yet.
Nothing depends on it: the sweeps of a run's owner find the same results.

A run whose result was found is told once in two looks: the tick that takes the result in lasts longer than one.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from ductor.actors.queue.pacing import Pacing
from ductor.actors.remote import RemoteTasks
from ductor.journal.errors import StoreUnavailableError
from ductor.journal.store import Store

MAX_RESULTS_PER_LOOK: Final = 1_000
"""Results that one look finds; where more wait, sweeps find the rest."""
UNAVAILABLE_PAUSE_S: Final = 1.0
"""Between two looks while the database does not answer."""

_log = logging.getLogger(__name__)


class ResultWatch:
    """See the module's docstring. All methods belong to the loop's thread."""

    def __init__(self, store: Store, remote: RemoteTasks, wake: Callable[[str], None], *, sweep_ms: int) -> None:
        """Args:
        remote: what is in other processes.
        wake: has a run take in its results.
        sweep_ms: between two sweeps of this host.
        """
        self._store, self._remote, self._wake, self._sweep_ms = store, remote, wake, sweep_ms
        self._pacing = Pacing(sweep_ms)
        self._told: frozenset[str] = frozenset()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look. Nothing happens when it has begun."""
        if self._task is None:
            self._task = asyncio.create_task(self._watch(), name="results of workers")

    async def stop(self) -> None:
        """Look no more."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _watch(self) -> None:
        loop, remote = asyncio.get_running_loop(), self._remote
        while True:
            if not remote.in_flight or self._pacing.pause_ms(loop.time()) >= self._sweep_ms:
                await remote.has_sent.wait()
            if remote.has_sent.is_set():
                remote.has_sent.clear()
                self._pacing.stirred(loop.time())
            await asyncio.sleep(self._pacing.pause_ms(loop.time()) / 1_000)
            try:
                await self._look()
            except StoreUnavailableError as error:
                _log.debug("%s", error)
                await asyncio.sleep(UNAVAILABLE_PAUSE_S)
            except Exception:  # noqa: BLE001 - logged with its traceback; sweeps go on, and so does this
                _log.exception("looking for results of workers failed")
                await asyncio.sleep(UNAVAILABLE_PAUSE_S)

    async def _look(self) -> None:
        found = await self._store.runs_with_results(MAX_RESULTS_PER_LOOK)
        awaited = self._remote.awaited_runs().intersection(found) if found else frozenset()
        if awaited:
            self._pacing.stirred(asyncio.get_running_loop().time())
        self._told = frozenset(awaited - self._told)
        for run_id in self._told:
            self._wake(run_id)
