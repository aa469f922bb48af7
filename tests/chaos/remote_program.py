"""A host with or without handlers, or a worker, to be killed: `python -m tests.chaos.remote_program ROLE ...`.

ROLE is `host`, `host_alone` (it has handlers) or `worker`; REDIS may be empty. Handlers write to the ledger as those of
`host_program` do.
"""

import asyncio
import sys
from pathlib import Path

import ductor
from ductor.actors.worker_options import WorkerOptions
from scripts.chaos_run.ledger import Ledger
from tests.chaos.host_program import handlers

VISIBILITY_MS = 2_000


async def main(role: str, dsn: str, redis: str, ledger_file: str) -> None:
    """Serve until killed."""
    serving: ductor.Host | ductor.Worker
    ledger = Ledger(Path(ledger_file))
    if role == "host_alone":
        serving = ductor.Host(tasks=handlers(ledger), database=dsn, redis=redis, projections=None)
    elif role == "host":
        serving = ductor.Host(database=dsn, redis=redis, projections=None)
    else:
        options = WorkerOptions(visibility_ms=VISIBILITY_MS, concurrency=16)
        serving = ductor.Worker(tasks=handlers(ledger), database=dsn, redis=redis, options=options)
    async with serving:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await serving.run_until_stopped()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
