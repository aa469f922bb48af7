"""How the whole gets on: runs under way and ended, and the longest time in which none ended."""

import asyncio
from typing import Final

import asyncpg

LOOK_S: Final = 0.5
ANSWER_S: Final = 5.0
QUESTION: Final = """
SELECT count(*) FILTER (WHERE ended_at_us IS NULL), count(*) FILTER (WHERE ended_at_us IS NOT NULL)
FROM ductor.eec_workflow_run
"""
LOST: Final = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, TimeoutError)
"""What a connection raises whose server goes away at any moment."""


class Progress:
    """Looks at the heads of all runs, past the proxies.

    Attributes:
        open_runs, ended_runs: as seen last, children and continued runs included.
        longest_pause_s: the longest time in which no run ended while there were some.
    """

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self.open_runs = self.ended_runs = 0
        self.longest_pause_s = 0.0

    async def watch(self) -> None:
        """Look again and again, until cancelled."""
        loop = asyncio.get_running_loop()
        moved_at_s = loop.time()
        while True:
            before = self.ended_runs
            await self._look()
            now_s = loop.time()
            if self.ended_runs > before or not self.open_runs:
                self.longest_pause_s = max(self.longest_pause_s, now_s - moved_at_s)
                moved_at_s = now_s
            await asyncio.sleep(LOOK_S)

    async def settle(self, patience_s: float) -> bool:
        """Wait until nothing is under way any more; False when for so long nothing has ended."""
        loop = asyncio.get_running_loop()
        ended, until_s = -1, loop.time() + patience_s
        while loop.time() < until_s:
            if await self._look() and not self.open_runs:
                return True
            if self.ended_runs > ended:
                ended, until_s = self.ended_runs, loop.time() + patience_s
            await asyncio.sleep(LOOK_S)
        return False

    async def _look(self) -> bool:
        """Whether the database has answered."""
        try:
            connection = await asyncpg.connect(self._dsn, timeout=ANSWER_S)
            try:
                (found,) = await connection.fetch(QUESTION, timeout=ANSWER_S)
                self.open_runs, self.ended_runs = found
            finally:
                await connection.close(timeout=ANSWER_S)
        except LOST:
            return False
        return True
