"""Pauses on a host: what was in hand when the pause came, and what is due when it ends."""

import asyncio

from ductor.actors.tasks import task
from ductor.definitions.durations import format_timestamp_us
from ductor.journal.events import ControlReceived
from ductor.testing import virtual_time
from tests.actors.hosting import Bench, HeldStore

PAIR = """
steps:
  - {ref: a, type: task, task: work, next: j}
  - {ref: b, type: task, task: work, next: j}
  - {ref: j, type: transform, value: "${[steps.a.output, steps.b.output]}"}
"""


@virtual_time
async def test_a_result_of_the_tick_that_pauses_is_kept_until_the_run_goes_on():
    bench = Bench()
    store = HeldStore(bench.store)
    store.is_holding = False
    async with bench.host(PAIR, bench.handler(lambda n: asyncio.sleep(n, n)), store) as host:
        run_id = (await host.start("subject")).run_id
        store.is_holding = True
        await asyncio.sleep(1.5)  # the result of a is in a commit that is under way
        await host.request(run_id, "pause")
        await asyncio.sleep(1)  # that of b is in hand
        assert len(store.held) == 1
        store.release()
        await asyncio.sleep(5)
        paused = [row for row in await host.history(run_id) if isinstance(row.events[0], ControlReceived)]
        assert len(paused) == 1
        assert (await host.view(run_id)).status == "paused"
        (kept,) = await bench.store.attempts(run_id)
        assert (kept.node, kept.output, kept.disposition) == ("b", 2, "")
        await host.request(run_id, "resume")
        assert (await host.outcome(run_id)).output == {"j": [1, 2]}
        assert bench.calls == ["work", "work"]


@virtual_time
async def test_a_signal_that_a_paused_run_got_in_time_comes_before_the_fixed_time_that_passed_meanwhile():
    bench = Bench()
    text = """
    steps:
      - {ref: until, type: wait, until_expr: trigger.at, cancels: [go], next: late}
      - {ref: go, type: wait, signal: go, cancels: [until], next: after}
      - {ref: late, type: transform, value: 1}
      - {ref: after, type: transform, value: 2}
    """
    async with bench.host(text, bench.handler()) as host:
        at = format_timestamp_us(bench.clock.now_us() + 60_000_000)
        run_id = (await host.start("subject", {"at": at})).run_id
        await host.request(run_id, "pause")
        await asyncio.sleep(10)
        await host.signal(run_id, "go")
        await asyncio.sleep(600)
        await host.request(run_id, "resume")
        assert (await host.outcome(run_id)).output == {"after": 2}


@virtual_time
async def test_more_messages_than_a_tick_takes_up_are_all_taken_up_in_order():
    bench = Bench()
    release = asyncio.Event()

    @task("work")
    async def work() -> None:
        await release.wait()

    text = """
    on: [{signal: add, effects: {sum: "${context.sum * 3 % 1000003 + event.payload}"}}]
    context: {sum: 0}
    output: ${context.sum}
    steps: [{ref: a, type: task, task: work}]
    """
    async with bench.host(text, work) as host:
        run_id = (await host.start("subject")).run_id
        await host.request(run_id, "pause")
        expected = 0
        for number in range(600):
            await host.signal(run_id, "add", number)
            expected = expected * 3 % 1_000_003 + number
        await host.request(run_id, "resume")
        await asyncio.sleep(5)
        release.set()
        assert (await host.outcome(run_id)).output == expected
