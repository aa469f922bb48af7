"""The client under chaos: it starts runs and sends to them, insists until it is answered, and says things twice.

What is acknowledged goes into the ledger before anything else is done. Runs begin at a steady pace, but not while too
many are under way: those who are struck get time to catch up.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from ductor.actors.client import Client
from ductor.journal.errors import OverloadedError, StoreUnavailableError
from scripts.chaos_run.kinds import Kind, kind_of
from scripts.chaos_run.ledger import Ledger
from scripts.chaos_run.progress import Progress

MAX_OPEN_RUNS: Final = 400
"""Runs under way, children included; beyond it no new one is started."""
MAX_CUSTOMERS: Final = 400
"""Runs that are being started or sent to at a time."""
PACE_S: Final = 0.02
RETRY_S: Final = 0.1
TWICE: Final = 0.3
"""How likely it is that something is said a second time though the first was answered."""
WORD_PAUSE_S: Final = 0.4

T = TypeVar("T")


class Load:
    """Customers, one for each run. `acknowledged` counts starts."""

    def __init__(self, client: Client, ledger: Ledger, progress: Progress, chance: random.Random) -> None:
        self._client, self._ledger, self._progress, self._chance = client, ledger, progress, chance
        self.acknowledged = 0

    async def work(self, per_second: float, is_over: Callable[[], bool]) -> None:
        """Let customers come at this pace until it is over, and each finish what it has to say.

        What could not begin while too many were under way begins when there is room again.
        """
        loop = asyncio.get_running_loop()
        began_s, number, room = loop.time(), 0, asyncio.Semaphore(MAX_CUSTOMERS)
        async with asyncio.TaskGroup() as customers:
            while not is_over():
                is_due = number < (loop.time() - began_s) * per_second
                if not is_due or self._progress.open_runs >= MAX_OPEN_RUNS:
                    await asyncio.sleep(PACE_S)
                    continue
                await room.acquire()
                customer = customers.create_task(self._serve(number))
                customer.add_done_callback(lambda _: room.release())
                number += 1

    async def _serve(self, number: int) -> None:
        """Start a run, and tell it all that it waits for."""
        kind = kind_of(number)
        run_id = await self._said(lambda: self._start(number, kind))
        self.acknowledged += 1
        for index, word in enumerate(kind.words):
            await asyncio.sleep(self._chance.uniform(0, WORD_PAUSE_S))
            await self._said(lambda index=index, word=word: self._signal(run_id, index, word))  # type: ignore[misc]
        if kind.hears_event:
            await asyncio.sleep(self._chance.uniform(0, WORD_PAUSE_S))
            await self._said(lambda: self._publish(number))

    async def _start(self, number: int, kind: Kind) -> str:
        started = await self._client.start(kind.definition, kind.trigger(number), key=f"run-{number}")
        self._ledger.note("started", number, started.run_id)
        return started.run_id

    async def _signal(self, run_id: str, index: int, word: str) -> None:
        await self._client.signal(run_id, "word", word, request_id=f"word-{index}")
        self._ledger.note("signalled", run_id, f"word-{index}")

    async def _publish(self, number: int) -> None:
        await self._client.publish_event("delivered", {"n": number}, event_id=f"delivered-{number}")
        self._ledger.note("published", number)

    async def _said(self, say: Callable[[], Awaitable[T]]) -> T:
        """Insist until it is answered; at times say it again."""
        answer = await insist(say)
        if self._chance.random() < TWICE:
            answer = await insist(say)
        return answer


async def insist(ask: Callable[[], Awaitable[T]]) -> T:
    """The answer, through the database's absence."""
    while True:
        try:
            return await ask()
        except (StoreUnavailableError, OverloadedError):
            await asyncio.sleep(RETRY_S)
