"""Looking at what triggers started, for tests."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

from ductor.actors.host import EngineHost, HostOptions
from ductor.definitions.values import JsonValue
from ductor.journal.records import Head, RunFilter
from tests.actors.hosting import Bench

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
