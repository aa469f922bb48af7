"""Timelines say of each step when it worked and waited, as its journal has it."""

import asyncio
from collections import Counter
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ductor
from ductor.journal.events import (
    AnyEvent,
    AttemptDispatched,
    AttemptFinished,
    ErrorInfo,
    NodeSettled,
    RunStarted,
)
from ductor.reports import EmptyPictureError, Timeline, timeline_of, timeline_svg
from ductor.reports.timeline_picture import MAX_PICTURE_NODES, shown_nodes
from ductor.testing import Engine, virtual_time
from tests.ductor.recorded_runs import document
from tests.projections.journals import Journal, events_of, random_journal

SECOND_US = 1_000_000
ORDER = """\
ductor: 1
name: order
steps:
  - {ref: reserve, type: task, task: reserve, retry: {max_attempts: 3, initial: 4s, jitter: 0}, next: total}
  - {ref: total, type: transform, value: 1, next: approve}
  - {ref: approve, type: approval, approvers: [ann], next: {approved: ship}}
  - {ref: ship, type: task, task: ship}
  - {ref: gift, type: task, task: ship, run_if: "false"}
"""
Rows = list[tuple[int, list[AnyEvent]]]
Told = list[tuple[object, ...]]


def told(timeline: Timeline) -> Told:
    """Every span with its beginning and its length, in seconds since the run began."""
    return [
        (
            node.ref,
            span.kind,
            span.outcome or span.detail,
            (span.began_at_us - timeline.started_at_us) / SECOND_US,
            None if span.ended_at_us is None else (span.ended_at_us - span.began_at_us) / SECOND_US,
        )
        for node in timeline.nodes
        for span in node.spans
    ]


def about(seconds: float) -> object:
    """What the engine itself takes of virtual time is left out."""
    return pytest.approx(seconds, abs=0.1)


async def read(run: ductor.RunHandle, engine: Engine) -> Timeline:
    view, rows = await run.status(), await run.history()
    now_us = await engine.engine.store.now_us()
    return timeline_of(run.run_id, view.status, [(row.at_us, row.events) for row in rows], now_us=now_us)


@virtual_time
async def test_attempts_retries_waits_and_pauses_are_told_with_their_times():
    mocks: dict[str, list[object]] = {"reserve": [ConnectionError("away"), {"ok": True}], "ship": [{"ok": True}]}
    takes = {"reserve": 2.0, "ship": 3.0}
    async with Engine(definitions=[document(ORDER)], mocks=mocks, takes_s=takes) as engine:
        run = await engine.start("order", {})
        await asyncio.sleep(20)
        open_now = await read(run, engine)
        assert open_now.status == "waiting"
        assert told(open_now)[-1] == ("approve", "wait", "approval", about(8), None)
        assert open_now.ended_at_us - open_now.started_at_us == pytest.approx(20 * SECOND_US, abs=SECOND_US // 10)
        await run.pause()
        await asyncio.sleep(5)
        await run.resume()
        await asyncio.sleep(5)
        await run.approve("approve", by="ann")
        await run.result()
        timeline = await read(run, engine)
    assert (timeline.definition, timeline.status, timeline.skipped) == ("order", "completed", 1)
    worked = [one for one in told(timeline) if one[1] != "queued"]
    assert worked == [
        ("reserve", "attempt", "failed", about(0), about(2)),
        ("reserve", "wait", "retry", about(2), about(4)),
        ("reserve", "attempt", "succeeded", about(6), about(2)),
        ("total", "instant", "succeeded", about(8), about(0)),
        ("approve", "wait", "approval", about(8), about(22)),
        ("ship", "attempt", "succeeded", about(30), about(3)),
    ]
    ((began, ended),) = timeline.pauses
    assert ended is not None
    assert (ended - began) / SECOND_US == pytest.approx(5, abs=0.1)


def test_clocks_of_workers_stay_within_the_rows():
    """A worker whose clock is an hour ahead does not draw its attempt into the next hour."""
    hour = 3_600 * SECOND_US
    rows: Rows = [
        (1_000, [AttemptDispatched(node="a", generation=1, task="t")]),
        (5_000, [AttemptFinished(node="a", generation=1, outcome="failed", error=ErrorInfo(type="E", message=""),
                                 started_at_us=2_000 + hour, finished_at_us=4_000 + hour)]),
        (9_000, [NodeSettled(node="a", status="failed", outcome="error")]),
    ]  # fmt: skip
    (node,) = timeline_of("r", "failed", rows).nodes
    assert [(span.kind, span.began_at_us, span.ended_at_us) for span in node.spans] == [
        ("queued", 1_000, 5_000),
        ("attempt", 5_000, 5_000),
    ]
    assert node.spans[1].detail == "attempt 1, E"


def test_an_attempt_without_a_result_is_told_as_abandoned():
    rows: Rows = [
        (1_000, [AttemptDispatched(node="a", generation=1, task="t")]),
        (9_000, [NodeSettled(node="a", status="cancelled", outcome="")]),
    ]
    (node,) = timeline_of("r", "cancelled", rows).nodes
    assert [(span.kind, span.outcome, span.length_us(0)) for span in node.spans] == [("attempt", "abandoned", 8_000)]


def timeline_of_journal(journal: Journal) -> Timeline:
    return timeline_of(journal.run_id, journal.state.status, [(row.at_us, events_of(row)) for row in journal.rows])


@given(st.integers(0, 100_000))
def test_spans_of_a_node_follow_each_other_within_the_run(seed: int):
    journal = random_journal(seed)
    timeline = timeline_of_journal(journal)
    events = [event for row in journal.rows for event in events_of(row)]
    for node in timeline.nodes:
        at_us = timeline.started_at_us
        for span in node.spans:
            assert span.began_at_us >= at_us
            at_us = span.began_at_us if span.ended_at_us is None else span.ended_at_us
            assert at_us >= span.began_at_us
        assert at_us <= timeline.ended_at_us
        assert all(span.ended_at_us is not None for span in node.spans[:-1])
        assert node.status == journal.state.nodes[node.ref].status
    spans = [span for node in timeline.nodes for span in node.spans]
    dispatched = sum(isinstance(event, AttemptDispatched) for event in events)
    assert sum(span.kind in ("attempt", "queued") for span in spans) >= dispatched
    outcomes = Counter(span.outcome for span in spans if span.kind == "attempt" and span.outcome != "abandoned")
    assert outcomes == Counter(event.outcome for event in events if isinstance(event, AttemptFinished))


def large(count: int) -> Timeline:
    started = RunStarted(tenant="t", definition="large", manifest_hash="h", entrypoints=())
    rows: Rows = [(1_000, [started])]
    for number in range(count):
        status: Literal["failed", "succeeded"] = "failed" if number % 2_500 == 7 else "succeeded"
        at_us = 2_000 + number * 10
        node = f"each[{number}]"
        rows.append((at_us, [AttemptDispatched(node=node, generation=1, task="t")]))
        finished = AttemptFinished(node=node, generation=1, outcome="succeeded", started_at_us=at_us)
        length = 9_000 if number == 4_321 else 5
        rows.append((at_us + length, [finished, NodeSettled(node=node, status=status, outcome="")]))
    rows.sort(key=lambda row: row[0])
    return timeline_of("r", "completed", rows)


def test_a_picture_of_ten_thousand_nodes_is_bounded_and_shows_what_matters():
    timeline = large(10_000)
    shown = shown_nodes(timeline, MAX_PICTURE_NODES)
    refs = [node.ref for node in shown]
    assert len(refs) == MAX_PICTURE_NODES
    assert {"each[7]", "each[2507]", "each[5007]", "each[7507]", "each[4321]"} <= set(refs)
    assert refs == sorted(refs, key=lambda ref: int(ref[5:-1]))
    svg = timeline_svg(timeline)
    assert "9,800 of 10,000 steps are not shown" in svg
    assert len(svg) < 200_000
    assert len(timeline.table().rows) == 10_000


def test_a_run_that_did_nothing_yet_can_not_be_drawn():
    with pytest.raises(EmptyPictureError, match="no step of run r has begun"):
        timeline_svg(timeline_of("r", "pending", []))
