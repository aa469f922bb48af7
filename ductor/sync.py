"""The same calls for code without an event loop: a loop in a thread of its own."""

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from ductor.actors.views import HistoryRow, RunView
from ductor.client import DEFAULT_TENANT, Client
from ductor.definition_files import DefinitionSource
from ductor.definitions.values import JsonValue
from ductor.handle import RunHandle
from ductor.journal.events import RunStatus
from ductor.journal.store import ControlReceipt, Head, PublishedDefinition, Store

T = TypeVar("T")


class SyncRunHandle:
    """As `RunHandle`, blocking."""

    def __init__(self, client: "SyncClient", handle: RunHandle) -> None:
        self._client = client
        self._handle = handle
        self.run_id = handle.run_id
        self.is_new = handle.is_new

    def result(self, timeout: float | timedelta | None = None) -> JsonValue:
        """As `RunHandle.result`."""
        return self._client.wait(self._handle.result(timeout))

    def status(self) -> RunView:
        """As `RunHandle.status`."""
        return self._client.wait(self._handle.status())

    def history(self) -> list[HistoryRow]:
        """As `RunHandle.history`."""
        return self._client.wait(self._handle.history())

    def cancel(self, *, by: str = "", request_id: str | None = None) -> ControlReceipt:
        """As `RunHandle.cancel`."""
        return self._client.wait(self._handle.cancel(by=by, request_id=request_id))

    def terminate(self, *, by: str = "", request_id: str | None = None) -> ControlReceipt:
        """As `RunHandle.terminate`."""
        return self._client.wait(self._handle.terminate(by=by, request_id=request_id))


class SyncClient:
    """As `Client`, blocking, and a plain context manager. Its calls may come from any thread but an event loop's."""

    def __init__(
        self,
        database: str | Store | None = None,
        *,
        tenant: str = DEFAULT_TENANT,
        directory: str | Path | None = None,
    ) -> None:
        self._client = Client(database, tenant=tenant, directory=directory)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="ductor client", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self.wait(self._client.open())
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.wait(self._client.close())
        finally:
            self._stop()

    def publish(self, *sources: DefinitionSource) -> list[PublishedDefinition]:
        """As `Client.publish`."""
        return self.wait(self._client.publish(*sources))

    def start(
        self, name: str, trigger: JsonValue = None, *, key: str | None = None, version: str | None = None
    ) -> SyncRunHandle:
        """As `Client.start`."""
        return SyncRunHandle(self, self.wait(self._client.start(name, trigger, key=key, version=version)))

    def run(self, run_id: str) -> SyncRunHandle:
        """As `Client.run`."""
        return SyncRunHandle(self, self._client.run(run_id))

    def runs(
        self,
        *,
        definition: str | None = None,
        statuses: Sequence[RunStatus] = (),
        before: str | None = None,
        limit: int = 50,
    ) -> Sequence[Head]:
        """As `Client.runs`."""
        return self.wait(self._client.runs(definition=definition, statuses=statuses, before=before, limit=limit))

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the client's loop and return what it returns."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
