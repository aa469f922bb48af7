"""What hosts and workers under chaos can do. Each notes in the ledger that it begins and, later, its effect."""

import asyncio
import os
from functools import cache
from pathlib import Path

import ductor
from scripts.chaos_run.ledger import Ledger

LEDGER_VARIABLE = "DUCTOR_CHAOS_LEDGER"


@cache
def ledger() -> Ledger:
    """The file that the environment names, opened once."""
    return Ledger(Path(os.environ[LEDGER_VARIABLE]))


def _begin(context: ductor.TaskContext) -> None:
    ledger().note("began", context.idempotency_key)


def _effect(context: ductor.TaskContext) -> None:
    ledger().note("did", context.idempotency_key)


@ductor.task("chaos.add")
async def add(n: int, context: ductor.TaskContext) -> int:
    """One more."""
    _begin(context)
    await asyncio.sleep(0.005)
    _effect(context)
    return n + 1


@ductor.task("chaos.flaky")
async def flaky(n: int, context: ductor.TaskContext) -> int:
    """Twice as much; the first attempt fails."""
    _begin(context)
    if context.attempt == 1:
        raise ConnectionError("the first attempt always fails")
    _effect(context)
    return n * 2


@ductor.task("chaos.blocking")
def blocking(n: int, context: ductor.TaskContext) -> dict[str, int]:
    """The same, in a thread."""
    _begin(context)
    _effect(context)
    return {"n": n}


@ductor.task("chaos.undo")
async def undo(n: int, context: ductor.TaskContext) -> int:  # noqa: ARG001 - undos are told what they undo
    """Takes back what `add` did; the first attempt fails."""
    _begin(context)
    if context.attempt == 1:
        raise ConnectionError("the first attempt always fails")
    _effect(context)
    return 0


@ductor.task("chaos.print")
async def print_document(n: int, context: ductor.TaskContext) -> int:
    """Works under a lease, whose fence it notes."""
    _begin(context)
    ledger().note("held", f"printer-{n % 4}", context.idempotency_key, context.lease_fence)
    await asyncio.sleep(0.02)
    _effect(context)
    return n
