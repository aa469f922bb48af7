"""The host: what a service embeds to carry out runs."""

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ductor.actors.client import Client as EngineClient
from ductor.actors.host import EngineHost, HostHealth, HostOptions
from ductor.actors.loop_watch import LoopWatch
from ductor.actors.observing import Observer, observer_of
from ductor.actors.queue.redis.settings import RedisSettings
from ductor.actors.tasks import Task, TaskRegistry, task
from ductor.client import DEFAULT_TENANT, Client
from ductor.definition_files import DefinitionSource, SourceDefinition, read_definitions
from ductor.definitions.compile import Compiled
from ductor.definitions.expressions import FunctionLibrary
from ductor.handlers import missing_handlers
from ductor.journal.clock import Clock, SystemClock
from ductor.journal.ids import Ids, SystemIds
from ductor.journal.store import Store
from ductor.observability.batches import watch_batches
from ductor.observability.health import Phase, Report
from ductor.observability.probe import report_of_host
from ductor.process import until_told_to_stop
from ductor.read_models import start_projector

if TYPE_CHECKING:
    from ductor.projections.model import Projection

_log = logging.getLogger("ductor")


class Host(Client):
    """Carries out runs while it is entered, and answers everything that a `Client` does.

    Entering opens the database, publishes the definitions, takes up every run that was left in the middle, and
    begins to work. Leaving drains: attempts in flight may finish, the rest is carried on by the next host.

    Args:
        tasks: handlers; a plain function is a task under its own name.
        definitions: what to publish: a file, a folder, a document made in Python, or several of these.
        database: a PostgreSQL address; a store that is open; or None for an embedded server.
        tenant: whose definitions are published and runs started; runs of all tenants are carried out.
        directory: of the embedded server, `.ductor/postgres` unless given.
        options: limits and intervals.
        functions: pure functions for expressions, beside the standard library.
        projections: read models to fill beside the built-in ones; None for a host that fills none. A store that is
            not PostgreSQL has none, and needs none.
        redis: the queue between processes: an address, as `redis://host:6379/0`, or settings. Without it PostgreSQL is
            the queue, and work for other processes takes longer to get there.
        clock, ids: sources of time and identifiers; a test gives its own.
        observers: who is told what happens: metrics, traces (`ductor.observability`).

    Attributes:
        phase: where the host is in its life.

    Raises:
        DuplicateTaskError, InvalidTaskError: from the constructor. Entering raises DefinitionError with every
        problem of every file, InvalidProjectionError, ProjectionsUnavailableError where projections are given and runs
        are not kept in PostgreSQL, and what the database raises.
    """

    def __init__(  # noqa: PLR0913 - each is a choice of its own, and all have defaults
        self,
        *,
        tasks: Iterable[Task[..., Any] | Callable[..., Any]] = (),
        definitions: DefinitionSource | Sequence[DefinitionSource] = (),
        database: str | Store | None = None,
        tenant: str = DEFAULT_TENANT,
        directory: str | Path | None = None,
        options: HostOptions | None = None,
        functions: FunctionLibrary | None = None,
        projections: "Iterable[Projection] | None" = (),
        redis: str | RedisSettings | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        super().__init__(database, tenant=tenant, directory=directory, redis=redis)
        self.phase: Phase = "new"
        self._observer = observer_of(observers)
        self.registry = TaskRegistry(one if isinstance(one, Task) else task(one) for one in tasks)
        if isinstance(definitions, str | Path | Mapping | Compiled | SourceDefinition):
            self._definitions: tuple[DefinitionSource, ...] = (definitions,)
        else:
            self._definitions = tuple(definitions)
        self._options = options or HostOptions()
        self._functions = functions
        self._projections = None if projections is None else tuple(projections)
        self._clock, self._ids = clock or SystemClock(), ids or SystemIds()

    @property
    def engine(self) -> EngineHost:
        """What does the work."""
        engine = super().engine
        assert isinstance(engine, EngineHost)
        return engine

    async def open(self) -> None:
        """Begin to carry out runs. `async with` does this."""
        self.phase = "starting"
        await super().open()
        self.phase = "running"

    async def close(self) -> None:
        """Drain, and let go of everything that `open` took."""
        self.phase = "draining"
        try:
            await super().close()
        finally:
            self.phase = "stopped"

    async def health(self) -> HostHealth:
        """The host's state, for health reports."""
        return await self.engine.health()

    async def condition(self) -> Report:
        """Whether the host is well and takes up runs, and what people should look at: see `observability.health`."""
        return await report_of_host(self)

    async def run_until_stopped(self) -> None:
        """Return when the process is told to stop (SIGTERM or SIGINT); leaving the host then drains it.

        A second signal means what it means without a host.
        """
        await until_told_to_stop()

    @asynccontextmanager
    async def lifespan(self, app: object) -> AsyncIterator[None]:  # noqa: ARG002 - the shape of ASGI frameworks
        """Live as long as an ASGI application: `Starlette(lifespan=host.lifespan)`, and the like."""
        async with self:
            yield

    async def _make_engine(self, store: Store, stack: AsyncExitStack) -> EngineClient:
        found = read_definitions(*self._definitions)
        engine = EngineHost(
            store,
            self.registry,
            clock=self._clock,
            ids=self._ids,
            options=self._options,
            functions=self._functions,
            redis=self._redis,
            observer=self._observer,
        )
        if self._observer is not None:
            watch_batches(store, self._observer)
        self._engine = engine
        await self.publish(*found)
        for name, users in missing_handlers((one.compiled.manifest for one in found), self.registry.names).items():
            _log.warning(
                "no handler %r here, which %s needs: such steps wait until a host that has it starts",
                name,
                " and ".join(users),
            )
        await stack.enter_async_context(engine)
        watch = LoopWatch(engine.engine.pool.attempt_in, (self._observer or Observer()).loop_blocked)
        stack.callback(watch.stop)
        watch.start()
        if self._projections is not None:
            await start_projector(store, self._projections, engine.host_id, stack)
        return engine
