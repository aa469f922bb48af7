"""What a process that hosts runs, or works for hosts, and does little else can do: for speed, and to end in order.

A service that embeds a host may do it too.
"""

import asyncio
import gc
import signal
from collections.abc import Callable
from typing import Final

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

GC_THRESHOLDS: Final = (20_000, 50, 50)
"""Python's own make the collector run many times a second over objects that live as long as the process. What the
engine makes and drops is freed by counting references; cycles are rare, and these thresholds still find them."""


def tune_garbage_collector() -> None:
    """Leave what is loaded by now alone, and look for cycles less often. Call it once everything is imported."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


def fastest_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What makes uvloop's event loop where it is installed (`pip install 'ductor-engine[uvloop]'`), else None."""
    try:
        import uvloop  # noqa: PLC0415 - optional
    except ImportError:
        return None
    return uvloop.new_event_loop


async def until_told_to_stop() -> None:
    """Return at the first signal that asks the process to stop. A second one means what it means by itself."""
    loop = asyncio.get_running_loop()
    told = asyncio.Event()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, told.set)
    try:
        await told.wait()
    finally:
        for number in STOP_SIGNALS:
            loop.remove_signal_handler(number)
