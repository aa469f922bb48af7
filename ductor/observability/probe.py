"""Asking a host or a worker how it is, within some seconds, for who starts and balances processes.

The database is asked whether it answers: what the store says of itself is what its last commits met, and a process that
has had nothing to write for a while does not know.
"""

import asyncio
from typing import TYPE_CHECKING, Final

from ductor.definitions.errors import DuctorError
from ductor.journal.store import Store
from ductor.observability.health import Report, report_of, worker_report_of
from ductor.projections.errors import ProjectionsUnavailableError

if TYPE_CHECKING:
    from ductor.host import Host
    from ductor.worker import Worker

DATABASE_TIMEOUT_S: Final = 2.0
HEALTH_TIMEOUT_S: Final = 2.0


async def database_problem(store: Store) -> str:
    """Why the database does not answer; empty when it does."""
    try:
        async with asyncio.timeout(DATABASE_TIMEOUT_S):
            await store.now_us()
    except TimeoutError:
        return f"the database did not answer within {DATABASE_TIMEOUT_S:g} s"
    except (DuctorError, OSError) as error:
        return str(error)
    return ""


async def report_of_host(host: "Host") -> Report:
    """How a host is. Raises nothing of what may be wrong around it."""
    if host.phase != "running":
        return report_of(host.phase, None)
    problem = await database_problem(host.engine.store)
    try:
        async with asyncio.timeout(HEALTH_TIMEOUT_S):
            health = await host.health()
    except TimeoutError:
        return report_of(host.phase, None, database_problem=problem)
    if problem:
        return report_of(host.phase, health, database_problem=problem)
    return report_of(host.phase, health, stopped_projections=await _stopped_projections(host))


async def report_of_worker(worker: "Worker") -> Report:
    """How a worker is. Raises nothing of what may be wrong around it."""
    if worker.phase != "running":
        return worker_report_of(worker.phase, None)
    problem = await database_problem(worker.store)
    try:
        async with asyncio.timeout(HEALTH_TIMEOUT_S):
            return worker_report_of(worker.phase, await worker.health(), database_problem=problem)
    except TimeoutError:
        return worker_report_of(worker.phase, None, database_problem=problem)


async def _stopped_projections(host: "Host") -> list[tuple[str, str]]:
    try:
        async with asyncio.timeout(HEALTH_TIMEOUT_S):
            statuses = await host.projections()
    except ProjectionsUnavailableError:  # runs are kept in memory: there are none
        return []
    except (DuctorError, TimeoutError, OSError) as error:
        return [("projections", f"they could not be asked: {error}")]
    return [(one.name, one.error) for one in statuses if one.status == "failed"]
