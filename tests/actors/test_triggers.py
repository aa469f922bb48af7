"""Triggers on hosts: events and schedules start runs, each of them once, however often and by whomever fired."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from ductor.actors.host import EngineHost, HostOptions
from ductor.actors.tasks import TaskRegistry
from ductor.definitions.compile import compile_text
from ductor.definitions.expressions import STANDARD_LIBRARY
from ductor.definitions.values import JsonValue
from ductor.journal.errors import OverloadedError, StoreUnavailableError
from ductor.journal.records import Head, RunFilter, StartTrigger
from ductor.testing import virtual_time
from tests.actors.hosting import Bench, WrappedStore, definition

DAY_S = 86_400
SWEEP_S = 30
SELDOM = HostOptions(sweep_ms=SWEEP_S * 1_000, heartbeat_ms=60_000)
"""For hosts that live for days: a schedule fires with the sweep after its moment."""

BY_EVENT = """
input: {type: object, required: [id]}
triggers:
  - event: order.created
    match: event.payload.total > 0
    input: "${event.payload}"
steps: [{ref: a, type: transform, value: "${trigger}"}]
"""


async def runs(host: EngineHost) -> list[Head]:
    """All runs, oldest first."""
    return list(reversed(await host.runs(RunFilter(limit=1_000))))


async def outputs(host: EngineHost) -> list[JsonValue]:
    return [(await host.outcome(run.run_id, timeout_ms=60_000)).output for run in await runs(host)]


def at_us(text: str, zone: str = "UTC") -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()) * 1_000_000


async def until_moment(bench: Bench, text: str, zone: str = "UTC") -> None:
    """Let time pass until then."""
    await asyncio.sleep((at_us(text, zone) - bench.clock.now_us()) / 1e6)


def scheduled(heads: Sequence[Head], zone: str = "UTC") -> list[str]:
    """The moments that runs of the first trigger were started for."""
    moments = sorted(int((head.key or "").removeprefix("schedule/0/")) for head in heads)
    return [datetime.fromtimestamp(moment / 1e6, ZoneInfo(zone)).strftime("%d %H:%M") for moment in moments]


# --- events -----------------------------------------------------------------------------------------------------------


@virtual_time
async def test_an_event_starts_a_run_at_once():
    bench = Bench()
    async with bench.host(BY_EVENT, bench.handler()) as host:
        await host.publish_event("order.created", {"id": 1, "total": 5})
        await host.publish_event("order.created", {"id": 2, "total": 0})
        await host.publish_event("order.deleted", {"id": 3, "total": 5})
        await host.publish_event("order.created", {"id": 4, "total": 5}, tenant="other")
        assert await outputs(host) == [{"a": {"id": 1, "total": 5}}]


@virtual_time
async def test_a_repeated_event_starts_nothing_again_and_a_repeated_key_neither():
    bench = Bench()
    text = BY_EVENT.replace('input: "${event.payload}"', 'input: "${event.payload}"\n    key: "${event.payload.id}"')
    async with bench.host(text, bench.handler()) as host:
        await host.publish_event("order.created", {"id": 1, "total": 5}, event_id="e-1")
        await host.publish_event("order.created", {"id": 1, "total": 5}, event_id="e-1")
        await host.publish_event("order.created", {"id": 1, "total": 6}, event_id="e-2")
        await host.publish_event("order.created", {"id": "1", "total": 7}, event_id="e-3")
        await host.publish_event("order.created", {"id": 2, "total": 8}, event_id="e-4")
        assert sorted(run.key or "" for run in await runs(host)) == ["1", "2"]
        assert sorted(await outputs(host), key=str) == [{"a": {"id": 1, "total": 5}}, {"a": {"id": 2, "total": 8}}]


@virtual_time
async def test_expressions_see_the_event_and_the_config():
    bench = Bench()
    text = """
    config: {limit: 10}
    triggers:
      - event: order.created
        match: event.payload.total > config.limit
        input: {id: "${event.id}", name: "${event.name}", at: "${event.at}"}
    steps: [{ref: a, type: transform, value: "${trigger}"}]
    """
    async with bench.host(text, bench.handler()) as host:
        await host.publish_event("order.created", {"total": 10})
        await host.publish_event("order.created", {"total": 11}, event_id="event:e-1")
        assert await outputs(host) == [
            {"a": {"id": "event:e-1", "name": "order.created", "at": "2026-01-01T00:00:00Z"}}
        ]


@virtual_time
async def test_an_event_id_as_long_as_they_come_starts_its_run():
    bench = Bench()
    async with bench.host(BY_EVENT, bench.handler()) as host:
        for _ in range(2):
            await host.publish_event("order.created", {"id": 1, "total": 5}, event_id="e" * 255)
        assert len(await runs(host)) == 1


@pytest.mark.parametrize(
    ("payload", "key"),
    [({"id": 1}, None), ({"total": 5}, None), ({"id": 1, "total": 5, "k": None}, "${event.payload.k}")],
    ids=["match fails", "input does not fit", "key is null"],
)
@virtual_time
async def test_what_the_definition_or_the_event_is_to_blame_for_is_logged_and_over(
    payload: JsonValue, key: str | None, caplog: pytest.LogCaptureFixture
):
    bench = Bench()
    text = BY_EVENT if key is None else BY_EVENT.replace("    input:", f'    key: "{key}"\n    input:')
    async with bench.host(text, bench.handler()) as host:
        await host.publish_event("order.created", payload)
        await asyncio.sleep(5)
        assert await runs(host) == []
        assert await bench.store.unmatched_events(bench.clock.now_us(), 10) == []
        assert [record.levelno for record in caplog.records if "trigger 0 of 'subject'" in record.getMessage()] == [
            logging.ERROR
        ]
        await host.publish_event("order.created", {"id": 2, "total": 5, "k": "k"})
        assert len(await runs(host)) == 1


@pytest.mark.parametrize("error", [StoreUnavailableError("away"), OverloadedError(1, 1)])
@virtual_time
async def test_what_is_nobodys_fault_is_tried_again(error: Exception):
    class Away(WrappedStore):
        is_away = True

        def commit(self, commit: Any, answer: Any) -> None:
            if self.is_away:
                raise error
            self.inner.commit(commit, answer)

    bench = Bench()
    store = Away(bench.store)
    async with bench.host(BY_EVENT, bench.handler(), store) as host:
        assert (await host.publish_event("order.created", {"id": 1, "total": 5})).verdict == "accepted"
        await asyncio.sleep(5)
        assert await runs(host) == []
        store.is_away = False
        await asyncio.sleep(20)
        assert await outputs(host) == [{"a": {"id": 1, "total": 5}}]


@virtual_time
async def test_a_step_that_emits_starts_the_runs_of_another_definition():
    bench = Bench()
    async with bench.host(BY_EVENT, bench.handler()) as host:
        text = """
        ductor: 1
        name: sender
        steps: [{ref: say, type: transform, value: 1, emit: [{event: order.created, payload: {id: 7, total: 1}}]}]
        """
        for compiled in compile_text(text):
            await host.publish(compiled)
        sender = await host.start("sender")
        await host.outcome(sender.run_id)
        await asyncio.sleep(1)
        (started,) = [run for run in await runs(host) if run.definition == "subject"]
        assert (await host.outcome(started.run_id)).output == {"a": {"id": 7, "total": 1}}


@virtual_time
async def test_unpublishing_stops_the_triggers_and_publishing_brings_them_back():
    bench = Bench()
    async with bench.host(BY_EVENT, bench.handler()) as host:
        await host.unpublish("subject")
        await host.publish_event("order.created", {"id": 1, "total": 5})
        await asyncio.sleep(5)
        assert await runs(host) == []
        for compiled in compile_text(definition(BY_EVENT)):
            await host.publish(compiled)
        await host.publish_event("order.created", {"id": 2, "total": 5})
        assert len(await runs(host)) == 1


@virtual_time
async def test_the_newest_version_has_the_say():
    bench = Bench()
    async with bench.host(BY_EVENT, bench.handler()) as host:
        for compiled in compile_text(definition(BY_EVENT.replace("order.created", "order.paid"))):
            await host.publish(compiled)
        await host.publish_event("order.created", {"id": 1, "total": 5})
        await host.publish_event("order.paid", {"id": 2, "total": 5})
        assert await outputs(host) == [{"a": {"id": 2, "total": 5}}]


@virtual_time
async def test_functions_of_the_host_may_be_used():
    functions = STANDARD_LIBRARY.with_function("doubled", lambda value: value * 2, least=1)
    bench = Bench()
    await bench.store.open()
    text = definition(BY_EVENT.replace('"${event.payload}"', '{id: "${doubled(event.payload.id)}"}'))
    host = EngineHost(
        bench.store, TaskRegistry((bench.handler(),)), clock=bench.clock, ids=bench.ids, functions=functions
    )
    for compiled in compile_text(text, functions=functions):
        await host.publish(compiled)
    async with host:
        await host.publish_event("order.created", {"id": 4, "total": 5})
        assert await outputs(host) == [{"a": {"id": 8}}]


# --- schedules --------------------------------------------------------------------------------------------------------

DAILY = """
triggers: [{cron: "30 2 * * *", timezone: Europe/Oslo, catchup: all, input: {at: "${scheduled_at}"}}]
steps: [{ref: a, type: transform, value: "${trigger.at}"}]
"""


@asynccontextmanager
async def from_moment(text: str, moment: str) -> AsyncIterator[tuple[Bench, EngineHost]]:
    """A bench whose time has come that far, and a running host."""
    bench = Bench()
    await until_moment(bench, moment)
    async with bench.host(text, bench.handler(), options=SELDOM) as host:
        yield bench, host


@virtual_time
async def test_a_schedule_starts_on_time_and_not_before():
    async with from_moment(DAILY, "2026-06-01T00:00") as (bench, host):
        await until_moment(bench, "2026-06-01T02:29:59", "Europe/Oslo")
        assert await runs(host) == []
        await asyncio.sleep(1 + SWEEP_S)
        assert await outputs(host) == [{"a": "2026-06-01T00:30:00Z"}]
        await asyncio.sleep(2 * DAY_S)
        assert len(await runs(host)) == 3


@virtual_time
async def test_daylight_saving_neither_loses_nor_doubles_a_night():
    async with from_moment(DAILY, "2026-03-27T12:00") as (bench, host):
        await until_moment(bench, "2026-03-30T12:00")
        assert scheduled(await runs(host), "Europe/Oslo") == ["28 02:30", "29 03:00", "30 02:30"]
    async with from_moment(DAILY, "2026-10-23T12:00") as (bench, host):
        await until_moment(bench, "2026-10-26T12:00")
        assert scheduled(await runs(host), "Europe/Oslo") == ["24 02:30", "25 02:30", "26 02:30"]


@pytest.mark.parametrize(
    ("catchup", "missed"), [("all", ["02 03:00", "03 03:00", "04 03:00"]), ("last", ["04 03:00"]), ("none", [])]
)
@virtual_time
async def test_what_an_absence_missed_is_made_good_as_the_definition_says(catchup: str, missed: list[str]):
    text = f"""
    triggers: [{{cron: "0 3 * * *", catchup: {catchup}, overlap: allow}}]
    steps: [{{ref: a, type: transform, value: 1}}]
    """
    bench = Bench()
    await until_moment(bench, "2026-06-01T00:00")
    async with bench.host(text, bench.handler(), options=SELDOM):
        await until_moment(bench, "2026-06-01T12:00")
    await until_moment(bench, "2026-06-04T12:00")
    async with bench.host(text, bench.handler(), options=SELDOM) as host:
        await asyncio.sleep(SWEEP_S + 1)
        assert scheduled(await runs(host)) == ["01 03:00", *missed]
        await until_moment(bench, "2026-06-05T12:00")
        assert scheduled(await runs(host)) == ["01 03:00", *missed, "05 03:00"]


SLOW = """
triggers: [{cron: "0 * * * *", overlap: OVERLAP, catchup: CATCHUP}]
steps: [{ref: a, type: wait, duration: 150m}]
"""


def slow(overlap: str, catchup: str = "last") -> str:
    return SLOW.replace("OVERLAP", overlap).replace("CATCHUP", catchup)


async def started_and_status(host: EngineHost) -> list[tuple[int, str]]:
    """Of each run the hour for which it was started, and how it stands."""
    return [(int(scheduled([head])[0][3:5]), head.status) for head in await runs(host)]


@virtual_time
async def test_skip_leaves_out_what_would_overlap():
    async with from_moment(slow("skip"), "2026-06-01T00:30") as (bench, host):
        await until_moment(bench, "2026-06-01T07:59")
        assert await started_and_status(host) == [(1, "completed"), (4, "completed"), (7, "waiting")]


@virtual_time
async def test_allow_lets_runs_overlap():
    async with from_moment(slow("allow"), "2026-06-01T00:30") as (bench, host):
        await until_moment(bench, "2026-06-01T03:59")
        assert await started_and_status(host) == [(1, "completed"), (2, "waiting"), (3, "waiting")]


@virtual_time
async def test_cancel_replaces_the_run_before():
    async with from_moment(slow("cancel"), "2026-06-01T00:30") as (bench, host):
        await until_moment(bench, "2026-06-01T03:59")
        assert await started_and_status(host) == [(1, "cancelled"), (2, "cancelled"), (3, "waiting")]
        view = await host.view((await runs(host))[0].run_id)
        assert "its successor begins" in view.reason


@virtual_time
async def test_queue_waits_for_the_run_before_and_makes_good_the_last():
    async with from_moment(slow("queue"), "2026-06-01T00:30") as (bench, host):
        await until_moment(bench, "2026-06-01T08:45")
        heads = await runs(host)
        # the run of 1 ends at 3:30, when 3 was the last moment; that one ends a sweep after 6:00
        assert await started_and_status(host) == [(1, "completed"), (3, "completed"), (6, "completed"), (8, "waiting")]
        assert heads[1].started_at_us - at_us("2026-06-01T03:30") <= (SWEEP_S + 1) * 1_000_000


@virtual_time
async def test_queue_and_all_make_good_every_moment_one_after_another():
    async with from_moment(slow("queue", "all"), "2026-06-01T00:30") as (bench, host):
        await until_moment(bench, "2026-06-01T03:10")
        (known,) = await bench.store.due_schedules(2**60, 10)
        assert known.next_at_us == at_us("2026-06-01T02:00"), "what has started is not started over and over"
        await until_moment(bench, "2026-06-01T09:00")
        assert [hour for hour, _ in await started_and_status(host)] == [1, 2, 3, 4]
        ends = [head.ended_at_us for head in await runs(host)]
        starts = [head.started_at_us for head in await runs(host)]
        assert all(
            0 <= start - (end or 0) <= (SWEEP_S + 1) * 1_000_000 for end, start in zip(ends, starts[1:], strict=False)
        )


@virtual_time
async def test_schedules_that_wait_keep_no_other_from_its_time(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ductor.actors.triggers.SCHEDULES_PER_SWEEP", 2)
    bench = Bench()
    await until_moment(bench, "2026-06-01T00:30")
    async with bench.host(slow("queue"), bench.handler(), options=SELDOM) as host:
        for n in range(4):
            for compiled in compile_text(definition(slow("queue")).replace("subject", f"queued_{n}")):
                await host.publish(compiled)
        for compiled in compile_text(definition(DAILY.replace("30 2", "30 4")).replace("subject", "daily")):
            await host.publish(compiled)
        await until_moment(bench, "2026-06-01T02:40")
        assert [run.definition for run in await runs(host) if run.definition == "daily"] == ["daily"]


@virtual_time
async def test_other_runs_of_the_definition_do_not_count_as_overlapping():
    async with from_moment(slow("skip"), "2026-06-01T00:30") as (bench, host):
        for key in (None, "schedule/0/mine", "schedule/1/5", "other"):
            await host.start("subject", key=key)
        await until_moment(bench, "2026-06-01T01:10")
        assert (await runs(host))[-1].key == f"schedule/0/{at_us('2026-06-01T01:00')}"


@pytest.mark.parametrize("overlap", ["skip", "allow", "queue", "cancel"])
@virtual_time
async def test_two_hosts_start_one_run(overlap: str):
    bench = Bench()
    await until_moment(bench, "2026-06-01T00:30")
    text = slow(overlap)
    async with (
        bench.host(text, bench.handler(), options=SELDOM) as first,
        bench.host(text, bench.handler(), options=SELDOM),
    ):
        await until_moment(bench, "2026-06-01T01:59")
        assert await started_and_status(first) == [(1, "waiting")]


@pytest.mark.parametrize("overlap", ["skip", "allow", "queue", "cancel"])
@virtual_time
async def test_a_host_that_dies_before_it_has_moved_the_schedule_on_starts_one_run(overlap: str):
    """The moment is fired again by the next host, which must neither start nor cancel what the first one began."""

    class Dying(WrappedStore):
        async def advance_schedule(self, trigger: StartTrigger, next_at_us: int) -> bool:
            raise StoreUnavailableError("killed")

    bench = Bench()
    await until_moment(bench, "2026-06-01T00:30")
    async with bench.host(slow(overlap), bench.handler(), Dying(bench.store), SELDOM):
        await until_moment(bench, "2026-06-01T01:01")
    async with bench.host(slow(overlap), bench.handler(), options=SELDOM) as host:
        await until_moment(bench, "2026-06-01T01:59")
        assert await started_and_status(host) == [(1, "waiting")]
        await until_moment(bench, "2026-06-01T02:30")
        expected = {
            "skip": [(1, "waiting")],
            "allow": [(1, "waiting"), (2, "waiting")],
            "queue": [(1, "waiting")],
            "cancel": [(1, "cancelled"), (2, "waiting")],
        }
        assert await started_and_status(host) == expected[overlap]


@virtual_time
async def test_publishing_the_same_again_leaves_the_schedule_where_it_is():
    async with from_moment(DAILY, "2026-06-01T00:00") as (bench, host):
        before = await bench.store.due_schedules(2**60, 10)
        await asyncio.sleep(DAY_S / 2)
        for compiled in compile_text(definition(DAILY)):
            await host.publish(compiled)
        (after,) = await bench.store.due_schedules(2**60, 10)
        assert before[0].next_at_us is not None
        assert after.next_at_us == before[0].next_at_us + DAY_S * 1_000_000


@virtual_time
async def test_unpublishing_stops_the_schedule():
    async with from_moment(DAILY, "2026-06-01T00:00") as (_, host):
        await host.unpublish("subject")
        await asyncio.sleep(3 * DAY_S)
        assert await runs(host) == []


@virtual_time
async def test_a_schedule_whose_start_is_refused_moves_on(caplog: pytest.LogCaptureFixture):
    text = "input: {type: object, required: [missing]}\n" + DAILY.strip()
    async with from_moment(text, "2026-06-01T00:00") as (bench, host):
        await asyncio.sleep(DAY_S)
        assert await runs(host) == []
        refusals = [record for record in caplog.records if "did not start a run" in record.getMessage()]
        assert len(refusals) == 1
        (known,) = await bench.store.due_schedules(2**60, 10)
        assert known.next_at_us == at_us("2026-06-02T02:30", "Europe/Oslo")


@virtual_time
async def test_an_event_of_a_schedule_and_its_key_are_of_different_triggers():
    text = """
    triggers:
      - {event: go, input: {by: event}}
      - {cron: "0 * * * *", input: {by: schedule}, overlap: skip}
    steps: [{ref: a, type: wait, duration: 90m, next: b}, {ref: b, type: transform, value: "${trigger.by}"}]
    """
    async with from_moment(text, "2026-06-01T00:30") as (bench, host):
        await host.publish_event("go", event_id="e-1")
        await until_moment(bench, "2026-06-01T03:10")
        assert [(head.key or "").rpartition("/")[0] for head in await runs(host)] == [
            "event/0",
            "schedule/1",
            "schedule/1",
        ]
