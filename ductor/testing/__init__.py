"""Tools for testing workflows: virtual time, an engine in memory, answers for handlers, kills at every commit."""

from ductor.testing.calls import Call, CallLog
from ductor.testing.clock import RepeatableIds, VirtualClock
from ductor.testing.engine import Engine, NotInVirtualTimeError
from ductor.testing.loop import NothingLeftError, VirtualTimeLoop, outside, run_in_virtual_time, virtual_time

__all__ = [
    "Call",
    "CallLog",
    "Engine",
    "NotInVirtualTimeError",
    "NothingLeftError",
    "RepeatableIds",
    "VirtualClock",
    "VirtualTimeLoop",
    "outside",
    "run_in_virtual_time",
    "virtual_time",
]
