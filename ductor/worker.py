"""The worker: a process that runs handlers for hosts elsewhere, and no runs."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ductor.actors.loop_watch import LoopWatch
from ductor.actors.observing import Observer, observer_of
from ductor.actors.owners import OwnerWakeups
from ductor.actors.queue.opening import redis_settings
from ductor.actors.queue.redis.settings import RedisSettings
from ductor.actors.remote_worker import RemoteWorker, WorkerHealth, new_worker_id
from ductor.actors.tasks import Task, TaskRegistry, task
from ductor.actors.worker_options import WorkerOptions, check_queues
from ductor.database import open_database
from ductor.journal.clock import SystemClock
from ductor.journal.store import Store
from ductor.observability.health import Phase, Report
from ductor.observability.probe import report_of_worker
from ductor.process import until_told_to_stop
from ductor.queues import open_queue

DEFAULT_QUEUES = ("default",)


class Worker:
    """Runs handlers while it is entered, for steps of all tenants that hosts leave to the given queues.

    Leaving drains: attempts in flight may finish, the rest goes back to the queue.

    Args:
        tasks: handlers; a plain function is a task under its own name. Every handler that steps of the queues name
            should be here: what lacks one is given back, and comes again.
        queues: whose attempts are taken, those of the first one before all others.
        database: the PostgreSQL address that the hosts use; or None for the embedded server of `directory`.
        redis: the Redis that the hosts use, if they do.
        directory: of the embedded server, `.ductor/postgres` unless given.
        options: limits and intervals.
        observers: who is told of handlers: metrics (`WorkerMetrics`), traces (`ductor.observability`). What becomes of
            runs is told by hosts.

    Attributes:
        phase: where the worker is in its life.

    Raises:
        DuplicateTaskError, InvalidTaskError, InvalidSettingError for too many queues or none: from the constructor.
        Entering raises what the database raises, and NoQueueError for a store that no other process can share.
    """

    def __init__(
        self,
        *,
        tasks: Iterable[Task[..., Any] | Callable[..., Any]],
        queues: Sequence[str] = DEFAULT_QUEUES,
        database: str | Store | None = None,
        redis: str | RedisSettings | None = None,
        directory: str | Path | None = None,
        options: WorkerOptions | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        self.registry = TaskRegistry(one if isinstance(one, Task) else task(one) for one in tasks)
        check_queues(queues)
        self.queues = tuple(queues)
        self._database, self._redis = database, redis_settings(redis)
        self._directory = Path(directory) if directory is not None else None
        self._options = options or WorkerOptions()
        self._observer = observer_of(observers) or Observer()
        self._stack = AsyncExitStack()
        self._store: Store | None = None
        self._worker: RemoteWorker | None = None
        self.phase: Phase = "new"

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Connect and begin to work. `async with` does this."""
        self.phase = "starting"
        try:
            store = self._store = await self._stack.enter_async_context(open_database(self._database, self._directory))
            queue = await self._stack.enter_async_context(open_queue(store, self._redis))
            worker_id = new_worker_id()
            owners = OwnerWakeups(store, queue, worker_id)
            worker = RemoteWorker(
                store,
                queue,
                self.registry,
                queues=self.queues,
                clock=SystemClock(),
                options=self._options,
                # hosts take wakeups from Redis alone: PostgreSQL brings them no faster than their sweeps do
                wake_owners=owners.wake if self._redis is not None else None,
                worker_id=worker_id,
            )
            worker.observer = self._observer
            self._stack.push_async_callback(worker.stop)
            await worker.start()
            watch = LoopWatch(worker.attempt_in, self._observer.loop_blocked)
            self._stack.callback(watch.stop)
            watch.start()
        except BaseException:
            await self.close()
            raise
        self._worker, self.phase = worker, "running"

    async def close(self) -> None:
        """Drain, and let go of everything that `open` took."""
        self.phase = "draining"
        try:
            await self._stack.aclose()
        finally:
            self._worker = self._store = None
            self.phase = "stopped"

    @property
    def store(self) -> Store:
        """The open database. Raises RuntimeError outside `async with`."""
        if self._store is None:
            raise RuntimeError("the worker is not open: use it inside `async with`")
        return self._store

    async def condition(self) -> Report:
        """Whether the worker is well and takes attempts, and what people should look at: see `observability.health`."""
        return await report_of_worker(self)

    async def health(self) -> WorkerHealth:
        """The worker's state, for health reports."""
        if self._worker is None:
            raise RuntimeError("the worker is not open: use it inside `async with`")
        return await self._worker.health()

    async def run_until_stopped(self) -> None:
        """Return when the process is told to stop (SIGTERM or SIGINT); leaving the worker then drains it."""
        await until_told_to_stop()
