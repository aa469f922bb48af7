"""The services that Restate's server calls; Hypercorn serves them (`restate_services:app`)."""

import time
from datetime import timedelta

import restate

from scripts.benchmarks.peers.sides.driver import SLEEP_S

bench = restate.Service("bench")
waiter = restate.Workflow("waiter")


async def noop(i: int) -> int:
    """Give back what came in."""
    return i


@bench.handler()
async def sequence(ctx: restate.Context, steps: int) -> int:
    """No-op steps, one after the other."""
    done = 0
    for number in range(1, steps + 1):
        done = await ctx.run_typed(f"s{number}", noop, restate.RunOptions(), number)
    return done


@bench.handler()
async def fan_out(ctx: restate.Context, count: int) -> int:
    """Many steps at once."""
    futures = [ctx.run_typed("s", noop, restate.RunOptions(), i) for i in range(count)]
    return len([await future for future in await restate.gather(*futures)])


@bench.handler()
async def child(ctx: restate.Context, i: int) -> int:  # noqa: ARG001 - the shape of its handlers
    """Give back what came in."""
    return i


@bench.handler()
async def child_runs(ctx: restate.Context, count: int) -> int:
    """Many calls of another handler at once, each an invocation of its own."""
    futures = [ctx.service_call(child, i) for i in range(count)]
    return len([await future for future in await restate.gather(*futures)])


@bench.handler()
async def sleeper(ctx: restate.Context) -> float:
    """Sleep, and tell how much too long."""
    due_s: float = await ctx.time() + SLEEP_S
    await ctx.sleep(timedelta(seconds=SLEEP_S))
    return time.time() - due_s


@waiter.main()
async def run(ctx: restate.WorkflowContext) -> int:
    """Wait for a promise."""
    value: int = await ctx.promise("go", type_hint=int).value()
    return value


@waiter.handler()
async def go(ctx: restate.WorkflowSharedContext, value: int) -> None:
    """Keep the promise."""
    await ctx.promise("go", type_hint=int).resolve(value)


app = restate.app([bench, waiter])
