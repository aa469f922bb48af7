"""The trace that a run belongs to, as W3C Trace Context writes it (`traceparent`). Pure.

A run that is traced carries a `traceparent` in its first row: the trace, the span that is the run's parent there, and
whether it is sampled. Everything else is derived: a span's id is a hash of what it is about, so that every host, in
every life of it, names the same span alike, and what is told twice has one name.

A run that begins a trace of its own has the id of its own span where the parent's stands.
"""

import re
from hashlib import sha256
from typing import Final

import msgspec

_TRACEPARENT: Final = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_SAMPLED: Final = 0x01


class TraceContext(msgspec.Struct, frozen=True, gc=False):
    """A trace, a span in it, and its flags. Ids are integers, as tracing libraries want them; neither is 0."""

    trace_id: int
    span_id: int
    flags: int

    @property
    def is_sampled(self) -> bool:
        """Whether spans of this trace are kept."""
        return bool(self.flags & _SAMPLED)


def parse_traceparent(text: str) -> TraceContext | None:
    """What a `traceparent` says; None for text that is none, or of another version of the format."""
    match = _TRACEPARENT.fullmatch(text)
    if match is None:
        return None
    trace_id, span_id, flags = (int(part, 16) for part in match.groups())
    return TraceContext(trace_id, span_id, flags) if trace_id and span_id else None


def format_traceparent(context: TraceContext) -> str:
    """The other way."""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.flags:02x}"


def own_trace_id(run_id: str) -> int:
    """The trace of a run that belongs to none."""
    return _derived(16, "trace", run_id)


def own_traceparent(run_id: str, *, is_sampled: bool = True) -> str:
    """The first row of a run that begins a trace of its own."""
    context = TraceContext(own_trace_id(run_id), run_span_id(run_id), _SAMPLED if is_sampled else 0)
    return format_traceparent(context)


def run_span_id(run_id: str, reopened_count: int = 0) -> int:
    """A run, from its start or from being reopened to its end."""
    return _derived(8, "run", run_id, str(reopened_count))


def tick_span_id(run_id: str, version: int) -> int:
    """The decision that is this row of the run's journal."""
    return _derived(8, "tick", run_id, str(version))


def start_span_id(run_id: str) -> int:
    """A run's beginning, which shows in its parent's trace before the run has ended."""
    return _derived(8, "start", run_id)


def attempt_span_id(token: str) -> int:
    """One attempt, however often it is delivered."""
    return _derived(8, "attempt", token)


def traceparent_below(traceparent: str, span_id: int) -> str:
    """The context of what happens within a span of the same trace; empty for a run that is not traced."""
    context = parse_traceparent(traceparent)
    if context is None:
        return ""
    return format_traceparent(TraceContext(context.trace_id, span_id, context.flags))


def _derived(size_bytes: int, *parts: str) -> int:
    number = int.from_bytes(sha256("\x00".join(parts).encode()).digest()[:size_bytes], "big")
    return number or 1
