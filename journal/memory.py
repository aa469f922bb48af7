"""A store in memory: the same contract as PostgreSQL's, for tests, simulation and trying things out.

It holds rows for as long as the object lives, across `close` and `open`, as a database does across restarts of a host.
Nothing in it is answered at once: commits are gathered until the loop's next iteration, judged there one after another
in the order of their arrival, and answered through the loop. What a database would refuse, it refuses.

No reader scans all runs but `heads`, which passes over the runs that its filter leaves out.
"""

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from heapq import merge
from itertools import islice, takewhile, zip_longest

import msgspec

from ductor.journal.clock import Clock
from ductor.journal.codec import checked_key
from ductor.journal.commit import (
    Appended,
    Commit,
    CommitAnswer,
    Conflict,
    Refused,
    StartKeyTaken,
)
from ductor.journal.errors import OverloadedError
from ductor.journal.memory_bulk_controls import MemoryBulkControls
from ductor.journal.memory_bus import MemoryBus
from ductor.journal.memory_compaction import MemoryCompaction
from ductor.journal.memory_definitions import DefinitionRows
from ductor.journal.memory_digests import MemoryDigests
from ductor.journal.memory_inputs import MemoryInputs
from ductor.journal.memory_leases import MemoryLeases
from ductor.journal.memory_rows import RunRows, poison_in
from ductor.journal.memory_set_aside import MemorySetAside
from ductor.journal.memory_transfer import MemoryTransfer
from ductor.journal.memory_triggers import MemoryTriggers
from ductor.journal.memory_workers import MemoryWorkers
from ductor.journal.partitions import Partitions, partition_of
from ductor.journal.records import (
    FeedEntry,
    FeedLag,
    FeedPosition,
    Head,
    HostRecord,
    LoadedRun,
    PublishedDefinition,
    RunFilter,
    RunInputs,
    Snapshot,
    StoreHealth,
    Transition,
)
from ductor.journal.sorted_items import SortedItems
from ductor.journal.store import MAX_FEED_PAGE_BYTES

DEFAULT_QUEUE_LIMIT = 10_000
"""Commits that may wait before starts are turned away."""


class MemoryStore(
    MemoryDigests,
    MemoryLeases,
    MemoryInputs,
    MemoryBus,
    MemoryTriggers,
    MemoryBulkControls,
    MemoryTransfer,
    MemoryCompaction,
    MemorySetAside,
    MemoryWorkers,
):
    """See the module's docstring.

    Args:
        clock: stands in for the database's clock.
        queue_limit: how many commits may wait before a start raises OverloadedError.
    """

    def __init__(self, clock: Clock, queue_limit: int = DEFAULT_QUEUE_LIMIT) -> None:
        super().__init__(clock)
        self._queue_limit = queue_limit
        self._queue: deque[tuple[Commit, Callable[[CommitAnswer], None]]] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._batches = 0
        self._run_ids: SortedItems[str] = SortedItems()
        self._pending: SortedItems[str] = SortedItems()
        self._open: dict[tuple[str, str], SortedItems[str]] = {}
        self._due: SortedItems[tuple[int, str]] = SortedItems()
        self._definitions = DefinitionRows()
        self._hosts: dict[str, HostRecord] = {}
        self._feed: list[FeedEntry] = []
        self._feed_rows = 0

    async def open(self) -> None:
        """Begin to serve; rows of an earlier time are still there."""
        self._is_open = True

    async def close(self) -> None:
        """Answer what is queued, then serve no more."""
        self._write_batch()
        self._is_open = False
        await asyncio.sleep(0)  # the answers stand in the loop's queue before this

    # --- commits ------------------------------------------------------------------------------------------------------

    def commit(self, commit: Commit, answer: Callable[[CommitAnswer], None]) -> None:
        """Queue a commit; `answer` is called once, on the loop. Raises OverloadedError for a start beyond the bound."""
        self._check_open()
        if commit.start is not None and len(self._queue) >= self._queue_limit:
            raise OverloadedError(len(self._queue), self._queue_limit)
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            # what a loop had queued when it was stopped for good has died with it, as it would on its way to a database
            self._queue.clear()
            self._loop = loop
        if not self._queue:
            loop.call_soon(self._write_batch)
        self._queue.append((commit, answer))

    def _write_batch(self) -> None:
        if not self._queue:
            return
        loop = asyncio.get_running_loop()
        self._batches += 1
        while self._queue:
            commit, answer = self._queue.popleft()
            loop.call_soon(answer, self._write(commit))

    def _write(self, commit: Commit) -> CommitAnswer:
        """Judge one commit, and write all of it or nothing."""
        poison = poison_in(commit)
        if poison is not None:
            return Refused(poison)
        run = self._runs.get(commit.run_id)
        if run is not None and run.commit_id(commit.version) == commit.commit_id:
            return Appended(commit.version)  # sent again: its first answer was lost
        if commit.start is not None:
            return self._write_start(commit, commit.start.key)
        if commit.version == 0:
            if run is not None:
                self._apply(run, commit)
            return Appended(0)
        if run is None or commit.version != run.version + 1:
            return Conflict(commit.run_id, commit.version)
        self._apply(run, commit)
        return Appended(commit.version)

    def _write_start(self, commit: Commit, key: str | None) -> CommitAnswer:
        start = commit.start
        if start is None or commit.version != 1 or commit.run_id in self._runs:
            return Conflict(commit.run_id, commit.version)
        if key is not None:
            owner = self._start_keys.setdefault((start.tenant, start.definition, key), commit.run_id)
            if owner != commit.run_id:
                return StartKeyTaken(owner)
        run = self._runs[commit.run_id] = RunRows(commit.run_id, start, commit.at_us)
        self._run_ids.add(commit.run_id)
        self._index_lineage(run)
        self._apply(run, commit)
        return Appended(commit.version)

    def _apply(self, run: RunRows, commit: Commit) -> None:
        due_before_us = run.due_at_us
        transition = run.apply(commit)
        if transition is not None:
            self._to_feed(transition)
        if commit.start is not None or commit.head is not None:
            self._index_status(run)
        if run.due_at_us != due_before_us:
            if due_before_us is not None:
                self._due.discard((due_before_us, commit.run_id))
            if run.due_at_us is not None:
                self._due.add((run.due_at_us, commit.run_id))
        if commit.controls or commit.attempts:
            self._index_inputs(commit.run_id, run)
        if commit.messages:
            self._dispose_messages(commit)
        if commit.version:
            self._apply_waiting(run, commit)
        if commit.forwards_to:
            self._forward(run, commit)

    def _apply_waiting(self, run: RunRows, commit: Commit) -> None:
        """What a tick writes for those that wait; none of it goes without a journal row."""
        if commit.waits or commit.waits_gone:
            self._write_waits(commit)
        if commit.inbox or commit.inbox_gone:
            self._write_inbox(commit)
        if commit.digests or commit.digests_gone:
            self._write_digests(commit)
        if commit.leases or commit.leases_gone or commit.forwards_to:
            self._write_leases(commit)
        for event in commit.published:
            self._add_event(event)
        if commit.new_runs:
            self._start_runs(commit)
        self._send_from(run, commit.sent)
        self._send_controls(run, commit.sent_controls)

    def _run_started(self, run: RunRows, transition: Transition) -> None:
        run_id = run.head.run_id
        self._run_ids.add(run_id)
        self._to_feed(transition)
        self._index_status(run)
        self._index_lineage(run)
        if run.due_at_us is not None:
            self._due.add((run.due_at_us, run_id))

    def _index_status(self, run: RunRows) -> None:
        run_id, status = run.head.run_id, run.head.status
        (self._pending.add if status == "pending" else self._pending.discard)(run_id)
        (self._recoverable.add if status in {"pending", "running"} else self._recoverable.discard)(run_id)
        open_runs = self._open.setdefault((run.head.tenant, run.head.definition), SortedItems())
        (open_runs.discard if run.is_closed else open_runs.add)(run_id)

    def _imported(self, run: RunRows) -> None:
        self._run_ids.add(run.head.run_id)
        self._index_lineage(run)
        self._note_imported(run)
        self._batches += 1
        for transition in run.transitions:
            self._to_feed(transition)

    # --- runs ---------------------------------------------------------------------------------------------------------

    async def load(self, run_id: str) -> LoadedRun | None:
        """Read one run; None when it does not exist."""
        run = self._run(run_id)
        return None if run is None else run.load(self._waiting_messages(run_id))

    async def inputs(self, run_id: str) -> RunInputs | None:
        """What waits for a run; None when it does not exist."""
        run = self._run(run_id)
        return None if run is None else run.inputs(self._waiting_messages(run_id))

    async def head(self, run_id: str) -> Head | None:
        """Read a run's head."""
        run = self._run(run_id)
        return None if run is None else run.read_head()

    async def heads(self, which: RunFilter) -> Sequence[Head]:
        """List runs, newest first."""
        self._check_open()
        run_ids = self._run_ids
        if which.root_run_id is not None:
            run_ids = self._by_root.get(which.root_run_id, SortedItems[str]())
        if which.parent_run_ids:
            run_ids = self._children_of(which.parent_run_ids)
        newest_first = (self._runs[run_id] for run_id in run_ids.descending(which.before_run_id))
        found = (run for run in newest_first if which.fits(run.head))
        return [run.read_head() for run in islice(found, which.limit)]

    async def find_start_key(self, tenant: str, definition: str, key: str) -> str | None:
        """The run that a start key belongs to."""
        self._check_open()
        return self._start_keys.get((tenant, definition, key))

    async def history(self, run_id: str, *, after_version: int = 0, limit: int = 1_000) -> Sequence[Transition]:
        """Rows of one run in order."""
        run = self._run(run_id)
        return [] if run is None else run.rows_after(after_version)[:limit]

    async def payload(self, run_id: str, hash: str) -> bytes | None:
        """A large value's JSON text."""
        run = self._run(run_id)
        return None if run is None else run.payloads.get(hash)

    async def save_snapshot(self, snapshot: Snapshot) -> None:
        """Keep a snapshot; an older one of the run is replaced."""
        run = self._run(snapshot.run_id)
        if run is not None:
            run.add_snapshot(snapshot)

    # --- definitions --------------------------------------------------------------------------------------------------

    async def publish(self, definition: PublishedDefinition) -> bool:
        """Store a definition, idempotent by (tenant, name, hash); a repeated one becomes the newest again."""
        self._check_open()
        return self._definitions.publish(definition, self._clock.now_us())

    async def unpublish(self, tenant: str, name: str) -> int:
        """Withdraw all versions from new starts. How many were withdrawn."""
        self._check_open()
        return self._definitions.unpublish(tenant, name)

    async def definition(
        self, tenant: str, name: str, *, version: str | None = None, manifest_hash: str | None = None
    ) -> PublishedDefinition | None:
        """The newest published version by name, or the one with this label or hash."""
        self._check_open()
        return self._definitions.find(tenant, name, version, manifest_hash)

    async def manifest(self, manifest_hash: str) -> PublishedDefinition | None:
        """Any tenant's record of a manifest, withdrawn ones included."""
        self._check_open()
        return self._definitions.manifest(manifest_hash)

    async def definitions(self, tenant: str | None = None) -> Sequence[PublishedDefinition]:
        """All published definitions, newest first, without manifest and source text."""
        self._check_open()
        return self._definitions.listing(tenant)

    # --- what a host asks ---------------------------------------------------------------------------------------------

    async def runs_to_recover(
        self, after_run_id: str | None, limit: int, partitions: Partitions = None
    ) -> Sequence[str]:
        """Ids of `pending` and `running` runs of these partitions in order of id, a page at a time."""
        self._check_open()
        return list(islice(self._within(self._recoverable.ascending(after_run_id), partitions), limit))

    async def runs_to_wake(self, now_us: int, limit: int, partitions: Partitions = None) -> Sequence[str]:
        """Ids of runs of these partitions that something waits for. Each cause gets its turn: the oldest of every
        cause, then the next. Of a paused run only controls count."""
        self._check_open()
        overdue = takewhile(lambda due: due[0] <= now_us, self._due.ascending())
        causes = (
            self._unpaused(run_id for _, run_id in overdue),
            self._with_controls,
            self._unpaused(self._with_attempts),
            self._unpaused(self._with_messages),
            self._left_pending(now_us),
        )
        turns = zip_longest(*(islice(self._within(cause, partitions), limit) for cause in causes))
        distinct = dict.fromkeys(run_id for turn in turns for run_id in turn if run_id is not None)
        return list(distinct)[:limit]

    async def runs_with_results(self, limit: int) -> Sequence[str]:
        """Ids of runs that have attempts which were not applied yet."""
        self._check_open()
        return list(islice(self._with_attempts, limit))

    def _within(self, run_ids: Iterable[str], partitions: Partitions) -> Iterable[str]:
        """Those of these partitions that were not set aside."""
        left = (run_id for run_id in run_ids if run_id not in self._set_aside)
        return left if partitions is None else (run_id for run_id in left if partition_of(run_id) in partitions)

    def _left_pending(self, now_us: int) -> Iterable[str]:
        """Child runs that have just begun are left to the host that has begun them."""
        heads = (self._runs[run_id].head for run_id in self._pending.ascending())
        return (head.run_id for head in heads if head.parent_run_id is None or head.updated_at_us <= now_us)

    def _unpaused(self, run_ids: Iterable[str]) -> Iterable[str]:
        return (run_id for run_id in run_ids if self._runs[run_id].head.status != "paused")

    async def open_run_ids(
        self, tenant: str, definition: str | None, after_run_id: str | None, limit: int
    ) -> Sequence[str]:
        """Ids of runs that have not ended, a page in order of id."""
        self._check_open()
        found = [runs for key, runs in self._open.items() if key[0] == tenant and definition in {None, key[1]}]
        return list(islice(merge(*(runs.ascending(after_run_id) for runs in found)), limit))

    async def open_runs_by_key(
        self, tenant: str, definition: str, key_prefix: str, limit: int
    ) -> Sequence[tuple[str, str]]:
        """Id and start key of runs that have not ended and whose key begins so, in order of id."""
        self._check_open()
        open_runs = self._open.get((tenant, definition), SortedItems[str]())
        keyed = ((run_id, self._runs[run_id].head.key or "") for run_id in open_runs.ascending())
        return list(islice((found for found in keyed if found[1].startswith(key_prefix)), limit))

    async def next_due_us(self) -> int | None:
        """The earliest timer of all runs."""
        self._check_open()
        return next((due_at_us for due_at_us, _ in self._due.ascending()), None)

    async def beat(self, host: HostRecord) -> Sequence[HostRecord]:
        """Register a host or renew its heartbeat, by the store's clock. All hosts that are registered, in order of
        id."""
        self._check_open()
        checked_key(host.host_id, "host_id")
        now_us, known = self._clock.now_us(), self._hosts.get(host.host_id)
        self._hosts[host.host_id] = msgspec.structs.replace(
            host, started_at_us=now_us if known is None else known.started_at_us, heartbeat_at_us=now_us
        )
        return sorted(self._hosts.values(), key=lambda registered: registered.host_id)

    async def leave(self, host_id: str) -> None:
        """Remove a host."""
        self._check_open()
        self._hosts.pop(host_id, None)

    async def hosts(self, *, alive_within_ms: int) -> Sequence[HostRecord]:
        """Hosts whose heartbeat is recent by the store's clock, in order of id."""
        self._check_open()
        since_us = self._clock.now_us() - alive_within_ms * 1_000
        alive: Iterable[HostRecord] = (host for host in self._hosts.values() if host.heartbeat_at_us >= since_us)
        return sorted(alive, key=lambda host: host.host_id)

    # --- the feed -----------------------------------------------------------------------------------------------------

    async def feed(
        self, after: FeedPosition, limit: int, *, max_bytes: int = MAX_FEED_PAGE_BYTES
    ) -> Sequence[FeedEntry]:
        """Journal rows of all runs in commit order."""
        self._check_open()
        index = self._feed_index(after)
        page: list[FeedEntry] = []
        for entry in self._feed[index : index + limit]:
            if max_bytes <= 0:
                break
            page.append(entry)
            max_bytes -= len(entry.transition.events)
        return page

    async def feed_lag(self, after: FeedPosition) -> FeedLag:
        """How far behind `after` is."""
        self._check_open()
        index = self._feed_index(after)
        if index == len(self._feed):
            return FeedLag(rows=0, oldest_age_ms=0)
        age_us = self._clock.now_us() - self._feed[index].transition.at_us
        return FeedLag(rows=len(self._feed) - index, oldest_age_ms=max(0, age_us // 1_000))

    def _to_feed(self, transition: Transition) -> None:
        self._feed_rows += 1
        self._feed.append(FeedEntry(FeedPosition(0, self._batches, self._feed_rows), transition))

    def _leave_feed(self, run_id: str, versions: range) -> None:
        self._feed = [
            entry
            for entry in self._feed
            if entry.transition.run_id != run_id or entry.transition.version not in versions
        ]

    def _feed_index(self, after: FeedPosition) -> int:
        return bisect_right(self._feed, after, key=lambda entry: entry.position)

    async def now_us(self) -> int:
        """The store's clock."""
        self._check_open()
        return self._clock.now_us()

    async def health(self) -> StoreHealth:
        """Whether the store can serve."""
        return StoreHealth(
            is_available=self._is_open,
            queued_commits=len(self._queue),
            queue_limit=self._queue_limit,
            reason="" if self._is_open else "the store is closed",
        )
