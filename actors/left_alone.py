"""Runs that a host leaves alone until somebody releases them, each with the error that made it.

A run is marked in the database, so that no other host takes it up either. One whose events are unknown here is not
marked: another host may know them, and this one after its next start.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any

from ductor.actors.log_fields import run_fields
from ductor.journal.errors import StoreUnavailableError, UnknownEventError
from ductor.journal.store import Store

MAX_RUNS_SET_ASIDE = 10_000
"""Reasons kept in memory for runs set aside; the oldest are forgotten first, and the sweeper tries those again."""

_log = logging.getLogger(__name__)


class RunsLeftAlone:
    """See the module's docstring.

    Attributes:
        errors: why, by run id.
    """

    def __init__(self, store: Store, host_id: str, spawn: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        self._store, self._host_id, self._spawn = store, host_id, spawn
        self._marked: set[str] = set()
        self.errors: OrderedDict[str, Exception] = OrderedDict()

    def add(self, run_id: str, error: Exception) -> None:
        """Leave the run alone from now on."""
        self.errors[run_id] = error
        if len(self.errors) > MAX_RUNS_SET_ASIDE:
            self.forget(next(iter(self.errors)))
        if not isinstance(error, UnknownEventError):
            self._spawn(self._mark(run_id, error))

    def is_marked(self, run_id: str) -> bool:
        """Whether the database knows by this host that a run is set aside."""
        return run_id in self._marked

    def forget(self, run_id: str) -> None:
        """The run is not left alone here any more."""
        self.errors.pop(run_id, None)
        self._marked.discard(run_id)

    async def _mark(self, run_id: str, error: Exception) -> None:
        try:
            if await self._store.set_run_aside(run_id, str(error), self._host_id):
                self._marked.add(run_id)
        except StoreUnavailableError as unavailable:
            _log.warning("run %s is set aside on this host alone: %s", run_id, unavailable, extra=run_fields(run_id))
