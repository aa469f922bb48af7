"""`scripts/chaos`: a short campaign with each kind of strike ends with a proof."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from scripts.chaos_run.campaign import Report
from scripts.chaos_run.plan import STRIKES

COMMAND = [sys.executable, "-m", "scripts.chaos_run"]
RUNS = 60


@pytest.mark.timeout(240)
def test_each_strike_once_and_nothing_is_lost_or_doubled(tmp_path: Path):
    folder = tmp_path / "chaos"
    options = [
        "--seed",
        "7",
        "--runs",
        str(RUNS),
        "--seconds",
        "25",
        "--within",
        "100",
        "--hosts",
        "2",
        "--workers",
        "1",
    ]
    done = subprocess.run(
        [*COMMAND, *options, "--folder", str(folder)], capture_output=True, text=True, timeout=230, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing was lost, nothing was doubled" in done.stdout
    report = msgspec.json.decode((folder / "report.json").read_bytes(), type=Report)
    assert report.acknowledged >= RUNS
    expected = dict.fromkeys(STRIKES, 1)
    if "the disk is never full" in done.stdout:
        del expected["full-disk"]  # no file systems are mounted here
    assert report.strikes == expected


def test_an_unknown_strike_is_refused():
    done = subprocess.run([*COMMAND, "--strikes", "flood"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "unknown kind flood; there are: host-kill" in done.stderr
