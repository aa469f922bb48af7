"""The face of the engine for a process that carries out no runs itself: publish, start, look, wait."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ductor.actors.bulk_controls import BulkReceipt
from ductor.actors.client import Client as EngineClient
from ductor.actors.queue.opening import redis_settings
from ductor.actors.queue.redis.settings import RedisSettings
from ductor.actors.start import checked_run_id
from ductor.actors.steps import RUNNABLE_TYPES
from ductor.database import open_database
from ductor.definition_files import DefinitionSource, read_definitions
from ductor.definitions.errors import DefinitionError, Problem
from ductor.definitions.expressions import FunctionLibrary
from ductor.definitions.unsupported import refuse_unsupported
from ductor.definitions.values import JsonValue
from ductor.handle import RunHandle
from ductor.journal.bulk_controls import BulkControl, BulkControlKind
from ductor.journal.clock import SystemClock
from ductor.journal.events import RunStatus
from ductor.journal.ids import SystemIds
from ductor.journal.lease_store import LeaseEntry
from ductor.journal.recorded import recorded_run
from ductor.journal.records import EventReceipt, Head, HostRecord, InboxEntry, PublishedDefinition, RunFilter
from ductor.journal.set_aside_store import SetAsideRun
from ductor.journal.store import Store
from ductor.journal.worker_store import WorkerRecord
from ductor.read_models import ReadModelClient
from ductor.replay import Replay
from ductor.transaction import TransactionClient

if TYPE_CHECKING:
    from ductor.journal.postgres.callers import AnyConnection

DEFAULT_TENANT = "default"


class Client(ReadModelClient):
    """An open database, as an async context manager.

    Args:
        database: a PostgreSQL address; a store that is open; or None for an embedded server.
        tenant: whose definitions and runs.
        directory: of the embedded server, `.ductor/postgres` unless given.
        redis: the Redis that hosts and workers use, if they do: `explain` looks for attempts there as well.
    """

    def __init__(
        self,
        database: str | Store | None = None,
        *,
        tenant: str = DEFAULT_TENANT,
        directory: str | Path | None = None,
        redis: str | RedisSettings | None = None,
    ) -> None:
        self.tenant = tenant
        self._redis = redis_settings(redis)
        self._database = database
        self._directory = Path(directory) if directory is not None else None
        self._stack = AsyncExitStack()
        self._engine: EngineClient | None = None

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Connect. `async with` does this; raises what the database raises."""
        try:
            store = await self._stack.enter_async_context(open_database(self._database, self._directory))
            self._engine = await self._make_engine(store, self._stack)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Let go of everything that `open` took."""
        await self._close_read_models()
        self._engine = None
        await self._stack.aclose()

    @property
    def engine(self) -> EngineClient:
        """What does the work."""
        if self._engine is None:
            raise RuntimeError(f"the {type(self).__name__.lower()} is not open: use it inside `async with`")
        return self._engine

    async def publish(self, *sources: DefinitionSource) -> list[PublishedDefinition]:
        """Publish definitions: files, folders, documents made in Python. Nothing is published unless all can be.

        Raises:
            DefinitionError: with every problem of every file, those among them that this version can't run.
        """
        found = read_definitions(*sources)
        problems: list[Problem] = []
        for one in found:
            problems.extend(refuse_unsupported(one.compiled, RUNNABLE_TYPES))
        if problems:
            raise DefinitionError(problems)
        return [await self.engine.publish(one.compiled, tenant=self.tenant, source=one.text) for one in found]

    async def start(
        self,
        name: str,
        trigger: JsonValue = None,
        *,
        key: str | None = None,
        version: str | None = None,
        connection: "AnyConnection | None" = None,
        traceparent: str | None = None,
    ) -> RunHandle:
        """Start a run of a published definition.

        Args:
            key: makes the start idempotent: a second one with the same key gives the first one's run.
            version: a version label; None takes the newest.
            connection: starts it inside the transaction of this connection to the same database.
            traceparent: the caller's place in a trace, as the header of that name (W3C Trace Context) has it. A host
                that traces (`ductor.observability.tracing`) takes what is current, unless it is given.

        Raises:
            DefinitionNotFoundError, TriggerError, ValueRefusedError, OverloadedError: nothing was written.
        """
        engine = self._engine_on(connection)
        started = await engine.start(
            name, trigger, tenant=self.tenant, key=key, version=version, traceparent=traceparent
        )
        return RunHandle(self.engine, started.run_id, tenant=self.tenant, is_new=started.is_new)

    def run(self, run_id: str) -> RunHandle:
        """A handle of a run that exists; whether it does shows when it is asked something."""
        return RunHandle(self.engine, run_id, tenant=self.tenant)

    async def replay(self, run_id: str, *, functions: FunctionLibrary | None = None) -> Replay:
        """A run as it is recorded now: its states, differences, proofs, and what other definitions would have made of
        it.

        Args:
            functions: those that its hosts have beside the standard library.

        Raises:
            RunNotExportedError: there is no such run of the tenant.
            RunTooLargeError: it has more rows than are replayed in memory.
        """
        return Replay(await recorded_run(self.engine.store, run_id, tenant=self.tenant), functions=functions)

    async def runs(
        self,
        *,
        definition: str | None = None,
        statuses: Sequence[RunStatus] = (),
        parent: str | None = None,
        root: str | None = None,
        before: str | None = None,
        limit: int = 50,
        shows_continued: bool = False,
    ) -> Sequence[Head]:
        """Runs of the tenant, newest first.

        Args:
            parent: only runs that this one has started.
            root: only runs below this one, at any depth.
            before: a run id, continues a page.
            shows_continued: also runs that other ones continue; without it a chain shows its latest run.
        """
        which = RunFilter(
            tenant=self.tenant,
            definition=definition,
            statuses=tuple(statuses),
            parent_run_ids=() if parent is None else (checked_run_id(parent),),
            root_run_id=None if root is None else checked_run_id(root),
            before_run_id=before,
            limit=limit,
            shows_continued=shows_continued,
        )
        return await self.engine.runs(which)

    async def publish_event(
        self,
        name: str,
        payload: JsonValue = None,
        *,
        event_id: str | None = None,
        connection: "AnyConnection | None" = None,
    ) -> EventReceipt:
        """Publish an event on the tenant's bus: for runs that wait for it, and for triggers.

        Args:
            event_id: makes it idempotent: a second event with this id is a duplicate and changes nothing.
            connection: publishes it inside the transaction of this connection to the same database.

        Raises:
            ValueRefusedError: the payload is no exact JSON, or too large.
        """
        engine = self._engine_on(connection)
        return await engine.publish_event(name, payload, event_id=event_id, tenant=self.tenant)

    async def inbox(
        self, *, person: str | None = None, after: tuple[str, str] | None = None, limit: int = 100
    ) -> Sequence[InboxEntry]:
        """What waits for people, in order of run and step.

        Args:
            person: only what names this person, or nobody in particular.
            after: run id and step of the last entry of the page before.
        """
        return await self.engine.inbox(tenant=self.tenant, person=person, after=after, limit=limit)

    async def leases(
        self,
        *,
        key: str | None = None,
        run_id: str | None = None,
        after: tuple[str, int] | None = None,
        limit: int = 100,
    ) -> Sequence[LeaseEntry]:
        """Who holds leases and who waits for them, in order of key and the time of asking.

        Args:
            key, run_id: only those of this key, of this run.
            after: key and position of the last entry of the page before.
        """
        place = None if after is None else (self.tenant, *after)
        return await self.engine.leases(tenant=self.tenant, key=key, run_id=run_id, after=place, limit=limit)

    async def hosts(self) -> Sequence[HostRecord]:
        """Hosts that live, of all tenants, in order of id; each with its handlers."""
        return await self.engine.hosts()

    async def workers(self) -> Sequence[WorkerRecord]:
        """Workers that live, of all tenants, in order of id; each with its queues and handlers."""
        return await self.engine.workers()

    async def runs_set_aside(self, *, after_run_id: str | None = None, limit: int = 100) -> Sequence[SetAsideRun]:
        """Runs of the tenant that hosts leave alone until somebody releases them, in order of id; each with its reason.

        Args:
            after_run_id: the last run of the page before.
        """
        return await self.engine.runs_set_aside(tenant=self.tenant, after_run_id=after_run_id, limit=limit)

    async def release(self, run_id: str) -> bool:
        """Let hosts take up a run again that was set aside. False if it was not. Raises RunNotFoundError."""
        return await self.engine.release(run_id, tenant=self.tenant)

    async def pause_all(
        self, definition: str | None = None, *, by: str = "", reason: str = "", request_id: str | None = None
    ) -> BulkReceipt:
        """Ask every open run of the tenant to pause, or every one of a definition. `bulk` tells how far it has come.

        Raises:
            BulkControlRefusedError: too many such requests of the tenant are not finished.
        """
        return await self._ask_all("pause", definition, by, reason, request_id)

    async def resume_all(
        self, definition: str | None = None, *, by: str = "", reason: str = "", request_id: str | None = None
    ) -> BulkReceipt:
        """As `pause_all`: go on."""
        return await self._ask_all("resume", definition, by, reason, request_id)

    async def cancel_all(
        self, definition: str | None = None, *, by: str = "", reason: str = "", request_id: str | None = None
    ) -> BulkReceipt:
        """As `pause_all`: stop in order."""
        return await self._ask_all("cancel", definition, by, reason, request_id)

    async def terminate_all(
        self, definition: str | None = None, *, by: str = "", reason: str = "", request_id: str | None = None
    ) -> BulkReceipt:
        """As `pause_all`: end at once."""
        return await self._ask_all("terminate", definition, by, reason, request_id)

    async def bulk(self, bulk_id: str) -> BulkControl | None:
        """How far a request to many runs has come; None when there is none of this id."""
        return await self.engine.bulk(bulk_id, tenant=self.tenant)

    async def _ask_all(
        self, kind: BulkControlKind, definition: str | None, by: str, reason: str, request_id: str | None
    ) -> BulkReceipt:
        return await self.engine.request_all(
            kind, tenant=self.tenant, definition=definition, request_id=request_id, by=by, reason=reason
        )

    def _engine_on(self, connection: "AnyConnection | None") -> EngineClient:
        return self.engine if connection is None else TransactionClient(self.engine, connection)

    async def _make_engine(self, store: Store, stack: AsyncExitStack) -> EngineClient:  # noqa: ARG002 - a host's does
        return EngineClient(store, clock=SystemClock(), ids=SystemIds(), redis=self._redis)
