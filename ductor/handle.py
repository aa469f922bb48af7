"""A run, for whoever started it."""

from datetime import timedelta

from ductor.actors.client import Client as EngineClient
from ductor.actors.views import HistoryRow, RunView
from ductor.definitions.values import JsonValue
from ductor.errors import unsuccessful
from ductor.journal.store import ControlReceipt

HISTORY_PAGE = 1_000


class RunHandle:
    """One run. Nothing is kept here but its id: every answer comes from the journal.

    Attributes:
        run_id: its id.
        is_new: False where a start met an earlier run with the same key.
    """

    def __init__(self, client: EngineClient, run_id: str, *, tenant: str | None = None, is_new: bool = False) -> None:
        self._client = client
        self._tenant = tenant
        self.run_id = run_id
        self.is_new = is_new

    def __repr__(self) -> str:
        return f"<RunHandle {self.run_id}>"

    async def result(self, timeout: float | timedelta | None = None) -> JsonValue:
        """Wait for the end and return the run's output.

        Args:
            timeout: seconds to wait at most; None waits for ever.

        Raises:
            RunFailedError, RunCancelledError, RunTerminatedError: it ended so, with the type, message and details.
            WaitTimeoutError: it has not ended in time, and goes on.
            RunNotFoundError: there is no such run.
        """
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        timeout_ms = None if seconds is None else round(seconds * 1_000)
        outcome = await self._client.outcome(self.run_id, timeout_ms=timeout_ms)
        if outcome.status != "completed":
            raise unsuccessful(outcome.status, self.run_id, outcome.error)
        return outcome.output

    async def status(self) -> RunView:
        """The run as its journal tells, with every step. Raises RunNotFoundError."""
        return await self._client.view(self.run_id, tenant=self._tenant)

    async def history(self) -> list[HistoryRow]:
        """All rows of its journal, in order. Raises RunNotFoundError."""
        rows: list[HistoryRow] = []
        while True:
            after = rows[-1].version if rows else 0
            page = await self._client.history(self.run_id, after_version=after, limit=HISTORY_PAGE)
            rows.extend(page)
            if len(page) < HISTORY_PAGE:
                return rows

    async def cancel(self, *, by: str = "", request_id: str | None = None) -> ControlReceipt:
        """Ask the run to stop: handlers are told, deferred steps run, then it ends as cancelled.

        Raises:
            ControlRefusedError: the run has ended.
            RunNotFoundError: there is no such run.
        """
        return await self._client.request(self.run_id, "cancel", request_id=request_id, by=by, tenant=self._tenant)

    async def terminate(self, *, by: str = "", request_id: str | None = None) -> ControlReceipt:
        """End the run at once: nothing more of it runs, deferred steps neither. Raises as `cancel`."""
        return await self._client.request(self.run_id, "terminate", request_id=request_id, by=by, tenant=self._tenant)
