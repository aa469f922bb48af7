"""What a host writes of runs beside the commits of their ticks: results that no tick can take up now, snapshots, and
requests to compact."""

import logging
from typing import TYPE_CHECKING

from ductor.actors.commits import row_of
from ductor.actors.log_fields import attempt_fields, run_fields
from ductor.actors.messages import AttemptResult
from ductor.journal.errors import OverloadedError, StoreUnavailableError
from ductor.journal.records import Control, Snapshot
from ductor.journal.state import RunState
from ductor.journal.store import Store

if TYPE_CHECKING:
    from ductor.actors.engine import Engine

_log = logging.getLogger(__name__)


class SideWrites:
    """See the module's docstring. Failing to write is only logged: all of it is done again later, or not needed. Until
    a result is durable, its worker keeps it."""

    def __init__(self, store: Store, engine: "Engine") -> None:
        self._store, self._engine = store, engine

    def store_result(self, result: AttemptResult) -> None:
        """Keep a result as a row, for a run that can't apply it now; its worker may forget it then."""
        self._engine.spawn(self._store_result(result))

    def report_to_owner(self, result: AttemptResult) -> None:
        """Keep the result as a row, and tell the owner of the run of it."""
        self._engine.spawn(self._store_and_tell(result))

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Keep a snapshot, beside the work. It is a cache."""
        self._engine.spawn(self._save_snapshot(snapshot))

    def compact_if_long(self, state: RunState) -> None:
        """Ask for a compaction when the journal has grown by `compact_every_rows`, as an operator would."""
        every = self._engine.options.compact_every_rows
        if every and state.version % every == 0:
            self._engine.spawn(self._ask_for_compaction(state.run_id, state.version))

    async def _store_and_tell(self, result: AttemptResult) -> None:
        await self._store_result(result)
        self._engine.wake(result.run_id, reissues=False)

    async def _store_result(self, result: AttemptResult) -> None:
        payloads = () if result.payload is None else (result.payload,)
        try:
            await self._store.append_attempt(row_of(result), payloads)
        except StoreUnavailableError as error:
            fields = attempt_fields(result.token)
            _log.debug(
                "a result of run %s stays in memory until the database is back: %s", result.run_id, error, extra=fields
            )
            self._engine.wake_later(result.run_id)
            return
        self._engine.confirm(result)

    async def _save_snapshot(self, snapshot: Snapshot) -> None:
        try:
            await self._store.save_snapshot(snapshot)
        except StoreUnavailableError as error:
            _log.debug("no snapshot of run %s: %s", snapshot.run_id, error, extra=run_fields(snapshot.run_id))

    async def _ask_for_compaction(self, run_id: str, version: int) -> None:
        request = Control(run_id=run_id, request_id=f"compact at version {version}", kind="compact", by="ductor")
        try:
            await self._store.request_control(request)
        except (StoreUnavailableError, OverloadedError) as error:  # asked again when it has grown again
            _log.warning("run %s is not compacted: %s", run_id, error, extra=run_fields(run_id))
            return
        self._engine.wake(run_id, reissues=False)
