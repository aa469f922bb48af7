"""Compaction on hosts: the run goes on as if nothing had happened, and its history begins anew."""

import asyncio

import pytest

from ductor.actors.compaction import BATCHES_PER_SWEEP, COMPACTED_ROWS_KEPT_MS, CompactedRows
from ductor.actors.engine_options import EngineOptions
from ductor.actors.errors import ControlRefusedError
from ductor.actors.host import EngineHost, HostOptions
from ductor.actors.recorded_programs import RunPrograms
from ductor.actors.tick import controls
from ductor.actors.verification import run_receipt, verify_run
from ductor.actors.what_if import what_if
from ductor.journal.compaction import is_compacted, state_before
from ductor.journal.compaction_store import MAX_REMOVED_ROWS, CompactedRun
from ductor.journal.recorded import recorded_run
from ductor.journal.records import Control
from ductor.journal.replay import loaded_state
from ductor.testing import virtual_time
from tests.actors.hosting import Bench
from tests.actors.recorded import programs_of
from tests.actors.tick.driver import Driver

LISTENING = """
context: {heard: []}
output: ${context.heard}
steps:
  - {ref: first, type: wait, signal: word, effects: {heard: "${context.heard + [output]}"}, next: work}
  - {ref: work, type: task, task: work, next: second}
  - {ref: second, type: wait, signal: word, effects: {heard: "${context.heard + [output]}"}}
"""

ROUNDS = """
output: ${steps.a.output}
steps:
  - {ref: a, type: task, task: work, repeat: {until: output >= 300, max: 1000}}
"""


async def compact(bench: Bench, host: EngineHost, run_id: str, request_id: str = "c") -> Control:
    """Ask, and wait until the run has answered."""
    await host.request(run_id, "compact", request_id=request_id)
    while True:
        control = await bench.store.control(run_id, request_id)
        assert control is not None
        if control.disposition:
            return control
        await asyncio.sleep(0.001)


async def until_open(bench: Bench, run_id: str, node: str) -> None:
    """Until the step is under way."""
    while True:
        loaded = await bench.store.load(run_id)
        if loaded is not None and node in loaded_state(loaded).open_nodes:
            return
        await asyncio.sleep(0.001)


@virtual_time
async def test_a_compacted_run_goes_on_also_on_a_fresh_host():
    bench = Bench()
    async with bench.host(LISTENING, bench.handler()) as host:
        run_id = (await host.start("subject", {})).run_id
        await host.signal(run_id, "word", "one")
        await until_open(bench, run_id, "second")
        before = await recorded_run(bench.store, run_id)
        receipt = run_receipt(before)
        assert (await compact(bench, host, run_id)).disposition == "applied"
    await bench.store.remove_compacted_rows(run_id, before_us=bench.clock.now_us() + 1)
    await bench.store.close()
    async with bench.host(LISTENING, bench.handler()) as host:
        await host.signal(run_id, "word", "two")
        outcome = await host.outcome(run_id)
        assert outcome.output == ["one", "two"]
        run = await recorded_run(bench.store, run_id)
        assert is_compacted(run.rows[0].events)
        assert run.first_version == len(before.rows) + 1
        programs = RunPrograms.load(run.definition)
        found = verify_run(run, programs)
        assert (found.holds, found.is_recomputed, found.version) == (True, True, run.rows[-1].version)
        assert "history begins at" in verify_run(run, receipt=receipt).problems[0]
        assert not verify_run(run, receipt=run_receipt(run)).problems
        told = what_if(run, programs, programs)
        assert (told.verdict, told.recorded_status, told.what_if_status) == ("safe", "completed", "completed")
        assert told.first_difference is None
        other = programs_of(LISTENING.replace("type: task, task: work", "type: task, task: other"))
        assert what_if(run, programs, other).first_difference is None  # all that it would have done is gone
        louder = programs_of(LISTENING.replace("output: ${context.heard}", "output: ${context.heard.size()}"))
        told = what_if(run, programs, louder)
        assert told.first_difference is not None
        assert told.first_difference.version == run.rows[-1].version


@virtual_time
async def test_rows_are_removed_in_the_background_once_their_time_is_over():
    bench = Bench()
    async with bench.host(LISTENING, bench.handler()) as host:
        run_id = (await host.start("subject", {})).run_id
        await until_open(bench, run_id, "first")
        await host.signal(run_id, "word", "one")
        await until_open(bench, run_id, "second")
        assert (await compact(bench, host, run_id)).disposition == "applied"
        version = (await bench.store.history(run_id))[-1].version
        await asyncio.sleep(COMPACTED_ROWS_KEPT_MS / 1_000 - 5)
        assert (await bench.store.history(run_id))[0].version == 1
        await asyncio.sleep(60)
        assert (await bench.store.history(run_id))[0].version == version


@virtual_time
async def test_long_runs_are_compacted_by_themselves_where_a_host_is_told_to():
    bench = Bench()
    options = HostOptions(engine=EngineOptions(compact_every_rows=50))

    async def work(number: int) -> int:
        await asyncio.sleep(1)
        return number

    async with bench.host(ROUNDS, bench.handler(work), options=options) as host:
        started = await host.start("subject", {})
        outcome = await host.outcome(started.run_id)
        assert outcome.output == 300
        rows = await bench.store.history(started.run_id)
        compacted = [row.version for row in rows if is_compacted(row.events)]
        assert compacted[-1] > 250
        assert len(rows) < 200
        run = await recorded_run(bench.store, started.run_id)
        assert verify_run(run, RunPrograms.load(run.definition)).holds


@virtual_time
async def test_a_run_that_has_ended_is_not_compacted():
    bench = Bench()
    async with bench.host("steps: [{ref: a, type: task, task: work}]", bench.handler()) as host:
        started = await host.start("subject", {})
        await host.outcome(started.run_id)
        with pytest.raises(ControlRefusedError, match="completed"):
            await host.request(started.run_id, "compact")


def test_a_paused_run_is_compacted_and_resumes():
    driver = Driver(LISTENING)
    driver.signal("word", "one")
    driver.request("pause", "c-1")
    driver.request("compact", "c-2")
    driver.request("resume", "c-3")
    driver.finish("work", 1)
    driver.signal("word", "two")
    assert driver.state.output == ["one", "two"]
    (row,) = [row for row in driver.rows if is_compacted(row.events)]
    assert state_before(row).status == "paused"


def test_a_state_that_no_row_takes_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(controls, "MAX_COMPACTED_STATE_BYTES", 10)
    driver = Driver(LISTENING)
    driver.signal("word", "one")
    driver.request("compact", "c-2")
    assert driver.refusals
    assert "continue the run as new" in driver.refusals[0]
    assert not any(is_compacted(row.events) for row in driver.rows)


class CountingRemovals:
    """A store in which every compacted run has more to remove than one sweep may."""

    def __init__(self) -> None:
        self.removed: list[str] = []
        self.pages: list[str | None] = []

    async def compacted_runs(self, after_run_id: str | None, limit: int) -> list[CompactedRun]:
        self.pages.append(after_run_id)
        runs = [CompactedRun(run_id, 9_000, has_older_rows=run_id != "b") for run_id in ("a", "b", "c")]
        return [run for run in runs if run.run_id > (after_run_id or "")][:limit]

    async def remove_compacted_rows(self, run_id: str, *, before_us: int, limit: int = MAX_REMOVED_ROWS) -> int:
        assert limit == MAX_REMOVED_ROWS
        self.removed.append(run_id)
        return limit


async def test_a_sweep_removes_so_much_at_most_and_every_run_gets_its_turn():
    store = CountingRemovals()
    rows = CompactedRows(store)
    for _ in range(4):
        await rows.sweep(0)
    assert store.removed == ["a"] * BATCHES_PER_SWEEP + ["c"] * BATCHES_PER_SWEEP + ["a"] * BATCHES_PER_SWEEP
    assert store.pages == [None, "a", "c", None]
