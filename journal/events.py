"""The event vocabulary: every fact a run's journal can hold.

Two kinds share one row. *Inputs* are what a tick absorbed from outside (a result, a timer, a control); *decisions* are
what it made of them. A row lists its inputs before the decisions that follow from them, and its time is the tick's
time: with the manifest at hand each decision can be computed again from the state before the row.

Rules of the vocabulary:
- An event carries what the fold needs and nothing that the fold can derive. Folding needs no manifest, clock or chance.
- The meaning of a tag never changes. A new field has a default; a new meaning is a new tag. A struct is listed in
  `Event` for ever; `tests/corpus` holds journals that must fold for ever.
- Times are whole microseconds since the epoch (UTC), durations whole milliseconds.
- A value above 32 KiB does not stand in the event: its `_ref` twin names it by content hash (`eec_payload`).
"""

from typing import Literal

import msgspec

from ductor.definitions.values import JsonObject, JsonValue

RunStatus = Literal[
    "pending", "running", "waiting", "paused", "completed", "failed", "cancelled", "terminated", "continued"
]
TERMINAL_RUN_STATUSES: frozenset[str] = frozenset({"completed", "failed", "cancelled", "terminated", "continued"})

NodeStatus = Literal["pending", "running", "waiting", "succeeded", "failed", "skipped", "cancelled"]
SETTLED_NODE_STATUSES: frozenset[str] = frozenset({"succeeded", "failed", "skipped", "cancelled"})

WaitingType = Literal[
    "timer", "approval", "child", "signal", "digest", "interaction", "event", "event_set", "retry", "lease", "repeat"
]
EndStatus = Literal["completed", "failed", "cancelled", "terminated"]
ControlKind = Literal[
    "cancel", "terminate", "pause", "resume", "redrive", "continue_as_new", "compensate", "compact", "migrate"
]
REOPENING_KINDS: frozenset[str] = frozenset({"redrive", "compensate"})
"""What can be asked of a run that has ended."""
TimeoutKind = Literal["attempt", "start", "total", "heartbeat"]
MessageKind = Literal["signal", "event", "vote", "case", "reply", "digest", "child", "lease"]
Compensated = Literal["", "true", "partial"]
ChildStatus = Literal["completed", "failed", "cancelled", "terminated", "checkpoint", "refused"]


class PayloadRef(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A large value held beside the journal: SHA-256 (hex) of its JSON text, and the text's size in bytes."""

    hash: str
    size_bytes: int


class ErrorInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A failure as a value.

    Attributes:
        type: the error's name; retry policies and choices match on it.
        message: for people; escaped and cut at the border.
        details: JSON for programs.
        retryable: False for a failure that no retry can mend.
        retry_after_ms: the failing side asked for this pause instead of the policy's.
    """

    type: str
    message: str = ""
    details: JsonValue = None
    retryable: bool = True
    retry_after_ms: int | None = None


class Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Something that was sent to a run and waits, in order, until the run takes it up.

    Attributes:
        id: unique over the run; a second message of one id is refused with the first one's receipt.
        kind: `signal` and `event` go by name to whoever waits; `vote`, `case`, `reply`, `digest`, `child` and `lease`
            go to the parked step `node`.
        by: who sent it.
        at_us: when it was stored, by the database's clock; of an event, when it was published.
        position: order in the run's inbox; it grows, with gaps.
    """

    id: str
    kind: MessageKind
    name: str = ""
    node: str = ""
    payload: JsonValue = None
    payload_ref: PayloadRef | None = None
    by: str = ""
    at_us: int = 0
    position: int = 0


class NodeReset(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A node that a redrive puts back to pending, with what its incoming edges have said and still say.

    Attributes:
        keeps_children: of a scatter: its items and the children that succeeded stay; all others are pending again.
        children: of a scatter that keeps its children: the only ones that are pending again, by index; empty for all
            that did not succeed.
    """

    node: str
    sources_settled: int = 0
    sources_taken: int = 0
    keeps_children: bool = False
    children: tuple[int, ...] = ()


class OpenChild(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A child run that the parent has started and not heard the end of."""

    run_id: str
    node: str


class Event(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    tag_field="type",
    forbid_unknown_fields=True,
    gc=False,  # events are values: they can't be part of a cycle
):
    """Base of all events. A field that is not known here is as much a reason to leave the run alone as an unknown tag:
    to drop it would be to fold the journal differently from the host that wrote it."""


# --- inputs -----------------------------------------------------------------------------------------------------------


class RunStarted(Event, frozen=True, tag="run_started"):
    """Row 1 of every journal: what the run was started with.

    Attributes:
        entrypoints: the steps without incoming edges.
        timeout_at_us: the run's own deadline.
        parent_node, parent_generation: which step of the parent started this run, and in which generation.
        parent_waits_for: what the parent is told of: `terminal`, `checkpoint:<name>` (and the end), or empty: nothing.
        body: the run carries out this inline body of the manifest (`outer/inner` for one within another), not the
            definition itself.
        scope: names that expressions see besides the usual ones: `item`, `index` and `key` in a child of a scatter.
        definitions: the manifest hash of each definition that this run or its children may start, by name; resolved
            once, when the root run starts.
        chain_run_id: the first run of the chain that continue-as-new makes; None for one that continues nothing.
        open_children: children of the run before in the chain that may still be under way.
        lease_key, lease_fence: of the definition's lease, handed on by the run before in the chain.
        traceparent: the trace that the run belongs to, see `trace_context`; empty where nobody traces it.
    """

    tenant: str
    definition: str
    manifest_hash: str
    entrypoints: tuple[str, ...]
    trigger: JsonValue = None
    trigger_ref: PayloadRef | None = None
    config: JsonObject = msgspec.field(default_factory=dict)
    context: JsonObject = msgspec.field(default_factory=dict)
    search_attributes: JsonObject = msgspec.field(default_factory=dict)
    key: str | None = None
    timeout_at_us: int | None = None
    parent_run_id: str | None = None
    root_run_id: str | None = None
    depth: int = 0
    iteration: int = 0
    continued_from_run_id: str | None = None
    parent_node: str = ""
    parent_generation: int = 0
    parent_waits_for: str = ""
    body: str = ""
    scope: JsonObject = msgspec.field(default_factory=dict)
    definitions: dict[str, str] = msgspec.field(default_factory=dict)
    chain_run_id: str | None = None
    open_children: tuple[OpenChild, ...] = ()
    lease_key: str = ""
    lease_fence: int = 0
    traceparent: str = ""


class AttemptFinished(Event, frozen=True, tag="attempt_finished"):
    """A worker's result. `outcome` is what the handler did, not what becomes of the node."""

    node: str
    generation: int
    outcome: Literal["succeeded", "failed", "cancelled"]
    output: JsonValue = None
    output_ref: PayloadRef | None = None
    error: ErrorInfo | None = None
    worker: str = ""
    started_at_us: int = 0
    finished_at_us: int = 0


class TimerFired(Event, frozen=True, tag="timer_fired"):
    """A timer of the state came due. `key` is a node's ref, or one of the run's own (`@timeout`, `@grace`)."""

    key: str
    due_at_us: int


class ControlReceived(Event, frozen=True, tag="control_received"):
    """An operator's or a parent's request, taken up by this tick."""

    request_id: str
    kind: ControlKind
    arguments: JsonObject = msgspec.field(default_factory=dict)
    by: str = ""


class MessageReceived(Event, frozen=True, tag="message_received"):
    """A message was taken up. It stays in the run's inbox until `message_taken`."""

    message: Message


class ChildReported(Event, frozen=True, tag="child_reported"):
    """What a child run has reached: its end, or the `checkpoint` that the parent waits for. `refused`: it could not be
    started, as its key belongs to another run."""

    node: str
    generation: int
    run_id: str
    status: ChildStatus
    checkpoint: str = ""
    output: JsonValue = None
    output_ref: PayloadRef | None = None
    error: ErrorInfo | None = None
    compensated: Compensated = ""


class LeaseGranted(Event, frozen=True, tag="lease_granted"):
    """The node (`@run`: the whole run) holds its lease from now on. `fence` grows with every grant of the key, so that
    what the lease guards can refuse an earlier holder."""

    node: str
    generation: int
    fence: int


# --- decisions --------------------------------------------------------------------------------------------------------


class AttemptDispatched(Event, frozen=True, tag="attempt_dispatched"):
    """The node runs attempt `generation`. `attempt` counts within the round, from 1; `iteration` is the round, from 0.

    The input stands in the first attempt of a round; its retries run with the same.
    """

    node: str
    generation: int
    task: str
    input: JsonValue = None
    input_ref: PayloadRef | None = None
    queue: str = "default"
    attempt: int = 1
    iteration: int = 0


class NodeParked(Event, frozen=True, tag="node_parked"):
    """The node waits for `waiting`, at most until `until_us`.

    `until_is_absolute` deadlines (timestamps, cron) are not moved by a pause. `names` are the signals (`signal:x`) and
    events (`event:x`) that it hears; `data` is what people see of it.
    """

    node: str
    waiting: WaitingType
    until_us: int | None = None
    until_is_absolute: bool = False
    names: tuple[str, ...] = ()
    data: JsonValue = None
    data_ref: PayloadRef | None = None


class MessageTaken(Event, frozen=True, tag="message_taken"):
    """The message left the inbox: the parked `nodes` have it now, or (none) handlers of the definition heard it.

    `parts` says, by node, which of the events of its set the message was found to be when it came.
    """

    message_id: str
    nodes: tuple[str, ...] = ()
    parts: dict[str, tuple[int, ...]] = msgspec.field(default_factory=dict)


class EventEmitted(Event, frozen=True, tag="event_emitted"):
    """Published on the tenant's bus with this row."""

    node: str
    event_id: str
    name: str
    payload: JsonValue = None
    payload_ref: PayloadRef | None = None


class SignalSent(Event, frozen=True, tag="signal_sent"):
    """Sent to another run with this row."""

    node: str
    run_id: str
    message_id: str
    name: str
    payload: JsonValue = None
    payload_ref: PayloadRef | None = None


class RunPaused(Event, frozen=True, tag="run_paused"):
    """Nothing starts and no timer fires until the run is resumed; attempts in flight go on."""

    by: str = ""
    reason: str = ""


class RunResumed(Event, frozen=True, tag="run_resumed"):
    """Relative deadlines are later by the time the run was paused."""

    paused_us: int


class RunReopened(Event, frozen=True, tag="run_reopened"):
    """A redrive: these nodes are pending again, what succeeded is kept. `input` replaces that of `input_node` once.
    `timeout_at_us` is the run's own deadline, counted anew."""

    nodes: tuple[NodeReset, ...]
    input_node: str = ""
    input: JsonValue = None
    input_ref: PayloadRef | None = None
    timeout_at_us: int | None = None


class NodeSettled(Event, frozen=True, tag="node_settled"):
    """The node is done, and with it its outgoing edges: targets `taken` and `untaken`, each source's edges to one
    target counting once. A worker step's output and error came with its last `attempt_finished` and are not repeated
    here. The outcome of a cancelled node is `withdrawn` where another step or a handler cancelled it, and empty where
    the end of its run did.

    Attributes:
        gathers, gather_strategy: of a gather: whose children its output is made of, and how. The output is a view of
            their results, and is not repeated here.
        is_undoable: the step's work is done and has an undo, which runs if the run ends badly.
    """

    node: str
    status: Literal["succeeded", "failed", "skipped", "cancelled"]
    outcome: str = ""
    output: JsonValue = None
    output_ref: PayloadRef | None = None
    error: ErrorInfo | None = None
    taken: tuple[str, ...] = ()
    untaken: tuple[str, ...] = ()
    gathers: str = ""
    gather_strategy: str = ""
    is_undoable: bool = False


class ContextPatched(Event, frozen=True, tag="context_patched"):
    """Effects of `node`: top-level context keys replaced."""

    node: str
    patch: JsonObject


class CheckpointReached(Event, frozen=True, tag="checkpoint_reached"):
    """The node that carries this checkpoint succeeded."""

    node: str
    checkpoint: str


class ScatterStarted(Event, frozen=True, tag="scatter_started"):
    """The scatter has its items. The child of item `i` is the node `<node>[i]`.

    Attributes:
        total: number of items.
        items: the items in order; of a map its values.
        keys: the key of each child; empty where it is the index.
        is_map: the items came from a map, whose keys the results keep.
        interval_ms: pause between the starts of two children.
        is_resumed: a redrive goes on with the items and the children that the scatter has.
    """

    node: str
    total: int
    items: JsonValue = None
    items_ref: PayloadRef | None = None
    keys: tuple[str, ...] = ()
    is_map: bool = False
    interval_ms: int = 0
    is_resumed: bool = False


class ChildStarted(Event, frozen=True, tag="child_started"):
    """The node has started a child run with this row; the node waits for it unless it settles at once.

    Attributes:
        generation: of the node; each child of a node has its own.
        definition, manifest_hash: what the child carries out; `body` names an inline body of the parent's manifest.
        is_abandoned: the child outlives a parent that is cancelled.
        until_us: how long the parent waits at most.
    """

    node: str
    generation: int
    run_id: str
    definition: str
    manifest_hash: str
    body: str = ""
    iteration: int = 0
    is_abandoned: bool = False
    until_us: int | None = None
    input: JsonValue = None
    input_ref: PayloadRef | None = None


class CompensationsStarted(Event, frozen=True, tag="compensations_started"):
    """Nothing else is under way: the undos of what was done run now, the latest first."""


class CompensationRequested(Event, frozen=True, tag="compensation_requested"):
    """The parent has asked the run to undo itself, and is told when that is over: its node `report_to`, by a message
    with the id `report_id`."""

    report_to: str
    report_id: str


class ContinueRequested(Event, frozen=True, tag="continue_requested"):
    """The run is to be continued as a new one: no step starts any more. What is under way may finish, and what waits in
    the inbox is taken up, until `until_us`. `is_timed`: nothing is left to do, and the successor begins at `until_us`.
    """

    request_id: str
    until_us: int
    reason: str = ""
    is_timed: bool = False


class HistoryWarned(Event, frozen=True, tag="history_warned"):
    """The journal is coming near to `limit`, its definition's `continue_as_new_after`. Told once in a run."""

    transitions: int
    limit: int


class RunContinued(Event, frozen=True, tag="run_continued"):
    """The last event of a run that another one continues, from the beginning of its definition, with its context."""

    successor_run_id: str
    request_id: str
    reason: str = ""


class RunCompacted(Event, frozen=True, tag="run_compacted"):
    """The first event of a row that stands for all rows before it: the state that they gave, in the form of
    `state_revision`. The rows themselves may be removed. `previous_hash` is the chain hash of the last of them
    (hexadecimal)."""

    state_revision: int
    state: JsonObject
    previous_hash: str


class RunClosing(Event, frozen=True, tag="run_closing"):
    """The run is going to end as `status`: no step starts any more; attempts in flight may finish until
    `grace_until_us`, then the `defers` run, then the run ends."""

    status: EndStatus
    error: ErrorInfo | None = None
    output: JsonValue = None
    output_ref: PayloadRef | None = None
    reason: str = ""
    grace_until_us: int | None = None


class DefersStarted(Event, frozen=True, tag="defers_started"):
    """Everything else is settled; the deferred steps run now."""

    defers: tuple[str, ...]


class TickLimited(Event, frozen=True, tag="tick_limited"):
    """The tick reached its limits with runnable steps left; the next one goes on, whatever wakes it."""


class RunEnded(Event, frozen=True, tag="run_ended"):
    """The last event of a run (until a redrive reopens it). Where `run_closing` came before with the same status, what
    it says of output, error and reason holds and is not repeated. `compensated`: every undo succeeded (`true`) or not
    all did (`partial`); empty where nothing was to be undone."""

    status: EndStatus
    output: JsonValue = None
    output_ref: PayloadRef | None = None
    error: ErrorInfo | None = None
    reason: str = ""
    compensated: Compensated = ""


AnyEvent = (
    RunStarted
    | AttemptFinished
    | TimerFired
    | ControlReceived
    | MessageReceived
    | ChildReported
    | LeaseGranted
    | AttemptDispatched
    | NodeParked
    | MessageTaken
    | EventEmitted
    | SignalSent
    | RunPaused
    | RunResumed
    | RunReopened
    | NodeSettled
    | ContextPatched
    | CheckpointReached
    | RunClosing
    | DefersStarted
    | TickLimited
    | RunEnded
    | ScatterStarted
    | ChildStarted
    | CompensationsStarted
    | CompensationRequested
    | ContinueRequested
    | HistoryWarned
    | RunContinued
    | RunCompacted
)
AnyInput = RunStarted | AttemptFinished | TimerFired | ControlReceived | MessageReceived | ChildReported | LeaseGranted
INPUT_EVENTS: tuple[type[Event], ...] = (
    RunStarted,
    AttemptFinished,
    TimerFired,
    ControlReceived,
    MessageReceived,
    ChildReported,
    LeaseGranted,
)

RUN_TIMEOUT_TIMER = "@timeout"
GRACE_TIMER = "@grace"
CONTINUE_TIMER = "@continue"
RUN_LEASE = "@run"
"""Stands for the whole run where a lease names a node."""
