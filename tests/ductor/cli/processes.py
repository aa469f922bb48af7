"""The real command in processes of its own."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from queue import Queue
from typing import Any

COMMAND = [sys.executable, "-c", "from ductor.cli.main import main; main()"]

Call = Callable[..., subprocess.CompletedProcess[str]]


class HostProcess:
    """`ductor host`, or another command that serves, in the background; `health` waits for its next report."""

    def __init__(self, folder: Path, *arguments: str, environment: dict[str, str], command: str = "host") -> None:
        self.process = subprocess.Popen(
            [*COMMAND, command, "--health", "1s", "-o", "jsonl", *arguments],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._lines: Queue[str] = Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def health(self) -> dict[str, Any]:
        health: dict[str, Any] = json.loads(self._lines.get(timeout=60))
        return health

    def unread(self) -> str:
        """What it has printed, without the reports that `health` gave."""
        lines: list[str] = []
        while not self._lines.empty():
            lines.append(self._lines.get())
        return "".join(lines)

    def stop(self, number: signal.Signals) -> tuple[int, str]:
        self.process.send_signal(number)
        assert self.process.stderr is not None
        said = self.process.stderr.read()
        code = self.process.wait(60)
        self._reader.join(60)
        self.process.stderr.close()
        return code, said

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self._lines.put(line)
