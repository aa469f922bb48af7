"""Whether the read models say what the journals say, once they have caught up."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Final

import asyncpg

from ductor.journal.postgres import PostgresStore
from ductor.projections.read_models import ReadModels
from scripts.chaos_run.facts import RunFacts

CATCH_UP_S: Final = 120.0
LOOK_S: Final = 0.5
RUNS: Final = "SELECT run_id::text, definition, status, version, attempts, steps FROM ductor.report_runs"
STEPS: Final = """
SELECT definition, step, sum(succeeded)::bigint, sum(failed)::bigint, sum(skipped)::bigint, sum(cancelled)::bigint
FROM ductor.report_step_statistics GROUP BY definition, step
"""
STATUSES: Final = ("succeeded", "failed", "skipped", "cancelled")


async def read_model_problems(store: PostgresStore, dsn: str, facts: Mapping[str, RunFacts]) -> list[str]:
    """What is not as it should be, in words."""
    models = ReadModels(store)
    try:
        late = await _late(models)
    finally:
        await models.close()
    if late:
        return late
    connection = await asyncpg.connect(dsn)
    try:
        found: dict[object, tuple[object, ...]] = {row[0]: tuple(row)[1:] for row in await connection.fetch(RUNS)}
        steps: dict[object, tuple[object, ...]] = {
            (row[0], row[1]): tuple(row)[2:] for row in await connection.fetch(STEPS)
        }
    finally:
        await connection.close()
    return _differences("run", _expected_runs(facts), found) + _differences("step", _expected_steps(facts), steps)


async def _late(models: ReadModels) -> list[str]:
    """What has not caught up in time."""
    behind: list[str] = ["there are no read models"]
    try:
        async with asyncio.timeout(CATCH_UP_S):
            while behind:
                await asyncio.sleep(LOOK_S)
                found = await models.projections()
                behind = [
                    f"read model {one.name} is {one.status}, {one.lag_rows} rows behind; {one.blocked_by} {one.error}"
                    for one in found
                    if one.lag_rows or one.status != "serving"
                ] or ([] if found else ["there are no read models"])
    except TimeoutError:
        return behind
    return []


def _expected_runs(facts: Mapping[str, RunFacts]) -> dict[object, tuple[object, ...]]:
    return {
        run_id: (
            one.head.definition,
            one.head.status,
            one.version,
            one.dispatched.total(),
            sum(times for (_, status), times in one.settled.items() if status != "skipped"),
        )
        for run_id, one in facts.items()
    }


def _expected_steps(facts: Mapping[str, RunFacts]) -> dict[object, tuple[object, ...]]:
    counts: dict[tuple[str, str], Counter[str]] = {}
    for one in facts.values():
        for (step, status), times in one.settled.items():
            counts.setdefault((one.head.definition, step), Counter())[status] += times
    return {key: tuple(count[status] for status in STATUSES) for key, count in counts.items()}


def _differences(
    what: str, expected: Mapping[object, tuple[object, ...]], found: Mapping[object, tuple[object, ...]]
) -> list[str]:
    return [
        f"read models: {what} {key} is {found.get(key)}, by the journals {expected.get(key)}"
        for key in {**expected, **found}
        if found.get(key) != expected.get(key)
    ]
