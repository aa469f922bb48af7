"""The process that is killed: a host that carries out the inspection. It is started again with the same command.

The start is idempotent by its key, so the second process meets the run that the first one began.
"""

import argparse
import asyncio
import os
import sys
import threading
from pathlib import Path

import ductor
from scripts.demonstration.handlers import Handlers
from scripts.demonstration.ledger import Ledger

DEFINITION = Path(__file__).with_name("folder_inspection.yaml")
KEY = "the demonstration"


async def carry_out(database: str, folder: Path, ledger: Path, report: Path, pace_s: float) -> None:
    """Carry out the inspection to its end."""
    handlers = Handlers(Ledger(ledger), pace_s)
    async with ductor.Host(tasks=handlers.tasks(), definitions=DEFINITION, database=database) as host:
        run = await host.start("folder_inspection", {"folder": str(folder), "report": str(report)}, key=KEY)
        print(run.run_id, flush=True)
        await host.engine.outcome(run.run_id)


def end_with_parent() -> None:
    """Let this process end when the one that started it is gone, however it went."""

    def wait() -> None:
        sys.stdin.read()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--database", required=True)
    parser.add_argument("--folder", required=True, type=Path)
    parser.add_argument("--ledger", required=True, type=Path)
    parser.add_argument("--report", required=True, type=Path)
    parser.add_argument("--pace-s", required=True, type=float)
    given = parser.parse_args()
    end_with_parent()
    asyncio.run(carry_out(given.database, given.folder, given.ledger, given.report, given.pace_s))
