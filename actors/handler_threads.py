"""Threads for handlers that are ordinary functions.

Not `concurrent.futures.ThreadPoolExecutor`: the interpreter waits for its threads at exit, so that a handler that never
returns would keep a stopped host alive for ever. These threads are daemons. It still is an `Executor`, for
`loop.run_in_executor`.
"""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class HandlerThreads(Executor):
    """Daemon threads, started when first needed and kept.

    The caller bounds the number of calls in flight: `limit` calls run, further ones would wait.
    """

    def __init__(self, limit: int, name: str) -> None:
        """Args: `limit` is the number of threads at most, `name` how their names begin."""
        self._limit, self._name = limit, name
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._threads: list[threading.Thread] = []
        self._is_shut = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run `fn` in a thread. Raises RuntimeError after `shutdown`."""
        future: Future[T] = Future()

        def call() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001 - it belongs to whoever awaits the call
                future.set_exception(error)
            else:
                future.set_result(result)

        with self._lock:
            if self._is_shut:
                raise RuntimeError(f"the threads of {self._name} are shut down")
            self._calls.put(call)
            if self._idle:
                self._idle -= 1
            elif len(self._threads) < self._limit:
                self._start_thread()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002 - no call waits
        """Let every thread end after its call. `wait` blocks until all have."""
        with self._lock:
            self._is_shut = True
            for _ in self._threads:
                self._calls.put(None)
        if wait:
            for thread in self._threads:
                thread.join()

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._work, name=f"{self._name}-{len(self._threads)}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            del call  # a thread that waits holds nobody's objects
            with self._lock:
                self._idle += 1
