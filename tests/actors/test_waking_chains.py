"""What a step tells an earlier run of a chain reaches the latest one at once, without a sweep."""

import asyncio

from ductor.actors.host import HostOptions
from ductor.testing import virtual_time
from tests.actors.hosting import Bench

TEXT = """
context: {heard: []}
repeat: {until: "'late' in context.heard", max: 10}
output: ${context.heard}
steps:
  - {ref: hear, type: wait, signal: word, effects: {heard: "${context.heard + [output]}"}}
---
ductor: 1
name: teller
steps:
  - {ref: a, type: task, task: work, signal: [{run: "${trigger}", name: word, payload: late}]}
"""
NO_SWEEPS = HostOptions(sweep_ms=10_000_000, heartbeat_ms=10_000_000)


@virtual_time
async def test_a_signal_of_a_step_to_the_first_run_wakes_the_latest():
    bench = Bench()
    go_on = asyncio.Event()

    async def work(_number: int) -> None:
        await go_on.wait()

    async with bench.host(TEXT, bench.handler(work), options=NO_SWEEPS) as host:
        first = (await host.start("subject")).run_id
        await host.start("teller", first)
        for word in ("one", "two"):
            await host.signal(first, "word", word)
        await asyncio.sleep(1)  # virtual: both rounds are over
        go_on.set()
        outcome = await host.outcome(first, timeout_ms=60_000)
        assert outcome.output == ["one", "two", "late"]
        assert bench.clock.elapsed_us < 60_000_000
