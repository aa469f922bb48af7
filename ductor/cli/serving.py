"""What `ductor host` and `ductor worker` share: they live until a signal comes, and report their health meanwhile."""

import asyncio
import gc
import logging
import os
import socket
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Protocol, TypeVar

from ductor.cli.failures import EXIT_OK
from ductor.cli.options import OutputFormat
from ductor.cli.output import print_json, progress
from ductor.process import fastest_loop, tune_garbage_collector

if TYPE_CHECKING:
    from ductor.observability.logs import JsonFormatter

MIN_REPORT_INTERVAL_S = 1.0
STUBBORN_AFTER_S = 1.0
"""Handlers were told to stop when the drain time was over; after this the process ends without them."""

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")

_log = logging.getLogger("ductor")


class Serving(Protocol[T_co]):
    """A host or a worker."""

    async def open(self) -> None:
        """Begin to work."""
        ...

    async def close(self) -> None:
        """Drain."""
        ...

    async def health(self) -> T_co:
        """How it is."""
        ...

    async def run_until_stopped(self) -> None:
        """Return when the process is told to stop."""
        ...


def serve(
    serving: Serving[T],
    what: str,
    interval_ms: int,
    output: OutputFormat,
    line: Callable[[T], str],
    *,
    around: AbstractAsyncContextManager[object] | None = None,
    formatter: "JsonFormatter | None" = None,
) -> None:
    """Serve until told to stop, then drain.

    Args:
        what: it is, in a word.
        interval_ms: between two reports of its health.
        line: a report for people.
        around: entered before it begins, and left when it has drained.
        formatter: is told the process's name, which goes into every line of its log.
    """
    if formatter is not None:
        formatter.fields["host"] = f"{socket.gethostname()}:{os.getpid()}"
    with asyncio.Runner(loop_factory=fastest_loop()) as runner:
        runner.run(_serve_within(around or nullcontext(), serving, what, interval_ms / 1_000, output, line))
        stubborn = runner.run(_end_what_is_left())
        if stubborn:
            _log.warning("the process ends without handlers that ignore that they are cancelled: %d of them", stubborn)
            logging.shutdown()
            sys.stdout.flush()
            os._exit(EXIT_OK)  # closing the loop would wait for them for ever


async def _end_what_is_left() -> int:
    """Cancel tasks that go on although everything was drained; how many do not end within STUBBORN_AFTER_S."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for one in left:
        one.cancel()
    if not left:
        return 0
    _, pending = await asyncio.wait(left, timeout=STUBBORN_AFTER_S)
    return len(pending)


async def _serve_within(
    around: AbstractAsyncContextManager[object],
    serving: Serving[T],
    what: str,
    interval_s: float,
    output: OutputFormat,
    line: Callable[[T], str],
) -> None:
    async with around:
        await _serve(serving, what, interval_s, output, line)


async def _serve(
    serving: Serving[T], what: str, interval_s: float, output: OutputFormat, line: Callable[[T], str]
) -> None:
    tune_garbage_collector()  # before it lives: looking through everything takes longer than the loop may stand still
    with progress(f"starting the {what}", output):
        await serving.open()
    gc.freeze()  # what it has opened lives as long
    try:
        reporting = asyncio.create_task(_report(serving, interval_s, output, line))
        await serving.run_until_stopped()
        reporting.cancel()
        _log.info("stopping: attempts in flight may finish")
    finally:
        await serving.close()
    _log.info("stopped")


async def _report(serving: Serving[T], interval_s: float, output: OutputFormat, line: Callable[[T], str]) -> None:
    """Print the health now, and again after each interval."""
    while True:
        health = await serving.health()
        if output == "table":
            print(line(health), flush=True)
        else:
            print_json(health)
        await asyncio.sleep(max(interval_s, MIN_REPORT_INTERVAL_S))
