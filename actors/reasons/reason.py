"""A reason, and what finding reasons needs."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec

from ductor.actors.queue.items import TokenState
from ductor.actors.tick.working import Tick
from ductor.definitions.durations import format_duration_ms
from ductor.definitions.expressions import Activation, Expression, ExpressionError
from ductor.definitions.expressions.values_seen import values_seen
from ductor.definitions.program import Program
from ductor.definitions.values import JsonObject, JsonValue
from ductor.journal.codec import encode_value
from ductor.journal.lease_store import LeaseLine
from ductor.journal.records import HostRecord
from ductor.journal.state import NodeState, RunState
from ductor.journal.worker_store import WorkerRecord

MAX_NAMES_LISTED = 20
"""Names (people, events, steps) that one text lists; the rest is counted."""

MAX_SHOWN_BYTES = 500
"""JSON of a value above this is cut, and becomes text."""

ReasonKind = Literal[
    # the run
    "paused",
    "ending",
    "continuing",
    "long",
    "ended",
    "set_aside",
    "no_host",
    "next_tick",
    "run_timeout",
    "buffered_signals",
    # a step that has not begun
    "ready",
    "join",
    "edge",
    "guard",
    "deferred",
    "not_reached",
    # a step under way
    "running",
    "no_worker",
    "dead_letter",
    "timer",
    "signal",
    "event",
    "event_set",
    "approval",
    "case",
    "interaction",
    "retry",
    "repeat",
    "child",
    "digest",
    "lease",
    "timeout",
    # a step that has settled
    "skipped",
    "cancelled",
    "failed",
    # a step that has a reason of its own elsewhere in the explanation
    "told_elsewhere",
]


class Reason(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why something is where it is.

    Attributes:
        kind: for programs.
        text: for people, without times.
        since_us: since when it is so.
        until_us: when it ends by itself, at the latest. None while the run is paused, for what stands still meanwhile.
        ref: the step that it is about, empty for the run.
        children: the reasons behind it.
        details: the facts of the text, for programs.
    """

    kind: ReasonKind
    text: str
    since_us: int | None = None
    until_us: int | None = None
    ref: str = ""
    children: tuple["Reason", ...] = ()
    details: JsonObject = msgspec.field(default_factory=dict)


NO_LINES: Final[Mapping[str, LeaseLine]] = {}
NO_WORKERS: Final[Sequence[WorkerRecord]] = ()


class Subject:
    """The run that is explained. Nothing of it is changed.

    Attributes:
        tick: one that decides nothing; what the predicates of the scheduler and of the step types read from.
        hosts, workers: those that are alive.
        queued: how the queue between processes holds attempts, by token; None where nothing is known of it.
        lease_lines: what nodes that wait for a lease have before them, as far as it is told.
    """

    __slots__ = ("hosts", "lease_lines", "now_us", "program", "queued", "state", "tick", "workers")

    def __init__(
        self,
        program: Program,
        state: RunState,
        hosts: Sequence[HostRecord],
        now_us: int,
        lease_lines: Mapping[str, LeaseLine] = NO_LINES,
        workers: Sequence[WorkerRecord] = NO_WORKERS,
        queued: Mapping[str, TokenState] | None = None,
    ) -> None:
        self.workers, self.queued = workers, queued
        self.program, self.state, self.hosts, self.lease_lines = program, state, hosts, lease_lines
        self.now_us = max(now_us, state.at_us)
        self.tick = Tick(program, state, self.now_us)

    def node_state(self, ref: str) -> NodeState:
        """The state of a step, pending where nothing has happened to it yet."""
        return self.state.nodes.get(ref) or NodeState()

    def deadline_us(self, key: str) -> int | None:
        """When the timer of this key fires, None where there is none, or where it stands still in a paused run."""
        timers = self.state.timers
        if self.state.paused_at_us is not None and key not in timers.absolute:
            return None
        return timers.due_at_us(key)

    def left_ms(self, key: str) -> int | None:
        """How much time is left when the run is resumed, for a timer that stands still; else None."""
        paused_at_us, due_at_us = self.state.paused_at_us, self.state.timers.due_at_us(key)
        if paused_at_us is None or due_at_us is None or key in self.state.timers.absolute:
            return None
        return max(0, due_at_us - paused_at_us) // 1_000


def standing_still(subject: Subject, key: str) -> str:
    """What is to be said of a timer that stands still, empty for others."""
    left_ms = subject.left_ms(key)
    return "" if left_ms is None else f"; {format_duration_ms(left_ms)} are left when the run is resumed"


def listed(names: Sequence[str]) -> str:
    """Names in one text."""
    shown = ", ".join(names[:MAX_NAMES_LISTED])
    rest = len(names) - MAX_NAMES_LISTED
    return f"{shown} and {rest} more" if rest > 0 else shown


def shown(value: JsonValue) -> JsonValue:
    """A value as details carry it: itself, or the beginning of its text where it is large."""
    text = encode_value(value)
    if len(text) <= MAX_SHOWN_BYTES:
        return value
    return f"{text[:MAX_SHOWN_BYTES].decode(errors='ignore')}… ({len(text)} bytes)"


def condition_details(expression: Expression, activation: Activation) -> JsonObject:
    """A condition, the values that it finds now, and whether it holds with them (null: it fails to evaluate)."""
    values: JsonObject = {}
    problems: JsonObject = {}
    for seen in values_seen(expression.source, activation):
        if seen.problem:
            problems[seen.path] = seen.problem
        else:
            values[seen.path] = shown(seen.value)
    details: JsonObject = {"condition": expression.source, "values": values}
    if problems:
        details["missing"] = problems
    try:
        details["holds"] = expression.evaluate_boolean(activation)
    except ExpressionError as error:
        details["holds"], details["error"] = None, str(error)
    return details
