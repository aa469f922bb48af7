"""Continue-as-new on hosts: chains that carry everything along, are met under any of their ids, and cost the same in
every round."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ductor.actors.errors import ControlRefusedError
from ductor.actors.host import EngineHost
from ductor.actors.tasks import TaskRegistry
from ductor.actors.tick.continuing import CONTINUE_WAIT_MS
from ductor.actors.views import HistoryRow
from ductor.definitions.compile import compile_text
from ductor.definitions.values import JsonValue
from ductor.journal.events import ChildReported, HistoryWarned, RunContinued
from ductor.journal.records import RunFilter
from ductor.testing import virtual_time
from tests.actors.hosting import Bench

COUNTING = """
context: {n: 0}
repeat: {until: context.n >= trigger.rounds, max: 20000}
output: {n: "${context.n}", iteration: "${run.iteration}", root: "${run.root}"}
steps:
  - {ref: a, type: transform, value: "${context.n + 1}", effects: {n: "${context.n + 1}"}}
"""

LISTENING = """
context: {heard: []}
repeat: {until: "'stop' in context.heard", max: 20000}
output: ${context.heard}
steps:
  - {ref: hear, type: wait, signal: word, effects: {heard: "${context.heard + [output]}"}}
"""


@virtual_time
async def test_a_chain_of_ten_thousand_runs_is_one_run():
    bench = Bench()
    rounds = 10_000
    async with bench.host(COUNTING, bench.handler()) as host:
        started = await host.start("subject", {"rounds": rounds}, key="k")
        outcome = await host.outcome(started.run_id)
        assert outcome.output == {"n": rounds, "iteration": rounds - 1, "root": started.run_id}
        assert await host.latest(started.run_id) == outcome.run_id
        again = await host.start("subject", {"rounds": rounds}, key="k")
        assert (again.run_id, again.is_new) == (outcome.run_id, False)
        last = await host.chain(started.run_id, after_iteration=rounds - 2)
        assert [head.run_id for head in last] == [outcome.run_id]
        assert [head.run_id for head in await host.runs(RunFilter(limit=10))] == [outcome.run_id]


@virtual_time
async def test_signals_sent_to_the_first_run_are_all_heard_in_order():
    bench = Bench()
    words = [f"w{number}" for number in range(50)] + ["stop"]
    async with bench.host(LISTENING, bench.handler()) as host:
        first = (await host.start("subject")).run_id
        for number, word in enumerate(words):
            receipt = await host.signal(first, "word", word, request_id=f"r-{number}")
            assert receipt.verdict == "accepted"
            if number % 5 == 0:
                await asyncio.sleep(0)
        outcome = await host.outcome(first)
        assert outcome.output == words
        for number in range(len(words)):
            receipt = await host.signal(first, "word", "again", request_id=f"r-{number}")
            assert (receipt.verdict, receipt.disposition) == ("duplicate", "consumed")


@virtual_time
async def test_signals_that_wait_when_the_run_continues_are_carried():
    bench = Bench()
    release = asyncio.Event()

    async def work(number: int) -> JsonValue:
        if number == 1:
            await release.wait()
        return number

    text = """
steps:
  - {ref: a, type: task, task: work, next: b}
  - {ref: b, type: wait, signal: go}
"""
    async with bench.host(text, bench.handler(work)) as host:
        first = (await host.start("subject")).run_id
        await host.signal(first, "go", "first", request_id="s-1")
        await host.request(first, "continue_as_new", request_id="again")
        await host.signal(first, "go", "second", request_id="s-2")
        release.set()
        outcome = await host.outcome(first)
        assert outcome.output == {"b": "first"}
        assert outcome.run_id != first
        receipt = await host.receipt(first, "s-2")
        assert receipt is not None
        assert (receipt.run_id, receipt.disposition) == (outcome.run_id, "undelivered")


@virtual_time
async def test_a_control_asked_of_an_earlier_run_reaches_the_latest():
    bench = Bench()
    async with bench.host(LISTENING, bench.handler()) as host:
        first = (await host.start("subject")).run_id
        await host.signal(first, "word", "a")
        await _until_continued(host, first, 1)
        again = await host.request(first, "continue_as_new", request_id="x")
        await _until_continued(host, first, 2)
        assert (await host.request(first, "continue_as_new", request_id="x")).verdict == "duplicate"
        assert again.verdict == "accepted"
        view = await host.view(first)
        assert (view.context, view.iteration, view.chain_run_id) == ({"heard": ["a"]}, 2, first)
        assert (await host.view(first, follows=False)).status == "continued"
        await host.request(first, "cancel")
        outcome = await host.outcome(first)
        assert outcome.status == "cancelled"
        with pytest.raises(ControlRefusedError):
            await host.request(first, "pause")


@virtual_time
async def test_history_reads_as_one():
    bench = Bench()
    async with bench.host(COUNTING, bench.handler()) as host:
        first = (await host.start("subject", {"rounds": 5})).run_id
        await host.outcome(first)
        rows = await host.chain_history(first)
        assert [row.iteration for row in rows] == sorted(row.iteration for row in rows)
        assert {row.iteration for row in rows} == set(range(5))
        assert sum(isinstance(event, RunContinued) for row in rows for event in row.events) == 4
        pages: list[HistoryRow] = []
        while page := await host.chain_history(
            first, after=(pages[-1].iteration, pages[-1].version) if pages else (0, 0), limit=3
        ):
            pages += page
        assert pages == rows


@virtual_time
async def test_a_pause_comes_before_the_successor():
    bench = Bench()
    text = COUNTING.replace("max: 20000", "max: 20000, every: 1m")
    async with bench.host(text, bench.handler()) as host:
        first = (await host.start("subject", {"rounds": 3})).run_id
        begun_us = bench.clock.now_us()
        view = await host.view(first)
        assert (view.status, view.iteration) == ("waiting", 0)
        explanation = await host.explain(first)
        assert any(reason.kind == "continuing" for reason in explanation.run)
        await host.outcome(first)
        assert bench.clock.now_us() - begun_us >= 2 * 60_000_000


@pytest.mark.parametrize(("on_max", "status"), [("fail", "failed"), ("continue", "completed")])
@virtual_time
async def test_too_many_rounds(on_max: str, status: str):
    bench = Bench()
    text = COUNTING.replace("max: 20000", f"max: 3, on_max: {on_max}")
    async with bench.host(text, bench.handler()) as host:
        first = (await host.start("subject", {"rounds": 100})).run_id
        outcome = await host.outcome(first)
        assert outcome.status == status
        assert len(await host.chain(first)) == 3
        assert (outcome.error.type if outcome.error else "") == ("RepeatExhausted" if on_max == "fail" else "")


@virtual_time
async def test_a_host_that_takes_over_goes_on_with_the_chain():
    bench = Bench()
    text = COUNTING.replace("max: 20000", "max: 20000, every: 1m")
    async with bench.host(text, bench.handler()) as host:
        first = (await host.start("subject", {"rounds": 3})).run_id
    async with bench.host(text, bench.handler()) as host:
        assert (await host.outcome(first)).status == "completed"


@virtual_time
async def test_a_long_run_is_named_by_health_and_continues():
    bench = Bench()
    text = """
continue_as_new_after: 6
context: {n: 0}
output: ${context.n}
steps:
  - {ref: a, type: task, task: work, repeat: {until: output >= 5}, effects: {n: "${output}"}, next: b}
  - {ref: b, type: wait, signal: go}
"""
    async with bench.host(text, bench.handler()) as host:
        first = (await host.start("subject")).run_id
        await _until_continued(host, first, 1)
        rows = await host.history(first)
        warned = [event for row in rows for event in row.events if isinstance(event, HistoryWarned)]
        assert [(event.transitions, event.limit) for event in warned] == [(5, 6)]
        assert (await host.health()).long_runs == {}
        await host.signal(first, "go")
        assert (await host.outcome(first)).output == 6


async def _until_continued(host: Any, run_id: str, iteration: int) -> None:
    """Wait for so many runs of a chain to be over."""
    async with asyncio.timeout(2 * CONTINUE_WAIT_MS / 1_000):
        while (view := await host.view(run_id)).iteration < iteration:
            await host._wait_for_end(view.run_id)  # of this very run, not of its chain


PARENT = """
ductor: 1
name: subject
input: {type: object, properties: {rounds: {type: integer, default: 3}}}
context: {n: 0}
repeat: {until: context.n >= trigger.rounds, max: 100}
output: {n: "${context.n}"}
steps:
  - {ref: hear, type: wait, signal: word, effects: {n: "${context.n + 1}"}}
---
ductor: 1
name: parent
context: {tries: 0}
steps:
  - {ref: sub, type: subworkflow, definition: subject, input: {rounds: 3}}
output: {sub: "${steps.sub.output}"}
"""


@asynccontextmanager
async def family() -> AsyncIterator[EngineHost]:
    """A host with a parent whose child is continued twice."""
    bench = Bench()
    await bench.store.open()
    host = EngineHost(bench.store, TaskRegistry(()), clock=bench.clock, ids=bench.ids)
    for compiled in compile_text(PARENT):
        await host.publish(compiled)
    async with host:
        yield host
    await bench.store.close()


async def child_of(host: EngineHost, parent: str) -> str:
    """The child of the parent's one step, as the parent knows it."""
    async with asyncio.timeout(60):
        for _ in range(1_000):
            heads = await host.runs(RunFilter(parent_run_ids=(parent,), shows_continued=True))
            if heads:
                return heads[-1].run_id
            await asyncio.sleep(0.01)
    raise AssertionError(f"{parent} has no child")


@virtual_time
async def test_a_parent_waits_for_the_last_run_of_its_childs_chain():
    async with family() as host:
        parent = (await host.start("parent")).run_id
        child = await child_of(host, parent)
        for _ in range(3):
            await host.signal(child, "word")
        outcome = await host.outcome(parent)
        assert outcome.output == {"sub": {"n": 3}}
        assert len(await host.chain(child)) == 3
        reports = [
            event for row in await host.history(parent) for event in row.events if isinstance(event, ChildReported)
        ]
        assert [(event.run_id, event.status) for event in reports] == [(child, "completed")]


@virtual_time
async def test_who_cancels_the_parent_cancels_the_latest_run_of_its_childs_chain():
    async with family() as host:
        parent = (await host.start("parent")).run_id
        child = await child_of(host, parent)
        await host.signal(child, "word")
        await _until_continued(host, child, 1)
        await host.request(parent, "cancel")
        assert (await host.outcome(parent)).status == "cancelled"
        outcome = await host.outcome(child)
        assert outcome.status == "cancelled"
        assert outcome.run_id != child


@virtual_time
async def test_a_parent_that_continues_leaves_its_child_to_its_successor():
    """The child's step is cancelled once the time to finish is over; the child goes on, and stops with the chain."""
    async with family() as host:
        parent = (await host.start("parent")).run_id
        child = await child_of(host, parent)
        await host.request(parent, "continue_as_new")
        await _until_continued(host, parent, 1)
        second = await child_of(host, await host.latest(parent))
        assert second != child
        assert (await host.view(child)).status == "waiting"
        await host.request(parent, "cancel")
        assert (await host.outcome(parent)).status == "cancelled"
        assert [(await host.outcome(run_id)).status for run_id in (child, second)] == ["cancelled", "cancelled"]


@virtual_time
async def test_each_run_of_a_chain_asks_its_people_anew():
    bench = Bench()
    text = """
context: {n: 0}
repeat: {until: context.n >= 2, max: 10}
output: ${context.n}
steps:
  - {ref: ask, type: approval, approvers: [ann], title: Again?, effects: {n: "${context.n + 1}"}}
"""
    async with bench.host(text, bench.handler()) as host:
        first = (await host.start("subject")).run_id
        assert (await host.vote(first, "ask", "approved", by="ann")).verdict == "accepted"
        await _until_continued(host, first, 1)
        async with asyncio.timeout(60):
            await _until_asked(host)
        assert (await host.vote(first, "ask", "approved", by="ann")).verdict == "accepted"
        assert (await host.outcome(first)).output == 2


@virtual_time
async def test_a_chain_whose_last_run_failed_is_redriven_by_the_id_of_the_first():
    bench = Bench()

    async def work(number: int) -> JsonValue:
        if number == 2:
            raise ValueError
        return number

    text = """
context: {n: 0}
repeat: {until: context.n >= 3, max: 10}
output: ${context.n}
steps:
  - {ref: a, type: task, task: work, effects: {n: "${context.n + 1}"}}
"""
    async with bench.host(text, bench.handler(work)) as host:
        first = (await host.start("subject")).run_id
        failed = await host.outcome(first)
        assert (failed.status, len(await host.chain(first))) == ("failed", 2)
        receipt = await host.request(first, "redrive")
        assert receipt.run_id == failed.run_id
        await _until_applied(host, first, receipt.request_id)
        assert (await host.outcome(first)).output == 3
        assert len(await host.chain(first)) == 3


async def _until_asked(host: EngineHost) -> None:
    """Wait for an entry in the inbox."""
    for _ in range(1_000):
        if await host.inbox():
            return
        await asyncio.sleep(0.01)


async def _until_applied(host: EngineHost, run_id: str, request_id: str) -> None:
    """Wait until a request was taken up."""
    for _ in range(1_000):
        control = await host.store.control(run_id, request_id)
        if control is not None and control.disposition == "applied":
            return
        await asyncio.sleep(0.01)
