"""What a store keeps and gives back: rows as values."""

import uuid
from typing import Literal

import msgspec

from ductor.definitions.values import JsonObject, JsonValue
from ductor.journal.commit import EventWait, InboxItem, Payload
from ductor.journal.events import Compensated, ControlKind, ErrorInfo, Message, PayloadRef, RunStatus


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
    """A run as people list it.

    Attributes:
        chain_run_id: the first run of its chain, of one that continues another one; `iteration` counts from 0 there.
        successor_run_id: the run that continues this one.
        compensated: what became of its undos, as in `run_ended`.
    """

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
    parent_node: str = ""
    root_run_id: str | None = None
    chain_run_id: str | None = None
    iteration: int = 0
    successor_run_id: str | None = None
    compensated: Compensated = ""
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
    """A durable request to a run. One that was `forwarded` to the run that continues this one names it in `outcome`."""

    run_id: str
    request_id: str
    kind: ControlKind
    arguments: JsonObject = msgspec.field(default_factory=dict)
    by: str = ""
    requested_at_us: int = 0
    disposition: Literal["", "applied", "refused", "forwarded"] = ""
    outcome: str = ""


class ControlReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a request: whether it was `accepted` now, is a `duplicate` of an accepted one, or was `refused`.

    Attributes:
        run_id: the run that has it: the one that was asked, or the latest of its chain.
    """

    request_id: str
    verdict: Literal["accepted", "duplicate", "refused"]
    reason: str = ""
    run_id: str = ""


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
        run_id: the run that has it: the one that it was sent to, or another one of its chain.
    """

    message_id: str
    verdict: Literal["accepted", "duplicate", "refused"]
    reason: str = ""
    run_id: str = ""
    position: int = 0
    at_us: int = 0
    disposition: Literal["", "buffered", "consumed", "undelivered", "forwarded"] = ""
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
    """A host that is registered, by the database's clock.

    Attributes:
        tasks: handlers that it has.
        is_draining: it takes up nothing new, and owns no partitions any more.
        guests: tokens of attempts that it holds although it does not own their runs; only those who know them are
            kept from carrying them out a second time.
        withdrawn: tokens of attempts, guests of other hosts, that the runs in its hands want no more.
    """

    host_id: str
    started_at_us: int
    heartbeat_at_us: int
    tasks: tuple[str, ...] = ()
    is_draining: bool = False
    guests: tuple[str, ...] = ()
    withdrawn: tuple[str, ...] = ()


class RunFilter(msgspec.Struct, frozen=True, kw_only=True):
    """What to list; newest first. `before_run_id` continues a page.

    Attributes:
        parent_run_ids: only runs that one of these has started; empty for any.
        root_run_id: only the runs below this one, at any depth; not itself.
        shows_continued: also runs that another one continues; without it a chain shows its latest run alone. Who asks
            for `statuses` gets what he asks for.
    """

    tenant: str | None = None
    definition: str | None = None
    statuses: tuple[RunStatus, ...] = ()
    parent_run_ids: tuple[str, ...] = ()
    root_run_id: str | None = None
    before_run_id: str | None = None
    limit: int = 50
    shows_continued: bool = False

    @property
    def hides_continued(self) -> bool:
        """Whether of a chain only the latest run is listed."""
        return not self.shows_continued and not self.statuses

    def fits(self, head: Head) -> bool:
        """Whether this run is among what is to be listed."""
        return (
            self.tenant in {None, head.tenant}
            and self.definition in {None, head.definition}
            and (not self.parent_run_ids or head.parent_run_id in self.parent_run_ids)
            and self.root_run_id in {None, head.root_run_id}
            and (not self.statuses or head.status in self.statuses)
            and not (self.hides_continued and head.status == "continued")
        )


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
    """The store's state for health reports. `needs_restart`: it has stopped by a defect, and only a new process writes
    again."""

    is_available: bool
    queued_commits: int
    queue_limit: int
    reason: str = ""
    needs_restart: bool = False
