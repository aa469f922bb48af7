"""The coordinator: guarantees of the architecture, on the store in memory and in virtual time."""

import asyncio
from typing import Any

import pytest

from ductor.actors.coordinator import MAX_CONFLICTS
from ductor.actors.engine import MAX_ACTOR_FAILURES
from ductor.actors.errors import ControlRefusedError
from ductor.actors.messages import Wake
from ductor.actors.recorded_programs import RunPrograms
from ductor.actors.tick.compute import compute
from ductor.actors.verify import recomputed
from ductor.journal.codec import encode_events
from ductor.journal.commit import Refused
from ductor.journal.errors import PoisonedCommitError
from ductor.journal.fold import fold_row
from ductor.journal.records import AttemptRow
from ductor.journal.state import RunState
from ductor.testing import virtual_time
from tests.actors.hosting import ONE, TWO, Bench, ConflictingStore, HeldStore, WrappedStore


@virtual_time
async def test_a_run_goes_from_its_start_to_its_result():
    bench = Bench()
    async with bench.host(TWO, bench.handler()) as host:
        started = await host.start("subject")
        outcome = await host.outcome(started.run_id)
        assert (outcome.status, outcome.output) == ("completed", {"b": 2})
        rows = await host.history(started.run_id)
        assert [row.version for row in rows] == [1, 2, 3]
        view = await host.view(started.run_id)
        assert {step.ref: step.status for step in view.steps} == {"a": "succeeded", "b": "succeeded"}


@virtual_time
async def test_one_commit_and_one_row_for_each_sequential_step():
    bench = Bench()
    store = WrappedStore(bench.store)
    async with bench.host(TWO, bench.handler(), store) as host:
        await host.outcome((await host.start("subject")).run_id)
        assert len(store.commits) == 3  # the start, and one for each step


@virtual_time
async def test_nothing_is_dispatched_before_the_commit_that_records_it():
    """Guarantee 2."""
    bench = Bench()
    store = HeldStore(bench.store)
    store.is_holding = False
    async with bench.host(TWO, bench.handler(), store) as host:
        store.is_holding = True
        starting = asyncio.ensure_future(host.start("subject"))
        await asyncio.sleep(5)
        assert len(store.held) == 1
        assert not starting.done()
        assert bench.calls == []
        store.release()
        started = await starting
        assert (await host.outcome(started.run_id)).status == "completed"


@virtual_time
async def test_a_lost_version_check_refolds_and_loses_no_result():
    bench = Bench()
    store = ConflictingStore(bench.store, {2, 3})
    async with bench.host(TWO, bench.handler(), store) as host:
        outcome = await host.outcome((await host.start("subject")).run_id)
        assert outcome.status == "completed"
        assert bench.calls == ["work", "work"]


@virtual_time
async def test_a_run_that_keeps_losing_gives_its_wakeup_back_and_comes_again():
    bench = Bench()
    store = ConflictingStore(bench.store, set(range(2, MAX_CONFLICTS + 5)))
    async with bench.host(TWO, bench.handler(), store) as host:
        outcome = await host.outcome((await host.start("subject")).run_id)
        assert outcome.status == "completed"
        assert bench.calls == ["work", "work"]


@virtual_time
async def test_a_redundant_wakeup_writes_nothing():
    """Guarantee 6, first half."""
    bench = Bench()
    store = WrappedStore(bench.store)
    release = asyncio.Event()

    async def wait(_: int) -> None:
        await release.wait()

    async with bench.host(ONE, bench.handler(wait), store) as host:
        started = await host.start("subject")
        await asyncio.sleep(0)
        before = len(store.commits)
        for _ in range(5):
            host.engine.tell(started.run_id, Wake())
            await asyncio.sleep(0.01)
        assert len(store.commits) == before
        assert bench.calls == ["work"]
        release.set()
        await host.outcome(started.run_id)


@virtual_time
async def test_a_second_result_of_a_generation_is_never_applied():
    """Guarantee 3: the late attempt row is on record as superseded."""
    bench = Bench()
    async with bench.host(TWO, bench.handler(lambda n: asyncio.sleep(1 if n == 1 else 5, n))) as host:
        started = await host.start("subject")
        await asyncio.sleep(2)
        late = AttemptRow(run_id=started.run_id, node="a", generation=1, outcome="succeeded", output="late")
        await bench.store.append_attempt(late)
        outcome = await host.outcome(started.run_id)
        assert outcome.output == {"b": 2}
        (row,) = await bench.store.attempts(started.run_id)
        assert row.disposition == "superseded"
        assert (await host.view(started.run_id)).steps[0].output == 1


@virtual_time
async def test_a_result_that_came_as_a_row_is_applied_once():
    bench = Bench()

    async def wait(number: int) -> Any:
        if number == 1:
            await asyncio.Event().wait()
        return number

    async with bench.host(TWO, bench.handler(wait)) as host:
        started = await host.start("subject")
        await bench.store.append_attempt(
            AttemptRow(run_id=started.run_id, node="a", generation=1, outcome="succeeded", output="by row")
        )
        await host.outcome(started.run_id, timeout_ms=10_000)
        view = await host.view(started.run_id)
        assert view.steps[0].output == "by row"
        (row,) = await bench.store.attempts(started.run_id)
        assert row.disposition == "applied"


@virtual_time
async def test_a_poisoned_commit_sets_its_run_aside_and_no_other():
    bench = Bench()

    class PoisonStore(WrappedStore):
        def commit(self, commit: Any, answer: Any) -> None:
            if b"poison" in commit.events:
                answer(Refused(PoisonedCommitError(commit.run_id, commit.version, "events", "no")))
            else:
                self.inner.commit(commit, answer)

    async def work(number: int) -> str:
        return "poison" if number == 1 else "fine"

    async with bench.host(ONE, bench.handler(work), PoisonStore(bench.store)) as host:
        bad, good = await host.start("subject"), await host.start("subject")
        assert (await host.outcome(good.run_id)).output == {"a": "fine"}
        await asyncio.sleep(1)
        health = await host.health()
        assert list(health.set_aside) == [bad.run_id]
        assert "refused" in health.set_aside[bad.run_id]


@virtual_time
async def test_a_run_that_keeps_killing_its_actor_is_set_aside_visibly(monkeypatch: pytest.MonkeyPatch):
    bench = Bench()
    computed = compute
    kills: list[str] = []

    def faulty(program: Any, state: Any, inputs: Any, now_us: int, library: Any) -> Any:
        if inputs.results:
            kills.append(state.run_id)
            raise RuntimeError("a fault in the tick")
        return computed(program, state, inputs, now_us, library)

    async with bench.host(ONE, bench.handler()) as host:
        monkeypatch.setattr("ductor.actors.coordinator.compute", faulty)
        started = await host.start("subject")
        await asyncio.sleep(60)
        health = await host.health()
        assert list(health.set_aside) == [started.run_id]
        assert len(kills) == MAX_ACTOR_FAILURES
        monkeypatch.setattr("ductor.actors.coordinator.compute", computed)
    async with bench.host(ONE, bench.handler()) as host:
        await asyncio.sleep(60)
        assert (await host.view(started.run_id)).status == "running"  # also another host leaves it alone
        await host.release(started.run_id)
        assert (await host.outcome(started.run_id, timeout_ms=60_000)).status == "completed"


@virtual_time
async def test_an_actor_that_dies_once_is_followed_by_one_that_has_its_result(monkeypatch: pytest.MonkeyPatch):
    bench = Bench()
    computed = compute
    deaths: list[int] = []

    def faulty(program: Any, state: Any, inputs: Any, now_us: int, library: Any) -> Any:
        if inputs.results and not deaths:
            deaths.append(1)
            raise RuntimeError("once")
        return computed(program, state, inputs, now_us, library)

    async with bench.host(ONE, bench.handler()) as host:
        monkeypatch.setattr("ductor.actors.coordinator.compute", faulty)
        outcome = await host.outcome((await host.start("subject")).run_id)
        assert outcome.output == {"a": 1}
        assert bench.calls == ["work"]


@virtual_time
async def test_cancel_stops_the_handler_and_a_repeated_request_gets_the_first_receipt():
    bench = Bench()
    stopped = []

    async def work(_: int) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.append(True)
            raise

    async with bench.host(TWO, bench.handler(work)) as host:
        started = await host.start("subject")
        receipts = [await host.request(started.run_id, "cancel", request_id="r", by="me") for _ in range(2)]
        assert [receipt.verdict for receipt in receipts] == ["accepted", "duplicate"]
        outcome = await host.outcome(started.run_id)
        assert outcome.status == "cancelled"
        assert stopped == [True]
        with pytest.raises(ControlRefusedError):
            await host.request(started.run_id, "terminate")


@virtual_time
async def test_every_row_of_the_journal_can_be_computed_again():
    bench = Bench()

    async def work(number: int) -> int:
        if number % 2:
            raise ValueError(str(number))
        return number

    text = TWO.replace("task: work", "task: work, retry: {max_attempts: 4, initial: 1s}")
    async with bench.host(text, bench.handler(work)) as host:
        started = await host.start("subject")
        await host.outcome(started.run_id)
        program = await host.engine.programs.program((await host.view(started.run_id)).manifest_hash)
        rows = await host.history(started.run_id)
        assert len(rows) > 5
        for row in rows:
            before = RunState(run_id=started.run_id)
            for earlier in rows[: row.version - 1]:
                fold_row(before, earlier.version, earlier.at_us, bytes.fromhex(earlier.hash), earlier.events)
            assert recomputed(RunPrograms(program), before, list(row.events), row.at_us) == encode_events(row.events)
