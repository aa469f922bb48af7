"""A handler that kills the process of its host: its run is set aside after some losses, and all others get on.

The oracle is outside of the engine: a ledger that the handlers wrote.
"""

import asyncio
import signal
from pathlib import Path

import pytest

from ductor.actors.client import Client
from ductor.actors.engine_options import MIN_MAX_LOSSES
from ductor.definitions.compile import compile_text
from ductor.journal.clock import SystemClock
from ductor.journal.embedded import EmbeddedPostgres
from ductor.journal.ids import SystemIds
from ductor.journal.postgres import PostgresStore
from scripts.chaos_run.ledger import read_ledger
from tests.chaos.oracle import DEFINITION, expect_all_completed, start_all
from tests.chaos.processes import HostProcess

DEADLY = """
ductor: 1
name: deadly
steps: [{ref: a, type: task, task: deadly}]
"""
MAX_LOSSES = MIN_MAX_LOSSES
RUNS = 20
SETTLE_S = 60.0
POLL_S = 0.1


async def supervise(host: HostProcess) -> None:
    """Start the host again whenever it has ended, as a process supervisor would."""
    while True:
        await host.start()
        assert await host.ended() == -signal.SIGKILL


async def set_aside(client: Client) -> dict[str, str]:
    """Why runs are set aside, as soon as there are any."""
    while True:
        if marks := await client.runs_set_aside():
            return {mark.run_id: mark.reason for mark in marks}
        await asyncio.sleep(POLL_S)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("count", [1, 2])
async def test_a_handler_that_kills_its_host_is_called_a_few_times_and_no_more(
    server: EmbeddedPostgres, tmp_path: Path, count: int
) -> None:
    ledger = tmp_path / "ledger"
    async with PostgresStore(server.dsn()) as store:
        client = Client(store, clock=SystemClock(), ids=SystemIds())
        for text in (DEFINITION, DEADLY):
            (compiled,) = compile_text(text)
            await client.publish(compiled)
        hosts = [HostProcess(server.dsn(), ledger, max_losses=MAX_LOSSES) for _ in range(count)]
        supervisors = [asyncio.create_task(supervise(host)) for host in hosts]
        try:
            async with asyncio.timeout(SETTLE_S):
                deadly = (await client.start("deadly")).run_id
                accepted = await start_all(client, RUNS)
                reasons = await set_aside(client)
                await expect_all_completed(client, accepted)
            assert list(reasons) == [deadly]
            assert f"was lost {MAX_LOSSES + 1} times" in reasons[deadly]
            assert read_ledger(ledger).executions[f"{deadly}/a/1"] == MAX_LOSSES + 1
            assert await client.release(deadly)
            async with asyncio.timeout(SETTLE_S):
                assert await set_aside(client)
            assert read_ledger(ledger).executions[f"{deadly}/a/1"] == 2 * MAX_LOSSES + 1  # the first one was no loss
            assert not any(supervisor.done() for supervisor in supervisors)
        finally:
            for supervisor in supervisors:
                supervisor.cancel()
            await asyncio.gather(*supervisors, return_exceptions=True)
            await asyncio.gather(*(host.kill() for host in hosts))
