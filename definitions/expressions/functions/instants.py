"""Parts of timestamps and durations, in UTC or in a time zone, and `date`."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ductor.definitions.expressions.budget import UNITS_PER_ZONE, Meter
from ductor.definitions.expressions.cel_values import Duration, Timestamp, Value
from ductor.definitions.expressions.errors import Fault
from ductor.definitions.expressions.functions.declared import Function
from ductor.definitions.expressions.functions.standard import to_timestamp
from ductor.definitions.expressions.operators import no_overload

MAX_FORMAT_LENGTH = 200
"""Characters of the format of `date`."""
UNITS_PER_CALENDAR = 20
"""What it costs to find the date and time of day of an instant."""
UNITS_PER_CODE = 10
"""What it costs to write one part of a date."""
MAX_ZONE_LENGTH = 64
"""Characters of the name of a time zone."""
MAX_ZONES_KEPT = 128
"""Time zones kept for the next evaluation."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OFFSET = re.compile(r"([+-]?)([0-9]{2}):([0-9]{2})")
_SECOND, _MILLISECOND, _MICROSECOND = 10**9, 10**6, 10**3


@lru_cache(maxsize=MAX_ZONES_KEPT)
def _zone(name: str) -> tzinfo:
    match = _OFFSET.fullmatch(name)
    if match is not None:
        minutes = int(match[2]) * 60 + int(match[3])
        if minutes >= 24 * 60:
            raise Fault("invalid_argument", f"the offset {name!r} is a day or more")
        return timezone(timedelta(minutes=-minutes if match[1] == "-" else minutes))
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        message = f"there is no time zone {name!r}; name one as 'Europe/Oslo' or '+02:00'"
        raise Fault("invalid_argument", message) from None


def _local(meter: Meter, instant: Timestamp, zone: Value) -> datetime:
    if type(zone) is not str:
        no_overload("time zone", zone)
    meter.charge(UNITS_PER_CALENDAR)
    if len(zone) > MAX_ZONE_LENGTH:
        raise Fault("invalid_argument", f"the name of a time zone has at most {MAX_ZONE_LENGTH} characters")
    meter.charge_once(f"zone {zone}", UNITS_PER_ZONE if zone else 0)
    try:
        moment = _EPOCH + timedelta(microseconds=instant.nanoseconds // _MICROSECOND)
        return moment.astimezone(_zone(zone) if zone else UTC)
    except OverflowError:
        raise Fault("overflow", "the timestamp lies outside the years 1 to 9999 in that time zone") from None


def _part(
    name: str, of_datetime: Callable[[datetime], int], of_duration: Callable[[int], int] | None = None
) -> Function:
    """A method `x.name()` or `x.name(zone)`, of durations too where `of_duration` is given."""

    def part(meter: Meter, value: Value, zone: Value = "") -> int:
        if type(value) is Timestamp:
            return of_datetime(_local(meter, value, zone))
        if type(value) is Duration and of_duration is not None and zone == "":
            sign = -1 if value.nanoseconds < 0 else 1
            return sign * of_duration(abs(value.nanoseconds))
        return no_overload(f"{name}()", value)

    return Function(name=name, implementation=part, least=1, most=2, style="method")


def date(meter: Meter, instant: Value, form: Value, zone: Value = "") -> str:
    """The text of an instant, as `date(now, "%Y-%m-%d", "Europe/Oslo")`; without a zone in UTC.

    The codes are `%Y %m %d %H %M %S %f %j %y %B %b %A %a %I %p %u %V %G %z %Z %%`, with English names.
    """
    if type(form) is not str:
        no_overload("date()", instant, form)
    if len(form) > MAX_FORMAT_LENGTH:
        raise Fault("invalid_argument", f"the format of date() has more than {MAX_FORMAT_LENGTH} characters")
    moment = _local(meter, to_timestamp(meter, instant), zone)
    meter.charge(UNITS_PER_CODE * form.count("%"))
    return _CODE.sub(lambda match: _coded(match[1], moment), form)


def _offset_text(moment: datetime) -> str:
    minutes = int((moment.utcoffset() or timedelta()).total_seconds() // 60)
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}{abs(minutes) % 60:02d}"


_CODE = re.compile(r"%(.?)", re.DOTALL)
_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
# Written out rather than left to strftime, whose result depends on the platform and its locale.
_CODES: dict[str, Callable[[datetime], str]] = {
    "Y": lambda moment: f"{moment.year:04d}",
    "y": lambda moment: f"{moment.year % 100:02d}",
    "m": lambda moment: f"{moment.month:02d}",
    "d": lambda moment: f"{moment.day:02d}",
    "H": lambda moment: f"{moment.hour:02d}",
    "I": lambda moment: f"{moment.hour % 12 or 12:02d}",
    "p": lambda moment: "AM" if moment.hour < 12 else "PM",
    "M": lambda moment: f"{moment.minute:02d}",
    "S": lambda moment: f"{moment.second:02d}",
    "f": lambda moment: f"{moment.microsecond:06d}",
    "j": lambda moment: f"{moment.timetuple().tm_yday:03d}",
    "B": lambda moment: _MONTHS[moment.month - 1],
    "b": lambda moment: _MONTHS[moment.month - 1][:3],
    "A": lambda moment: _DAYS[moment.weekday()],
    "a": lambda moment: _DAYS[moment.weekday()][:3],
    "u": lambda moment: str(moment.isoweekday()),
    "V": lambda moment: f"{moment.isocalendar().week:02d}",
    "G": lambda moment: f"{moment.isocalendar().year:04d}",
    "z": _offset_text,
    "Z": lambda moment: moment.tzname() or "",
    "%": lambda moment: "%",
}


def _coded(code: str, moment: datetime) -> str:
    if code not in _CODES:
        known = " ".join(f"%{name}" for name in _CODES)
        raise Fault("invalid_argument", f"date() knows no code {'%' + code!r}, only {known}")
    return _CODES[code](moment)


INSTANT_FUNCTIONS = (
    _part("getFullYear", lambda moment: moment.year),
    _part("getMonth", lambda moment: moment.month - 1),
    _part("getDate", lambda moment: moment.day),
    _part("getDayOfMonth", lambda moment: moment.day - 1),
    _part("getDayOfWeek", lambda moment: moment.isoweekday() % 7),
    _part("getDayOfYear", lambda moment: moment.timetuple().tm_yday - 1),
    _part("getHours", lambda moment: moment.hour, lambda duration_ns: duration_ns // (3_600 * _SECOND)),
    _part("getMinutes", lambda moment: moment.minute, lambda duration_ns: duration_ns // (60 * _SECOND)),
    _part("getSeconds", lambda moment: moment.second, lambda duration_ns: duration_ns // _SECOND),
    _part(
        "getMilliseconds",
        lambda moment: moment.microsecond // 1_000,
        lambda duration_ns: duration_ns % _SECOND // _MILLISECOND,
    ),
    Function(name="date", implementation=date, least=2, most=3),
)
