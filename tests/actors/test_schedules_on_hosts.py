"""Schedules on hosts: on time, once, and as `catchup` and `overlap` say."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from ductor.actors.host import EngineHost
from ductor.definitions.compile import compile_text
from ductor.journal.errors import StoreUnavailableError
from ductor.journal.records import StartTrigger
from ductor.testing import virtual_time
from tests.actors.hosting import Bench, WrappedStore, definition
from tests.actors.triggering import DAY_S, SELDOM, SWEEP_S, at_us, outputs, runs, scheduled, until_moment

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
