"""Runs that a tick starts: what their first row holds, and who carries them on."""

from collections.abc import Callable
from typing import Any

import pytest

from ductor.actors import handing_over
from ductor.actors.engine import Engine
from ductor.actors.handing_over import StartingRun, starting_runs
from ductor.actors.messages import Assignment, RunBegun, Wake
from ductor.actors.tick.outbox import Outbox, StartedRun
from ductor.actors.verify import comparable
from ductor.journal.codec import decode_events, encode_value
from ductor.journal.commit import Commit, CommitAnswer, Payload
from ductor.journal.events import PayloadRef, RunStarted
from ductor.journal.fold import fold_row
from ductor.journal.ids import derived_run_id
from ductor.journal.state import RunState
from ductor.testing import virtual_time
from tests.actors.hosting import Bench, WrappedStore
from tests.actors.test_subworkflow import PARENT, hosting
from tests.actors.tick.driver import program_of

AT_US = 1_800_000_000_000_000
WORKS = 'steps: [{ref: a, type: task, task: work, input: "${trigger}"}]'
LARGE = "x" * 40_000


def starting(text: str, *, begins_here: bool = True, **fields: Any) -> StartingRun:
    program = program_of(text)
    payloads: tuple[Payload, ...] = ()
    if fields.get("trigger") == LARGE:
        payload = Payload(hash="f" * 64, text=encode_value(LARGE))
        ref = PayloadRef(hash=payload.hash, size_bytes=len(payload.text))
        fields, payloads = {**fields, "trigger": None, "trigger_ref": ref}, (payload,)
    started = RunStarted(
        tenant="acme",
        definition="subject",
        manifest_hash=program.manifest_hash,
        entrypoints=program.entrypoints,
        **{"parent_run_id": "p", "parent_node": "call", "parent_waits_for": "terminal", "trigger": 7, **fields},
    )
    outbox = Outbox(started=[StartedRun(derived_run_id(AT_US, "p", "call", "1"), started, payloads)])
    (run,) = starting_runs(program, {}, outbox, AT_US, lambda _run_id: begins_here)
    return run


def types_of(run: StartingRun) -> list[str]:
    return [type(event).__name__ for event in decode_events(run.new_run.events, run_id=run.new_run.run_id, version=1)]


def test_the_first_row_holds_what_the_run_decides_first():
    run = starting(WORKS)
    assert types_of(run) == ["RunStarted", "AttemptDispatched"]
    assert run.new_run.start.status == "running"
    assert run.begun.first is not None
    assert run.begun.first.dispatched == ["a"]


@pytest.mark.parametrize("text", [WORKS, "steps: [{ref: a, type: wait, duration: 1h}]"])
@pytest.mark.parametrize("begins_here", [True, False])
def test_what_the_coordinator_is_told_is_what_the_row_gives(text: str, begins_here: bool):
    run = starting(text, begins_here=begins_here)
    new, state = run.new_run, RunState(run_id=run.new_run.run_id)
    fold_row(state, 1, new.at_us, new.hash, decode_events(new.events, run_id=new.run_id, version=1))
    assert comparable(run.begun.state) == comparable(state)
    assert (new.start.status, new.due_at_us) == (state.status, state.next_due_us)


def test_large_values_go_with_the_run():
    run = starting(WORKS, trigger=LARGE)
    assert run.begun.first is not None
    assert run.new_run.payloads[0].text == encode_value(LARGE)
    assert LARGE in run.begun.state.payloads.values()


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        pytest.param(WORKS, {"key": "k"}, id="its key may be taken"),
        pytest.param(WORKS, {"chain_run_id": "c"}, id="it continues another run"),
        pytest.param("steps: [{ref: a, type: transform, value: 1}]", {}, id="it ends, and tells its parent"),
        pytest.param(
            "steps: [{ref: a, type: transform, value: 1}]", {"parent_waits_for": ""}, id="it ends, and tells nobody"
        ),
        pytest.param("steps: [{ref: a, type: wait, event: e}]", {}, id="it waits for an event"),
        pytest.param("steps: [{ref: a, type: approval, approvers: [ann]}]", {}, id="it asks somebody"),
    ],
)
def test_a_run_of_which_more_follows_than_a_row_begins_with_nothing(text: str, fields: dict[str, Any]):
    run = starting(text, **fields)
    assert types_of(run) == ["RunStarted"]
    assert run.new_run.start.status == "pending"
    assert run.begun.first is None


def test_a_run_that_goes_on_elsewhere_begins_with_nothing():
    assert types_of(starting(WORKS, begins_here=False)) == ["RunStarted"]


def test_a_run_that_can_not_be_computed_leaves_those_beside_it_alone(monkeypatch: pytest.MonkeyPatch):
    def broken(*_arguments: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(handing_over, "compute", broken)
    assert types_of(starting(WORKS)) == ["RunStarted"]


class Watched(WrappedStore):
    """Looks, when a commit that starts runs is answered, whether any attempt of theirs is with a worker already."""

    offered_early = 0
    started = 0
    offered: Callable[[], int] = staticmethod(lambda: 0)

    def commit(self, commit: Commit, answer: Callable[[CommitAnswer], None]) -> None:
        self.started += len(commit.new_runs)
        if commit.new_runs:
            self.offered_early += self.offered()
        super().commit(commit, answer)


CHILD_OF_ONE_STEP = f"ductor: 1\nname: child\n{WORKS}\noutput: ${{steps.a.output}}\n"
PARENT_OF_ONE = PARENT.replace(", MORE", "")


@virtual_time
async def test_nothing_of_a_child_is_dispatched_before_the_commit_that_starts_it(monkeypatch: pytest.MonkeyPatch):
    offered: list[str] = []
    offer = Engine.offer

    def offer_and_tell(engine: Engine, assignment: Assignment) -> None:
        offered.append(assignment.run_id)
        offer(engine, assignment)

    monkeypatch.setattr(Engine, "offer", offer_and_tell)
    bench = Bench()
    store = Watched(bench.store)
    store.offered = lambda: len(offered)
    async with hosting(bench, CHILD_OF_ONE_STEP, PARENT_OF_ONE, store=store) as host:
        outcome = await host.outcome((await host.start("subject", {"does": "x"})).run_id)
    assert outcome.status == "completed"
    assert (store.started, store.offered_early, len(offered)) == (1, 0, 1)


@virtual_time
async def test_a_child_that_somebody_has_loaded_meanwhile_goes_on(monkeypatch: pytest.MonkeyPatch):
    begin = Engine.begin

    def woken_first(engine: Engine, begun: RunBegun) -> None:
        engine.tell(begun.state.run_id, Wake(reissues=False))
        begin(engine, begun)

    monkeypatch.setattr(Engine, "begin", woken_first)
    bench = Bench()
    async with hosting(bench, CHILD_OF_ONE_STEP, PARENT_OF_ONE) as host:
        began_us = bench.clock.now_us()
        outcome = await host.outcome((await host.start("subject", {"does": "x"})).run_id)
        assert (outcome.status, outcome.output) == ("completed", "x")
        assert bench.clock.now_us() - began_us < 100_000  # nobody had to find it
