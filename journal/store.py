"""The store protocol: what the engine needs of a database, the same for PostgreSQL and memory.

A *commit* is what one tick writes, all or nothing. `Store.commit` queues it and returns at once; the store gathers the
commits of many runs into one transaction, each keeping its own version check, and answers each through its callback, on
the event loop. Conflict is an answer, not an exception.

Rules every store keeps (one contract suite proves them for all):
- Version v+1 is written only where v exists, version 1 only together with its head. Two commits never win one version.
- Everything else of a commit (head, timer, payloads, dispositions, start key) is written if and only if its row is.
- A commit is answered `Appended` only once it is durable. An answer lost on the way is found out by its commit id.
- Of two commits of one run queued at the same time the second is judged after the first.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from ductor.journal.bulk_controls import BulkControlStore
from ductor.journal.commit import BusEvent, Commit, CommitAnswer, Payload
from ductor.journal.compaction_store import CompactionStore
from ductor.journal.digest_store import DigestStore
from ductor.journal.events import Message
from ductor.journal.lease_store import LeaseStore
from ductor.journal.partitions import Partitions
from ductor.journal.records import (
    AttemptRow,
    Control,
    ControlReceipt,
    EventReceipt,
    FeedEntry,
    FeedLag,
    FeedPosition,
    Head,
    HostRecord,
    InboxEntry,
    LoadedRun,
    MessageReceipt,
    PublishedDefinition,
    RunFilter,
    RunInputs,
    Snapshot,
    StartTrigger,
    StoreHealth,
    Transition,
    UnscannedWait,
    WaitingRun,
)
from ductor.journal.set_aside_store import SetAsideStore
from ductor.journal.transfer import TransferStore
from ductor.journal.worker_store import WorkerStore

MAX_UNCONSUMED_MESSAGES = 1_000
"""Messages of a run, events aside, that nothing has consumed yet; the next one is refused. Senders of the same instant
don't see each other: by as many the bound may be exceeded."""

MAX_UNCONSUMED_SENT_MESSAGES = 10_000
"""The same bound for what steps of other runs send, who can't be told to wait: the next one is undelivered."""

MAX_UNCONSUMED_EVENTS = 10_000
"""Events of a run that nothing has consumed yet; the next one is undelivered."""

EVENT_WINDOW_MS = 7 * 24 * 3_600_000
"""For so long an event is kept at least: a repeated id is a duplicate, and lookbacks reach back so far at most."""

MAX_EVENT_PAYLOAD_BYTES = 1 << 20
"""JSON text of an event's payload at most."""

MAX_INBOX_PEOPLE = 1_000
"""People whom one inbox item may name."""

MAX_FEED_PAGE_BYTES = 16 * 1024 * 1024
"""Bytes of events in one page of the feed, unless its reader wants fewer; the last row of the page may go beyond."""


class Store(
    BulkControlStore,
    CompactionStore,
    DigestStore,
    LeaseStore,
    SetAsideStore,
    TransferStore,
    WorkerStore,
    Protocol,
):
    """See the module's docstring. Reads raise StoreUnavailableError when the database can't be reached."""

    async def open(self) -> None:
        """Connect; raises SchemaVersionError when the schema does not fit."""
        ...

    async def close(self) -> None:
        """Answer what is queued, then disconnect."""
        ...

    def commit(self, commit: Commit, answer: Callable[[CommitAnswer], None]) -> None:
        """Queue a commit; `answer` is called once, on the loop, never within this call.

        Raises OverloadedError for a start beyond the bound, StoreUnavailableError when the store is not open.
        """
        ...

    async def load(self, run_id: str) -> LoadedRun | None:
        """Read one run; concurrent calls are gathered into one query. None when it does not exist.

        The tail begins after the newest usable snapshot, or with a newer row that stands for all before it.
        Large values are those that the state and waiting inputs name."""
        ...

    async def head(self, run_id: str) -> Head | None:
        """Read a run's head."""
        ...

    async def latest_of_chain(self, run_id: str) -> str | None:
        """The run that carries on what this one began: itself, or the latest one that continues it. None when the run
        does not exist."""
        ...

    async def chain(self, run_id: str, *, after_iteration: int = -1, limit: int = 1_000) -> Sequence[Head]:
        """The runs of the chain that this one belongs to, in order; a run that continues nothing and is not continued
        is a chain by itself."""
        ...

    async def heads(self, which: RunFilter) -> Sequence[Head]:
        """List runs, newest first."""
        ...

    async def find_start_key(self, tenant: str, definition: str, key: str) -> str | None:
        """The run that a start key belongs to."""
        ...

    async def history(self, run_id: str, *, after_version: int = 0, limit: int = 1_000) -> Sequence[Transition]:
        """Rows of one run in order, from version 1 on, or from the row that stands for all before it where one of those
        was removed. A page that does not follow the one before tells that rows were removed meanwhile."""
        ...

    async def payload(self, run_id: str, hash: str) -> bytes | None:
        """A large value's JSON text."""
        ...

    async def save_snapshot(self, snapshot: Snapshot) -> None:
        """Keep a snapshot; an older one of the run is replaced. Those of older fold revisions go, but for the revision
        just before, which other hosts may still use while they are brought up to date."""
        ...

    async def request_control(self, control: Control, *, tenant: str | None = None) -> ControlReceipt | None:
        """Store a request durably, idempotent by (chain of the run, request_id). None when the run does not exist (or
        is another tenant's). A closed run refuses everything but a redrive and a compensate, and the refusal says
        so; of a run that another one continues the latest one is asked. Raises ValueRefusedError."""
        ...

    async def control(self, run_id: str, request_id: str) -> Control | None:
        """A request and what became of it, in whichever run of the chain it is now."""
        ...

    async def inputs(self, run_id: str) -> RunInputs | None:
        """What waits for a run: unapplied controls, attempt rows and messages. None when the run does not exist."""
        ...

    async def send_message(
        self, run_id: str, message: Message, payloads: Sequence[Payload] = (), *, tenant: str | None = None
    ) -> MessageReceipt | None:
        """Store a message for a run, idempotent by (chain of the run, id); time and position are the store's. What is
        sent to a run that another one continues goes to the latest one. None when the run does not exist (or is another
        tenant's). Refused: the run has ended, or `MAX_UNCONSUMED_MESSAGES` of it wait."""
        ...

    async def message_receipt(self, run_id: str, message_id: str) -> MessageReceipt | None:
        """What became of a message (verdict `duplicate`: it is there), in whichever run of the chain it is now."""
        ...

    async def inbox(
        self,
        *,
        tenant: str | None = None,
        person: str | None = None,
        after: tuple[str, str] | None = None,
        limit: int = 100,
    ) -> Sequence[InboxEntry]:
        """What waits for people, in order of (run_id, node); for one person: what names them or nobody."""
        ...

    async def publish_event(self, event: BusEvent) -> EventReceipt:
        """Store an event, idempotent by (tenant, event_id) for `EVENT_WINDOW_MS` at least."""
        ...

    async def unmatched_events(self, older_than_us: int, limit: int) -> Sequence[BusEvent]:
        """Events that nobody has finished matching, stored before this time, in order of position."""
        ...

    async def event_key_paths(self, tenant: str, name: str) -> Sequence[str]:
        """The distinct `key_path`s of the waits for an event; their number depends on definitions, not on runs."""
        ...

    async def waits_for_event(
        self, tenant: str, name: str, keys: Sequence[tuple[str, str]], *, after: tuple[str, str, int] | None, limit: int
    ) -> Sequence[WaitingRun]:
        """Waits whose (key_path, key_value) is one of `keys`, a page in order of (run_id, node, index)."""
        ...

    async def deliver_event(self, event: BusEvent, run_ids: Sequence[str]) -> Sequence[str]:
        """Store the event as a message (id `event:<event_id>`) for each of these runs of the event's tenant that is
        open; which ones got it now (not before). Where `MAX_UNCONSUMED_EVENTS` wait it is stored as undelivered."""
        ...

    async def event_matched(self, tenant: str, event_id: str) -> None:
        """All waits that existed have been served."""
        ...

    async def remove_old_events(self, before_us: int, limit: int) -> int:
        """Remove matched events published before this time, the oldest first, of at most `limit` that are looked at.
        How many were removed."""
        ...

    async def events_since(
        self, tenant: str, name: str, since_us: int, *, after_position: int, limit: int
    ) -> Sequence[BusEvent]:
        """Kept events of a name published at or after this time, in order of publication (time, then position).
        `after_position` is that of the last one of the page before, 0 for the first page."""
        ...

    async def unscanned_waits(self, limit: int, *, run_id: str | None = None) -> Sequence[UnscannedWait]:
        """Waits for which the recent events were not looked through yet; of one run, or of all."""
        ...

    async def wait_scanned(self, run_id: str, node: str, index: int, *, since_us: int | None = None) -> None:
        """The recent events have been looked through for this wait: if `since_us` is given, for the one with this
        `since_us` alone, not for one that has taken its place meanwhile."""
        ...

    async def replace_triggers(self, tenant: str, definition: str, triggers: Sequence[StartTrigger]) -> None:
        """What starts runs of the definition from now on. A schedule of the same manifest keeps its next time."""
        ...

    async def event_triggers(self, tenant: str, event: str) -> Sequence[StartTrigger]:
        """Triggers of an event."""
        ...

    async def due_schedules(self, now_us: int, limit: int) -> Sequence[StartTrigger]:
        """Schedules whose time has come."""
        ...

    async def advance_schedule(self, trigger: StartTrigger, next_at_us: int) -> bool:
        """Move a schedule from `trigger.next_at_us` on; False where somebody else did, or its definition has changed.
        Not sent again when its answer is lost: start what is due (idempotent by a key) before the schedule moves on."""
        ...

    async def open_run_ids(
        self, tenant: str, definition: str | None, after_run_id: str | None, limit: int
    ) -> Sequence[str]:
        """Ids of runs that have not ended, a page in order of id: for bulk controls and overlap policies."""
        ...

    async def open_runs_by_key(
        self, tenant: str, definition: str, key_prefix: str, limit: int
    ) -> Sequence[tuple[str, str]]:
        """Id and start key of runs that have not ended and whose key begins so, in order of id."""
        ...

    async def append_attempt(self, row: AttemptRow, payloads: Sequence[Payload] = ()) -> None:
        """Store a result that could not ride in a tick; the first row of a (run, node, generation) stays."""
        ...

    async def attempts(self, run_id: str) -> Sequence[AttemptRow]:
        """Attempt rows of a run with their dispositions."""
        ...

    async def publish(self, definition: PublishedDefinition) -> bool:
        """Store a definition, idempotent by (tenant, name, hash); a repeated one becomes the newest. True if new."""
        ...

    async def unpublish(self, tenant: str, name: str) -> int:
        """Withdraw all versions from new starts; running runs keep theirs. How many versions were withdrawn."""
        ...

    async def definition(
        self, tenant: str, name: str, *, version: str | None = None, manifest_hash: str | None = None
    ) -> PublishedDefinition | None:
        """The newest published version by name, or the one with this label or hash."""
        ...

    async def manifest(self, manifest_hash: str) -> PublishedDefinition | None:
        """Any tenant's record of a manifest, withdrawn ones included: runs are pinned to hashes for life."""
        ...

    async def definitions(self, tenant: str | None = None) -> Sequence[PublishedDefinition]:
        """All published definitions, newest first, without manifest and source text."""
        ...

    async def runs_to_recover(
        self, after_run_id: str | None, limit: int, partitions: Partitions = None
    ) -> Sequence[str]:
        """Ids of `pending` and `running` runs of these partitions in order of id, a page at a time: what a host wakes
        that starts or takes over."""
        ...

    async def runs_to_wake(self, now_us: int, limit: int, partitions: Partitions = None) -> Sequence[str]:
        """Ids of runs of these partitions that something waits for: overdue timers, unapplied controls, attempts and
        messages, `pending` runs (of child runs those begun before `now_us`: others are left to the host that has begun
        them). Each cause gets its turn, so that none keeps the others out of `limit`. Of a paused run only controls
        count; what else waits for it may not be found before a host recovers (`runs_to_recover`): who resumes a run
        reads its `inputs`."""
        ...

    async def runs_with_results(self, limit: int) -> Sequence[str]:
        """Ids of runs, paused ones too, that have attempts which were not applied yet, of whatever partitions: those of
        the `limit` oldest of these attempts. A small part of `runs_to_wake`, for who expects results of workers."""
        ...

    async def next_due_us(self) -> int | None:
        """The earliest timer of all runs."""
        ...

    async def beat(self, host: HostRecord) -> Sequence[HostRecord]:
        """Register a host or renew its heartbeat, by the database's clock. All hosts that are registered, dead ones
        too, in order of id: this one's heartbeat is the database's time."""
        ...

    async def leave(self, host_id: str) -> None:
        """Remove a host."""
        ...

    async def hosts(self, *, alive_within_ms: int) -> Sequence[HostRecord]:
        """Hosts whose heartbeat is recent by the database's clock."""
        ...

    async def feed(
        self, after: FeedPosition, limit: int, *, max_bytes: int = MAX_FEED_PAGE_BYTES
    ) -> Sequence[FeedEntry]:
        """Journal rows of all runs in commit order, never stepping over one that may still commit. A page ends with the
        row that fills `max_bytes` of events."""
        ...

    async def feed_lag(self, after: FeedPosition) -> FeedLag:
        """How far behind `after` is."""
        ...

    async def now_us(self) -> int:
        """The database's clock."""
        ...

    async def health(self) -> StoreHealth:
        """Whether the store can serve."""
        ...
