"""What a process that does little else than host runs can do for speed. A service that embeds a host may do it too."""

import asyncio
import gc
from collections.abc import Callable
from typing import Final

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
