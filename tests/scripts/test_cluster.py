"""`scripts/cluster`: it comes up, carries out runs, and stops in order."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "scripts.clustering"]


@pytest.mark.timeout(120)
def test_it_stays_up_until_told_to_stop(tmp_path: Path):
    command = [*COMMAND, "--hosts", "1", "--workers", "1", "--folder", str(tmp_path / "cluster")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        said = [running.stdout.readline() for _ in range(4)]
        exports = dict(line.removeprefix("export ").strip().split("=", 1) for line in said if "export" in line)
        settings = {name: value.strip("'") for name, value in exports.items()}
        start = [sys.executable, "-c", "from ductor.cli.main import main; main()", "start", "parcel"]
        started = subprocess.run(
            [*start, "--input", '{"n": 1}', "--wait", "--timeout", "30s"],
            env={**os.environ, **settings},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (started.returncode, started.stdout.strip()) == (0, "7"), started.stderr
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == 0
