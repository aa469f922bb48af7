"""When a schedule starts runs: which of its moments are to be made good. Pure."""

from typing import Final

from ductor.actors.steps.wait import next_time_us
from ductor.definitions.model import Trigger

MAX_CATCH_UP: Final = 100
"""Missed moments that `catchup: all` makes good; older ones are skipped."""

MISSED_AFTER_US: Final = 60_000_000
"""A moment at which nothing could start for so long is missed: `catchup: none` leaves it out."""

FIRST_LOOK_BACK_US: Final = 3_600_000_000
"""How far back the newest moments are looked for at first; each further look goes twice as far."""


def moments_due(trigger: Trigger, first_us: int, now_us: int) -> tuple[list[int], int]:
    """The moments to start at, oldest first, and the first one yet to come.

    However long ago `first_us` is, this takes no longer than a few thousand moments do.

    Args:
        first_us: the schedule's next moment, at `now_us` at the latest.
    """
    assert trigger.cron is not None
    wanted = MAX_CATCH_UP if trigger.catchup == "all" else 1
    look_back_us = FIRST_LOOK_BACK_US
    while True:
        after_us = max(now_us - look_back_us, first_us)
        moments, upcoming = _moments_between(trigger.cron, trigger.timezone, after_us, now_us)
        if after_us == first_us:
            moments = [first_us, *moments]
        if len(moments) >= wanted or after_us == first_us:
            break
        look_back_us *= 2
    if trigger.catchup == "none":
        moments = [moment for moment in moments if now_us - moment <= MISSED_AFTER_US]
    return moments[-wanted:], upcoming


def _moments_between(cron: str, timezone: str, after_us: int, until_us: int) -> tuple[list[int], int]:
    """The moments after `after_us` up to `until_us`, and the first one after that."""
    moments: list[int] = []
    upcoming = next_time_us(cron, timezone, after_us)
    while upcoming <= until_us:
        moments.append(upcoming)
        upcoming = next_time_us(cron, timezone, upcoming)
    return moments, upcoming
