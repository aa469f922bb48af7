"""The group-commit writer: commits of many runs, gathered into one statement and one flush to disk.

A batch takes what arrived while those before it were running, never waits for more, and holds at most one commit of a
run. Two lanes take batches in turn, so that this process makes one up while the server writes the other; a run with a
commit in flight on one lane is left alone by the other.

When a batch can't be written as a whole it is split in halves, down to the one commit that is the cause:

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

from ductor.journal.commit import Commit, CommitAnswer, Conflict, Refused
from ductor.journal.errors import OverloadedError, PoisonedCommitError, StoreUnavailableError
from ductor.journal.postgres.batch import size_bytes
from ductor.journal.postgres.lane import Lane, SplitNeededError
from ductor.journal.postgres.settings import ConnectionSettings, WriterLimits

_logger = logging.getLogger(__name__)

WATCH_INTERVAL_S = 1.0

Pending = tuple[Commit, Callable[[CommitAnswer], None]]


class Writer:
    """Commits in, answers out. `queued` counts commits that have no answer yet; `is_open` says whether more are
    taken. `on_batch` is told how many commits a batch had and how many seconds it took; None where nobody wants to
    know."""

    def __init__(self, settings: ConnectionSettings, limits: WriterLimits) -> None:
        self._limits = limits
        self._queue: deque[Pending] = deque()
        self._aside: dict[str, deque[Pending]] = {}
        self._in_flight: set[str] = set()
        self._lanes = [Lane(settings, limits, f"ductor writer {number}") for number in range(1, limits.lanes + 1)]
        self._aside_lane = Lane(settings, limits, "ductor writer, commits set aside")
        self._sleepers: list[asyncio.Future[None]] = []
        self._aside_arrived = asyncio.Event()
        self._settled = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._defect = ""
        self.is_open = False
        self.queued = 0
        self.on_batch: Callable[[int, float], None] | None = None

    @property
    def has_stopped(self) -> bool:
        """Whether a defect has ended it."""
        return bool(self._defect)

    @property
    def reason(self) -> str:
        """Why commits can't be written at the moment; empty while they can."""
        return self._defect or next((lane.reason for lane in self._lanes if lane.reason), "")

    @property
    def set_aside_count(self) -> int:
        """Runs whose commits wait for a key that somebody else's transaction holds."""
        return len(self._aside)

    def open(self) -> None:
        """Begin to write."""
        self.is_open = True
        self._tasks = [
            *(asyncio.create_task(self._write(lane), name="ductor journal writer") for lane in self._lanes),
            asyncio.create_task(self._write_set_aside(), name="ductor journal writer, commits set aside"),
            asyncio.create_task(self._watch(), name="ductor journal writer, lost answers"),
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
        self._sleepers.clear()
        for lane in (*self._lanes, self._aside_lane):
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
        if self._sleepers:
            self._wake_a_lane()

    def _wake_a_lane(self) -> None:
        if self._sleepers:
            self._sleepers.pop().set_result(None)

    async def _write(self, lane: Lane) -> None:
        loop = asyncio.get_running_loop()
        while True:
            batch = self._take()
            if not batch:
                sleep = loop.create_future()
                self._sleepers.append(sleep)
                await sleep
                continue
            if self._queue:
                self._wake_a_lane()
            if self.on_batch is None:
                await self._settle(lane, batch)
            else:
                began_s = loop.time()
                await self._settle(lane, batch)
                self.on_batch(len(batch), loop.time() - began_s)
            self._in_flight.difference_update([commit.run_id for commit, _ in batch])

    def _take(self) -> list[Pending]:
        """The next batch: one commit of a run at most, in the order in which they came, within bounds. Its runs are in
        flight from now on."""
        queue, limits, in_flight = self._queue, self._limits, self._in_flight
        batch: list[Pending] = []
        later: list[Pending] = []
        size = 0
        while queue and len(batch) < limits.batch_commits and len(later) < limits.batch_commits:
            pending = queue.popleft()
            commit = pending[0]
            run_id = commit.run_id
            if run_id in self._aside:
                self._aside[run_id].append(pending)
                continue
            if run_id in in_flight:
                later.append(pending)
                continue
            size += size_bytes(commit)
            if batch and size > limits.batch_bytes:
                queue.appendleft(pending)
                break
            in_flight.add(run_id)
            batch.append(pending)
        queue.extendleft(reversed(later))
        return batch

    async def _settle(self, lane: Lane, batch: list[Pending]) -> None:
        try:
            answers = await lane.answers([commit for commit, _ in batch])
        except SplitNeededError as failure:
            await self._split(lane, batch, failure)
            return
        for pending, answer in zip(batch, answers, strict=True):
            self._answer(pending, answer)

    async def _split(self, lane: Lane, batch: list[Pending], failure: SplitNeededError) -> None:
        if len(batch) == 1:
            pending = batch[0]
            if failure.failure == "content":
                self._answer(pending, _refused(pending[0], failure))
            else:
                self._aside[pending[0].run_id] = deque([pending])
                self._aside_arrived.set()
            return
        middle = len(batch) // 2
        lane.lock_timeout_ms = self._limits.split_lock_timeout_ms
        try:
            await self._settle(lane, batch[:middle])
            await self._settle(lane, batch[middle:])
        finally:
            lane.lock_timeout_ms = self._limits.lock_timeout_ms

    async def _write_set_aside(self) -> None:
        while True:
            for run_id in list(self._aside):
                await self._settle_set_aside(run_id)
            if not self._aside:
                self._aside_arrived.clear()
                await self._aside_arrived.wait()

    async def _settle_set_aside(self, run_id: str) -> None:
        """Try the oldest commit of a run that is set aside, for as long as the lane's lock timeout at most."""
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

    async def _watch(self) -> None:
        """Cut connections whose answer is overdue; their lanes send again. A timer for each batch would cost more."""
        while True:
            await asyncio.sleep(WATCH_INTERVAL_S)
            for lane in (*self._lanes, self._aside_lane):
                lane.cut_if_overdue()

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
            self._defect = f"the writer stopped: {error!r}"
            asyncio.get_running_loop().call_exception_handler(
                {"message": "the journal's writer stopped; this is a defect", "exception": error, "task": task}
            )


def _refused(commit: Commit, failure: SplitNeededError) -> Refused:
    return Refused(PoisonedCommitError(commit.run_id, commit.version, failure.field, failure.reason))
