"""What a tick gives to be written beside its row: all of it, and nothing where there is nothing."""

import msgspec

from ductor.actors.tick.compute import TickInputs, compute
from ductor.journal.codec import MAX_INLINE_BYTES, stored_value
from ductor.journal.events import AttemptFinished, ChildStarted, ErrorInfo
from tests.actors.tick.driver import Driver


def test_a_tick_with_nothing_to_write_beside_its_row_has_no_outbox():
    run = Driver("steps: [{ref: t, type: task, task: t}]", starts=False)
    assert run.tick(started=run.started).outbox is None
    assert run.finish("t").outbox is None
    late = Driver("steps: [{ref: w, type: wait, signal: go, timeout: 5s, on_timeout: skip}]")
    assert late.advance(5).outbox is None


def test_large_values_that_came_with_a_result_are_stored_with_its_row():
    run = Driver("steps: [{ref: t, type: task, task: t}]\noutput: ${steps.t.output.size()}")
    stored = stored_value("a" * (MAX_INLINE_BYTES + 1), "output")
    assert stored.payload is not None
    result = AttemptFinished(node="t", generation=1, outcome="succeeded", output_ref=stored.ref)
    inputs = TickInputs(results=[result], payloads=[(stored.payload, stored.value)])
    payload = compute(run.program, run.state, inputs, run.now_us, run.library)
    assert [one.hash for one in payload.payloads] == [stored.payload.hash]
    assert run.state.output == MAX_INLINE_BYTES + 1


def test_the_rounds_of_a_child_begin_with_the_first():
    child = "name: child\ninput: {type: object}\nsteps: [{ref: work, type: task, task: t}]"
    run = Driver(
        "steps: [{ref: call, type: subworkflow, definition: child, input: {}, repeat: {until: 'false', max: 3}}]",
        others=[child],
    )
    run.report("call", output=1)
    begun = [event.iteration for event in run.events() if isinstance(event, ChildStarted)]
    assert begun == [0, 1]


def test_a_scatter_whose_first_child_ends_it_starts_no_other():
    run = Driver(
        """
        steps:
          - ref: each
            type: scatter
            items_expr: trigger
            do: {type: task, task: t, input: {x: "${item.x}"}}
            complete_when: failed > 0
            next: all
          - {ref: all, type: gather, scatter_ref: each, strategy: raise}
        """,
        [{}, {"x": 1}, {"x": 2}],
    )
    assert run.in_flight == {}
    assert {ref for ref in run.state.nodes if ref.endswith("]")} == {"each[0]"}


def test_what_a_gather_fails_with_is_final():
    run = Driver(
        """
        steps:
          - {ref: each, type: scatter, items_expr: trigger, do: {type: task, task: t}, next: all}
          - {ref: all, type: gather, scatter_ref: each, strategy: raise}
        """,
        [1],
    )
    error = ErrorInfo(type="Boom", retryable=False)
    run.tick(results=[msgspec.structs.replace(run.success("each[0]"), outcome="failed", error=error)])
    failed = run.state.nodes["all"].error
    assert failed is not None
    assert (failed.type, failed.retryable) == ("Boom", False)
