"""What one tick writes: the commit and its parts, and the store's answer."""

import uuid
from typing import Literal

import msgspec

from ductor.definitions.values import JsonObject, JsonValue
from ductor.journal.digest_store import DigestWait
from ductor.journal.errors import JournalError
from ductor.journal.events import Compensated, ControlKind, Message, RunStatus


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
    parent_node: str = ""
    root_run_id: str | None = None
    chain_run_id: str | None = None
    iteration: int = 0
    successor_run_id: str | None = None
    compensated: Compensated = ""
    search_attributes: JsonObject = msgspec.field(default_factory=dict)
    ended_at_us: int | None = None
    error_type: str | None = None


class HeadUpdate(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What people filter by, when it changes."""

    status: RunStatus
    ended_at_us: int | None = None
    error_type: str | None = None
    compensated: Compensated = ""
    successor_run_id: str | None = None


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
    """What became of a message: `buffered` in the run's state until something waits for it, `consumed`, `undelivered`
    because the run ended or what it was meant for no longer waits, or `forwarded` to the run that continues this one.
    All but the first are final."""

    message_id: str
    disposition: Literal["buffered", "consumed", "undelivered", "forwarded"]


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
    """A message for another run, written with this commit; one of the same id is left as it is. A large value that it
    names by reference stands in `payload`, and is kept beside the other run.

    It is `undelivered` at once where that run is closed or unknown, or `MAX_UNCONSUMED_SENT_MESSAGES` of it wait. A run
    of another tenant gets nothing.
    """

    run_id: str
    message: Message
    payload: Payload | None = None


class SentControl(msgspec.Struct, frozen=True, kw_only=True):
    """A control for another run, written with this commit, as far as that run has no control of this id and is open; a
    `compensate` reaches one that has ended too."""

    run_id: str
    request_id: str
    kind: ControlKind
    arguments: JsonObject = msgspec.field(default_factory=dict)
    by: str = ""


class NewRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is started by another one's commit: its head and its first row are written with it, or not at all.

    Where the run exists already it is left as it is. Where `start.key` belongs to another run it is not started, and a
    message of kind `child` tells the parent so (`refused`).

    Attributes:
        events, hash: of row 1: `run_started`, and what the run decides with it, if it is decided before the commit.
    """

    run_id: str
    at_us: int
    events: bytes
    hash: bytes
    start: HeadStart
    payloads: tuple[Payload, ...] = ()
    due_at_us: int | None = None


class LeaseWait(msgspec.Struct, frozen=True, kw_only=True):
    """A node (`@run`: a whole run) that waits for a lease. One row per (run, node).

    Attributes:
        generation: tells what a redriven node asks for from what it asked for before.
        key: unique in the tenant; at most `limit` hold it at once.
    """

    node: str
    generation: int
    key: str
    limit: int


class Commit(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one tick writes. `events` is the JSON text of the row; `hash` its chain hash.

    `version` 0 marks a commit without a journal row: dispositions alone, for a tick that changed nothing.
    `waits_gone`, `inbox_gone`, `digests_gone` and `leases_gone` name nodes whose rows are removed; a node never is in
    both a list and its `_gone`. `forwards_to` is the run that continues this one: what the inbox still holds goes
    there, in order, and is `forwarded` here.
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
    new_runs: tuple[NewRun, ...] = ()
    sent_controls: tuple[SentControl, ...] = ()
    leases: tuple[LeaseWait, ...] = ()
    leases_gone: tuple[str, ...] = ()
    forwards_to: str = ""


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
