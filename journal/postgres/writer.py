"""The group-commit writer: commits of many runs, gathered into one statement and one flush to disk.

A batch takes what arrived while the one before was running, never waits for more, and holds at most one commit of a
run. When a batch can't be written as a whole it is split in halves, down to the one commit that is the cause:

* refused for what it contains: it is answered `Refused`, naming the run and the field;
* held up by somebody else's open transaction: its run is *set aside*. It and every later commit of that run are sent
  one by one on a second connection, until the key is free, while all other runs go on.

While the database is away commits wait here; starts beyond the bound are refused. Nothing is answered that is not
durable.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from ductor.journal.errors import OverloadedError, PoisonedCommitError, StoreUnavailableError
from ductor.journal.postgres.batch import size_bytes
from ductor.journal.postgres.lane import Lane, SplitNeededError
from ductor.journal.postgres.settings import ConnectionSettings, WriterLimits
from ductor.journal.store import Commit, CommitAnswer, Conflict, Refused

_logger = logging.getLogger(__name__)

Pending = tuple[Commit, Callable[[CommitAnswer], None]]


class Writer:
    """Commits in, answers out. `queued` counts commits that have no answer yet; `is_open` says whether more are
    taken."""

    def __init__(self, settings: ConnectionSettings, limits: WriterLimits) -> None:
        self._limits = limits
        self._queue: deque[Pending] = deque()
        self._aside: dict[str, deque[Pending]] = {}
        self._lane = Lane(settings, limits, "ductor writer")
        self._aside_lane = Lane(settings, limits, "ductor writer, commits set aside")
        self._arrived = asyncio.Event()
        self._aside_arrived = asyncio.Event()
        self._settled = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.is_open = False
        self.queued = 0

    @property
    def reason(self) -> str:
        """Why commits can't be written at the moment; empty while they can."""
        return self._lane.reason

    @property
    def set_aside_count(self) -> int:
        """Runs whose commits wait for a key that somebody else's transaction holds."""
        return len(self._aside)

    def open(self) -> None:
        """Begin to write."""
        self.is_open = True
        self._tasks = [
            asyncio.create_task(self._write(), name="ductor journal writer"),
            asyncio.create_task(self._write_set_aside(), name="ductor journal writer, commits set aside"),
        ]
        for task in self._tasks:
            task.add_done_callback(self._stopped)

    async def close(self) -> None:
        """Answer what is queued, then disconnect.

        Raises StoreUnavailableError if commits are left that could not be written in `close_timeout_s`.
        """
        self.is_open = False
        try:
            async with asyncio.timeout(self._limits.close_timeout_s):
                while self.queued and not any(task.done() for task in self._tasks):
                    self._settled.clear()
                    await self._settled.wait()
        except TimeoutError:
            _logger.warning("closing with %d commits unanswered: %s", self.queued, self.reason)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for lane in (self._lane, self._aside_lane):
            await lane.close()
        if self.queued:
            raise StoreUnavailableError(f"closed with {self.queued} commits not known to be written ({self.reason})")

    def submit(self, commit: Commit, answer: Callable[[CommitAnswer], None]) -> None:
        """Queue a commit. Raises OverloadedError for a start beyond the bound, StoreUnavailableError when not open."""
        if not self.is_open:
            raise StoreUnavailableError("the store is not open")
        if commit.start is not None and self.queued >= self._limits.queue_commits:
            raise OverloadedError(self.queued, self._limits.queue_commits)
        if commit.start is not None and commit.version != 1:
            asyncio.get_running_loop().call_soon(answer, Conflict(commit.run_id, commit.version))
            return
        self.queued += 1
        self._queue.append((commit, answer))
        self._arrived.set()

    async def _write(self) -> None:
        while True:
            batch = self._take()
            if batch:
                await self._settle(batch)
            else:
                self._arrived.clear()
                await self._arrived.wait()

    def _take(self) -> list[Pending]:
        """The next batch: one commit of a run at most, in the order in which they came, within bounds."""
        queue, limits = self._queue, self._limits
        batch: list[Pending] = []
        runs: set[str] = set()
        later: list[Pending] = []
        size = 0
        while queue and len(batch) < limits.batch_commits and len(later) < limits.batch_commits:
            pending = queue.popleft()
            commit = pending[0]
            if commit.run_id in self._aside:
                self._aside[commit.run_id].append(pending)
                continue
            if commit.run_id in runs:
                later.append(pending)
                continue
            size += size_bytes(commit)
            if batch and size > limits.batch_bytes:
                queue.appendleft(pending)
                break
            runs.add(commit.run_id)
            batch.append(pending)
        queue.extendleft(reversed(later))
        return batch

    async def _settle(self, batch: list[Pending]) -> None:
        try:
            answers = await self._lane.answers([commit for commit, _ in batch])
        except SplitNeededError as failure:
            await self._split(batch, failure)
            return
        for pending, answer in zip(batch, answers, strict=True):
            self._answer(pending, answer)

    async def _split(self, batch: list[Pending], failure: SplitNeededError) -> None:
        if len(batch) == 1:
            pending = batch[0]
            if failure.failure == "content":
                self._answer(pending, _refused(pending[0], failure))
            else:
                self._aside[pending[0].run_id] = deque([pending])
                self._aside_arrived.set()
            return
        middle = len(batch) // 2
        self._lane.lock_timeout_ms = self._limits.split_lock_timeout_ms
        try:
            await self._settle(batch[:middle])
            await self._settle(batch[middle:])
        finally:
            self._lane.lock_timeout_ms = self._limits.lock_timeout_ms

    async def _write_set_aside(self) -> None:
        while True:
            for run_id in list(self._aside):
                await self._settle_set_aside(run_id)
            if not self._aside:
                self._aside_arrived.clear()
                await self._aside_arrived.wait()

    async def _settle_set_aside(self, run_id: str) -> None:
        """Try the oldest commit of a run that is set aside; waiting for its key takes the lane's lock timeout at
        most."""
        waiting = self._aside[run_id]
        pending = waiting[0]
        try:
            answer = (await self._aside_lane.answers([pending[0]]))[0]
        except SplitNeededError as failure:
            if failure.failure == "lock":
                return
            answer = _refused(pending[0], failure)
        waiting.popleft()
        if not waiting:
            del self._aside[run_id]
        self._answer(pending, answer)

    def _answer(self, pending: Pending, answer: CommitAnswer) -> None:
        self.queued -= 1
        if not self.queued:
            self._settled.set()
        try:
            pending[1](answer)
        except Exception as error:  # noqa: BLE001 - anything may go wrong in a caller
            # the caller's mistake must not keep the others from their answers
            context = {
                "message": f"the answer to a commit of run {pending[0].run_id} was not taken",
                "exception": error,
            }
            asyncio.get_running_loop().call_exception_handler(context)

    def _stopped(self, task: asyncio.Task[None]) -> None:
        self._settled.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            self.is_open = False
            self._lane.reason = f"the writer stopped: {error!r}"
            asyncio.get_running_loop().call_exception_handler(
                {"message": "the journal's writer stopped; this is a defect", "exception": error, "task": task}
            )


def _refused(commit: Commit, failure: SplitNeededError) -> Refused:
    return Refused(PoisonedCommitError(commit.run_id, commit.version, failure.field, failure.reason))
