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

import uuid
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import msgspec

from ductor.definitions.values import JsonObject, JsonValue
from ductor.journal.bulk_controls import BulkControlStore
from ductor.journal.digest_store import DigestStore, DigestWait
from ductor.journal.errors import JournalError
from ductor.journal.events import ControlKind, ErrorInfo, Message, PayloadRef, RunStatus

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


class Payload(msgspec.Struct, frozen=True):
    """A large value of a run: hash (hex SHA-256) and JSON text."""

    hash: str
    text: bytes


class HeadStart(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The head row of a new run, written with version 1. `key` makes the start idempotent in (tenant, definition)."""

    tenant: str
    definition: str
    manifest_hash: str
    status: RunStatus
    started_at_us: int
    key: str | None = None
    parent_run_id: str | None = None
    root_run_id: str | None = None
    search_attributes: JsonObject = msgspec.field(default_factory=dict)
    ended_at_us: int | None = None
    error_type: str | None = None


class HeadUpdate(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What people filter by, when it changes."""

    status: RunStatus
    ended_at_us: int | None = None
    error_type: str | None = None


class TimerUpdate(msgspec.Struct, frozen=True, gc=False):
    """The run's earliest deadline from now on; None: no deadline."""

    due_at_us: int | None


class ControlDisposition(msgspec.Struct, frozen=True):
    """What became of a control: `applied` at this version, or `refused` with the reason in `outcome`."""

    request_id: str
    disposition: Literal["applied", "refused"]
    outcome: str = ""


class AttemptDisposition(msgspec.Struct, frozen=True):
    """What became of an attempt row."""

    node: str
    generation: int
    disposition: Literal["applied", "superseded", "refused"]


class MessageDisposition(msgspec.Struct, frozen=True):
    """What became of a message: `buffered` in the run's state until something waits for it, `consumed`, or
    `undelivered` because the run ended or what it was meant for no longer waits. The last two are final."""

    message_id: str
    disposition: Literal["buffered", "consumed", "undelivered"]


class EventWait(msgspec.Struct, frozen=True, kw_only=True):
    """A parked node that hears an event. One row per (run, node, index).

    Attributes:
        index: which of the node's events.
        name: the event's name.
        since_us: events published earlier do not count (already less the lookback).
        key_path: where in the event (as `payload.order_id`) a value must equal `key_value` (canonical JSON, cut to its
            SHA-256 above 200 bytes); both empty where `match` has no such part: then every event of the name is tried.
    """

    node: str
    index: int
    name: str
    since_us: int
    key_path: str = ""
    key_value: str = ""


class InboxItem(msgspec.Struct, frozen=True, kw_only=True):
    """A parked node that waits for a person (or an agent): what the inbox lists. Removed when the node leaves.

    Attributes:
        kind: `approval`, `human_loop` or `interaction`.
        people: who may act; empty means anybody.
        due_at_us: when its timeout comes.
    """

    node: str
    kind: Literal["approval", "human_loop", "interaction"]
    title: str
    people: tuple[str, ...] = ()
    status: str = "open"
    since_us: int = 0
    due_at_us: int | None = None


class BusEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event on a tenant's bus, unique by (tenant, event_id) as long as it is kept.

    Attributes:
        payload: above 32 KiB it is kept all the same: the bus has no reference form; above 1 MiB it is refused.
        published_at_us: by the database's clock, set when it is stored.
        source: the run and step that emitted it, empty for one from outside.
    """

    tenant: str
    event_id: str
    name: str
    payload: JsonValue = None
    published_at_us: int = 0
    position: int = 0
    source: str = ""


class SentMessage(msgspec.Struct, frozen=True):
    """A message for another run, written with this commit, its payload inline; one of the same id is left as it is.

    It is `undelivered` at once where that run is closed or unknown, or `MAX_UNCONSUMED_SENT_MESSAGES` of it wait. A run
    of another tenant gets nothing.
    """

    run_id: str
    message: Message


class Commit(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one tick writes. `events` is the JSON text of the row; `hash` its chain hash.

    `version` 0 marks a commit without a journal row: dispositions alone, for a tick that changed nothing.
    `waits_gone`, `inbox_gone` and `digests_gone` name nodes whose rows are removed; a node never is in both a list and
    its `_gone`.
    """

    run_id: str
    version: int
    commit_id: uuid.UUID
    at_us: int
    events: bytes
    hash: bytes
    start: HeadStart | None = None
    head: HeadUpdate | None = None
    timer: TimerUpdate | None = None
    payloads: tuple[Payload, ...] = ()
    controls: tuple[ControlDisposition, ...] = ()
    attempts: tuple[AttemptDisposition, ...] = ()
    messages: tuple[MessageDisposition, ...] = ()
    waits: tuple[EventWait, ...] = ()
    waits_gone: tuple[str, ...] = ()
    inbox: tuple[InboxItem, ...] = ()
    inbox_gone: tuple[str, ...] = ()
    published: tuple[BusEvent, ...] = ()
    sent: tuple[SentMessage, ...] = ()
    digests: tuple[DigestWait, ...] = ()
    digests_gone: tuple[str, ...] = ()


class Appended(msgspec.Struct, frozen=True, gc=False):
    """The commit is durable."""

    version: int


class Conflict(msgspec.Struct, frozen=True):
    """Somebody else wrote this version, or the one before does not exist. Nothing of the commit was written."""

    run_id: str
    version: int


class StartKeyTaken(msgspec.Struct, frozen=True):
    """The start's key already belongs to `run_id`. Nothing was written."""

    run_id: str


class Refused(msgspec.Struct, frozen=True):
    """The database refuses this commit for what it contains (poison). Nothing was written."""

    error: JournalError


CommitAnswer = Appended | Conflict | StartKeyTaken | Refused


class Transition(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the journal."""

    run_id: str
    version: int
    commit_id: uuid.UUID
    at_us: int
    events: bytes
    hash: bytes


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """An encoded `RunState` at `version`."""

    run_id: str
    version: int
    fold_revision: int
    state: bytes


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """A run as people list it."""

    run_id: str
    tenant: str
    definition: str
    manifest_hash: str
    status: RunStatus
    started_at_us: int
    updated_at_us: int
    ended_at_us: int | None = None
    key: str | None = None
    parent_run_id: str | None = None
    root_run_id: str | None = None
    error_type: str | None = None
    search_attributes: JsonObject = msgspec.field(default_factory=dict)


class LoadedRun(msgspec.Struct, frozen=True, kw_only=True):
    """All that a cold coordinator needs: head, newest usable snapshot, the rows after it, and inputs that wait."""

    head: Head
    snapshot: Snapshot | None
    tail: tuple[Transition, ...]
    payloads: tuple[Payload, ...]
    controls: tuple["Control", ...]
    attempts: tuple["AttemptRow", ...]
    messages: tuple[Message, ...] = ()


class RunInputs(msgspec.Struct, frozen=True, kw_only=True):
    """What waits for a run in the database, each kind in order. `head_version` is the newest version of its journal."""

    head_version: int
    controls: tuple["Control", ...] = ()
    attempts: tuple["AttemptRow", ...] = ()
    messages: tuple[Message, ...] = ()
    payloads: tuple[Payload, ...] = ()


class Control(msgspec.Struct, frozen=True, kw_only=True):
    """A durable request to a run."""

    run_id: str
    request_id: str
    kind: ControlKind
    arguments: JsonObject = msgspec.field(default_factory=dict)
    by: str = ""
    requested_at_us: int = 0
    disposition: Literal["", "applied", "refused"] = ""
    outcome: str = ""


class ControlReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a request: whether it was `accepted` now, is a `duplicate` of an accepted one, or was `refused`."""

    request_id: str
    verdict: Literal["accepted", "duplicate", "refused"]
    reason: str = ""


class AttemptRow(msgspec.Struct, frozen=True, kw_only=True):
    """A result that could not ride in a tick."""

    run_id: str
    node: str
    generation: int
    outcome: Literal["succeeded", "failed", "cancelled"]
    output: JsonValue = None
    output_ref: PayloadRef | None = None
    error: ErrorInfo | None = None
    worker: str = ""
    started_at_us: int = 0
    finished_at_us: int = 0
    disposition: Literal["", "applied", "superseded", "refused"] = ""


class MessageReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a message: `accepted` now, `duplicate` of one with the same id (then the rest describes the first),
    or `refused` with the reason.

    Attributes:
        disposition: `""` as long as no tick has taken it up, then as in `MessageDisposition`.
        version: of the journal row that took it up.
    """

    message_id: str
    verdict: Literal["accepted", "duplicate", "refused"]
    reason: str = ""
    position: int = 0
    at_us: int = 0
    disposition: Literal["", "buffered", "consumed", "undelivered"] = ""
    version: int | None = None


class InboxEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An inbox item with the run that it belongs to."""

    run_id: str
    tenant: str
    definition: str
    item: InboxItem


class EventReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a publish: `accepted`, or `duplicate` with the position and time of the first."""

    event_id: str
    verdict: Literal["accepted", "duplicate"]
    position: int
    published_at_us: int


class WaitingRun(msgspec.Struct, frozen=True, kw_only=True):
    """A wait that an event may be for."""

    run_id: str
    node: str
    index: int


class UnscannedWait(msgspec.Struct, frozen=True, kw_only=True):
    """A wait for which the recent events have not been looked through yet."""

    run_id: str
    tenant: str
    wait: EventWait


class StartTrigger(msgspec.Struct, frozen=True, kw_only=True):
    """What starts runs of a published definition by itself; `index` is its place in the manifest's `triggers`.

    Attributes:
        event: its event's name, empty for a schedule.
        next_at_us: when the schedule fires next, None for an event trigger.
    """

    tenant: str
    definition: str
    manifest_hash: str
    index: int
    event: str = ""
    next_at_us: int | None = None


class PublishedDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A manifest known to a tenant. `source` is the text it came from, `places` (JSON) maps its paths to lines."""

    tenant: str
    name: str
    version: str
    manifest_hash: str
    manifest: bytes
    source: str = ""
    file: str = ""
    places: bytes = b"{}"
    published_at_us: int = 0
    is_published: bool = True


class HostRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A live host, by the database's clock."""

    host_id: str
    started_at_us: int
    heartbeat_at_us: int
    tasks: tuple[str, ...] = ()


class RunFilter(msgspec.Struct, frozen=True, kw_only=True):
    """What to list; newest first. `before_run_id` continues a page."""

    tenant: str | None = None
    definition: str | None = None
    statuses: tuple[RunStatus, ...] = ()
    before_run_id: str | None = None
    limit: int = 50


class FeedPosition(msgspec.Struct, frozen=True, order=True):
    """A place in commit order."""

    era: int = 0
    transaction_id: int = 0
    position: int = 0


class FeedEntry(msgspec.Struct, frozen=True):
    """One journal row in the feed."""

    position: FeedPosition
    transition: Transition


class FeedLag(msgspec.Struct, frozen=True, kw_only=True):
    """How far the feed is behind. `blocked_by` describes the oldest transaction that holds it up, empty for none."""

    rows: int
    oldest_age_ms: int
    blocked_by: str = ""


class StoreHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The store's state for health reports."""

    is_available: bool
    queued_commits: int
    queue_limit: int
    reason: str = ""


class Store(BulkControlStore, DigestStore, Protocol):
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
        """Read one run; concurrent calls are gathered into one query. None when it does not exist."""
        ...

    async def head(self, run_id: str) -> Head | None:
        """Read a run's head."""
        ...

    async def heads(self, which: RunFilter) -> Sequence[Head]:
        """List runs, newest first."""
        ...

    async def find_start_key(self, tenant: str, definition: str, key: str) -> str | None:
        """The run that a start key belongs to."""
        ...

    async def history(self, run_id: str, *, after_version: int = 0, limit: int = 1_000) -> Sequence[Transition]:
        """Rows of one run in order."""
        ...

    async def payload(self, run_id: str, hash: str) -> bytes | None:
        """A large value's JSON text."""
        ...

    async def save_snapshot(self, snapshot: Snapshot) -> None:
        """Keep a snapshot; an older one of the run is replaced."""
        ...

    async def request_control(self, control: Control, *, tenant: str | None = None) -> ControlReceipt | None:
        """Store a request durably, idempotent by (run_id, request_id). None when the run does not exist (or is another
        tenant's). A closed run refuses everything but a redrive, and the refusal says so. Raises ValueRefusedError."""
        ...

    async def control(self, run_id: str, request_id: str) -> Control | None:
        """A request and what became of it."""
        ...

    async def inputs(self, run_id: str) -> RunInputs | None:
        """What waits for a run: unapplied controls, attempt rows and messages. None when the run does not exist."""
        ...

    async def send_message(
        self, run_id: str, message: Message, payloads: Sequence[Payload] = (), *, tenant: str | None = None
    ) -> MessageReceipt | None:
        """Store a message for a run, idempotent by (run_id, id); time and position are the store's. None when the run
        does not exist (or is another tenant's). Refused: the run has ended, or `MAX_UNCONSUMED_MESSAGES` of it wait."""
        ...

    async def message_receipt(self, run_id: str, message_id: str) -> MessageReceipt | None:
        """What became of a message (verdict `duplicate`: it is there)."""
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

    async def runs_to_recover(self, after_run_id: str | None, limit: int) -> Sequence[str]:
        """Ids of `pending` and `running` runs in order of id, a page at a time: what a starting host wakes."""
        ...

    async def runs_to_wake(self, now_us: int, limit: int) -> Sequence[str]:
        """Ids of runs that something waits for: overdue timers, unapplied controls, attempts and messages, `pending`
        runs. Each cause gets its turn, so that none keeps the others out of `limit`. Of a paused run only controls
        count; what else waits for it may not be found before a host recovers (`runs_to_recover`): who resumes a run
        reads its `inputs`."""
        ...

    async def next_due_us(self) -> int | None:
        """The earliest timer of all runs."""
        ...

    async def beat(self, host: HostRecord) -> None:
        """Register a host or renew its heartbeat, by the database's clock."""
        ...

    async def leave(self, host_id: str) -> None:
        """Remove a host."""
        ...

    async def hosts(self, *, alive_within_ms: int) -> Sequence[HostRecord]:
        """Hosts whose heartbeat is recent by the database's clock."""
        ...

    async def feed(self, after: FeedPosition, limit: int) -> Sequence[FeedEntry]:
        """Journal rows of all runs in commit order, never stepping over one that may still commit."""
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
