"""The same calls for code without an event loop: a loop in a thread of its own."""

import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from ductor.actors.queue.redis.settings import RedisSettings
from ductor.client import DEFAULT_TENANT, Client
from ductor.definitions.values import JsonValue
from ductor.handle import RunHandle
from ductor.journal.records import EventReceipt, MessageReceipt
from ductor.journal.store import Store

T = TypeVar("T")
P = ParamSpec("P")


def _of_handle(
    method: Callable[Concatenate[RunHandle, P], Coroutine[Any, Any, T]],
) -> "Callable[Concatenate[SyncRunHandle, P], T]":
    """The blocking form of a method of `RunHandle`."""

    @functools.wraps(method)
    def call(self: "SyncRunHandle", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._client.wait(method(self._handle, *args, **kwargs))

    return call


def _of_client(
    method: Callable[Concatenate[Client, P], Coroutine[Any, Any, T]],
) -> "Callable[Concatenate[SyncClient, P], T]":
    """The blocking form of a method of `Client`."""

    @functools.wraps(method)
    def call(self: "SyncClient", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.wait(method(self._client, *args, **kwargs))

    return call


class SyncRunHandle:
    """As `RunHandle`, blocking. It knows no `connection`: a transaction of asyncpg belongs to its own loop."""

    def __init__(self, client: "SyncClient", handle: RunHandle) -> None:
        self._client = client
        self._handle = handle
        self.run_id = handle.run_id
        self.is_new = handle.is_new

    result = _of_handle(RunHandle.result)
    status = _of_handle(RunHandle.status)
    explain = _of_handle(RunHandle.explain)
    children = _of_handle(RunHandle.children)
    tree = _of_handle(RunHandle.tree)
    children_of_step = _of_handle(RunHandle.children_of_step)
    history = _of_handle(RunHandle.history)
    chain = _of_handle(RunHandle.chain)
    approve = _of_handle(RunHandle.approve)
    reject = _of_handle(RunHandle.reject)
    case = _of_handle(RunHandle.case)
    reply = _of_handle(RunHandle.reply)
    receipt = _of_handle(RunHandle.receipt)
    cancel = _of_handle(RunHandle.cancel)
    terminate = _of_handle(RunHandle.terminate)
    pause = _of_handle(RunHandle.pause)
    resume = _of_handle(RunHandle.resume)
    redrive = _of_handle(RunHandle.redrive)
    compensate = _of_handle(RunHandle.compensate)
    continue_as_new = _of_handle(RunHandle.continue_as_new)
    compact = _of_handle(RunHandle.compact)
    control = _of_handle(RunHandle.control)

    def signal(
        self, name: str, payload: JsonValue = None, *, request_id: str | None = None, by: str = ""
    ) -> MessageReceipt:
        """As `RunHandle.signal`."""
        return self._client.wait(self._handle.signal(name, payload, request_id=request_id, by=by))


class SyncClient:
    """As `Client`, blocking, and a plain context manager. Its calls may come from any thread but an event loop's."""

    def __init__(
        self,
        database: str | Store | None = None,
        *,
        tenant: str = DEFAULT_TENANT,
        directory: str | Path | None = None,
        redis: str | RedisSettings | None = None,
    ) -> None:
        self._client = Client(database, tenant=tenant, directory=directory, redis=redis)
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

    publish = _of_client(Client.publish)
    replay = _of_client(Client.replay)
    runs = _of_client(Client.runs)
    hosts = _of_client(Client.hosts)
    workers = _of_client(Client.workers)
    inbox = _of_client(Client.inbox)
    leases = _of_client(Client.leases)
    runs_set_aside = _of_client(Client.runs_set_aside)
    release = _of_client(Client.release)
    pause_all = _of_client(Client.pause_all)
    resume_all = _of_client(Client.resume_all)
    cancel_all = _of_client(Client.cancel_all)
    terminate_all = _of_client(Client.terminate_all)
    bulk = _of_client(Client.bulk)
    search_runs = _of_client(Client.search_runs)
    step_statistics = _of_client(Client.step_statistics)
    step_failures = _of_client(Client.step_failures)
    throughput = _of_client(Client.throughput)
    usage = _of_client(Client.usage)
    funnel = _of_client(Client.funnel)
    health_report = _of_client(Client.health_report)
    report = _of_client(Client.report)
    projections = _of_client(Client.projections)
    rebuild_projection = _of_client(Client.rebuild_projection)
    retry_projection = _of_client(Client.retry_projection)

    def start(
        self, name: str, trigger: JsonValue = None, *, key: str | None = None, version: str | None = None
    ) -> SyncRunHandle:
        """As `Client.start`."""
        return SyncRunHandle(self, self.wait(self._client.start(name, trigger, key=key, version=version)))

    def run(self, run_id: str) -> SyncRunHandle:
        """As `Client.run`."""
        return SyncRunHandle(self, self._client.run(run_id))

    def publish_event(self, name: str, payload: JsonValue = None, *, event_id: str | None = None) -> EventReceipt:
        """As `Client.publish_event`."""
        return self.wait(self._client.publish_event(name, payload, event_id=event_id))

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
