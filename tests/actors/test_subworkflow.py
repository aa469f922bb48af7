"""Child runs on hosts: hot hand-over, reports, cancelling down the tree, kills; in memory, in virtual time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ductor.actors.errors import DefinitionNotFoundError, NonRetryable, RunNotFoundError
from ductor.actors.host import EngineHost, HostOptions
from ductor.actors.tasks import Task, TaskRegistry, task
from ductor.definitions.compile import compile_text
from ductor.journal.records import RunFilter
from ductor.journal.store import Store
from ductor.testing import virtual_time
from tests.actors.hosting import Bench, WrappedStore, serving

CHILD = """
ductor: 1
name: child
input: {type: object}
steps:
  - ref: choose
    type: transform
    value: "${trigger.does}"
    next:
      choice:
        - {when: output == "wait", to: hold}
        - {to: work}
  - {ref: hold, type: wait, duration: 1h}
  - {ref: work, type: task, task: work, input: "${trigger}"}
output: "${steps.work.output}"
"""

PARENT = """
ductor: 1
name: subject
input: {type: object}
steps:
  - {ref: call, type: subworkflow, definition: child, input: "${trigger}", MORE}
output: "${steps.call.output}"
"""

NEST = """
ductor: 1
name: nest
input: {type: object}
steps:
  - ref: choose
    type: transform
    value: null
    next:
      choice:
        - {when: trigger.levels > 0, to: down}
        - {to: hold}
  - {ref: down, type: subworkflow, definition: nest, input: {levels: "${trigger.levels - 1}"}}
  - {ref: hold, type: wait, duration: 1h}
"""


@task("work")
async def work(input: dict[str, Any]) -> Any:
    """Does what its input says."""
    if input["does"] == "fail":
        raise NonRetryable("as told", type="Told")
    return input["does"]


@asynccontextmanager
async def hosting(
    bench: Bench,
    *texts: str,
    store: Store | None = None,
    tasks: tuple[Task[..., Any], ...] = (work,),
    options: HostOptions | None = None,
) -> AsyncIterator[EngineHost]:
    await bench.store.open()
    host = EngineHost(store or bench.store, TaskRegistry(tasks), clock=bench.clock, ids=bench.ids, options=options)
    async with serving(host, *texts):
        yield host


async def children_of(bench: Bench, run_id: str) -> list[str]:
    heads = await bench.store.heads(RunFilter(parent_run_ids=(run_id,), limit=1_000))
    return [head.run_id for head in reversed(heads)]


async def statuses(bench: Bench) -> dict[str, str]:
    return {head.run_id: head.status for head in await bench.store.heads(RunFilter(limit=1_000))}


@virtual_time
async def test_a_parent_gets_the_output_of_its_child():
    bench = Bench()
    async with hosting(bench, CHILD, PARENT.replace(", MORE", "")) as host:
        run_id = (await host.start("subject", {"does": "x"})).run_id
        outcome = await host.outcome(run_id)
        assert (outcome.status, outcome.output) == ("completed", "x")
        (child,) = await children_of(bench, run_id)
        head = await bench.store.head(child)
        assert head is not None
        assert (head.status, head.definition, head.parent_node, head.root_run_id) == (
            "completed",
            "child",
            "call",
            run_id,
        )


@virtual_time
async def test_a_failing_child_fails_its_parent_with_its_own_error():
    bench = Bench()
    async with hosting(bench, CHILD, PARENT.replace(", MORE", "")) as host:
        outcome = await host.outcome((await host.start("subject", {"does": "fail"})).run_id)
        (child,) = await children_of(bench, outcome.run_id)
        assert outcome.error is not None
        assert (outcome.status, outcome.error.type) == ("failed", "Told")
        assert outcome.error.details == {"child": {"run_id": child, "definition": "child", "status": "failed"}}


@virtual_time
async def test_three_commits_for_a_child_of_one_step_and_nothing_is_loaded():
    bench = Bench()
    store = CountingStore(bench.store)
    async with hosting(bench, CHILD.replace("choose", "first"), PARENT.replace(", MORE", ""), store=store) as host:
        outcome = await host.outcome((await host.start("subject", {"does": "x"})).run_id)
        assert outcome.status == "completed"
        # the parent's start, which has the child's first tick with it, the child's end, and the parent's
        assert len(store.commits) == 3
        assert store.loads == 0
        assert store.reads == 1


class CountingStore(WrappedStore):
    """Counts how often runs and their inputs are read."""

    loads = 0
    reads = 0

    async def load(self, run_id: str) -> Any:
        self.loads += 1
        return await self.inner.load(run_id)

    async def inputs(self, run_id: str) -> Any:
        self.reads += 1
        return await self.inner.inputs(run_id)


@virtual_time
async def test_cancelling_the_root_cancels_the_whole_tree():
    bench = Bench()
    async with hosting(bench, NEST) as host:
        run_id = (await host.start("nest", {"levels": 5})).run_id
        await asyncio.sleep(1)
        assert set((await statuses(bench)).values()) == {"waiting"}
        assert len(await statuses(bench)) == 6
        await host.request(run_id, "cancel")
        await host.outcome(run_id)
        assert set((await statuses(bench)).values()) == {"cancelled"}


@virtual_time
async def test_terminating_the_root_leaves_no_orphan():
    bench = Bench()
    async with hosting(bench, NEST) as host:
        run_id = (await host.start("nest", {"levels": 5})).run_id
        await asyncio.sleep(1)
        await host.request(run_id, "terminate")
        await host.outcome(run_id)
        await asyncio.sleep(5)
        assert set((await statuses(bench)).values()) == {"terminated"}


@virtual_time
async def test_depth_is_bounded():
    bench = Bench()
    async with hosting(bench, NEST) as host:
        outcome = await host.outcome((await host.start("nest", {"levels": 30})).run_id)
        assert outcome.error is not None
        assert (outcome.status, outcome.error.type) == ("failed", "DepthExceeded")
        assert len(await statuses(bench)) == 17
        child, depth = outcome.error.details, 0
        while isinstance(child, dict) and isinstance(child.get("child"), dict):
            child, depth = child["child"], depth + 1
        assert depth == 16


@virtual_time
async def test_a_start_is_refused_where_a_child_is_not_published():
    bench = Bench()
    async with hosting(bench, PARENT.replace(", MORE", "")) as host:
        with pytest.raises(DefinitionNotFoundError, match="child"):
            await host.start("subject", {})
        assert await statuses(bench) == {}


@virtual_time
async def test_a_run_keeps_the_versions_it_began_with():
    bench = Bench()
    wait = "  - {ref: pause, type: wait, duration: 10s, next: call}\n"
    text = PARENT.replace(", MORE", "").replace("steps:\n", "steps:\n" + wait)
    async with hosting(bench, CHILD, text) as host:
        run_id = (await host.start("subject", {"does": "x"})).run_id
        (compiled,) = compile_text(CHILD.replace("steps.work.output", "'newer'"))
        await host.publish(compiled)
        assert (await host.outcome(run_id)).output == "x"
        newer = (await host.start("subject", {"does": "x"})).run_id
        await asyncio.sleep(2)  # definitions are remembered for a second
        assert (await host.outcome((await host.start("subject", {"does": "x"})).run_id)).output is not None
        assert newer


@virtual_time
async def test_a_taken_key_fails_the_step():
    bench = Bench()
    async with hosting(bench, CHILD, PARENT.replace("MORE", "key: one")) as host:
        owner = (await host.start("child", {"does": "wait"}, key="one")).run_id
        outcome = await host.outcome((await host.start("subject", {"does": "x"})).run_id)
        assert outcome.error is not None
        assert (outcome.error.type, outcome.error.details) == ("ChildKeyTaken", {"run_id": owner})
        assert await children_of(bench, outcome.run_id) == []


UNDOING_PARENT = """
ductor: 1
name: subject
input: {type: object}
steps:
  - {ref: call, type: subworkflow, definition: child, key: one, MORE, compensate: {child: true}, next: END}
  - {ref: rest, type: wait, duration: 5s, next: fails}
  - {ref: fails, type: transform, value: null, end: failed}
"""


@pytest.mark.parametrize("more", ["mode: async", "mode: async, on_parent_close: abandon"])
@pytest.mark.parametrize("end", ["rest", "fails"])
@virtual_time
async def test_a_child_that_never_began_has_nothing_to_undo(more: str, end: str):
    """The undo comes with the row that starts the child, or long after."""
    bench = Bench()
    async with hosting(bench, CHILD, UNDOING_PARENT.replace("MORE", more).replace("END", end)) as host:
        await host.start("child", {"does": "wait"}, key="one")
        outcome = await host.outcome((await host.start("subject", {"does": "x"})).run_id, timeout_ms=6_000)
        assert (outcome.status, outcome.compensated) == ("failed", "true")
        assert await children_of(bench, outcome.run_id) == []


@virtual_time
async def test_a_redriven_parent_takes_the_key_over_from_its_own_child():
    bench = Bench()
    failing = [True]

    @task("work")
    async def work(input: dict[str, Any]) -> Any:
        if failing.pop() if failing else False:
            raise NonRetryable("once")
        return input["does"]

    async with hosting(bench, CHILD, PARENT.replace("MORE", "key: one"), tasks=(work,)) as host:
        run_id = (await host.start("subject", {"does": "x"})).run_id
        assert (await host.outcome(run_id)).status == "failed"
        await asyncio.sleep(1)  # the next child's id is a later one
        await host.request(run_id, "redrive")
        await asyncio.sleep(1)
        assert (await host.outcome(run_id)).output == "x"
        first, second = await children_of(bench, run_id)
        assert await bench.store.find_start_key("default", "child", "one") == second
        assert first != second


@virtual_time
async def test_an_inline_body_runs_as_a_child():
    bench = Bench()
    text = """
ductor: 1
name: subject
context: {base: 10}
steps:
  - ref: part
    type: subworkflow
    input: {n: 4}
    do:
      steps:
        - {ref: inner, type: transform, value: "${trigger.n + context.base}", effects: {base: 0}}
      output: "${steps.inner.output}"
output: {sum: "${steps.part.output}", base: "${context.base}"}
"""
    async with hosting(bench, text) as host:
        outcome = await host.outcome((await host.start("subject")).run_id)
        assert outcome.output == {"sum": 14, "base": 10}
        (child,) = await children_of(bench, outcome.run_id)
        view = await host.view(child)
        assert [step.ref for step in view.steps] == ["inner"]
        assert (await host.explain(child)) is not None


@virtual_time
async def test_many_children_are_absorbed_with_few_reads():
    bench = Bench()
    store = CountingStore(bench.store)
    calls = "\n".join(
        f"  - {{ref: c{n}, type: subworkflow, definition: child, input: {{does: x}}}}" for n in range(100)
    )
    text = f"ductor: 1\nname: subject\nsteps:\n{calls}\n"
    async with hosting(bench, CHILD, text, store=store) as host:
        outcome = await host.outcome((await host.start("subject")).run_id)
        assert outcome.status == "completed"
        assert store.loads == 0
        assert store.reads <= 10


@virtual_time
@pytest.mark.parametrize("policy", ["cancel", "abandon"])
async def test_what_becomes_of_children_when_their_parent_is_cancelled(policy: str):
    bench = Bench()
    async with hosting(bench, CHILD, PARENT.replace("MORE", f"on_parent_close: {policy}")) as host:
        run_id = (await host.start("subject", {"does": "wait"})).run_id
        await asyncio.sleep(1)
        (child,) = await children_of(bench, run_id)
        await host.request(run_id, "cancel")
        await host.outcome(run_id)
        await asyncio.sleep(1)
        head = await bench.store.head(child)
        assert head is not None
        assert head.status == ("cancelled" if policy == "cancel" else "waiting")


@virtual_time
async def test_a_child_that_is_started_and_cancelled_by_one_tick_ends():
    bench = Bench()
    text = """
ductor: 1
name: subject
steps:
  - {ref: call, type: subworkflow, definition: child, input: {does: wait}}
  - {ref: stop, type: transform, value: 1, cancels: [call]}
"""
    async with hosting(bench, CHILD, text) as host:
        outcome = await host.outcome((await host.start("subject")).run_id)
        assert outcome.status == "completed"
        await asyncio.sleep(1)
        (child,) = await children_of(bench, outcome.run_id)
        assert (await statuses(bench))[child] == "cancelled"


@virtual_time
async def test_a_program_that_is_missing_sets_the_run_aside_visibly():
    bench = Bench()
    wait = "  - {ref: pause, type: wait, duration: 10s, next: call}\n"
    text = PARENT.replace(", MORE", "").replace("steps:\n", "steps:\n" + wait)
    async with hosting(bench, CHILD, text) as host:
        run_id = (await host.start("subject", {"does": "x"})).run_id
    store = ForgetfulStore(bench.store, "child")
    async with hosting(bench, store=store) as host:
        await asyncio.sleep(60)
        assert run_id in (await host.health()).set_aside


class ForgetfulStore(WrappedStore):
    """Has lost one manifest."""

    def __init__(self, store: Store, name: str) -> None:
        super().__init__(store)
        self.name = name

    async def manifest(self, manifest_hash: str) -> Any:
        found = await self.inner.manifest(manifest_hash)
        return None if found is not None and found.name == self.name else found


@virtual_time
async def test_handlers_of_a_child_hear_events():
    bench = Bench()
    child = """
ductor: 1
name: child
context: {heard: 0}
on: [{event: paid, effects: {heard: "${event.payload}"}}]
steps: [{ref: hold, type: wait, duration: 1m}]
output: "${context.heard}"
"""
    async with hosting(bench, child, PARENT.replace(", MORE", "")) as host:
        run_id = (await host.start("subject", {})).run_id
        await asyncio.sleep(5)
        await host.publish_event("paid", 7)
        assert (await host.outcome(run_id)).output == 7


@virtual_time
async def test_the_tree_of_a_run_is_read_level_by_level_and_cut_visibly():
    bench = Bench()
    async with hosting(bench, NEST, BOTH) as host:
        run_id = (await host.start("both")).run_id
        await asyncio.sleep(1)
        tree = await host.tree(run_id)
        assert [child.head.parent_node for child in tree.children] == ["left", "right"]
        assert [len(child.children) for child in tree.children] == [1, 0]
        assert not tree.is_cut
        left = tree.children[0]
        assert left.children[0].head.root_run_id == run_id
        assert (await host.tree(left.head.run_id)).children == left.children
        cut = await host.tree(run_id, limit=2)
        assert cut.is_cut
        assert len(cut.children) == 1
        with pytest.raises(RunNotFoundError):
            await host.tree(run_id, tenant="another")


BOTH = """
ductor: 1
name: both
steps:
  - {ref: left, type: subworkflow, definition: nest, input: {levels: 1}, next: join}
  - {ref: pause, type: wait, duration: 10ms, next: right}
  - {ref: right, type: subworkflow, definition: nest, input: {levels: 0}, next: join}
  - {ref: join, type: transform, value: 1}
"""
