"""The watchdog: finds runs that are `running` and do not get on, and sets aside what nothing helps.

```
  running ──journal unchanged for STALLED_AFTER_MS, nobody at work on it──▶ woken, its attempts issued again
                                                                              │
                          gets on ◀──────────────────────────────────────────┤
                                                                              └──MAX_WAKES times in vain──▶ set aside
```
It is the last resort for attempts that were lost in a way that no take-over saw: a commit whose host ended before it
handed the attempt to anybody, or a host that owned a run for less time than its neighbours took to notice.

What is set aside, here or by the engine, is marked in the database. A mark that somebody has removed makes the host
that left the run alone look at it again.

Bounds: one page of PAGE running runs in each pass, however many there are.
"""

import logging
from typing import Final

import msgspec

from ductor.actors.engine import Engine
from ductor.actors.errors import RunStalledError
from ductor.actors.log_fields import run_fields
from ductor.journal.set_aside_store import IdleRun

STALLED_AFTER_MS: Final = 30_000
"""A running run that nobody works on is looked at when its journal has not grown for so long, and again after that."""

MAX_WAKES: Final = 5
"""A run that was woken so often and still stands where it stood is set aside."""

PAGE: Final = 200
"""Running runs that one pass looks at."""

MAX_WATCHED: Final = 10_000
"""Runs whose wakes are counted; the oldest are forgotten first, and counted anew."""

MAX_MARKS: Final = 100
"""Runs that this host leaves alone whose marks are looked up in one pass."""

_log = logging.getLogger(__name__)


class Watched(msgspec.Struct):
    """What was done for a run that does not get on."""

    version: int
    wakes: int
    woken_at_us: int


class Watchdog:
    """See the module's docstring. One pass after the other; `sweep` is called at intervals."""

    def __init__(self, engine: Engine, host_id: str) -> None:
        self._engine, self._host_id = engine, host_id
        self._watched: dict[str, Watched] = {}
        self._after_run_id: str | None = None
        self._marks_looked_up = 0

    async def sweep(self, now_us: int) -> None:
        """Look at the next page of running runs, and at marks that were removed."""
        await self._look_for_released()
        owned = self._engine.partitions.owned
        if owned is not None and not owned:
            return
        before_us = now_us - STALLED_AFTER_MS * 1_000
        page = await self._engine.store.idle_runs(before_us, self._after_run_id, PAGE, owned)
        if not page and self._after_run_id is not None:
            page = await self._engine.store.idle_runs(before_us, None, PAGE, owned)
        self._after_run_id = page[-1].run_id if page else None
        idle = [run for run in page if run.at_us < before_us]
        if idle:
            at_work = self._engine.runs_at_work()
            for run in idle:
                if run.run_id not in at_work:
                    self._help(run, now_us)

    def _help(self, run: IdleRun, now_us: int) -> None:
        watched = self._watched.pop(run.run_id, None)
        if watched is None or watched.version != run.version:
            watched = Watched(run.version, 0, 0)
        self._watched[run.run_id] = watched
        if len(self._watched) > MAX_WATCHED:
            del self._watched[next(iter(self._watched))]
        if now_us - watched.woken_at_us < STALLED_AFTER_MS * 1_000:
            return
        if watched.wakes >= MAX_WAKES:
            del self._watched[run.run_id]
            self._engine.set_aside(run.run_id, RunStalledError(run.run_id, run.version, watched.wakes))
            return
        watched.wakes, watched.woken_at_us = watched.wakes + 1, now_us
        _log.warning(
            "run %s has not got on since transition %d: it is looked at again",
            run.run_id,
            run.version,
            extra=run_fields(run.run_id),
        )
        self._engine.wake_here(run.run_id, reissues=True)

    async def _look_for_released(self) -> None:
        """Runs that this host left alone, and that are marked no more. A pass looks at MAX_MARKS of them, in turn."""
        left_alone = [run_id for run_id in self._engine.left_alone.errors if self._engine.left_alone.is_marked(run_id)]
        if not left_alone:
            return
        first = self._marks_looked_up % len(left_alone)
        chosen = left_alone[first : first + MAX_MARKS]
        self._marks_looked_up = first + len(chosen)
        for run_id in chosen:
            if await self._engine.store.run_set_aside(run_id) is None:
                _log.info("run %s was released", run_id, extra=run_fields(run_id))
                self._engine.left_alone.forget(run_id)
                self._engine.wake_here(run_id, reissues=True)
