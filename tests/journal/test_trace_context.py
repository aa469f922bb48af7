"""Ids of spans: the same wherever they are derived, and different for different things."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    traceparent_below,
)

RUN = "0190a5a0-0000-7000-8000-000000000001"


@given(
    st.integers(min_value=1, max_value=2**128 - 1),
    st.integers(min_value=1, max_value=2**64 - 1),
    st.integers(min_value=0, max_value=255),
)
def test_a_context_is_read_as_it_was_written(trace_id: int, span_id: int, flags: int):
    context = TraceContext(trace_id, span_id, flags)
    assert parse_traceparent(format_traceparent(context)) == context


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00-" + "0" * 32 + "-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-" + "0" * 16 + "-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\n",
    ],
)
def test_what_is_no_context_is_none(text: str):
    assert parse_traceparent(text) is None
    assert traceparent_below(text, 1) == ""


def test_ids_are_those_of_every_other_version():
    """They link spans that different hosts tell, maybe of different releases: a change breaks traces."""
    assert f"{own_trace_id(RUN):032x}" == "2e93767ae2796df8cb6365fc6dacdbd6"
    assert f"{run_span_id(RUN):016x}" == "8de0035515854e30"
    assert f"{attempt_span_id(RUN + '/a/1'):016x}" == "5d40ad1aacebc73c"


def test_different_things_have_different_ids():
    ids = [
        run_span_id(RUN),
        run_span_id(RUN, 1),
        start_span_id(RUN),
        tick_span_id(RUN, 1),
        tick_span_id(RUN, 11),
        attempt_span_id(f"{RUN}/a/1"),
        attempt_span_id(f"{RUN}/a/11"),
    ]
    assert len(set(ids)) == len(ids)


def test_what_is_below_shares_trace_and_flags():
    below = parse_traceparent(traceparent_below("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", 7))
    assert below == TraceContext(0x4BF92F3577B34DA6A3CE929D0E0E4736, 7, 0)
    assert not below.is_sampled
    own = parse_traceparent(own_traceparent(RUN))
    assert own == TraceContext(own_trace_id(RUN), run_span_id(RUN), 1)
