"""How each strike is done. Each leaves its victim running again; what is struck already is waited for."""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Final

import asyncpg

from ductor.journal.embedded.cluster import works_in
from scripts.chaos_run.installation import Installation, Victim
from scripts.chaos_run.plan import PlannedStrike, Strike
from scripts.chaos_run.progress import LOST

BACK_TIMEOUT_S: Final = 120.0
"""For so long PostgreSQL may take to come back."""
POLL_S: Final = 0.1
REST_S: Final = 1.0
"""What has come back is not struck in the same way for so long: there has to be something to lose."""
LARGE: Final = "CREATE TEMP TABLE large ON COMMIT DROP AS SELECT n, md5(n::text) FROM generate_series(1, 200000) AS n"
"""Needs more room than a full disk has."""
OTHERS: Final = (
    "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() ORDER BY pid"
)

Blow = Callable[[PlannedStrike], Coroutine[None, None, None]]


class Striker:
    """Strikes what is installed. `done` counts what was struck, by kind."""

    def __init__(self, what: Installation) -> None:
        self.done: Counter[Strike] = Counter()
        self._what = what
        self._locks: dict[object, asyncio.Lock] = {}
        self._blows: dict[Strike, Blow] = {
            "host-kill": lambda strike: self._kill(what.hosts, strike),
            "worker-kill": lambda strike: self._kill(what.workers, strike),
            "redis-kill": self._kill_redis,
            "redis-freeze": self._freeze_redis,
            "postgres-kill": self._kill_postgres,
            "host-freeze": self._freeze_host,
            "backend-kill": self._kill_backends,
            "cut": self._cut,
            "mute": self._mute,
            "stall": self._stall,
            "full-disk": self._fill_disk,
        }

    async def strike(self, strike: PlannedStrike) -> None:
        """Do it, and have the victim back."""
        await self._blows[strike.kind](strike)
        self.done[strike.kind] += 1

    def _lock(self, of: object) -> asyncio.Lock:
        return self._locks.setdefault(id(of), asyncio.Lock())

    # --- processes ----------------------------------------------------------------------------------------------------

    async def _kill(self, victims: Sequence[Victim], strike: PlannedStrike) -> None:
        member = _drawn(victims, strike).member
        async with self._lock(member):
            await member.kill()
            await member.start()
            await asyncio.sleep(REST_S)

    async def _freeze_host(self, strike: PlannedStrike) -> None:
        member = _drawn(self._what.hosts, strike).member
        async with self._lock(member):
            member.freeze()
            try:
                await asyncio.sleep(strike.duration_s)
            finally:
                member.thaw()

    async def _kill_redis(self, strike: PlannedStrike) -> None:
        async with self._lock(self._what.redis):
            self._what.redis.kill()
            await asyncio.sleep(strike.duration_s)
            await asyncio.to_thread(self._what.redis.start)

    async def _freeze_redis(self, strike: PlannedStrike) -> None:
        async with self._lock(self._what.redis):
            self._what.redis.freeze()
            try:
                await asyncio.sleep(strike.duration_s)
            finally:
                self._what.redis.thaw()

    # --- PostgreSQL ---------------------------------------------------------------------------------------------------

    async def _kill_postgres(self, _: PlannedStrike) -> None:
        """The postmaster and all of its children at once: nobody is left to write anything."""
        async with self._lock(self._what.postgres):
            for pid in _processes_in(self._what.data):
                _kill_if_there(pid)
            await (await self._back()).close()
            await asyncio.sleep(REST_S)

    async def _kill_backends(self, strike: PlannedStrike) -> None:
        """Between one and all of the connections."""
        async with self._lock(self._what.postgres):
            connection = await self._back()
            try:
                pids = [row["pid"] for row in await connection.fetch(OTHERS)]
                chosen = pids[int(strike.draw * len(pids)) :]
                await connection.execute("SELECT pg_terminate_backend(pid) FROM unnest($1::int[]) AS pid", chosen)
            finally:
                await connection.close()

    async def _fill_disk(self, strike: PlannedStrike) -> None:
        """Full until PostgreSQL has refused to write something, and some time longer."""
        volume = self._what.volume
        assert volume is not None, "strikes that can't be done are not planned"
        async with self._lock(self._what.postgres):
            connection = await self._back()
            volume.fill()
            try:
                await _until_refused(connection)
                await asyncio.sleep(strike.duration_s)
            finally:
                volume.release()
                connection.terminate()
            await (await self._back()).close()
            await asyncio.sleep(REST_S)

    async def _back(self) -> asyncpg.Connection:
        """A connection, as soon as there is a server."""
        async with asyncio.timeout(BACK_TIMEOUT_S):
            while True:
                try:
                    return await asyncpg.connect(self._what.postgres.dsn())
                except LOST:
                    await asyncio.sleep(POLL_S)

    # --- connections --------------------------------------------------------------------------------------------------

    async def _cut(self, strike: PlannedStrike) -> None:
        """Connections are lost, and for a while there are no new ones."""
        proxy = _drawn(self._victims, strike).proxy
        async with self._lock(proxy):
            proxy.is_refusing = True
            proxy.cut()
            await asyncio.sleep(strike.duration_s)
            proxy.is_refusing = False

    async def _mute(self, strike: PlannedStrike) -> None:
        """What is sent arrives, what is answered does not: whoever sent it can't know what became of it."""
        proxy = _drawn(self._victims, strike).proxy
        async with self._lock(proxy):
            proxy.is_mute = True
            await asyncio.sleep(strike.duration_s)
            proxy.cut()
            proxy.is_mute = False

    async def _stall(self, strike: PlannedStrike) -> None:
        """Nothing passes, and nobody is told."""
        proxy = _drawn(self._victims, strike).proxy
        async with self._lock(proxy):
            proxy.stall()
            await asyncio.sleep(strike.duration_s)
            proxy.flow()

    @property
    def _victims(self) -> Sequence[Victim]:
        """Whoever has a connection that can be cut; the client has no process of its own."""
        return (*self._what.hosts, *self._what.workers, Victim(self._what.hosts[0].member, self._what.client))


def _drawn(victims: Sequence[Victim], strike: PlannedStrike) -> Victim:
    return victims[int(strike.draw * len(victims))]


def _processes_in(folder: Path) -> list[int]:
    """All processes that work in a folder, as those of PostgreSQL do in that of their data."""
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [pid for pid in pids if works_in(pid, folder)]


def _kill_if_there(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # it ended by itself, as children do whose postmaster is gone


async def _until_refused(connection: asyncpg.Connection) -> None:
    """Write until there is no room for it, or until the server has fallen over that."""
    while True:
        try:
            async with connection.transaction():
                await connection.execute(LARGE)
        except LOST:
            return
