"""Traces of runs, for OpenTelemetry.

```
  caller's span
    └─ start order            when a host takes the run up
    └─ run order              from its start to its end; another one each time it is reopened
         ├─ tick order        a decision, from its computation to its commit; what it settled is told as events
         │    └─ run pack     of a child that the decision started; has ticks and attempts of its own
         └─ attempt reserve   from the handler's call to its end; the handler's own spans are below it
```

Where spans come from: from committed rows, and nothing else. A tick that lost its version check, an attempt that was
delivered twice, a commit whose answer was lost make no second span, since the journal has one row. A span's id is
derived from what it is about (`ductor.journal.trace_context`), so a handler on another machine hangs its spans below an
attempt whose span its owner tells later. A host that dies right after a commit takes the spans of that row with it; the
rows are in the journal.

Whether a run is traced is decided at its start, recorded in its first row, and holds for its children.
Needs `pip install 'ductor-engine[otel]'`.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, DEFAULT_ON, Decision, Sampler
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.util.types import AttributeValue

from ductor.actors.observing import Observer
from ductor.journal.clock import Clock, SystemClock
from ductor.journal.events import (
    AnyEvent,
    AttemptFinished,
    ChildStarted,
    ErrorInfo,
    NodeSettled,
    RunContinued,
    RunEnded,
    TimerFired,
)
from ductor.journal.ids import attempt_token
from ductor.journal.state import RunState
from ductor.journal.trace_context import (
    TraceContext,
    attempt_span_id,
    format_traceparent,
    own_trace_id,
    own_traceparent,
    parse_traceparent,
    run_span_id,
    start_span_id,
    tick_span_id,
)

MAX_SPAN_EVENTS: Final = 64
"""What one tick settled that its span tells; a tick may settle thousands of steps, and counts all of them."""
MAX_MESSAGE_CHARS: Final = 1_000

Attributes = dict[str, AttributeValue]


class Tracing(Observer):
    """Tells spans of traced runs to the processors.

        Tracing(BatchSpanProcessor(OTLPSpanExporter()))

    Runs begin in the trace that is current where `host.start` is called; without one, in a trace of their own, if the
    sampler keeps it.
    """

    def __init__(
        self,
        *processors: SpanProcessor,
        resource: Resource | None = None,
        sampler: Sampler = DEFAULT_ON,
        clock: Clock | None = None,
    ) -> None:
        """Trace.

        Args:
            processors: take spans; `close` shuts them down.
            resource: who tells; without it, what the environment says (`OTEL_SERVICE_NAME`, ...).
            sampler: decides on runs that nobody's trace has decided on.
            clock: when commits are done; a test gives its own.
        """
        self._ids = _GivenIds()
        self._sampler, self._clock = sampler, clock or SystemClock()
        self._provider = TracerProvider(
            resource=resource, sampler=ALWAYS_ON, id_generator=self._ids, shutdown_on_exit=False
        )
        for processor in processors:
            self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("ductor")
        self._telling: dict[type, Callable[[RunState, AnyEvent, TraceContext], None]] = {
            AttemptFinished: self._attempt_finished,
            RunEnded: self._run_ended,
            RunContinued: self._run_ended,
        }

    def close(self) -> None:
        """Hand over what is left, and shut the processors down."""
        self._provider.shutdown()

    # --- where runs begin, and handlers -------------------------------------------------------------------------------

    def traceparent(self, run_id: str) -> str:
        current = trace.get_current_span().get_span_context()
        if current.is_valid:
            return format_traceparent(TraceContext(current.trace_id, current.span_id, current.trace_flags))
        decided = self._sampler.should_sample(None, own_trace_id(run_id), "run")
        return own_traceparent(run_id) if decided.decision is Decision.RECORD_AND_SAMPLE else ""

    @contextmanager
    def around_handler(self, traceparent: str) -> Iterator[None]:
        found = parse_traceparent(traceparent)
        if found is None:
            yield
            return
        token = contexts.attach(trace.set_span_in_context(_remote_span(found)))
        try:
            yield
        finally:
            contexts.detach(token)

    # --- rows ---------------------------------------------------------------------------------------------------------

    def committed(self, state: RunState, events: Sequence[AnyEvent], *, has_begun: bool) -> None:
        if not state.traceparent:
            return
        parent = parse_traceparent(state.traceparent)
        if parent is None or not parent.is_sampled:
            return
        if has_begun:
            self._run_begun(state, parent)
        self._tick(state, events, parent)
        for event in events:
            tell = self._telling.get(type(event))
            if tell is not None:
                tell(state, event, parent)

    def _run_begun(self, state: RunState, parent: TraceContext) -> None:
        span = self._begin(
            f"start {state.definition}",
            start_span_id(state.run_id),
            parent,
            state.started_at_us,
            _of_run(state),
            kind=SpanKind.CONSUMER,
        )
        self._end(span, state.at_us)

    def _tick(self, state: RunState, events: Sequence[AnyEvent], parent: TraceContext) -> None:
        attributes = _of_run(state)
        attributes["ductor.version"] = state.version
        attributes["ductor.events"] = len(events)
        below = _within(parent, _run_span_id(state))
        span = self._begin(
            f"tick {state.definition}", tick_span_id(state.run_id, state.version), below, state.at_us, attributes
        )
        told = 0
        for event in events:
            if told < MAX_SPAN_EVENTS and isinstance(event, NodeSettled | ChildStarted | TimerFired):
                span.add_event(*_span_event(event), timestamp=state.at_us * 1_000)
                told += 1
        self._end(span, max(self._clock.now_us(), state.at_us))

    def _attempt_finished(self, state: RunState, event: AnyEvent, parent: TraceContext) -> None:
        assert isinstance(event, AttemptFinished)
        if not event.started_at_us:  # nobody called the handler
            return
        attributes = _of_run(state)
        attributes["ductor.step"] = event.node
        attributes["ductor.generation"] = event.generation
        attributes["ductor.outcome"] = event.outcome
        attributes["ductor.worker"] = event.worker
        span = self._begin(
            f"attempt {event.node}",
            attempt_span_id(attempt_token(state.run_id, event.node, event.generation)),
            _within(parent, _run_span_id(state)),
            event.started_at_us,
            attributes,
            kind=SpanKind.CONSUMER,
        )
        if event.error is not None:
            _tell_error(span, event.error, event.finished_at_us)
        self._end(span, event.finished_at_us)

    def _run_ended(self, state: RunState, event: AnyEvent, parent: TraceContext) -> None:
        attributes = _of_run(state)
        attributes["ductor.status"] = state.status
        attributes["ductor.version"] = state.version
        links = []
        if state.successor_run_id is not None:
            successor = state.successor_run_id
            links.append(Link(_span_context(TraceContext(own_trace_id(successor), run_span_id(successor), 1))))
        span_id = _run_span_id(state)
        is_root = parent.span_id == run_span_id(state.run_id)
        span = self._begin(
            f"run {state.definition}",
            span_id,
            None if is_root and not state.reopened_count else parent,
            state.started_at_us,
            attributes,
            trace_id=parent.trace_id,
            links=links,
        )
        if state.error is not None:
            _tell_error(span, state.error, state.at_us)
        self._end(span, max(state.ended_at_us, state.at_us))

    # --- spans --------------------------------------------------------------------------------------------------------

    def _begin(
        self,
        name: str,
        span_id: int,
        parent: TraceContext | None,
        at_us: int,
        attributes: Attributes,
        *,
        kind: SpanKind = SpanKind.INTERNAL,
        trace_id: int = 0,
        links: Sequence[Link] = (),
    ) -> Span:
        self._ids.next_span_id, self._ids.next_trace_id = span_id, trace_id
        context = contexts.Context()
        if parent is not None:
            context = trace.set_span_in_context(_remote_span(parent), context)
        return self._tracer.start_span(
            name, context, kind, attributes, links, start_time=at_us * 1_000, record_exception=False
        )

    def _end(self, span: Span, at_us: int) -> None:
        span.end(at_us * 1_000)


class _GivenIds(IdGenerator):
    """Gives the ids that it was given, just before."""

    def __init__(self) -> None:
        self.next_span_id = self.next_trace_id = 0

    def generate_span_id(self) -> int:
        return self.next_span_id

    def generate_trace_id(self) -> int:
        return self.next_trace_id


def _span_context(context: TraceContext) -> SpanContext:
    return SpanContext(context.trace_id, context.span_id, is_remote=True, trace_flags=TraceFlags(context.flags))


def _remote_span(context: TraceContext) -> NonRecordingSpan:
    return NonRecordingSpan(_span_context(context))


def _within(context: TraceContext, span_id: int) -> TraceContext:
    return TraceContext(context.trace_id, span_id, context.flags)


def _run_span_id(state: RunState) -> int:
    return run_span_id(state.run_id, state.reopened_count)


def _of_run(state: RunState) -> Attributes:
    attributes: Attributes = {
        "ductor.run_id": state.run_id,
        "ductor.tenant": state.tenant,
        "ductor.definition": state.definition,
    }
    if state.parent_run_id is not None:
        attributes["ductor.parent_run_id"] = state.parent_run_id
        attributes["ductor.parent_step"] = state.parent_node
    return attributes


def _span_event(event: NodeSettled | ChildStarted | TimerFired) -> tuple[str, Attributes]:
    if isinstance(event, NodeSettled):
        return "step settled", {"ductor.step": event.node, "ductor.step_status": event.status}
    if isinstance(event, ChildStarted):
        return "child started", {"ductor.step": event.node, "ductor.child_run_id": event.run_id}
    return "timer fired", {"ductor.timer": event.key, "ductor.due_at_us": event.due_at_us}


def _tell_error(span: Span, error: ErrorInfo, at_us: int) -> None:
    """As the conventions for exceptions have it."""
    message = error.message[:MAX_MESSAGE_CHARS]
    span.set_status(Status(StatusCode.ERROR, f"{error.type}: {message}"))
    span.set_attribute("error.type", error.type)
    span.add_event("exception", {"exception.type": error.type, "exception.message": message}, timestamp=at_us * 1_000)
