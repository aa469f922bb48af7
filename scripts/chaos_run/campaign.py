"""A campaign: load and strikes until the plan is done and enough runs have begun, then rest, then judgement."""

import asyncio
import logging
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from ductor.actors.client import Client
from ductor.journal.clock import SystemClock
from ductor.journal.ids import SystemIds
from ductor.journal.postgres import PostgresStore
from scripts.chaos_run.installation import Installation, installation
from scripts.chaos_run.ledger import Ledger, read_ledger
from scripts.chaos_run.load import Load
from scripts.chaos_run.oracle import Verdict, judge
from scripts.chaos_run.plan import STRIKES, PlannedStrike, Strike, planned
from scripts.chaos_run.progress import Progress
from scripts.chaos_run.read_models import read_model_problems
from scripts.chaos_run.strikes import Striker
from scripts.chaos_run.volume import Volume

SETTLE_S: Final = 90.0
"""Runs may go on for so long after the last of them has ended, until they count as stuck."""
SAY_S: Final = 30.0
AT_ONCE: Final = 20
"""Strikes under way at a time."""

_log = logging.getLogger(__name__)


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a campaign is to reach.

    Attributes:
        runs: starts that are acknowledged, at least.
        seconds: starts and strikes are spread over so long.
        within_s: then it is over, whatever was reached.
        counts: strikes by kind.
    """

    seed: int
    runs: int
    seconds: float
    within_s: float
    hosts: int
    workers: int
    counts: Mapping[Strike, int]


class Report(msgspec.Struct, kw_only=True):
    """What happened. `missing` says what was not reached in time."""

    seed: int
    seconds: float
    acknowledged: int
    strikes: dict[Strike, int]
    longest_pause_s: float
    verdict: Verdict
    missing: list[str]

    @property
    def is_good(self) -> bool:
        """Whether all was reached, and nothing is wrong."""
        return not self.missing and not self.verdict.problems


async def campaign(wanted: Wanted, folder: Path, volume: Volume | None) -> Report:
    """Carry it out, keeping everything in `folder`."""
    ledger_file = folder / "ledger"
    async with installation(folder, ledger_file, volume, hosts=wanted.hosts, workers=wanted.workers) as what:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        progress, striker = Progress(what.postgres.dsn()), Striker(what)
        watching = asyncio.create_task(progress.watch())
        try:
            acknowledged = await _strike_under_load(wanted, what, striker, progress, ledger_file)
            seconds = loop.time() - began_s
            has_settled = await progress.settle(SETTLE_S)
        finally:
            await _end(watching)
        print(f"{progress.ended_runs} runs have ended, {progress.open_runs} have not; judging", flush=True)
        verdict = await _judged(what, ledger_file)
        if not has_settled:
            verdict.complain(f"{progress.open_runs} runs have not ended {SETTLE_S:g} s after the last that did")
    return Report(
        seed=wanted.seed,
        seconds=seconds,
        acknowledged=acknowledged,
        strikes={kind: striker.done[kind] for kind in STRIKES if kind in wanted.counts},
        longest_pause_s=progress.longest_pause_s,
        verdict=verdict,
        missing=_missing(wanted, acknowledged, striker),
    )


async def _strike_under_load(
    wanted: Wanted, what: Installation, striker: Striker, progress: Progress, ledger_file: Path
) -> int:
    """How many starts were acknowledged."""
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    ledger = Ledger(ledger_file)
    async with PostgresStore(what.client.dsn) as store:
        client = Client(store, clock=SystemClock(), ids=SystemIds())
        chance = random.Random(wanted.seed)  # noqa: S311 - nothing is a secret here
        load = Load(client, ledger, progress, chance)
        striking = asyncio.create_task(_strike(planned(wanted.counts, wanted.seed), striker, wanted.seconds))
        saying = asyncio.create_task(_say(load, progress, striker))

        def is_over() -> bool:
            is_done = striking.done() and (load.acknowledged >= wanted.runs or striking.exception() is not None)
            return is_done or loop.time() - began_s > wanted.within_s

        try:
            await load.work(wanted.runs / wanted.seconds, is_over)
        finally:
            await _end(striking, saying)
            ledger.close()
        if not striking.cancelled():
            striking.result()  # a strike that could not be done is no proof
    return load.acknowledged


async def _end(*tasks: asyncio.Task[None]) -> None:
    """Cancel what goes on, and wait until it has ended: nothing is struck any more."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def _strike(plan: list[PlannedStrike], striker: Striker, seconds: float) -> None:
    """All strikes at their times; what is late comes as soon as it can."""
    loop = asyncio.get_running_loop()
    began_s, room = loop.time(), asyncio.Semaphore(AT_ONCE)
    async with asyncio.TaskGroup() as blows:
        for strike in plan:
            await asyncio.sleep(max(0.0, began_s + strike.at * seconds - loop.time()))
            await room.acquire()
            _log.info("%.1f s: %s (%.3f, %.1f s)", loop.time() - began_s, strike.kind, strike.draw, strike.duration_s)
            blow = blows.create_task(striker.strike(strike))
            blow.add_done_callback(lambda _: room.release())


async def _say(load: Load, progress: Progress, striker: Striker) -> None:
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    while True:
        await asyncio.sleep(SAY_S)
        struck = ", ".join(f"{count} × {kind}" for kind, count in sorted(striker.done.items()))
        print(
            f"{loop.time() - began_s:5.0f} s: {load.acknowledged} starts, {progress.open_runs} runs under way, "
            f"{progress.ended_runs} ended; {struck}",
            flush=True,
        )


async def _judged(what: Installation, ledger_file: Path) -> Verdict:
    async with PostgresStore(what.postgres.dsn()) as store:
        client = Client(store, clock=SystemClock(), ids=SystemIds())
        verdict, facts = await judge(client, read_ledger(ledger_file))
        verdict.complain(*await read_model_problems(store, what.postgres.dsn(), facts))
    return verdict


def _missing(wanted: Wanted, acknowledged: int, striker: Striker) -> list[str]:
    missing = [
        f"{kind}: {striker.done[kind]} of {count}"
        for kind, count in wanted.counts.items()
        if striker.done[kind] < count
    ]
    return missing if acknowledged >= wanted.runs else [*missing, f"runs: {acknowledged} of {wanted.runs}"]
