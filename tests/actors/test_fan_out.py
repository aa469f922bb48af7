"""Scatters on hosts: tasks of the run, bodies of several steps, child runs; in memory, in virtual time."""

import asyncio
from typing import Any

import pytest

from ductor.actors.children_of_steps import ChildrenPage
from ductor.actors.errors import NonRetryable, NotAScatterError
from ductor.actors.host import EngineHost
from ductor.actors.tasks import task
from ductor.definitions.values import JsonValue
from ductor.journal.codec import MAX_INLINE_BYTES
from ductor.journal.commit import Commit
from ductor.journal.records import Head, RunFilter
from ductor.testing import virtual_time
from tests.actors.hosting import Bench, ConflictingStore, WrappedStore
from tests.actors.test_subworkflow import hosting

HEAD = "ductor: 1\nname: subject\n"

PLAIN = f"""{HEAD}
steps:
  - ref: each
    type: scatter
    items_expr: trigger
    max_inline_children: 10000
    do: {{type: task, task: work, input: "${{item}}"}}
    next: all
  - {{ref: all, type: gather, scatter_ref: each}}
output: ${{steps.all.output}}
"""

RUNS = PLAIN.replace("max_inline_children: 10000", "mode: child_workflow")

RAISING = PLAIN.replace("scatter_ref: each", "scatter_ref: each, strategy: raise")

STEPS = f"""{HEAD}
config: {{factor: 10}}
context: {{seen: 0}}
steps:
  - ref: each
    type: scatter
    items_expr: trigger.numbers
    key_expr: '"n" + string(item)'
    concurrency: 2
    do:
      steps:
        - ref: first
          type: task
          task: work
          input: "${{item * config.factor}}"
          effects: {{seen: "${{output}}"}}
          next: hold
        - {{ref: hold, type: wait, duration: 1h, next: second}}
        - {{ref: second, type: task, task: work, input: "${{steps.first.output + index + size(trigger.numbers)}}"}}
      output: {{key: "${{key}}", value: "${{steps.second.output}}", seen: "${{context.seen}}"}}
    next: all
  - {{ref: all, type: gather, scatter_ref: each}}
output: ${{steps.all.output}}
"""

OTHER = """
ductor: 1
name: child
input: {type: object, properties: {n: {type: integer}}}
steps:
  - {ref: do, type: task, task: work, input: "${trigger.n}"}
output: "${steps.do.output}"
"""

CALLS = f"""{HEAD}
steps:
  - ref: each
    type: scatter
    items_expr: trigger
    do: {{type: subworkflow, definition: child, input: {{n: "${{item}}"}}}}
    next: all
  - {{ref: all, type: gather, scatter_ref: each, strategy: STRATEGY}}
output: ${{steps.all.output}}
"""


@task("work")
async def work(item: Any) -> Any:
    """Fails for negative numbers, waits for large ones."""
    if isinstance(item, int) and item < 0:
        raise NonRetryable("less than nothing", type="Negative")
    if isinstance(item, int) and item >= 1_000:
        await asyncio.sleep(3_600)
    return item


async def ended(host: EngineHost, trigger: Any) -> Any:
    outcome = await host.outcome((await host.start("subject", trigger)).run_id)
    assert outcome.status == "completed", outcome
    return outcome.output


def negative(index: int) -> dict[str, Any]:
    return {str(index): {"type": "Negative", "message": "less than nothing", "details": None}}


@virtual_time
async def test_children_run_side_by_side_and_give_their_results_in_order():
    bench = Bench()
    async with hosting(bench, PLAIN, tasks=(work,)) as host:
        assert await ended(host, [3, -1, 2]) == {"result": [3, 2], "error": negative(1)}
        began_us = bench.clock.now_us()
        assert len((await ended(host, [1_000] * 50))["result"]) == 50
        assert bench.clock.now_us() - began_us < 3_601_000_000


@virtual_time
async def test_a_thousand_children_take_few_commits_and_the_same_bytes_each():
    bench = Bench()
    async with hosting(bench, PLAIN, tasks=(work,), store=(store := WrappedStore(bench.store))) as host:

        async def cost(children: int) -> tuple[int, float]:
            store.commits.clear()
            await ended(host, [0] * children)
            written: list[Commit] = [commit for commit in store.commits if commit.version]
            return len(written), sum(len(commit.events) for commit in written) / children

        await cost(10)
        few, bytes_of_100 = await cost(100)
        many, bytes_of_2000 = await cost(2_000)
    assert few <= 5
    assert many <= 20
    assert bytes_of_2000 < bytes_of_100 * 1.1


@virtual_time
async def test_large_items_and_results_stand_beside_the_journal_and_survive_a_new_host():
    bench = Bench()
    large: JsonValue = ["x" * (MAX_INLINE_BYTES + 1), "y"]
    async with hosting(bench, PLAIN, tasks=(work,)) as host:
        run_id = (await host.start("subject", large)).run_id
        await host.outcome(run_id)
    async with hosting(bench, PLAIN, tasks=(work,)) as host:
        view = await host.view(run_id)
        assert view.output == {"result": large, "error": {}}
        assert {step.ref: step.output for step in view.steps}["all"] == view.output
        page = await host.children_of_step(run_id, "each")
        assert [child.output for child in page.children] == large


@virtual_time
async def test_children_are_read_while_they_run():
    bench = Bench()
    async with hosting(bench, PLAIN, tasks=(work,)) as host:
        run_id = (await host.start("subject", [1, 1_000, -1])).run_id
        page = await children_when(host, run_id, open=1)
        assert [child.status for child in page.children] == ["succeeded", "running", "failed"]
        (step,) = [step for step in (await host.view(run_id)).steps if step.ref == "each"]
        assert step.children == page.counts
        with pytest.raises(NotAScatterError, match="no scatter 'all'"):
            await host.children_of_step(run_id, "all")
        await host.outcome(run_id)


@virtual_time
async def test_a_lost_version_check_changes_nothing():
    bench = Bench()
    await bench.store.open()
    for number in (2, 3):
        store = ConflictingStore(bench.store, {number})
        async with hosting(bench, PLAIN, tasks=(work,), store=store) as host:
            assert await ended(host, [1, 2, 3]) == {"result": [1, 2, 3], "error": {}}


@virtual_time
@pytest.mark.parametrize("text", [RUNS, CALLS.replace("STRATEGY", "partition")], ids=["task", "definition"])
async def test_each_child_is_a_run_of_its_own(text):
    bench = Bench()
    async with hosting(bench, OTHER, text, tasks=(work,)) as host:
        run_id = (await host.start("subject", [5, -1, 6])).run_id
        output: Any = (await host.outcome(run_id)).output
        assert output["result"] == [5, 6]
        error = output["error"]["1"]
        assert (error["type"], error["details"]["child"]["status"]) == ("Negative", "failed")
        heads = await bench.store.heads(RunFilter(parent_run_ids=(run_id,)))
        assert sorted((head.parent_node, head.status) for head in heads) == [
            ("each[0]", "completed"),
            ("each[1]", "failed"),
            ("each[2]", "completed"),
        ]
        page = await host.children_of_step(run_id, "each")
        assert {child.child_run_id for child in page.children} == {head.run_id for head in heads}


@virtual_time
async def test_a_body_of_several_steps_sees_its_item_and_what_its_run_had():
    bench = Bench()
    async with hosting(bench, STEPS, tasks=(work,)) as host:
        began_us = bench.clock.now_us()
        output = await ended(host, {"numbers": [1, 2, 3]})
        assert output["result"] == [
            {"key": "n1", "value": 13, "seen": 10},
            {"key": "n2", "value": 24, "seen": 20},
            {"key": "n3", "value": 35, "seen": 30},
        ]
        hours = (bench.clock.now_us() - began_us) / 3_600e6
        assert 2 <= hours < 2.1, "two at a time, an hour each"


@virtual_time
async def test_a_failed_child_run_stops_the_others_where_the_gather_raises():
    bench = Bench()
    text = CALLS.replace("STRATEGY", "raise")
    async with hosting(bench, OTHER, text, tasks=(work,)) as host:
        run_id = (await host.start("subject", [1_000, -1, 2_000])).run_id
        outcome = await host.outcome(run_id)
        assert outcome.error is not None
        assert (outcome.status, outcome.error.type) == ("failed", "Negative")
        details: Any = outcome.error.details
        assert (details["key"], details["index"]) == ("1", 1)
        heads = await _settled(bench, run_id)
        assert sorted((head.parent_node, head.status) for head in heads) == [
            ("each[0]", "cancelled"),
            ("each[1]", "failed"),
            ("each[2]", "cancelled"),
        ]


@virtual_time
async def test_cancelling_the_run_leaves_no_child_run():
    bench = Bench()
    async with hosting(bench, RUNS, tasks=(work,)) as host:
        run_id = (await host.start("subject", [1_000] * 20)).run_id
        await children_when(host, run_id, open=20)
        await host.request(run_id, "cancel")
        assert (await host.outcome(run_id)).status == "cancelled"
        heads = await _settled(bench, run_id)
        assert [head.status for head in heads] == ["cancelled"] * 20


@virtual_time
async def test_a_redrive_runs_only_the_child_runs_that_failed():
    bench = Bench()
    is_mended = False

    @task("work")
    async def mendable(item: int) -> int:
        bench.calls.append(str(item))
        if item < 0 and not is_mended:
            raise NonRetryable("not yet", type="Negative")
        return item

    async with hosting(bench, RUNS.replace("scatter_ref: each", "scatter_ref: each, strategy: raise"),
                       tasks=(mendable,)) as host:  # fmt: skip
        run_id = (await host.start("subject", [1, -2])).run_id
        assert (await host.outcome(run_id)).status == "failed"
        is_mended = True
        await host.request(run_id, "redrive")
        await children_when(host, run_id, succeeded=2)
        assert (await host.outcome(run_id)).output == {"result": [1, -2], "error": {}}
        assert sorted(bench.calls) == ["-2", "-2", "1"]


async def children_when(host: EngineHost, run_id: str, **counts: int) -> ChildrenPage:
    """The children of the run, once they are so many."""
    async with asyncio.timeout(60):
        while True:
            page = await host.children_of_step(run_id, "each")
            if all(getattr(page.counts, name) == count for name, count in counts.items()):
                return page
            await asyncio.sleep(0.01)


async def _settled(bench: Bench, run_id: str) -> list[Head]:
    """The child runs of a run, once all of them have ended."""
    async with asyncio.timeout(60):
        while True:
            heads = list(await bench.store.heads(RunFilter(parent_run_ids=(run_id,), limit=1_000)))
            if all(head.ended_at_us is not None for head in heads):
                return heads
            await asyncio.sleep(0.01)
