"""How much of the machine others used while something was measured. Figures come from /proc, so from Linux."""

import os
import resource
import time
from pathlib import Path

import msgspec

from scripts.benchmarks.peers.sides.processes import stat_fields, trees

_STAT = Path("/proc/stat")
_IDLE, _IO_WAIT = 3, 4
_USER_OF_PROCESS = 11
"""First of four fields: user and system time of the process, and of its children that have ended."""


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """CPU time until now: of the machine, and of ours: PostgreSQL, what has been started here and ended, and us."""

    at_s: float
    machine_s: float
    ours_s: float

    def others_since(self, before: "Usage") -> float:
        """Cores that others used on average after `before`."""
        others_s = (self.machine_s - before.machine_s) - (self.ours_s - before.ours_s)
        return max(0.0, others_s / (self.at_s - before.at_s))


def usage(postgres_pid: int) -> Usage:
    """Read it."""
    ticks_per_s = os.sysconf("SC_CLK_TCK")
    machine = [int(value) for value in _STAT.read_text(encoding="ascii").splitlines()[0].split()[1:9]]
    postgres = [stat_fields(pid)[_USER_OF_PROCESS : _USER_OF_PROCESS + 4] for pid in trees([postgres_pid])]
    ended, own = resource.getrusage(resource.RUSAGE_CHILDREN), resource.getrusage(resource.RUSAGE_SELF)
    return Usage(
        at_s=time.monotonic(),
        machine_s=(sum(machine) - machine[_IDLE] - machine[_IO_WAIT]) / ticks_per_s,
        ours_s=sum(int(value) for fields in postgres for value in fields) / ticks_per_s
        + (ended.ru_utime + ended.ru_stime + own.ru_utime + own.ru_stime),
    )
