"""Those who wait for the end of a run, through hosts that come and go.

Rule *waits*: once the faults are over and no host comes any more, who waits through a host hears of an end soon after
it happened, whichever host the run has ended on.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from ductor.actors.views import RunOutcome
from scripts.simulation.database import SimulatedDatabase
from scripts.simulation.machines import ASKING
from scripts.simulation.scheduler import SimulatedLoop
from scripts.simulation.senders import IN_THE_DARK, NoAnswerError, Process, relay

LOOK_S: Final = 1.0
"""Who waits looks so often whether the process that he has asked still lives."""

MAX_LATE_MS: Final = 8_000
"""A heartbeat, after which a host knows that it is not alone, and what it takes to look in the database then."""


class Wait(msgspec.Struct):
    """Somebody who waits.

    Attributes:
        asked_ms: when he has asked last.
        answered_ms: when he was told; None while he waits.
        ended_run_id: the run that has ended: the last one of the chain.
    """

    run_id: str
    asked_ms: int = 0
    answered_ms: int | None = None
    ended_run_id: str = ""


class Waits:
    """See the module's docstring."""

    def __init__(self, loop: SimulatedLoop, processes: Sequence[Process], elapsed_ms: Callable[[], int]) -> None:
        self._loop, self._processes, self._elapsed_ms = loop, processes, elapsed_ms
        self._waits: list[Wait] = []
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self, run_id: str, via: int) -> None:
        """Somebody waits from now on, through the host `via`, from 1, and through others when that one is gone."""
        wait = Wait(run_id)
        self._waits.append(wait)
        self._tasks.append(asyncio.get_running_loop().create_task(self._wait(wait, via - 1)))

    async def _wait(self, wait: Wait, number: int) -> None:
        while wait.answered_ms is None:
            process = self._processes[number % len(self._processes)]
            lane, host = process.lane, process.host
            number += 1
            if lane is None or host is None:
                await asyncio.sleep(LOOK_S)
                continue
            wait.asked_ms = self._elapsed_ms()
            answer: asyncio.Future[RunOutcome] = self._loop.create_future()
            asking = relay(lambda client: client.outcome(wait.run_id), host, answer)
            lane.start(asking).set_name(f"{ASKING} for the end of {wait.run_id} through {lane}")
            while not answer.done() and process.lane is lane:
                await asyncio.wait((answer,), timeout=LOOK_S)
            if not answer.cancel():
                await self._take(wait, answer)

    async def _take(self, wait: Wait, answer: "asyncio.Future[RunOutcome]") -> None:
        try:
            outcome = answer.result()
        except (*IN_THE_DARK, NoAnswerError):
            await asyncio.sleep(LOOK_S)
        else:
            wait.answered_ms, wait.ended_run_id = self._elapsed_ms(), outcome.run_id

    def check(
        self,
        database: SimulatedDatabase,
        ended_ms: Mapping[str, Sequence[int]],
        settled_ms: int,
        report: Callable[[str, str, str], None],
    ) -> None:
        """Whether everybody was told in time.

        Args:
            ended_ms: when each run has ended, as often as it has.
            settled_ms: when the faults were over, and the last host had come.
        """
        for task in self._tasks:
            if task.done() and task.exception() is not None:
                report("", "answers", f"who waited for an end was answered with {task.exception()!r}")
        for wait in self._waits:
            until_ms = self._elapsed_ms() if wait.answered_ms is None else wait.answered_ms
            run_id = wait.ended_run_id or database.chain_of(wait.run_id)[-1]
            ends = [at_ms for at_ms in ended_ms.get(run_id, ()) if at_ms <= until_ms]
            late_ms = until_ms - max(wait.asked_ms, settled_ms, *ends) if ends else 0
            if late_ms > MAX_LATE_MS:
                told = "was told" if wait.answered_ms is not None else "has not been told"
                report(wait.run_id, "waits", f"who has waited for its end {told} {late_ms} ms after it")
