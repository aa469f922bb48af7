"""The working state of one tick: where its phases read, and what they add to.

Every decision is an event, applied to the state in the moment it is made (`emit`), so the phases that follow see it and
the state needs no second way to change. The row begins with its first event: a tick that decides nothing leaves the
state untouched.
"""

from collections.abc import Mapping

import msgspec

from ductor.actors.tick.activation import StateActivation, child_values, undone_values
from ductor.actors.tick.outbox import Outbox
from ductor.definitions.program import HANDLERS, Program, ProgramNode
from ductor.definitions.values import JsonObject, JsonValue
from ductor.journal.codec import StoredValue, admitted_value
from ductor.journal.commit import Payload
from ductor.journal.errors import ValueRefusedError
from ductor.journal.events import RUN_LEASE, AnyEvent, NodeSettled, PayloadRef, RunContinued, RunEnded
from ductor.journal.fold import APPLY, begin_row
from ductor.journal.state import NodeState, RunState

MAX_STARTS_PER_TICK = 256
"""Steps started in one tick at most; the rest follow in the next one."""

MAX_EVENT_BYTES_PER_TICK = 1 << 20
"""Inline values in the events of one tick at most, in bytes of JSON."""

MAX_CONTEXT_VALUE_BYTES = 256 << 10
"""One value of the run context at most: the context is part of the state and of each snapshot."""

CANCEL_GRACE_MS = 10_000
"""How long attempts in flight may take to stop when their run is closing."""


class Withdrawal(msgspec.Struct, frozen=True):
    """An attempt that is to stop: told to its worker after the commit."""

    node: str
    generation: int


class Tick:
    """One tick in the making.

    Attributes:
        library: programs of the definitions that the run may start, by manifest hash.
    """

    __slots__ = (
        "_outbox",
        "activation",
        "dispatched",
        "events",
        "library",
        "now_us",
        "payloads",
        "program",
        "starts",
        "state",
        "value_bytes",
        "withdrawn",
    )

    def __init__(
        self, program: Program, state: RunState, now_us: int, library: Mapping[str, Program] | None = None
    ) -> None:
        self.program = program
        self.library: Mapping[str, Program] = {} if library is None else library
        self.state = state
        self.now_us = now_us
        self.activation = StateActivation(program, state, now_us)
        self.events: list[AnyEvent] = []
        self.dispatched: list[str] = []
        self.withdrawn: list[Withdrawal] | None = None
        self.payloads: list[Payload] | None = None
        self._outbox: Outbox | None = None
        self.starts = 0
        self.value_bytes = 0

    @property
    def outbox(self) -> Outbox:
        """What is written beside the row; made when something is."""
        if self._outbox is None:
            self._outbox = Outbox()
        return self._outbox

    @property
    def filled_outbox(self) -> Outbox | None:
        """The outbox, if there is anything in it."""
        return None if self._outbox is None or self._outbox.is_empty else self._outbox

    def emit(self, event: AnyEvent) -> None:
        """Decide: the event joins the row and changes the state."""
        state, events, kind = self.state, self.events, type(event)
        if not events:
            begin_row(state, state.version + 1, self.now_us)
        events.append(event)
        if type(event) is NodeSettled:
            node = state.node(event.node)
            if node.lease_key or node.is_listening:
                self.outbox.leave(event.node, node)
        elif type(event) is RunEnded or type(event) is RunContinued:
            if state.inbox and type(event) is RunEnded:
                self.outbox.close(state)
            if state.lease_key and type(event) is RunEnded:  # a run that continues this one has it from now on
                self.outbox.leases_gone[RUN_LEASE] = state.lease_key
            if any(handler.event is not None for handler in self.program.handlers):
                self.outbox.withdraw_waits(HANDLERS)
        APPLY[kind](state, event)

    def variables(self, node: ProgramNode, own: JsonObject | None = None) -> StateActivation:
        """What expressions of the node see: the run's variables, the item of a scatter's child, what an undo sees of
        the step that it undoes, and `own`."""
        if node.undoes:
            own = {**undone_values(self.state, node.undoes), **(own or {})}
        if node.scatter:
            own = {**child_values(self.state, node.scatter, node.index), **(own or {})}
        return self.activation if own is None else self.activation.with_own(own)

    def node_state(self, node: ProgramNode) -> NodeState:
        """The state of a node of the program."""
        return self.state.node(node.ref)

    def keep(self, value: JsonValue, what: str) -> tuple[JsonValue, PayloadRef | None]:
        """Make a value fit for an event: inline, or by reference when it is large. Raises ValueRefusedError."""
        stored = admitted_value(value, what)
        if stored.ref is not None:
            self._keep_payload(stored)
        else:
            self.value_bytes += stored.size_bytes
        return stored.inline, stored.ref

    def admit(self, value: JsonValue, what: str) -> StoredValue:
        """As `keep`, with all that is known of the value."""
        stored = admitted_value(value, what)
        if stored.ref is not None:
            self._keep_payload(stored)
        else:
            self.value_bytes += stored.size_bytes
        return stored

    def _keep_payload(self, stored: StoredValue) -> None:
        assert stored.payload is not None
        self.store(stored.payload, stored.value)

    def store(self, payload: Payload, value: JsonValue) -> None:
        """Have a large value stored beside the row, and at hand."""
        if self.payloads is None:
            self.payloads = []
        self.payloads.append(payload)
        self.state.payloads[payload.hash] = value

    def withdraw(self, ref: str, generation: int) -> None:
        """Have the worker of an attempt told to stop."""
        if self.withdrawn is None:
            self.withdrawn = []
        self.withdrawn.append(Withdrawal(ref, generation))

    def keep_inline(self, value: JsonValue, what: str) -> JsonValue:
        """Make a value fit for the run context, which is held whole. Raises ValueRefusedError."""
        stored = admitted_value(value, what)
        if stored.size_bytes > MAX_CONTEXT_VALUE_BYTES:
            reason = f"{stored.size_bytes} bytes are more than a context value may have ({MAX_CONTEXT_VALUE_BYTES})"
            raise ValueRefusedError(what, "", reason)
        self.value_bytes += stored.size_bytes
        return stored.value

    @property
    def is_full(self) -> bool:
        """Whether this tick has done as much as one tick may."""
        return self.starts >= MAX_STARTS_PER_TICK or self.value_bytes >= MAX_EVENT_BYTES_PER_TICK
