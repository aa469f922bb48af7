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
from ductor.journal.errors import JournalError
from ductor.journal.events import ControlKind, ErrorInfo, PayloadRef, RunStatus


class Payload(msgspec.Struct, frozen=True):
    """A large value of a run: hash (hex SHA-256) and JSON text."""

    hash: str
    text: bytes


class HeadStart(msgspec.Struct, frozen=True, kw_only=True):
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


class HeadUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """What people filter by, when it changes."""

    status: RunStatus
    ended_at_us: int | None = None
    error_type: str | None = None


class TimerUpdate(msgspec.Struct, frozen=True):
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


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """What one tick writes. `events` is the JSON text of the row; `hash` its chain hash.

    `version` 0 marks a commit without a journal row: dispositions alone, for a tick that changed nothing.
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


class Appended(msgspec.Struct, frozen=True):
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


class Store(Protocol):
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
        """Ids of runs that something waits for: overdue timers, unapplied controls and attempts, `pending` runs. Each
        cause gets its turn, so that none keeps the others out of `limit`."""
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
