"""A group of processes: what dies is started again, and all of it ends together."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ductor.processes import MAX_PROCESSES, ProcessGroup

PROGRAM = """
import os, signal, sys, threading
from ductor.processes import ProcessGroup

def work():
    told = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: told.set())
    os.write(1, b"%d\\n" % os.getpid())  # a whole line at once, whoever else writes
    told.wait()
    os.write(1, b"ended\\n")

sys.exit(ProcessGroup(2, work).run())
"""
FAILING = """
import sys
from ductor.processes import ProcessGroup

def work():
    print("tried", flush=True)
    raise RuntimeError("no database")

sys.exit(ProcessGroup(1, work).run())
"""
WAIT_S = 20.0


@contextmanager
def group(program: str) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def read_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def has_ended(process_id: int) -> bool:
    """Whether it is gone, or waits for nothing but somebody to ask how it ended."""
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_killed_process_is_started_again_and_all_end_when_told():
    with group(PROGRAM) as parent:
        first, second = int(read_line(parent)), int(read_line(parent))
        os.kill(first, signal.SIGKILL)
        third = int(read_line(parent))
        assert third not in {first, second, parent.pid}
        parent.send_signal(signal.SIGTERM)
        assert [read_line(parent), read_line(parent)] == ["ended", "ended"]
        assert parent.wait(WAIT_S) == 0
        assert has_ended(second)
        assert has_ended(third)


def test_processes_end_when_nobody_watches_over_them():
    with group(PROGRAM) as parent:
        children = [int(read_line(parent)), int(read_line(parent))]
        parent.kill()
        assert [read_line(parent), read_line(parent)] == ["ended", "ended"]
        until_s = time.monotonic() + WAIT_S
        while not all(map(has_ended, children)):
            assert time.monotonic() < until_s
            os.sched_yield()


def test_a_group_whose_processes_never_come_to_work_gives_up_and_says_why():
    with group(FAILING) as parent:
        out, err = parent.communicate(timeout=WAIT_S)
        assert out.split() == ["tried"] * 3
        assert "RuntimeError: no database" in err
        assert parent.returncode == 1


@pytest.mark.parametrize("count", [0, MAX_PROCESSES + 1])
def test_the_number_of_processes_is_bounded(count: int):
    with pytest.raises(ValueError, match="processes"):
        ProcessGroup(count, lambda: None)
