"""Checks of cron expressions and time zones, as text."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

_ANY_MOMENT = datetime(2000, 1, 1, tzinfo=UTC)


def cron_fault(expression: str) -> str | None:
    """Return what is wrong with a cron expression, None when it is valid."""
    try:
        CronSim(expression, _ANY_MOMENT)
    except CronSimError as error:
        return f"`{expression}` is not a cron expression: {error}"
    return None


def timezone_fault(name: str) -> str | None:
    """Return what is wrong with the name of a time zone, None when it is known."""
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return f"`{name}` is not a time zone of the IANA database"
    return None
