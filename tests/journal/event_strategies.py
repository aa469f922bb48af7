"""Hypothesis strategies for what a journal can hold: exact JSON, every event, rows of events."""

from hypothesis import strategies as st

from ductor.journal.codec import MAX_INTEGER_DIGITS
from ductor.journal.events import (
    AnyEvent,
    AttemptDispatched,
    AttemptFinished,
    CheckpointReached,
    ContextPatched,
    ControlReceived,
    DefersStarted,
    ErrorInfo,
    NodeParked,
    NodeSettled,
    PayloadRef,
    RunClosing,
    RunEnded,
    RunStarted,
    TickLimited,
    TimerFired,
)

MAX_ROWS = 12
MAX_EVENTS_IN_ROW = 6

_BOUND = 10**MAX_INTEGER_DIGITS - 1

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
integers = st.one_of(
    st.integers(-10, 10),
    st.integers(-(2**70), 2**70),
    st.sampled_from([2**53, 2**53 + 1, 2**63, 2**64, -(2**63) - 1, _BOUND, -_BOUND]),
)
floats = st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | integers | floats | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
json_objects = st.dictionaries(texts, json_values, max_size=3)

nodes = st.sampled_from(["reserve", "pay", "ship", "notify", "größe", "😀"])
some_nodes = st.lists(nodes, max_size=3, unique=True).map(tuple)
times_us = st.integers(0, 2**50)
counts = st.integers(0, 5)
refs = st.none() | st.builds(PayloadRef, st.sampled_from(["ab12", "cd34"]), st.integers(1, 9_000_000))
errors = st.none() | st.builds(
    ErrorInfo,
    type=texts,
    message=texts,
    details=json_values,
    retryable=st.booleans(),
    retry_after_ms=st.none() | counts,
)
end_statuses = st.sampled_from(["completed", "failed", "cancelled", "terminated"])
outcomes = {"output": json_values, "output_ref": refs, "error": errors}

events: st.SearchStrategy[AnyEvent] = st.one_of(
    st.builds(
        RunStarted,
        tenant=texts,
        definition=texts,
        manifest_hash=texts,
        entrypoints=some_nodes,
        trigger=json_values,
        trigger_ref=refs,
        config=json_objects,
        context=json_objects,
        search_attributes=json_objects,
        key=st.none() | texts,
        timeout_at_us=st.none() | times_us,
        depth=counts,
    ),
    st.builds(
        AttemptFinished,
        node=nodes,
        generation=counts,
        outcome=st.sampled_from(["succeeded", "failed", "cancelled"]),
        worker=texts,
        **outcomes,
    ),
    st.builds(TimerFired, key=nodes | st.sampled_from(["@timeout", "@grace"]), due_at_us=times_us),
    st.builds(
        ControlReceived,
        request_id=texts,
        kind=st.sampled_from(["cancel", "terminate", "pause", "resume", "redrive", "continue_as_new", "migrate"]),
        arguments=json_objects,
    ),
    st.builds(
        AttemptDispatched,
        node=nodes,
        generation=counts,
        task=texts,
        input=json_values,
        input_ref=refs,
        queue=texts,
        attempt=counts,
        iteration=counts,
    ),
    st.builds(
        NodeParked,
        node=nodes,
        waiting=st.sampled_from(["timer", "approval", "signal", "retry", "repeat"]),
        until_us=st.none() | times_us,
    ),
    st.builds(
        NodeSettled,
        node=nodes,
        status=st.sampled_from(["succeeded", "failed", "skipped", "cancelled"]),
        outcome=texts,
        taken=some_nodes,
        untaken=some_nodes,
        **outcomes,
    ),
    st.builds(ContextPatched, node=nodes, patch=json_objects),
    st.builds(CheckpointReached, node=nodes, checkpoint=texts),
    st.builds(RunClosing, status=end_statuses, reason=texts, grace_until_us=st.none() | times_us, **outcomes),
    st.builds(DefersStarted, defers=some_nodes),
    st.builds(TickLimited),
    st.builds(RunEnded, status=end_statuses, **outcomes),
)
rows = st.lists(st.lists(events, max_size=MAX_EVENTS_IN_ROW), max_size=MAX_ROWS)
