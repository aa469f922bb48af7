"""A second opinion on who is called again: a handler that is called twice for one attempt needs a reason.

Rule *carried out twice*: as long as no process has died, no call was cut and the database was there, no attempt begins
in a handler a second time. That hosts stop in order and others come, that the network or a machine is slow, that
wakeups are lost and commits are sent again is no reason.

Rightly repeated is

- an attempt whose handler was told to stop, as by a host that could not wait for it any longer,
- one of a host whose orderly end took longer than it lets attempts finish: what was decided then may be lost,
- everything from the moment at which a host that lives was silent for so long that others took it for dead.
"""

from collections.abc import Sequence
from typing import Final

from ductor.actors.sweeper import alive_ms
from ductor.journal.records import HostRecord
from scripts.simulation.plan import FaultKind, HostLimits
from scripts.simulation.weather import Weather

DISTURBING: Final[tuple[FaultKind, ...]] = (
    "crash",
    "crash_before_commit",
    "crash_after_commit",
    "database_away",
    "cut_calls",
)
"""Faults after which any attempt may be carried out twice. Freezes matter only where they keep a host silent."""


class Repetitions:
    """Who has begun what, and what is a reason to begin it again."""

    def __init__(self, limits: HostLimits, weather: Weather) -> None:
        self._alive_us, self._drain_ms = alive_ms(limits.heartbeat_ms) * 1_000, limits.drain_ms
        self._weather = weather
        self._has_missed_one = False
        self._begun_in: dict[str, str] = {}
        self._told_to_stop: set[str] = set()
        self._stopped: set[str] = set()
        self._stopped_late: set[str] = set()

    def begin(self, token: str, process: str) -> str | None:
        """An attempt begins in a handler of a process. What is wrong with that; None where nothing is."""
        earlier = self._begun_in.get(token)
        self._begun_in[token] = process
        if earlier is None or self._has_missed_one or any(self._weather.struck[kind] for kind in DISTURBING):
            return None
        if token in self._told_to_stop or earlier in self._stopped_late:
            return None
        return f"in {earlier} and again in {process}, though nothing had happened to the first"

    def tell_to_stop(self, token: str) -> None:
        """The handler of an attempt is told to stop."""
        self._told_to_stop.add(token)

    def stopped(self, process: str, took_ms: int) -> None:
        """A process has ended in order."""
        self._stopped.add(process)
        if took_ms >= self._drain_ms:
            self._stopped_late.add(process)

    def heard(self, hosts: Sequence[HostRecord], now_us: int) -> None:
        """A host has beaten, and sees these."""
        for host in hosts:
            if host.host_id not in self._stopped and now_us - host.heartbeat_at_us > self._alive_us:
                self._has_missed_one = True
