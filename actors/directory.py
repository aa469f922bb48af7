"""The actors of one kind by key: started on demand, supervised, stopped together.

Pykka's global registry is not used: it is a list, and removal from it is linear.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextvars import copy_context
from threading import get_ident
from typing import Generic, TypeVar

from ductor.actors.runtime import LoopActor, Supervisor
from ductor.actors.runtime_errors import DirectoryClosedError

A = TypeVar("A", bound=LoopActor)
K = TypeVar("K", bound=Hashable)


class ActorDirectory(Generic[K, A]):
    """The actors of one kind and one loop, by key. It starts them on demand and is their supervisor.

    A message told to a key is never lost to a stop: what an orderly stop leaves over goes to a new actor. What a
    failure leaves over goes to `supervisor`, together with the error.
    """

    def __init__(self, create: Callable[[K], A], supervisor: Supervisor[A]) -> None:
        """Make an empty directory in the running loop.

        Args:
            create: constructs (and does not start) the actor of a key.
            supervisor: learns of the ends of all actors.
        """
        self._create, self._supervisor = create, supervisor
        self._actors: dict[K, A] = {}
        self._loop, self._thread_id, self._context = asyncio.get_running_loop(), get_ident(), copy_context()
        self._emptied: asyncio.Future[None] | None = None  # set while closing

    def __len__(self) -> int:
        return len(self._actors)

    def __contains__(self, key: K) -> bool:
        return key in self._actors

    def __iter__(self) -> Iterator[A]:
        """The live actors."""
        return iter(tuple(self._actors.values()))

    def get(self, key: K) -> A | None:
        """The live actor of a key."""
        return self._actors.get(key)

    def get_or_start(self, key: K) -> A:
        """The live actor of a key; started if there is none. Raises DirectoryClosedError."""
        actor = self._actors.get(key)
        if actor is not None and not actor.actor_inbox.is_closed:
            return actor
        if self._emptied is not None:
            raise DirectoryClosedError(key)
        actor = self._create(key)
        actor.key, actor.supervisor = key, self
        self._actors[key] = actor
        actor.start_in(self._context.copy())
        return actor

    def tell(self, key: K, message: object) -> None:
        """Tell the actor of a key, starting it if need be. Works from any thread. Raises DirectoryClosedError."""
        if self._thread_id != get_ident():
            self._loop.call_soon_threadsafe(self.tell, key, message)
            return
        actor = self._actors.get(key)
        if actor is None or actor.actor_inbox.is_closed:
            actor = self.get_or_start(key)
        actor.actor_inbox.tell(message)

    def actor_stopped(self, actor: A, undelivered: Sequence[object]) -> None:
        """Remove the actor; tell a new one what this one left over."""
        key = self._remove(actor)
        if self._emptied is None:
            for message in undelivered:
                self.tell(key, message)
            undelivered = ()
        self._supervisor.actor_stopped(actor, undelivered)

    def actor_failed(self, actor: A, error: BaseException, undelivered: Sequence[object]) -> None:
        """Remove the actor and pass everything on to the supervisor."""
        self._remove(actor)
        self._supervisor.actor_failed(actor, error, undelivered)

    def message_undelivered(self, actor: A, message: object) -> None:
        """Tell a new actor, or pass it on when closing."""
        if self._emptied is None:
            self.tell(actor.key, message)  # type: ignore[arg-type]  # the directory gave it this key
        else:
            self._supervisor.message_undelivered(actor, message)

    async def close(self, timeout_ms: int) -> int:
        """Stop every actor after the messages that wait already, and start none any more.

        Handlers still running after `timeout_ms` are cancelled and get as long again. How many actors did not stop in
        time, cancelled ones included.
        """
        if self._emptied is None:
            self._emptied = self._loop.create_future()
            for actor in self:
                actor.stop()
        if not self._actors:
            return 0
        emptied = self._emptied
        await asyncio.wait((emptied,), timeout=timeout_ms / 1_000)
        late = tuple(self)
        for actor in late:
            actor.actor_inbox.cancel()
        if late:
            await asyncio.wait((emptied,), timeout=timeout_ms / 1_000)
        return len(late)

    def _remove(self, actor: A) -> K:
        key: K = actor.key  # type: ignore[assignment]  # the directory gave it this key
        if self._actors.get(key) is actor:
            del self._actors[key]
        if self._emptied is not None and not self._actors and not self._emptied.done():
            self._emptied.set_result(None)
        return key
