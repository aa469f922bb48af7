"""Whether processes that should be gone are."""

import os
import time
from collections.abc import Iterable
from pathlib import Path

GONE_WITHIN_S = 5.0
LOOK_AGAIN_S = 0.05


def still_running(pids: Iterable[int]) -> list[int]:
    """Which of the processes run on, after a moment in which the system may clear up behind them."""
    deadline = time.monotonic() + GONE_WITHIN_S
    left = list(pids)
    while (left := [pid for pid in left if _runs(pid)]) and time.monotonic() < deadline:
        time.sleep(LOOK_AGAIN_S)
    return left


def _runs(pid: int) -> bool:
    """Whether there is a process of this number that has not ended; one that only waits to be counted has."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:  # gone by now, or a system without /proc
        return not Path("/proc/self").exists()
    # the name in parentheses may hold anything, the state follows the last one
    return stat.rpartition(")")[2].split()[0] != "Z"
