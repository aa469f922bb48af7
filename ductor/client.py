"""The face of the engine for a process that carries out no runs itself: publish, start, look, wait."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from ductor.actors.client import Client as EngineClient
from ductor.actors.steps import RUNNABLE_TYPES
from ductor.database import open_database
from ductor.definition_files import DefinitionSource, read_definitions
from ductor.definitions.errors import DefinitionError, Problem
from ductor.definitions.unsupported import refuse_unsupported
from ductor.definitions.values import JsonValue
from ductor.handle import RunHandle
from ductor.journal.clock import SystemClock
from ductor.journal.events import RunStatus
from ductor.journal.ids import SystemIds
from ductor.journal.store import Head, PublishedDefinition, RunFilter, Store

DEFAULT_TENANT = "default"


class Client:
    """An open database, as an async context manager.

    Args:
        database: a PostgreSQL address; a store that is open; or None for an embedded server.
        tenant: whose definitions and runs.
        directory: of the embedded server, `.ductor/postgres` unless given.
    """

    def __init__(
        self,
        database: str | Store | None = None,
        *,
        tenant: str = DEFAULT_TENANT,
        directory: str | Path | None = None,
    ) -> None:
        self.tenant = tenant
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
    ) -> RunHandle:
        """Start a run of a published definition.

        Args:
            key: makes the start idempotent: a second one with the same key gives the first one's run.
            version: a version label; None takes the newest.

        Raises:
            DefinitionNotFoundError, TriggerError, ValueRefusedError, OverloadedError: nothing was written.
        """
        started = await self.engine.start(name, trigger, tenant=self.tenant, key=key, version=version)
        return RunHandle(self.engine, started.run_id, tenant=self.tenant, is_new=started.is_new)

    def run(self, run_id: str) -> RunHandle:
        """A handle of a run that exists; whether it does shows when it is asked something."""
        return RunHandle(self.engine, run_id, tenant=self.tenant)

    async def runs(
        self,
        *,
        definition: str | None = None,
        statuses: Sequence[RunStatus] = (),
        before: str | None = None,
        limit: int = 50,
    ) -> Sequence[Head]:
        """Runs of the tenant, newest first. `before`, a run id, continues a page."""
        which = RunFilter(
            tenant=self.tenant, definition=definition, statuses=tuple(statuses), before_run_id=before, limit=limit
        )
        return await self.engine.runs(which)

    async def _make_engine(self, store: Store, stack: AsyncExitStack) -> EngineClient:  # noqa: ARG002 - a host's does
        return EngineClient(store, clock=SystemClock(), ids=SystemIds())
