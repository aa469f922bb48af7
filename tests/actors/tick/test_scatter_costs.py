"""What one child costs does not depend on how many there are: calls of functions, events, bytes. Of child runs that
holds for both sides: for what the parent does with each, and for what starting each of them takes."""

import sys
from collections.abc import Callable
from types import FrameType

import pytest

from ductor.actors.handing_over import StartingRun, starting_runs
from ductor.actors.tick.compute import TickInputs, compute
from ductor.actors.tick.payload import TickPayload
from ductor.actors.tick.settle import withdraw
from ductor.actors.tick.working import Tick
from ductor.definitions.program import Program
from ductor.journal.child_reports import ChildReport, report_message
from ductor.journal.codec import encode_events, encode_state
from ductor.journal.events import AttemptFinished, RunStarted
from ductor.journal.fold import finish_row
from ductor.journal.state import RunState
from tests.actors.tick.driver import program_of

TEXT = """
steps:
  - ref: each
    type: scatter
    items_expr: trigger
    max_inline_children: 10000
    complete_when: failed > 1000
    CONCURRENCY
    do: {type: task, task: t, input: "${item}"}
    next: all
  - {ref: all, type: gather, scatter_ref: each}
"""
RUNS = "mode: child_workflow"
SMALL, LARGE = 10, 10_000


class Bare:
    """A run of a scatter without everything that proves it.

    Attributes:
        starting: the child runs that the latest tick has started, as the commit and their coordinators get them.
    """

    def __init__(self, children: int, concurrency: str = "") -> None:
        self.program: Program = program_of(TEXT.replace("CONCURRENCY", concurrency))
        self.starting: list[StartingRun] = []
        self.state = RunState(run_id="run-1")
        started = RunStarted(
            tenant="t",
            definition="subject",
            manifest_hash=self.program.manifest_hash,
            entrypoints=self.program.entrypoints,
            trigger=["item " + "x" * 100] * children,
        )
        self.now_us = 1_000_000
        payload = self.tick(TickInputs(started=started))
        while payload.is_limited:
            payload = self.tick(TickInputs())

    def tick(self, inputs: TickInputs) -> TickPayload:
        self.now_us += 1_000
        payload = compute(self.program, self.state, inputs, self.now_us)
        self.starting = starting_runs(self.program, {}, payload.outbox, self.now_us, lambda _run_id: True)
        finish_row(self.state, b"")
        return payload

    def report(self, *indexes: int) -> TickPayload:
        """The child runs of these indexes have completed."""
        reports = [
            report_message(
                ChildReport(
                    run_id=self.state.node(f"each[{index}]").child_run_id,
                    status="completed",
                    generation=1,
                    output={"n": index},
                ),
                f"each[{index}]",
            )
            for index in indexes
        ]
        payload = self.tick(TickInputs(messages=reports))
        while payload.is_limited:
            payload = self.tick(TickInputs(messages=payload.unread))
        return payload

    def finish(self, *indexes: int) -> TickPayload:
        results = [
            AttemptFinished(node=f"each[{index}]", generation=1, outcome="succeeded", output={"n": index})
            for index in indexes
        ]
        return self.tick(TickInputs(results=results))


def calls_of(work: Callable[[], object]) -> int:
    """How many functions are called."""
    count = 0

    def counting(_frame: FrameType, kind: str, _argument: object) -> None:
        nonlocal count
        count += kind in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(counting)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("concurrency", ["", "concurrency: 4"])
def test_applying_one_result_costs_the_same_for_ten_and_for_ten_thousand_children(concurrency):
    small, large = Bare(SMALL, concurrency), Bare(LARGE, concurrency)
    for run in (small, large):
        run.finish(0)  # what is made once is made
    assert abs(calls_of(lambda: large.finish(2)) - calls_of(lambda: small.finish(2))) <= 2


def test_it_writes_the_same_bytes():
    texts = [encode_events(Bare(children).finish(3).events) for children in (SMALL, LARGE)]
    assert texts[0] == texts[1]


def test_a_whole_fan_out_is_linear():
    def calls(children: int) -> int:
        run = Bare(children)
        return calls_of(lambda: run.finish(*range(children)))

    assert calls(LARGE) < 1.2 * (LARGE / 1_000) * calls(1_000)


def test_cancelling_all_children_is_linear():
    def calls(children: int) -> int:
        run = Bare(children)
        scatter = run.program.nodes["each"]
        return calls_of(lambda: withdraw(Tick(run.program, run.state, run.now_us), scatter))

    assert calls(LARGE) < 1.2 * (LARGE / 1_000) * calls(1_000)


def test_the_state_of_a_child_is_small_and_items_are_held_once():
    run = Bare(LARGE)
    run.finish(*range(LARGE // 2))
    assert len(encode_state(run.state)) / LARGE < 400
    assert sum(len(str(value)) for value in run.state.payloads.values()) < 2 * LARGE * 120


@pytest.mark.parametrize("fields", [RUNS, f"{RUNS}\n    concurrency: 4"])
def test_hearing_of_one_child_run_costs_the_same_for_ten_and_for_ten_thousand(fields):
    small, large = Bare(SMALL, fields), Bare(LARGE, fields)
    for run in (small, large):
        run.report(0)  # what is made once is made
    assert abs(calls_of(lambda: large.report(2)) - calls_of(lambda: small.report(2))) <= 2


def test_hearing_of_a_child_run_writes_the_same_bytes():
    def row(children: int) -> bytes:
        run = Bare(children, RUNS)
        events = run.report(3).events
        return encode_events(events).replace(run.state.node("each[3]").child_run_id.encode(), b"child")

    assert row(SMALL) == row(LARGE)


def test_starting_one_more_child_run_costs_the_same_for_ten_and_for_ten_thousand():
    def cost(children: int) -> tuple[int, int]:
        run = Bare(children, f"{RUNS}\n    concurrency: 4")
        run.report(0)  # what is made once is made
        calls = calls_of(lambda: run.report(1))
        (started,) = run.starting
        return calls, len(started.new_run.events)

    (few_calls, few_bytes), (many_calls, many_bytes) = cost(SMALL), cost(LARGE)
    assert abs(many_calls - few_calls) <= 2
    assert many_bytes == few_bytes


def test_a_whole_fan_out_of_child_runs_is_linear():
    def calls(children: int) -> int:
        def whole() -> None:
            run = Bare(children, RUNS)
            run.report(*range(children))
            assert run.state.status == "completed"

        return calls_of(whole)

    assert calls(LARGE) < 1.2 * (LARGE / 1_000) * calls(1_000)


def test_asking_all_child_runs_to_stop_is_linear():
    def calls(children: int) -> int:
        run = Bare(children, RUNS)
        scatter = run.program.nodes["each"]
        return calls_of(lambda: withdraw(Tick(run.program, run.state, run.now_us), scatter))

    assert calls(LARGE) < 1.2 * (LARGE / 1_000) * calls(1_000)
