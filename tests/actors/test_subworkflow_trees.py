"""Random trees of runs, with failures, cancels, redrives and kills: no orphan, every end told once, nothing undecided.

A tree is a definition for each of its runs, so that each run has its own shape: which children it starts and how it
waits for them, what its own work does, and when. Things happen to random runs of it at random moments, and hosts are
killed at random commits. Whatever happened, once nothing moves any more:

- every run has ended;
- a run whose parent has ended badly did not complete after that, unless it is abandoned or was redriven by hand;
- of each child that somebody waits for, one end is in the parent's inbox, and it is the child's first one;
- every row of every run can be computed again.
"""

import asyncio
from typing import Any, Literal, cast

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from ductor.actors.errors import ControlRefusedError, NonRetryable
from ductor.actors.host import EngineHost, HostOptions
from ductor.actors.publication import places_of
from ductor.actors.recorded_programs import RunPrograms
from ductor.actors.tasks import TaskRegistry, task
from ductor.actors.verify import prove_rows
from ductor.definitions.compile import compile_text
from ductor.definitions.manifest import decode_manifest
from ductor.definitions.program import load_program
from ductor.journal.child_reports import report_message_id
from ductor.journal.codec import decode_events
from ductor.journal.commit import Commit
from ductor.journal.events import TERMINAL_RUN_STATUSES, ChildReported, ControlReceived, RunEnded
from ductor.journal.memory import MemoryStore
from ductor.journal.records import Head, RunFilter
from ductor.testing import RepeatableIds
from ductor.testing.loop import VirtualTimeLoop, run_in_virtual_time
from tests.actors.hosting import WrappedStore

MAX_RUNS = 200
PATIENCE_S = 1_500.0

OPTIONS = HostOptions(sweep_ms=5_000, heartbeat_ms=60_000)


class Node(msgspec.Struct, frozen=True):
    """One run of the tree."""

    work: Literal["succeed", "fail", "wait"]
    mode: Literal["sync", "async"]
    closes: Literal["cancel", "abandon"]
    tolerates: bool
    times_out: bool
    children: tuple["Node", ...]


class Happening(msgspec.Struct, frozen=True):
    """Something that is done to the run that is the `which`-th of all then."""

    after_s: int
    kind: Literal["cancel", "terminate", "pause", "resume", "redrive", "kill"]
    which: int


def nodes(depth: int) -> st.SearchStrategy[Node]:
    below: st.SearchStrategy[tuple[Node, ...]] = st.just(())
    if depth:
        below = st.lists(nodes(depth - 1), max_size=2).map(tuple)
    return st.builds(
        Node,
        work=st.sampled_from(["succeed", "succeed", "fail", "wait"]),
        mode=st.sampled_from(["sync", "sync", "async"]),
        closes=st.sampled_from(["cancel", "cancel", "abandon"]),
        tolerates=st.booleans(),
        times_out=st.booleans(),
        children=below,
    )


happenings = st.lists(
    st.builds(
        Happening,
        after_s=st.integers(0, 20),
        kind=st.sampled_from(["cancel", "terminate", "pause", "resume", "redrive", "kill", "kill"]),
        which=st.integers(0, 20),
    ),
    max_size=6,
)


def definitions_of(node: Node, name: str = "n") -> list[str]:
    """The definitions of a run and of all below it, itself last."""
    found: list[str] = []
    steps = [f"  - {{ref: work, type: task, task: work, input: {{does: {node.work}}}}}"]
    if node.work == "wait":
        steps.append("  - {ref: pause, type: wait, duration: 20m}")
    for index, child in enumerate(node.children):
        child_name = f"{name}{index}"
        found.extend(definitions_of(child, child_name))
        more = [f"mode: {child.mode}", f"on_parent_close: {child.closes}"]
        if child.tolerates:
            more.append("on_error: continue")
        if child.times_out and child.mode == "sync":
            more.append("timeout: 5s, on_timeout: detach")
        steps.append(
            f"  - {{ref: c{index}, type: subworkflow, definition: {child_name}, input: {{}}, {', '.join(more)}}}"
        )
    found.append(f"ductor: 1\nname: {name}\nsteps:\n" + "\n".join(steps) + "\n")
    return found


@task("work")
async def work(does: str) -> str:
    """Takes a second, and does what it is told."""
    await asyncio.sleep(1)
    if does == "fail":
        raise NonRetryable("as told")
    return does


async def heads_of(store: MemoryStore) -> list[Head]:
    return list(reversed(await store.heads(RunFilter(limit=MAX_RUNS, shows_continued=True))))


async def carried_out(tree: Node, happening: list[Happening]) -> MemoryStore:
    """All that happens, until nothing moves any more."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    store, ids = MemoryStore(loop.clock), RepeatableIds(loop.clock)
    await store.open()
    host = EngineHost(cast("Any", MortalStore(store)), TaskRegistry([work]), clock=loop.clock, ids=ids, options=OPTIONS)
    for text in definitions_of(tree):
        (compiled,) = compile_text(text)
        await host.publish(compiled)
    await host.start_host()
    await host.start("n", key="root")
    for one in happening:
        await asyncio.sleep(one.after_s)
        if one.kind == "kill":
            cast("MortalStore", host.store).is_dead = True  # nothing that this host decides is written any more
            for other in await store.hosts(alive_within_ms=2**31):
                await store.leave(other.host_id)
            host = EngineHost(
                cast("Any", MortalStore(store)), TaskRegistry([work]), clock=loop.clock, ids=ids, options=OPTIONS
            )
            await host.start_host()
            continue
        heads = await heads_of(store)
        try:
            await host.request(heads[one.which % len(heads)].run_id, one.kind)
        except ControlRefusedError:
            continue
    for head in await heads_of(store):  # who is paused would wait for ever
        if head.status == "paused":
            await host.request(head.run_id, "resume")
    await asyncio.sleep(PATIENCE_S)
    for head in await heads_of(store):
        if head.status == "paused":
            await host.request(head.run_id, "resume")
    await asyncio.sleep(PATIENCE_S)
    await host.stop_host()
    await store.open()
    return store


class MortalStore(WrappedStore):
    """What a killed host still writes is not heard."""

    is_dead = False

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.inner, name)
        if not asyncio.iscoroutinefunction(method):
            return method

        async def call(*args: Any, **kwargs: Any) -> Any:
            if self.is_dead:
                await asyncio.get_running_loop().create_future()
            return await method(*args, **kwargs)

        return call

    def commit(self, commit: Commit, answer: Any) -> None:
        if not self.is_dead:
            self.inner.commit(commit, answer)


@given(tree=nodes(3), happening=happenings)
@settings(max_examples=40, deadline=None)
def test_whatever_happens_to_a_tree_nothing_is_left_behind(tree: Node, happening: list[Happening]):
    run_in_virtual_time(checked(tree, happening))


async def checked(tree: Node, happening: list[Happening]) -> None:
    store = await carried_out(tree, happening)
    heads = {head.run_id: head for head in await heads_of(store)}
    assert {head.status for head in heads.values()} <= TERMINAL_RUN_STATUSES, {
        head.definition: head.status for head in heads.values()
    }
    for head in heads.values():
        await check_rows(store, head)
        if head.parent_run_id is not None:
            await check_against_parent(store, head, heads[head.parent_run_id])


async def events_of(store: MemoryStore, run_id: str) -> list[tuple[int, Any]]:
    rows = await store.history(run_id)
    return [
        (row.at_us, event) for row in rows for event in decode_events(row.events, run_id=run_id, version=row.version)
    ]


async def check_rows(store: MemoryStore, head: Head) -> None:
    records = await store.definitions()
    programs = {}
    for record in records:
        manifest = await store.manifest(record.manifest_hash)
        assert manifest is not None
        programs[record.manifest_hash] = load_program(decode_manifest(manifest.manifest), places=places_of(manifest))
    wrong: list[str] = []
    run_programs = RunPrograms(programs[head.manifest_hash], programs)
    rows = await store.history(head.run_id)
    prove_rows(run_programs, head.run_id, rows, {}, lambda rule, what: wrong.append(f"{rule}: {what}"))
    assert wrong == []


async def check_against_parent(store: MemoryStore, child: Head, parent: Head) -> None:
    """The end of a child is told once, and a parent that ended badly took it along."""
    events = await events_of(store, child.run_id)
    started = events[0][1]
    ends = [(at_us, event) for at_us, event in events if isinstance(event, RunEnded)]
    assert ends
    receipt = await store.message_receipt(parent.run_id, report_message_id(child.run_id))
    assert (receipt is not None) == (started.parent_waits_for != "")
    of_parent = await events_of(store, parent.run_id)
    reported = [event for _, event in of_parent if isinstance(event, ChildReported) and event.run_id == child.run_id]
    assert len(reported) <= 1
    assert all(report.status == ends[0][1].status for report in reported)
    if started.depth == 0:  # abandoned
        return
    bad_ends = [at_us for at_us, event in of_parent if isinstance(event, RunEnded) and event.status != "completed"]
    was_touched = any(isinstance(event, ControlReceived) and event.kind == "redrive" for _, event in events)
    if bad_ends and not was_touched and events[0][0] <= bad_ends[0]:
        settled_late = [at_us for at_us, _ in ends if at_us > bad_ends[0] + 12_000_000]
        assert not settled_late, f"{child.definition} went on after {parent.definition} had ended"
