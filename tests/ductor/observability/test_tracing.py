"""Spans of real runs, as an exporter gets them: once each, below the right parents, in every life of a host."""

import asyncio
from collections import Counter

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Sampler
from opentelemetry.trace import SpanKind, StatusCode

import ductor
from ductor.actors.errors import StartRefusedError
from ductor.definitions.build import subworkflow, task, wait, workflow
from ductor.journal.clock import SystemClock
from ductor.journal.commit import Appended, CommitAnswer
from ductor.journal.events import RunStarted
from ductor.journal.ids import attempt_token
from ductor.journal.memory import MemoryStore
from ductor.journal.postgres import PostgresStore
from ductor.journal.trace_context import attempt_span_id, own_trace_id, run_span_id, start_span_id, tick_span_id
from ductor.observability.tracing import Tracing
from tests.contracts.writers import RunWriter

CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
CALLER_TRACE, CALLER_SPAN = 0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7


@pytest.fixture
async def store():
    made = MemoryStore(SystemClock())
    await made.open()
    yield made
    await made.close()


class Kept:
    """A host's tracing, and the spans that it told."""

    def __init__(self, sampler: Sampler | None = None) -> None:
        self._exporter = InMemorySpanExporter()
        processor = SimpleSpanProcessor(self._exporter)
        self.tracing = Tracing(processor) if sampler is None else Tracing(processor, sampler=sampler)

    @property
    def spans(self) -> dict[int, ReadableSpan]:
        """By id; every id was told once."""
        told = self._exporter.get_finished_spans()
        found = {span.context.span_id: span for span in told if span.context is not None}
        assert len(found) == len(told), Counter(span.name for span in told)
        return found

    def names(self) -> Counter[str]:
        return Counter(span.name for span in self.spans.values())


def parent_of(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


@ductor.task("book")
async def book(context: ductor.TaskContext) -> str:
    if context.attempt == 1:
        raise ConnectionError("away")
    return context.traceparent


@ductor.task("note")
def note() -> str:
    return "noted"


BOOKING = workflow(
    "booking",
    task("book", "book", retry={"max_attempts": 2, "initial": "1ms"}, next="note"),
    task("note", "note"),
    output="${steps.book.output}",
)


async def test_a_run_is_below_its_caller_and_its_parts_are_below_the_run(store):
    kept, caller = Kept(), TracerProvider().get_tracer("caller")
    async with ductor.Host(tasks=[book, note], definitions=BOOKING, database=store, observers=[kept.tracing]) as host:
        with caller.start_as_current_span("request") as request:
            run = await host.start("booking")
        seen = await run.result(timeout=30)
        version = (await run.status()).version
    asked, spans = request.get_span_context(), kept.spans
    assert {span.context.trace_id for span in spans.values() if span.context} == {asked.trace_id}
    run_id, whole = run.run_id, spans[run_span_id(run.run_id)]
    assert (whole.name, parent_of(whole)) == ("run booking", asked.span_id)
    assert parent_of(spans[start_span_id(run_id)]) == asked.span_id
    assert whole.attributes is not None
    assert whole.attributes["ductor.status"] == "completed"
    ticks = [spans[tick_span_id(run_id, number)] for number in range(1, version + 1)]
    failed, done, noted = (
        spans[attempt_span_id(attempt_token(run_id, node, number))]
        for node, number in (("book", 1), ("book", 2), ("note", 1))
    )
    assert len(spans) == 2 + len(ticks) + 3
    assert {parent_of(span) for span in (*ticks, failed, done, noted)} == {run_span_id(run_id)}
    assert (
        seen
        == f"00-{asked.trace_id:032x}-{attempt_span_id(attempt_token(run_id, 'book', 2)):016x}-{asked.trace_flags:02x}"
    )
    assert failed.status.status_code is StatusCode.ERROR
    assert failed.attributes is not None
    assert (failed.kind, failed.attributes["error.type"]) == (SpanKind.CONSUMER, "ConnectionError")
    assert [event.name for event in failed.events] == ["exception"]
    assert done.status.status_code is StatusCode.UNSET
    for span in (failed, done, noted):
        assert (whole.start_time or 0) <= (span.start_time or 0) <= (span.end_time or 0) <= (whole.end_time or 0)


async def test_spans_of_handlers_are_below_their_attempt_on_the_loop_and_in_threads(store):
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("handler")

    @ductor.task("on_loop")
    async def on_loop() -> None:
        with tracer.start_as_current_span("on loop"):
            await asyncio.sleep(0)

    @ductor.task("in_thread")
    def in_thread() -> None:
        tracer.start_span("in thread").end()

    @ductor.task("untraced")
    async def untraced() -> bool:
        return trace.get_current_span().get_span_context().is_valid

    steps = workflow("both", task("a", "on_loop", next="b"), task("b", "in_thread"))
    plain = workflow("plain", task("a", "untraced"), output="${steps.a.output}")
    kept = Kept()
    async with ductor.Host(
        tasks=[on_loop, in_thread, untraced], definitions=[steps, plain], database=store, observers=[kept.tracing]
    ) as host:
        run = await host.start("both")
        await run.result(timeout=30)
        # the same workers: nothing of an attempt's context is left in them
        assert await (await host.start("plain", traceparent="")).result(timeout=30) is False
    below = {span.name: (span.context.trace_id, parent_of(span)) for span in exporter.get_finished_spans()}
    assert below == {
        "on loop": (own_trace_id(run.run_id), attempt_span_id(attempt_token(run.run_id, "a", 1))),
        "in thread": (own_trace_id(run.run_id), attempt_span_id(attempt_token(run.run_id, "b", 1))),
    }


async def test_a_child_is_below_the_decision_that_started_it(store):
    kept = Kept()
    inner = workflow("inner", task("a", "note"))
    outer = workflow("outer", task("first", "note", next="call"), subworkflow("call", definition="inner"))
    async with ductor.Host(tasks=[note], definitions=[inner, outer], database=store, observers=[kept.tracing]) as host:
        run = await host.start("outer", traceparent=CALLER)
        await run.result(timeout=30)
        assert (await host.replay(run.run_id)).verify().holds  # the child's context is computed again alike
    spans = kept.spans
    (child,) = (span for span in spans.values() if span.name == "run inner")
    (begun,) = (span for span in spans.values() if span.name == "start inner")
    starting = spans[parent_of(child) or 0]
    assert parent_of(begun) == parent_of(child)
    assert (starting.name, parent_of(starting)) == ("tick outer", run_span_id(run.run_id))
    assert "child started" in [event.name for event in starting.events]
    assert child.context.trace_id == CALLER_TRACE
    assert child.attributes is not None
    assert child.attributes["ductor.parent_run_id"] == run.run_id
    assert parent_of(spans[run_span_id(run.run_id)]) == CALLER_SPAN


async def test_a_conflict_and_a_result_that_comes_twice_make_no_second_span(database):
    kept = Kept()
    steps = workflow("waiting", wait("go", signal="go", next="note"), task("note", "note"))
    async with (
        PostgresStore(database.dsn) as stranger,
        ductor.Host(tasks=[note], definitions=steps, database=database.dsn, observers=[kept.tracing]) as host,
    ):
        run = await host.start("waiting")
        engine = host.engine.engine
        actor = engine.directory.get(run.run_id)
        assert actor is not None
        assert actor.state is not None
        writer = RunWriter(run.run_id)
        writer.version, writer.last_hash = actor.state.version, actor.state.last_hash
        answered: asyncio.Future[CommitAnswer] = asyncio.get_running_loop().create_future()
        stranger.commit(writer.commit(at_us=actor.state.at_us), answered.set_result)
        assert isinstance(await answered, Appended)
        deliver, delivered = engine.deliver, Counter[str]()

        def deliver_twice(result) -> None:
            for _ in range(2):
                delivered[result.token] += 1
                deliver(result)

        engine.pool._deliver = deliver_twice
        await run.signal("go")
        await run.result(timeout=30)
        version = (await run.status()).version
    assert set(delivered.values()) == {2}
    names = kept.names()
    assert names == {"start waiting": 1, "run waiting": 1, "attempt note": 1, "tick waiting": version - 1}
    assert tick_span_id(run.run_id, writer.version) not in kept.spans  # the stranger's row


async def test_hosts_and_clients_in_turn_tell_one_trace(database):
    steps = workflow("relay", task("a", "note", next="go"), wait("go", signal="go", next="b"), task("b", "note"))
    first, second = Kept(), Kept()
    async with ductor.Client(database.dsn) as client:
        await client.publish(steps)
        run = await client.start("relay", traceparent=CALLER)
        async with ductor.Host(tasks=[note], database=database.dsn, observers=[first.tracing]):
            async with asyncio.timeout(30):
                while (await run.status()).status != "waiting":  # noqa: ASYNC110 - another process would look as well
                    await asyncio.sleep(0)
        async with ductor.Host(tasks=[note], database=database.dsn, observers=[second.tracing]):
            await run.signal("go")
            await run.result(timeout=30)
    assert first.names().keys() == {"start relay", "tick relay", "attempt a"}
    assert second.names().keys() == {"tick relay", "attempt b", "run relay"}
    assert not first.spans.keys() & second.spans.keys()
    told = [*first.spans.values(), *second.spans.values()]
    assert {span.context.trace_id for span in told} == {CALLER_TRACE}
    assert {parent_of(span) for span in told} == {CALLER_SPAN, run_span_id(run.run_id)}


async def test_a_worker_elsewhere_has_the_attempts_context(database):
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    @ductor.task("far")
    async def far(context: ductor.TaskContext) -> str:
        provider.get_tracer("far").start_span("work").end()
        return context.traceparent

    steps = workflow("far", task("a", "far", queue="away"), output="${steps.a.output}")
    kept = Kept()
    async with (
        ductor.Host(definitions=steps, database=database.dsn, observers=[kept.tracing]) as host,
        ductor.Worker(tasks=[far], queues=["away"], database=database.dsn, observers=[Tracing()]),
    ):
        run = await host.start("far", traceparent=CALLER)
        seen = await run.result(timeout=30)
    attempt = attempt_span_id(attempt_token(run.run_id, "a", 1))
    assert seen == f"00-{CALLER_TRACE:032x}-{attempt:016x}-01"
    (work,) = exporter.get_finished_spans()
    assert (work.context.trace_id, parent_of(work)) == (CALLER_TRACE, attempt)
    assert kept.spans[attempt].name == "attempt a"


async def test_whether_a_run_is_traced_is_decided_at_its_start_and_recorded(store):
    never = Kept(sampler=ALWAYS_OFF)
    async with ductor.Host(tasks=[book, note], definitions=BOOKING, database=store, observers=[never.tracing]) as host:
        untraced = await host.start("booking")
        assert await untraced.result(timeout=30) == ""
        unsampled = await host.start("booking", traceparent=CALLER[:-2] + "00")
        assert str(await unsampled.result(timeout=30)).endswith("-00")
        assert not never.spans
        sampled = await host.start("booking", traceparent=CALLER)
        await sampled.result(timeout=30)
        assert never.names()["run booking"] == 1
        recorded = []
        for run in (untraced, unsampled, sampled):
            event = (await run.history())[0].events[0]
            assert isinstance(event, RunStarted)
            recorded.append(event.traceparent)
            assert (await host.replay(run.run_id)).verify().holds
        assert recorded == ["", CALLER[:-2] + "00", CALLER]
        with pytest.raises(StartRefusedError, match="traceparent"):
            await host.start("booking", traceparent="00-zz")


async def test_a_run_that_fails_and_is_redriven_has_a_span_for_each_life(store):
    is_well = False

    @ductor.task("moody")
    async def moody() -> None:
        if not is_well:
            raise ductor.NonRetryable("not today", type="Moody")

    kept = Kept()
    steps = workflow("moody", task("a", "moody"))
    async with ductor.Host(tasks=[moody], definitions=steps, database=store, observers=[kept.tracing]) as host:
        run = await host.start("moody")
        with pytest.raises(ductor.RunFailedError):
            await run.result(timeout=30)
        is_well = True
        await run.redrive()
        async with asyncio.timeout(30):
            while (await run.status()).status != "completed":  # noqa: ASYNC110 - it has had an end before
                await asyncio.sleep(0)
    first, second = kept.spans[run_span_id(run.run_id)], kept.spans[run_span_id(run.run_id, 1)]
    assert (first.status.status_code, second.status.status_code) == (StatusCode.ERROR, StatusCode.UNSET)
    assert (parent_of(first), parent_of(second)) == (None, run_span_id(run.run_id))


async def test_who_continues_a_run_has_a_trace_of_its_own_that_is_linked(store):
    kept = Kept()
    steps = workflow("long", task("a", "note", next="go"), wait("go", signal="go"))
    async with ductor.Host(tasks=[note], definitions=steps, database=store, observers=[kept.tracing]) as host:
        run = await host.start("long", traceparent=CALLER)
        await run.continue_as_new()
        async with asyncio.timeout(30):
            while (latest := (await run.status()).run_id) == run.run_id:  # noqa: ASYNC110 - nobody tells of it
                await asyncio.sleep(0)
        await run.signal("go")
        await run.result(timeout=30)
    before, after = kept.spans[run_span_id(run.run_id)], kept.spans[run_span_id(latest)]
    assert (after.context.trace_id, after.parent) == (own_trace_id(latest), None)
    assert [link.context.span_id for link in before.links] == [after.context.span_id]
    assert [link.context.trace_id for link in before.links] == [after.context.trace_id]
