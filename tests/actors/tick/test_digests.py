"""`digest` in the tick: what a step brings, and what follows from what it is told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ductor.actors.correlation_keys import key_text
from ductor.definitions.steps.digest import WINDOW_ITEMS_MAX
from ductor.definitions.values import JsonValue
from ductor.journal.digest_store import MAX_DIGEST_ITEM_BYTES
from tests.actors.tick.driver import Driver, settlements

BUNDLE = """
steps:
  - ref: bundle
    type: digest
    key: "${trigger.key}"
    item: "${trigger.item}"
    window: {duration: 10m, count: 7}
    effects: {seen: "${size(output.items)}"}
    emit: [{event: bundled}]
    next: after
  - {ref: after, type: task, task: t}
  - {ref: last, type: task, task: t}
context: {seen: 0}
"""


def bundle(key: JsonValue = "ann", item: JsonValue = 1, text: str = BUNDLE) -> Driver:
    return Driver(text, {"key": key, "item": item})


def test_a_step_parks_with_what_it_brings_and_no_timer():
    run = bundle(item={"id": 1})
    (wait,) = run.digests.values()
    assert (wait.key, wait.item, wait.duration_ms, wait.max_items, wait.generation) == (
        '"ann"',
        {"id": 1},
        600_000,
        7,
        0,
    )
    assert run.state.nodes["bundle"].data == {"key": "ann", "item": {"id": 1}}
    assert run.state.next_due_us is None
    assert run.state.is_listening


def test_a_step_that_is_cancelled_in_the_row_that_brings_its_item_brings_none():
    run = bundle(text=BUNDLE.replace("last, type: task, task: t", "last, type: transform, value: 1, cancels: [bundle]"))
    assert (run.digests, run.statuses()["bundle"]) == ({}, "cancelled")


def test_a_window_without_a_count_has_the_largest_there_is():
    assert bundle(text=BUNDLE.replace(", count: 7", "")).digests["bundle"].max_items == WINDOW_ITEMS_MAX


@pytest.mark.parametrize(("one", "other"), [(1, 1.0), ({"a": 1, "b": 2}, {"b": 2, "a": 1}), ("ann", "ann")])
def test_equal_keys_are_one(one: JsonValue, other: JsonValue):
    assert bundle(one).digests["bundle"].key == bundle(other).digests["bundle"].key


@given(key=st.one_of(st.text(max_size=400), st.integers(), st.none(), st.booleans()))
def test_every_key_fits_an_index(key: JsonValue):
    assert len(key_text(key).encode()) <= 255


def test_one_and_its_text_are_different_keys():
    assert bundle(1).digests["bundle"].key != bundle("1").digests["bundle"].key


def test_the_leader_goes_on_with_the_items():
    run = bundle()
    payload = run.digest("bundle", items=[1, 2])
    assert payload.dispatched == ["after"]
    assert run.state.nodes["bundle"].output == {"items": [1, 2]}
    assert run.state.context == {"seen": 2}
    assert [event.name for event in run.published] == ["bundled"]
    assert run.disposition("digest:bundle:0") == "consumed"


def test_a_merged_run_completes_and_skips_what_it_has_not_begun():
    run = bundle(text=BUNDLE.replace("next: after", "next: [after, last]"))
    run.digest("bundle", merged_into="run-0")
    assert (run.state.status, run.state.output) == ("completed", {"merged_into": "run-0"})
    assert run.statuses() == {"bundle": "succeeded", "after": "skipped", "last": "skipped"}
    assert [settled.outcome for settled in settlements(run.events(), "bundle")] == ["merged"]
    assert run.state.context == {"seen": 0}
    assert run.published == []


def test_a_merged_run_stops_what_it_has_begun_and_ends_when_that_has():
    run = bundle()
    run.digest("bundle", merged_into="run-0")
    assert run.withdrawn == ["last"]
    assert run.state.status == "running"
    run.stopped("last")
    assert (run.state.status, run.state.output) == ("completed", {"merged_into": "run-0"})
    assert run.statuses() == {"bundle": "succeeded", "after": "skipped", "last": "cancelled"}


def test_a_merged_run_carries_out_its_deferred_steps():
    run = bundle(text=BUNDLE + "defer: [{ref: bye, type: transform, value: '${run.status}'}]")
    run.digest("bundle", merged_into="run-0")
    run.stopped("last")
    assert run.state.nodes["bye"].output == "completed"
    assert run.state.status == "completed"


def test_a_second_telling_changes_nothing():
    run = bundle()
    run.digest("bundle", items=[1])
    version = run.state.version
    payload = run.tick(messages=[run.message("digest", payload={"items": [1]}, node="bundle")])
    assert (payload.events, run.state.version) == ([], version)


def test_a_vote_says_nothing_to_a_digest():
    run = bundle()
    run.vote("bundle", "approved", "ann")
    assert run.state.nodes["bundle"].status == "waiting"
    assert run.disposition("m-1") == "undelivered"


def test_an_item_beyond_the_bound_fails_the_step():
    largest = "x" * (MAX_DIGEST_ITEM_BYTES - 2)
    assert bundle(item=largest).digests["bundle"].item == largest
    run = bundle(item=largest + "x")
    assert run.digests == {}
    assert run.state.error is not None
    assert run.state.error.type == "ValueRefused"
    assert "item of step bundle" in run.state.error.message


@pytest.mark.parametrize("kind", ["cancel", "terminate"])
def test_a_run_that_ends_takes_its_item_back(kind):
    run = bundle()
    run.request(kind)
    assert run.digests == {}
    run.digest("bundle", items=[1])
    assert run.disposition("digest:bundle:0") == "undelivered"


def test_a_redriven_step_brings_its_item_again():
    run = bundle()
    run.request("cancel")
    run.stopped("last")
    run.request("redrive", "c-2")
    assert run.digests["bundle"].generation == 1
    run.digest("bundle", items=[5])
    assert run.statuses()["after"] == "running"


def test_a_paused_run_is_told_when_it_is_resumed():
    run = bundle()
    run.request("pause")
    run.digest("bundle", items=[1])
    assert run.statuses()["bundle"] == "waiting"
    run.request("resume", "c-2")
    run.tick()
    assert run.statuses()["bundle"] == "succeeded"
