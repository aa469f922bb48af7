"""What folding a journal gives: the state of one run.

`RunState` is mutated by `ductor.journal.fold` alone, by the one owner who holds it. Every mutation is constant in the
size of the run. Some fields are derived from the others while folding, so that no reader has to search:

- `open_nodes`: nodes that are running or waiting, in the order in which they became so.
- `touched`: nodes whose incoming edges changed and that the scheduler has yet to look at. A superset is harmless:
  looking at a node twice decides nothing twice. `agenda` is where the scheduler keeps what it took from there, by
  position in the graph; a fold leaves it empty.
- `fanned`: scatters of which a child has settled in this row, for the tick to judge; empty after each row.
- `filling`: scatters that have children to start.
- `gathered`: outputs of gathers that somebody has asked for, made of the children's results. Never part of a snapshot.
- `inbox`: messages taken up that nothing has waited for yet, in order; `listeners`: which parked nodes hear a name.
- `timers`: a heap with lazy deletion, so that the earliest deadline costs nothing to know.
- `payloads`: large values by content hash, as far as they are at hand. Never part of a snapshot.
"""

import heapq
from collections import deque
from collections.abc import Sequence

import msgspec

from ductor.definitions.values import JsonObject, JsonValue
from ductor.journal.events import (
    TERMINAL_RUN_STATUSES,
    Compensated,
    EndStatus,
    ErrorInfo,
    Message,
    NodeStatus,
    PayloadRef,
    RunStatus,
    WaitingType,
)

FOLD_REVISION = 3
"""Grows when a fold of the same journal gives another state; snapshots of another revision are ignored."""


STALE_TIMERS_TOLERATED = 64
"""Entries of the heap of timers that may be out of date however few timers there are."""

CHILD_INDEX_DIGITS = 9
"""Digits of the index in the name of a scatter's child; more name none."""


ASKING: frozenset[str] = frozenset({"approval", "interaction"})
"""What nodes wait for that have asked somebody; messages name such a node."""

UNDOING_STATUSES: frozenset[str] = frozenset({"failed", "cancelled"})
"""A run that ends so undoes what it has done."""

ADDRESSED: frozenset[str] = ASKING | {"digest", "child", "lease"}
"""What nodes wait for to which messages are addressed by the node's name."""


class Fanout(msgspec.Struct, omit_defaults=True, kw_only=True, gc=False):
    """A scatter's children, all together. The state of child `i` is that of the node `<ref>[i]`; one that has not been
    started has none.

    Attributes:
        total: items; items, items_ref: the items in order; keys, is_map, interval_ms: as in `scatter_started`.
        started: children started so far; they start in the order of the items.
        again: children that a redrive starts anew before any others, by index; the last one first.
        succeeded, failed, cancelled: children settled so.
        first_failed: the child that failed first, by name; empty for none.
    """

    total: int
    items: JsonValue = None
    items_ref: PayloadRef | None = None
    keys: tuple[str, ...] = ()
    is_map: bool = False
    interval_ms: int = 0
    started: int = 0
    again: list[int] = msgspec.field(default_factory=list)
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    first_failed: str = ""

    @property
    def settled(self) -> int:
        """Children that are done, whichever way."""
        return self.succeeded + self.failed + self.cancelled

    @property
    def open(self) -> int:
        """Children under way."""
        return self.started - len(self.again) - self.settled

    @property
    def next_index(self) -> int | None:
        """The child to start next; None where all have been started."""
        if self.again:
            return self.again[-1]
        return self.started if self.started < self.total else None

    def key(self, index: int) -> str:
        """The key of a child."""
        return self.keys[index] if self.keys else str(index)


def child_place(ref: str) -> tuple[str, int] | None:
    """The scatter and the index of a child, `("each", 3)` of `each[3]`; None for any other text, undos included.

    People name children, too: a child has one name, so `each[03]` is none, and no length of text is too much.
    """
    if not ref.endswith("]"):
        return None
    scatter, _, index = ref[:-1].partition("[")
    if not scatter or not index.isdecimal() or len(index) > CHILD_INDEX_DIGITS:
        return None
    number = int(index)
    return (scatter, number) if str(number) == index else None


class NodeState(msgspec.Struct, omit_defaults=True, kw_only=True, gc=False):
    """The state of one step in one run.

    Attributes:
        generation: attempts dispatched so far, over all rounds; the number of the current one.
        attempt: attempts dispatched in the current round.
        iteration: number of the current round of `repeat`, from 0.
        sources_settled, sources_taken: how many source steps have settled, and how many of those led here.
        task, queue: of the latest attempt; input, input_ref: of the one in flight, gone once the node is settled.
        dispatched_at_us: of the current attempt; round_started_at_us: of the first one of the round.
        paused_before_round_us: how long the run had been paused in all when the round began.
        settled_version: journal version in which the node settled; orders completions.
        taken: where the settled node led.
        parked_at_us, names, data, data_ref, messages: of a parked node: since when, the names it hears, what people see
            of it, and the messages it has taken so far.
        message_parts: of an event set: which of its events each of the messages is.
        next_input, next_input_ref: what a redrive wants the next round to run with.
        fanout: of a scatter that has its items.
        child_run_id: the child run of the current generation.
        gathers, gather_strategy: of a settled gather: whose children its output is made of, and how.
        lease_key: what the node holds or waits for; empty where it does neither. lease_fence: of what it holds, 0 else.
    """

    status: NodeStatus = "pending"
    outcome: str = ""
    generation: int = 0
    attempt: int = 0
    iteration: int = 0
    sources_settled: int = 0
    sources_taken: int = 0
    waiting: WaitingType | None = None
    until_us: int | None = None
    output: JsonValue = None
    output_ref: PayloadRef | None = None
    error: ErrorInfo | None = None
    previous: JsonValue = None
    previous_ref: PayloadRef | None = None
    task: str = ""
    input: JsonValue = None
    input_ref: PayloadRef | None = None
    queue: str = "default"
    dispatched_at_us: int = 0
    round_started_at_us: int = 0
    paused_before_round_us: int = 0
    settled_version: int = 0
    taken: tuple[str, ...] = ()
    parked_at_us: int = 0
    names: tuple[str, ...] = ()
    data: JsonValue = None
    data_ref: PayloadRef | None = None
    messages: Sequence[Message] = ()
    message_parts: Sequence[tuple[int, ...]] = ()
    has_next_input: bool = False
    next_input: JsonValue = None
    next_input_ref: PayloadRef | None = None
    fanout: Fanout | None = None
    child_run_id: str = ""
    gathers: str = ""
    gather_strategy: str = ""
    lease_key: str = ""
    lease_fence: int = 0

    @property
    def is_listening(self) -> bool:
        """Whether the node is parked for something that comes from outside."""
        return self.status == "waiting" and (bool(self.names) or self.waiting in ADDRESSED)


class Closing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the run is going to end, decided but not yet carried out.

    Attributes:
        is_compensating: the undos have begun; undos_done, undos_failed: those that have ended, by how.
    """

    status: EndStatus
    error: ErrorInfo | None = None
    output: JsonValue = None
    output_ref: PayloadRef | None = None
    reason: str = ""
    is_compensating: bool = False
    undos_done: int = 0
    undos_failed: int = 0
    defers_started: bool = False


class Continuing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The run is going to be continued as a new one; see `continue_requested`."""

    request_id: str
    reason: str = ""
    is_timed: bool = False


class Timers(msgspec.Struct, gc=False):
    """Deadlines by key, of two sorts: relative ones, which a pause moves all together by growing `shifted_us`, and
    absolute ones, which it does not.

    Each sort has a heap that may hold entries which its dictionary no longer confirms: they are dropped when they
    surface, and all at once when they outnumber the others, so that a run of a million rounds holds no million
    deadlines. Relative deadlines are kept less `shifted_us`.
    """

    due: dict[str, int] = msgspec.field(default_factory=dict)
    absolute: dict[str, int] = msgspec.field(default_factory=dict)
    shifted_us: int = 0
    heap: list[tuple[int, str]] = msgspec.field(default_factory=list)
    absolute_heap: list[tuple[int, str]] = msgspec.field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.due or self.absolute)

    def set(self, key: str, due_at_us: int, *, is_absolute: bool = False) -> None:
        """Arm or re-arm `key`."""
        self.cancel(key)
        if is_absolute:
            self.absolute[key] = due_at_us
            self.absolute_heap = _with_entry(self.absolute, self.absolute_heap, key)
        else:
            self.due[key] = due_at_us - self.shifted_us
            self.heap = _with_entry(self.due, self.heap, key)

    def cancel(self, key: str) -> None:
        """Disarm `key`; nothing happens where it is not armed."""
        if self.due.pop(key, None) is None:
            self.absolute.pop(key, None)

    def due_at_us(self, key: str) -> int | None:
        """The deadline of `key`, None when it is not armed."""
        relative = self.due.get(key)
        return self.absolute.get(key) if relative is None else relative + self.shifted_us

    def deadlines(self) -> dict[str, int]:
        """All deadlines by key."""
        return {key: at_us + self.shifted_us for key, at_us in self.due.items()} | self.absolute

    def earliest(self) -> tuple[int, str] | None:
        """The next deadline and its key."""
        if not self.due and not self.absolute:
            return None
        relative, absolute = _first(self.due, self.heap), _first(self.absolute, self.absolute_heap)
        if relative is not None:
            relative = (relative[0] + self.shifted_us, relative[1])
        if relative is None or absolute is None:
            return relative or absolute
        return min(relative, absolute)

    def shift(self, by_us: int) -> None:
        """Move all relative deadlines."""
        self.shifted_us += by_us

    def rebuild(self) -> None:
        """Make the heaps anew."""
        self.heap, self.absolute_heap = _heap_of(self.due), _heap_of(self.absolute)

    def clear(self) -> None:
        """Disarm all."""
        for part in (self.due, self.absolute, self.heap, self.absolute_heap):
            part.clear()


def _heap_of(due: dict[str, int]) -> list[tuple[int, str]]:
    heap = [(at_us, key) for key, at_us in due.items()]
    heapq.heapify(heap)
    return heap


def _with_entry(due: dict[str, int], heap: list[tuple[int, str]], key: str) -> list[tuple[int, str]]:
    if len(heap) > 2 * len(due) + STALE_TIMERS_TOLERATED:
        return _heap_of(due)
    heapq.heappush(heap, (due[key], key))
    return heap


def _first(due: dict[str, int], heap: list[tuple[int, str]]) -> tuple[int, str] | None:
    while heap:
        at_us, key = heap[0]
        if due.get(key) == at_us:
            return heap[0]
        heapq.heappop(heap)
    return None


class RunState(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The state of one run after the first `version` rows of its journal.

    Attributes:
        open_children: child runs started and not known to have ended, by id, with the node that started each; only
            those that end with this run.
        undoable: nodes whose work is done and has an undo, in the order of their completion.
        not_undone: nodes whose undo has failed or was cut off, in the order in which that happened.
        report_to, report_id: as in `compensation_requested`; empty where no parent waits for the undos.
        is_warned: the journal has come near to its definition's `continue_as_new_after`.
        lease_key, lease_fence: of the lease that the whole run holds; empty and 0 where it holds none. While it waits
            for it there is a node `@run`.
        traceparent: the trace that the run belongs to, see `trace_context`; empty where nobody traces it.
    """

    run_id: str
    version: int = 0
    last_hash: bytes = b""
    at_us: int = 0
    status: RunStatus = "pending"
    tenant: str = ""
    definition: str = ""
    manifest_hash: str = ""
    trigger: JsonValue = None
    trigger_ref: PayloadRef | None = None
    config: JsonObject = msgspec.field(default_factory=dict)
    context: JsonObject = msgspec.field(default_factory=dict)
    search_attributes: JsonObject = msgspec.field(default_factory=dict)
    key: str | None = None
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
    successor_run_id: str | None = None
    started_at_us: int = 0
    ended_at_us: int = 0
    nodes: dict[str, NodeState] = msgspec.field(default_factory=dict)
    running_count: int = 0
    open_nodes: dict[str, None] = msgspec.field(default_factory=dict)
    timers: Timers = msgspec.field(default_factory=Timers)
    checkpoints: dict[str, str] = msgspec.field(default_factory=dict)
    closing: Closing | None = None
    continuing: Continuing | None = None
    is_warned: bool = False
    open_children: dict[str, str] = msgspec.field(default_factory=dict)
    undoable: list[str] = msgspec.field(default_factory=list)
    not_undone: list[str] = msgspec.field(default_factory=list)
    compensated: Compensated = ""
    report_to: str = ""
    report_id: str = ""
    lease_key: str = ""
    lease_fence: int = 0
    traceparent: str = ""
    output: JsonValue = None
    output_ref: PayloadRef | None = None
    error: ErrorInfo | None = None
    reason: str = ""
    tick_limited: bool = False
    inbox: dict[str, Message] = msgspec.field(default_factory=dict)
    message_position: int = 0
    listeners: dict[str, dict[str, None]] = msgspec.field(default_factory=dict)
    asked_count: int = 0
    paused_at_us: int | None = None
    paused_by: str = ""
    pause_reason: str = ""
    reopened_count: int = 0
    touched: deque[str] = msgspec.field(default_factory=deque)
    agenda: list[tuple[int, str]] = msgspec.field(default_factory=list)
    fanned: dict[str, None] = msgspec.field(default_factory=dict)
    filling: dict[str, None] = msgspec.field(default_factory=dict)
    payloads: dict[str, JsonValue] = msgspec.field(default_factory=dict)
    gathered: dict[str, JsonValue] = msgspec.field(default_factory=dict)

    def node(self, ref: str) -> NodeState:
        """The node's state; a node that nothing has happened to yet is made, pending."""
        node = self.nodes.get(ref)
        if node is None:
            node = self.nodes[ref] = NodeState()
        return node

    def paused_in_round_us(self, node: NodeState) -> int:
        """How long the run has been paused since the node's round began: time that does not count."""
        return self.timers.shifted_us - node.paused_before_round_us

    def value(self, inline: JsonValue, ref: PayloadRef | None) -> JsonValue:
        """The value that an event or a state holds inline or by reference. KeyError when the payload is not at hand."""
        return inline if ref is None else self.payloads[ref.hash]

    @property
    def is_listening(self) -> bool:
        """Whether a node waits for something that comes from outside."""
        return bool(self.listeners) or self.asked_count > 0

    @property
    def is_winding_down(self) -> bool:
        """Whether no step starts any more, as the run is going to end or to be continued as a new one."""
        return self.closing is not None or self.continuing is not None

    @property
    def next_due_us(self) -> int | None:
        """The earliest deadline; None where there is none, and while the run is paused: its timers stand still."""
        timers = self.timers
        if self.paused_at_us is not None or not (timers.due or timers.absolute):
            return None
        earliest = timers.earliest()
        return None if earliest is None else earliest[0]

    @property
    def wants_undo(self) -> bool:
        """Whether the run is ending in a way that undoes what it has done, and there is something left of that."""
        closing = self.closing
        return bool(
            closing is not None and self.undoable and (closing.is_compensating or closing.status in UNDOING_STATUSES)
        )

    @property
    def is_terminal(self) -> bool:
        """Whether the run has ended."""
        return self.status in TERMINAL_RUN_STATUSES
