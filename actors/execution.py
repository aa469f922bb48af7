"""Workers: long-lived coroutines that run handlers one after another, each in its own asyncio task.

A worker awaits coroutine handlers in its own task, so that `asyncio.timeout` and `asyncio.current_task` work in them
and no attempt costs a task. The price is that a handler could spoil the task for the next one. A worker therefore ends,
and another takes its place, after an attempt

- whose handler was told to stop (cancellation may still be pending in the task, or be counted in it), or
- that left `contextvars` changed.

Ends of a handler, and what each means:
- it returns: the attempt succeeded, even if it had been told to stop;
- CancelledError after it was told to stop: cancelled;
- CancelledError though nobody told it or the worker to stop (it awaited something that was cancelled): failed;
- any other exception, SystemExit included, which is not to end the whole host: failed;
- CancelledError because the worker's own task was cancelled, GeneratorExit, KeyboardInterrupt: *interrupted*. That
  comes with the end of the process and is no result: the attempt will be dispatched again. Its owner reports a failure
  only if the loop is still alive a while later.

An ordinary function runs in a thread with a fresh copy of the worker's context; its worker waits for it, so that the
number of workers bounds the threads.
"""

import asyncio
import inspect
from collections.abc import Awaitable
from contextvars import Context, copy_context
from typing import Any, Protocol

import msgspec

from ductor.actors.attempt import Attempt
from ductor.actors.failures import error_info
from ductor.actors.handler_threads import HandlerThreads
from ductor.actors.observing import AroundHandler
from ductor.actors.queue.syncmatch import SyncMatch
from ductor.actors.task_output import stored_result
from ductor.journal.codec import StoredValue
from ductor.journal.events import ErrorInfo

REPLACEMENT_PAUSE_S = 1.0
"""After a worker was cancelled from outside, or failed, its place stays empty this long."""


class Succeeded(msgspec.Struct, frozen=True, gc=False):
    """The handler returned."""

    result: StoredValue


class Failed(msgspec.Struct, frozen=True):
    """The handler raised."""

    error: ErrorInfo


class Cancelled(msgspec.Struct, frozen=True):
    """The handler stopped, because it was told to."""


Outcome = Succeeded | Failed | Cancelled
CANCELLED = Cancelled()


class AttemptOwner(Protocol):
    """Who hands attempts to workers and takes their outcomes."""

    around_handler: AroundHandler | None
    """Entered around calls of handlers whose attempts are traced."""

    def begin(self, attempt: Attempt) -> bool:
        """A worker is about to call the handler; False: it shall not."""
        ...

    def finish(self, attempt: Attempt, outcome: Outcome) -> None:
        """The handler has ended."""
        ...

    def interrupt(self, attempt: Attempt, error_type: str) -> None:
        """The attempt ended together with its worker, which is no outcome. `error_type` is what ended them."""
        ...


class Crew:
    """The workers of one kind, and the queue that they serve.

    Attributes:
        capacity: workers at most.
        is_closed: no attempt begins any more.
    """

    def __init__(self, owner: AttemptOwner, capacity: int, name: str, threads: HandlerThreads | None = None) -> None:
        """Args: `threads` runs the handlers; without it they are coroutine functions."""
        self._owner, self.capacity, self._name, self._threads = owner, capacity, name, threads
        self.queue: SyncMatch[Attempt] = SyncMatch()
        self._context = copy_context()
        self._loop = asyncio.get_running_loop()
        self._workers: dict[asyncio.Task[None], Worker] = {}
        self._numbers = 0
        self.is_closed = False

    @property
    def busy(self) -> int:
        """Workers that have an attempt."""
        return len(self._workers) - len(self.queue.takers)

    @property
    def is_free(self) -> bool:
        """Whether an attempt offered now would go to a worker at once."""
        return bool(self.queue.takers) or (len(self._workers) < self.capacity and not self.is_closed)

    def offer(self, attempt: Attempt) -> bool:
        """Give the attempt to a worker, else queue it. False when the queue is full."""
        if self.queue.takers or not self.is_free:
            return self.queue.offer(attempt)
        self._add_worker(attempt)
        return True

    def attempt_in(self, task: asyncio.Task[Any]) -> Attempt | None:
        """Whose handler a task is calling. For any thread."""
        worker = self._workers.get(task)
        return None if worker is None else worker.current

    def release(self) -> None:
        """Let idle workers end, and every other one after its attempt."""
        self.is_closed = True
        for worker in self.queue.dismiss():
            assert isinstance(worker, Worker)
            worker.dismiss()

    async def close(self, timeout_ms: int) -> None:
        """End all workers; cancel those that have not ended by themselves, and wait for them at most `timeout_ms`."""
        self.release()
        await asyncio.sleep(0)
        left = tuple(self._workers)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=timeout_ms / 1_000)

    async def outcome(self, attempt: Attempt, task: asyncio.Task[Any]) -> Outcome:
        """Call the handler of an attempt that has begun. Raises what interrupts the worker."""
        assert attempt.task is not None
        name = attempt.task.name
        try:
            if self._threads is None:
                attempt.running_in = task
                around = self._owner.around_handler
                if around is None or not attempt.assignment.traceparent:
                    result = await attempt.task.invoke(attempt.assignment.input, attempt.context)
                else:
                    with around(attempt.assignment.traceparent):
                        result = await attempt.task.invoke(attempt.assignment.input, attempt.context)
            else:
                call = self._context.copy().run
                outcome = await self._loop.run_in_executor(self._threads, call, self._call_in_thread, attempt)
                if not inspect.isawaitable(outcome):
                    return outcome
                # A decorator hid a coroutine function from us.
                attempt.running_in = task
                if attempt.is_stop_requested:
                    task.cancel()
                result = await outcome
            return Succeeded(stored_result(name, result))
        except asyncio.CancelledError as error:
            if attempt.is_stop_requested:
                return CANCELLED
            if task.cancelling():
                raise
            return Failed(error_info(error))
        except (GeneratorExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - a handler's failure is a value
            return Failed(error_info(error))

    def _call_in_thread(self, attempt: Attempt) -> Outcome | Awaitable[object]:
        around = self._owner.around_handler
        if around is None or not attempt.assignment.traceparent:
            return _call_in_thread(attempt)
        with around(attempt.assignment.traceparent):
            return _call_in_thread(attempt)

    def _add_worker(self, attempt: Attempt) -> None:
        self._numbers += 1
        worker = Worker(self, self._owner, attempt)
        task = self._loop.create_task(worker.run(), name=f"{self._name}-{self._numbers}", context=self._context.copy())
        self._workers[task] = worker
        task.add_done_callback(self._worker_ended)

    def _worker_ended(self, task: asyncio.Task[None]) -> None:
        worker = self._workers.pop(task)
        if worker.has_returned:
            self._replace_worker()
            return
        # Somebody cancelled it or it has a defect. If the whole loop is being shut down, no new task may begin.
        if worker.is_idle:
            self.queue.forget(worker)
        self._loop.call_later(REPLACEMENT_PAUSE_S, self._replace, worker)
        if not task.cancelled() and task.exception() is not None:
            self._loop.call_exception_handler(
                {"message": f"worker {task.get_name()} failed", "exception": task.exception(), "task": task}
            )

    def _replace(self, worker: "Worker") -> None:
        """After the pause: what the dead worker had not begun goes to another."""
        attempt = worker.next
        if attempt is None or attempt.is_settled or self.is_closed:
            self._replace_worker()
        elif not self.offer(attempt):
            self._owner.interrupt(attempt, asyncio.CancelledError.__name__)

    def _replace_worker(self) -> None:
        if len(self._workers) < self.capacity and not self.is_closed:
            attempt = self.queue.take()
            if attempt is not None:
                self._add_worker(attempt)


class Worker:
    """One worker of a crew; see the module's docstring.

    Attributes:
        next: the attempt that it has to begin.
        current: the one whose handler it calls.
        is_idle: it waits for one.
        has_returned: it has ended in order.
    """

    def __init__(self, crew: Crew, owner: AttemptOwner, first: Attempt) -> None:
        self._crew, self._owner = crew, owner
        self.next: Attempt | None = first
        self.current: Attempt | None = None
        self.has_returned = False
        self._arrival: asyncio.Future[None] | None = None

    @property
    def is_idle(self) -> bool:
        """Whether it is among those that wait."""
        return self._arrival is not None

    def accept(self, item: Attempt) -> None:
        """Take an attempt while idle."""
        arrival, self._arrival = self._arrival, None
        assert arrival is not None
        self.next = item
        if not arrival.done():  # it is when somebody cancelled the worker's task a moment ago
            arrival.set_result(None)

    def dismiss(self) -> None:
        """Stop being idle without an attempt: this is the end."""
        arrival, self._arrival = self._arrival, None
        assert arrival is not None
        if not arrival.done():
            arrival.set_result(None)

    async def run(self) -> None:
        """Run attempts until dismissed, or until one makes the task unfit for another."""
        crew, owner, task = self._crew, self._owner, asyncio.current_task()
        queue, loop = crew.queue, asyncio.get_running_loop()
        assert task is not None
        clean_context = copy_context()
        while self.next is not None:
            attempt, self.next = self.next, None
            if owner.begin(attempt):
                self.current = attempt
                try:
                    outcome = await crew.outcome(attempt, task)
                except BaseException as error:  # asyncio.CancelledError, GeneratorExit, KeyboardInterrupt
                    owner.interrupt(attempt, type(error).__name__)
                    raise
                finally:
                    attempt.running_in = self.current = None
                owner.finish(attempt, outcome)
                if attempt.is_stop_requested or task.cancelling() or not _is_same(clean_context, copy_context()):
                    break
            if queue.size:
                await asyncio.sleep(0)  # handlers that never wait must not starve the loop
            if crew.is_closed:
                break
            self.next = queue.take() if queue.size else None
            if self.next is None:
                self._arrival = arrival = loop.create_future()
                queue.wait(self)
                await arrival
        self.has_returned = True


def _call_in_thread(attempt: Attempt) -> Outcome | Awaitable[object]:
    """Call an ordinary function: its outcome, or what it left to await. Raises nothing."""
    assert attempt.task is not None
    try:
        result = attempt.task.invoke(attempt.assignment.input, attempt.context)
        if inspect.isawaitable(result):
            return result
        return Succeeded(stored_result(attempt.task.name, result))
    except asyncio.CancelledError as error:
        return CANCELLED if attempt.is_stop_requested else Failed(error_info(error))
    except BaseException as error:  # noqa: BLE001 - a handler's failure is a value
        return Failed(error_info(error))


def _is_same(before: Context, after: Context) -> bool:
    """Whether two contexts have the same variables; identical ones are compared in constant time."""
    try:
        return before == after
    except Exception:  # noqa: BLE001 - values may refuse to be compared
        return False
