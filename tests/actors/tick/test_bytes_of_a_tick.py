"""One tick puts no more bytes into its row than a bound, and what it leaves is done by the next one."""

import msgspec
import pytest

from ductor.actors.tick.compute import TickInputs, compute
from ductor.actors.tick.working import MAX_CONTEXT_VALUE_BYTES, MAX_EVENT_BYTES_PER_TICK
from ductor.definitions.values import JsonValue
from ductor.journal.codec import MAX_INLINE_BYTES
from ductor.journal.events import ChildStarted, NodeSettled, ScatterStarted
from ductor.journal.trace_context import tick_span_id, traceparent_below
from tests.actors.tick.driver import Driver

TEXT = "a" * (MAX_INLINE_BYTES - 100)
STEPS = 3 * MAX_EVENT_BYTES_PER_TICK // len(TEXT)
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OVERHEAD_BYTES = 128 << 10
"""What events say beside these values, the one value that goes over the bound, and the trigger."""


def steps_of(fields: str) -> str:
    return "output: 1\nsteps:\n" + "".join(f"  - {{ref: s{n}, {fields}}}\n" for n in range(STEPS))


@pytest.mark.parametrize(
    "fields",
    [
        "type: transform, value: '${trigger.text}'",
        "type: transform, value: 1, effects: {x: '${trigger.text}'}",
        "type: task, task: t, input: {x: '${trigger.text}'}",
        "type: transform, value: 1, emit: [{event: e, payload: '${trigger.text}'}]",
    ],
)
def test_values_of_many_steps_are_spread_over_rows(fields: str):
    run = Driver(steps_of(fields), {"text": TEXT})
    sizes = [len(row.events) for row in run.rows]
    assert max(sizes) < MAX_EVENT_BYTES_PER_TICK + OVERHEAD_BYTES
    assert 3 <= len(sizes) <= 5
    assert len(run.state.nodes) == STEPS


@pytest.mark.parametrize(("bytes_left", "by_row"), [(0, [64, 1]), (1, [65])])
def test_values_that_fill_a_row_to_the_last_byte_are_its_last(bytes_left: int, by_row: list[int]):
    size_bytes = MAX_EVENT_BYTES_PER_TICK // 64
    steps = "".join(f"  - {{ref: s{n}, type: transform, value: '${{trigger[{n}]}}'}}\n" for n in range(65))
    text = "a" * (size_bytes - 2)  # two quotes
    run = Driver("output: 1\nsteps:\n" + steps, [text[bytes_left:], *[text] * 64])
    settled = [sum(isinstance(event, NodeSettled) for event in row) for row in run.rows_of_events()]
    assert settled == by_row


def test_values_that_stand_beside_the_row_do_not_count():
    run = Driver(steps_of("type: transform, value: '${trigger.text}'"), {"text": TEXT * 2})
    assert (len(run.rows), run.state.status) == (1, "completed")


CHILD = "name: child\ninput: {type: object}\nsteps: [{ref: work, type: task, task: t}]"


def starts_by_row(run: Driver) -> list[int]:
    counts = [sum(isinstance(event, ChildStarted) for event in row) for row in run.rows_of_events()]
    return [count for count in counts if count]


def test_starts_of_children_with_long_triggers_are_spread_over_ticks():
    """A child's first row is written with the row that starts it, and its trigger beside that."""
    text = "a" * (MAX_EVENT_BYTES_PER_TICK // 4)
    steps = "steps:\n" + "".join(
        f"  - {{ref: s{n}, type: subworkflow, definition: child, input: {{x: '${{trigger.text}}'}}}}\n"
        for n in range(10)
    )
    assert starts_by_row(Driver(steps, {"text": text}, others=[CHILD])) == [4, 4, 2]
    assert starts_by_row(Driver(steps, {"text": "a"}, others=[CHILD])) == [10]


def test_children_of_one_step_belong_to_the_decision_that_started_them_in_a_trace():
    """The second row begins where the first one was full, with nothing but starts."""
    text = "a" * (MAX_EVENT_BYTES_PER_TICK // 4)
    steps = "steps:\n" + "".join(
        f"  - {{ref: s{n}, type: subworkflow, definition: child, input: {{x: '${{trigger.text}}'}}}}\n"
        for n in range(6)
    )
    run = Driver(steps, {"text": text}, others=[CHILD], starts=False)
    run.tick(started=msgspec.structs.replace(run.started, traceparent=TRACEPARENT))
    versions = [
        version
        for version, row in enumerate(run.rows_of_events(), 1)
        for event in row
        if isinstance(event, ChildStarted)
    ]
    assert versions == [1, 1, 1, 1, 2, 2]
    assert [child.started.traceparent for child in run.children] == [
        traceparent_below(TRACEPARENT, tick_span_id("run-1", version)) for version in versions
    ]


@pytest.mark.parametrize(("size_bytes", "starts"), [(10, [10]), (MAX_CONTEXT_VALUE_BYTES - 2, [4, 4, 2])])
def test_starts_of_bodies_with_a_large_context_are_spread_over_ticks(size_bytes: int, starts: list[int]):
    scatter = """
    context: {kept: ""}
    steps:
      - ref: each
        type: scatter
        mode: child_workflow
        items_expr: trigger.items
        do: {steps: [{ref: work, type: task, task: t}]}
    """
    items: JsonValue = list(range(10))
    run = Driver(scatter, {"items": items}, starts=False)
    run.started.context["kept"] = "a" * size_bytes
    run.tick(started=run.started)
    assert starts_by_row(run) == starts


def test_keys_count():
    count = 2_000
    items: JsonValue = [f"{n:0250}" for n in range(count)]
    fields = f"items_expr: trigger, key_expr: item, max_inline_children: {count}, do: {{type: task, task: t}}"
    scatters = "".join(f"  - {{ref: s{n}, type: scatter, {fields}}}\n" for n in range(5))
    run = Driver("steps:\n" + scatters, items, starts=False)
    payload = compute(run.program, run.state, TickInputs(started=run.started), run.now_us, run.library)
    begun = sum(isinstance(event, ScatterStarted) for event in payload.events)
    assert begun == -(-MAX_EVENT_BYTES_PER_TICK // (250 * count))
    assert payload.is_limited
