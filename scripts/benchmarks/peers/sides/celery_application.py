"""The application that Celery's worker and its sender load. The environment names the address of Redis."""

import os

from celery import Celery

from scripts.benchmarks.peers.sides.celery_side import REDIS_VARIABLE

app = Celery("bench", broker=os.environ[REDIS_VARIABLE], backend=os.environ[REDIS_VARIABLE])


@app.task
def noop(before: int = 0) -> int:
    """Add one."""
    return before + 1
