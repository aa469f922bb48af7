"""Members of a cluster: killed, frozen, stopped, and gone with whoever started them."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.clustering.members import Member
from tests.journal.waiting import until
from tests.postgres_fixtures import Database

PROGRAM = """
import asyncio, sys
from pathlib import Path
from scripts.clustering.members import Member

async def main(dsn, log):
    member = Member("host", ["host"], {"DUCTOR_DATABASE": dsn}, Path(log))
    await member.start()
    print(member.pid, flush=True)
    await asyncio.Event().wait()

if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
"""


def state(pid: int) -> str:
    """The state of a process as the kernel tells it (`S`, `T`, ...); empty where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return ""


@pytest.mark.timeout(120)
async def test_a_member_is_killed_frozen_and_stopped(database: Database, tmp_path: Path):
    member = Member("host", ["host"], {"DUCTOR_DATABASE": database.dsn}, tmp_path / "log")
    await member.start()
    first = member.pid
    await member.kill()
    assert state(first) in {"", "Z"}
    await member.start()
    assert member.pid != first
    member.freeze()
    await until(lambda: state(member.pid) == "T")
    await member.stop()
    assert state(member.pid) in {"", "Z"}
    assert "stopping" in (tmp_path / "log").read_text()
    await member.stop()


@pytest.mark.timeout(120)
async def test_a_member_does_not_outlive_who_started_it(database: Database, tmp_path: Path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, str(program), database.dsn, str(tmp_path / "log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as running:
        assert running.stdout is not None
        pid = int(running.stdout.readline())
        assert state(pid)
        running.send_signal(signal.SIGKILL)
        await until(lambda: state(pid) in {"", "Z"})
