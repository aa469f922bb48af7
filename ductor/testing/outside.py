"""A store in real time for an engine in virtual time.

PostgreSQL knows no virtual time, and its driver sets timeouts of its own. So the store lives on an ordinary loop in
a thread, and each of its calls is work outside the virtual loop: time stands still until it is answered.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Self, TypeVar, cast

from ductor.journal.commit import Commit, CommitAnswer
from ductor.journal.store import Store
from ductor.testing.loop import VirtualTimeLoop, outside

T = TypeVar("T")
SetClock = Callable[[int], Awaitable[None]]


class OutsideLoop:
    """An ordinary event loop in a thread, as a context manager."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="outside loop", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there and wait for it, blocking this thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there and await it here, with virtual time standing still."""
        return await outside(asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop)))


class OutsideStore:
    """A store on another loop, for use on a virtual one. Make it with `outside_store`."""

    def __init__(self, store: Store, loop: OutsideLoop, set_clock: SetClock | None) -> None:
        self._store = store
        self._loop = loop
        self._set_clock = set_clock

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._store, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await self._loop.call(self._timed(_here().clock.now_us(), lambda: method(*args, **kwargs)))

        return call

    async def _timed(self, now_us: int, work: Callable[[], Awaitable[T]]) -> T:
        if self._set_clock is not None:
            await self._set_clock(now_us)
        return await work()

    def commit(self, commit: Commit, answer: Callable[[CommitAnswer], None]) -> None:
        """Queue a commit there; it is taken or refused before this returns, as the contract says."""
        here = _here()

        def answered(result: CommitAnswer) -> None:
            here.end_external_work()
            answer(result)

        async def queue() -> None:
            if self._set_clock is not None:
                await self._set_clock(here.clock.now_us())
            self._store.commit(commit, lambda result: _tell(here, answered, result))

        here.begin_external_work()
        try:
            self._loop.run(queue())
        except BaseException:
            here.end_external_work()
            raise


def _tell(loop: asyncio.AbstractEventLoop, answered: Callable[[CommitAnswer], None], result: CommitAnswer) -> None:
    """An answer for a loop that was killed meanwhile is an answer for nobody."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(answered, result)


def _here() -> VirtualTimeLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    return loop


def outside_store(store: Store, loop: OutsideLoop, set_clock: SetClock | None = None) -> Store:
    """`store`, which lives on `loop`, for an engine in virtual time.

    Args:
        set_clock: tells the store's database the time, in microseconds, before each call; runs on `loop`.
    """
    return cast("Store", OutsideStore(store, loop, set_clock))
