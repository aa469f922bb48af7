"""Hosts for tests: the real engine on a store in memory, in virtual time, and stores that misbehave on purpose."""

import asyncio
import textwrap
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from ductor.actors.host import EngineHost, HostOptions
from ductor.actors.queue.memory import MemoryQueue
from ductor.actors.tasks import Task, TaskRegistry, task
from ductor.definitions.compile import compile_text
from ductor.journal.clock import Clock
from ductor.journal.commit import Commit, CommitAnswer, Conflict
from ductor.journal.ids import Ids
from ductor.journal.memory import MemoryStore
from ductor.journal.store import Store
from ductor.testing import RepeatableIds
from ductor.testing.loop import VirtualTimeLoop

ONE = "steps: [{ref: a, type: task, task: work}]"
TWO = "steps: [{ref: a, type: task, task: work, next: b}, {ref: b, type: task, task: work}]"


def definition(text: str) -> str:
    """A whole document from the part that matters."""
    return "ductor: 1\nname: subject\n" + textwrap.dedent(text)


async def hosted(
    text: str, *tasks: Task[..., Any], store: Store, clock: Clock, ids: Ids, options: HostOptions | None = None
) -> EngineHost:
    """A started host that has published the definition."""
    host = EngineHost(store, TaskRegistry(tasks), clock=clock, ids=ids, options=options)
    for compiled in compile_text(definition(text)):
        await host.publish(compiled)
    await host.start_host()
    return host


@asynccontextmanager
async def serving(host: EngineHost, *documents: str) -> AsyncIterator[EngineHost]:
    """The host, with these definitions published, until it is left."""
    for text in documents:
        for compiled in compile_text(text):
            await host.publish(compiled)
    async with host:
        yield host


class WrappedStore:
    """A store that passes everything on; tests replace what they are about."""

    def __init__(self, store: Store) -> None:
        self.inner = store
        self.commits: list[Commit] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def commit(self, commit: Commit, answer: Callable[[CommitAnswer], None]) -> None:
        self.commits.append(commit)
        self.inner.commit(commit, answer)


class HeldStore(WrappedStore):
    """Keeps commits back until they are let go, to look at what happens meanwhile."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.held: list[tuple[Commit, Callable[[CommitAnswer], None]]] = []
        self.is_holding = True

    def commit(self, commit: Commit, answer: Callable[[CommitAnswer], None]) -> None:
        self.commits.append(commit)
        if self.is_holding:
            self.held.append((commit, answer))
        else:
            self.inner.commit(commit, answer)

    def release(self) -> None:
        """Let go what is held, and hold nothing any more."""
        self.is_holding = False
        held, self.held = self.held, []
        for commit, answer in held:
            self.inner.commit(commit, answer)


class ConflictingStore(WrappedStore):
    """Refuses the given commits, counted from 1, as if another host had been faster."""

    def __init__(self, store: Store, numbers: set[int]) -> None:
        super().__init__(store)
        self.numbers = numbers

    def commit(self, commit: Commit, answer: Callable[[CommitAnswer], None]) -> None:
        self.commits.append(commit)
        if len(self.commits) in self.numbers:
            answer(Conflict(commit.run_id, commit.version))
        else:
            self.inner.commit(commit, answer)


class Bench:
    """A store, a clock, and hosts on it one after another or side by side."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        self.clock = loop.clock
        self.ids = RepeatableIds(self.clock)
        self.store = MemoryStore(self.clock)
        self.calls: list[str] = []

    def handler(self, body: Callable[[int], Awaitable[Any]] | None = None) -> Task[..., Any]:
        """The handler `work`: counts its calls, then does `body` with the number of the call, from 1."""

        @task("work")
        async def work() -> Any:
            self.calls.append("work")
            return await body(len(self.calls)) if body is not None else len(self.calls)

        return work

    @asynccontextmanager
    async def host(
        self, text: str, handler: Task[..., Any], store: Store | None = None, options: HostOptions | None = None
    ) -> AsyncIterator[EngineHost]:
        """A running host."""
        await self.store.open()
        host = await hosted(text, handler, store=store or self.store, clock=self.clock, ids=self.ids, options=options)
        try:
            yield host
        finally:
            await host.stop_host()


class SharedQueue(MemoryQueue):
    """One queue for all hosts: none of them opens or closes it."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...


class Hosts(Bench):
    """Hosts on one store and, unless told otherwise, one queue."""

    def __init__(self, *, has_queue: bool = True) -> None:
        super().__init__()
        self.queue = SharedQueue(self.clock)
        self._has_queue = has_queue

    @asynccontextmanager
    async def one(
        self, text: str, *tasks: Task[..., Any], options: HostOptions | None = None, name: str = ""
    ) -> AsyncIterator[EngineHost]:
        await self.store.open()
        host = EngineHost(
            self.store,
            TaskRegistry(tasks),
            clock=self.clock,
            ids=self.ids,
            options=options,
            make_queue=lambda *_: self.queue if self._has_queue else None,
        )
        host.host_id = name or host.host_id
        async with serving(host, definition(text)):
            yield host
