"""Lengths of time and instants as text.

Durations are written as in `250ms`, `30s`, `5m`, `1h`, `7d`, `1h30m`, or in ISO 8601 as `PT30S`, `P7D`. Instants are
RFC 3339 with an offset, as `2026-11-30T08:00:00+01:00`. Arithmetic is in whole numbers; nothing here reads a clock.
"""

import re
from datetime import date

from ductor.definitions.errors import DuctorError

MAX_DURATION_MS = 3_650 * 86_400_000
"""The longest duration a definition may state: ten years of 365 days."""
MAX_DURATION_LENGTH = 64
"""Characters of a duration's text."""

_NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
    "w": 604_800_000_000_000,
}
_MILLISECOND = 1_000_000
_SECOND = 1_000_000_000
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()

_SPAN = r"([0-9]+)(?:\.([0-9]{1,9}))?"
_UNITED = re.compile(rf"{_SPAN}(ns|us|µs|ms|s|m|h|d|w)")
_ISO = re.compile(
    rf"P(?:{_SPAN}Y)?(?:{_SPAN}M)?(?:{_SPAN}W)?(?:{_SPAN}D)?(?:T(?:{_SPAN}H)?(?:{_SPAN}M)?(?:{_SPAN}S)?)?", re.ASCII
)
_ISO_UNITS = ("year", "month", "w", "d", "h", "m", "s")
_TIMESTAMP = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,9}))?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)


class TimeFormatError(DuctorError):
    """A text is not a duration or an instant.

    Attributes:
        text: what was given.
        message: what is wrong with it.
        hint: what would be valid.
    """

    code = "invalid_time"

    def __init__(self, text: str, message: str, hint: str) -> None:
        self.text = text if len(text) <= MAX_DURATION_LENGTH else text[:MAX_DURATION_LENGTH] + "…"
        self.message = message
        self.hint = hint
        super().__init__(f"{self.text!r} {message}. {hint}")


_DURATION_HINT = "Write a number with a unit, as 250ms, 30s, 5m, 1h, 7d or 1h30m, or ISO 8601 as PT30S."
_TIMESTAMP_HINT = "Write RFC 3339 with an offset, as 2026-11-30T08:00:00Z or 2026-11-30T08:00:00+01:00."


def parse_duration_ms(text: str) -> int:
    """The milliseconds of a duration that a definition states.

    Args:
        text: as `1h30m` or `PT30S`; not negative, at most ten years, whole milliseconds.

    Raises:
        TimeFormatError: it is none.
    """
    nanoseconds = parse_duration_ns(text)
    if nanoseconds < 0:
        raise TimeFormatError(text, "is negative", "Durations count forward.")
    if nanoseconds > MAX_DURATION_MS * _MILLISECOND:
        raise TimeFormatError(text, "is longer than ten years", f"The longest duration is {MAX_DURATION_MS} ms.")
    milliseconds, rest = divmod(nanoseconds, _MILLISECOND)
    if rest:
        raise TimeFormatError(text, "is not a whole number of milliseconds", "The finest unit is 1ms.")
    return milliseconds


def parse_duration_ns(text: str) -> int:
    """The nanoseconds of a duration, which may be negative or fractional, as `-1.5h`.

    Raises:
        TimeFormatError: the text is no duration, or uses years or months, whose length varies.
    """
    if len(text) > MAX_DURATION_LENGTH:
        raise TimeFormatError(text, "is too long for a duration", _DURATION_HINT)
    sign = -1 if text.startswith("-") else 1
    body = text[1:] if text[:1] in ("-", "+") else text
    if body == "0":
        return 0
    return sign * (_parse_iso_ns(text, body) if body.startswith("P") else _parse_united_ns(text, body))


def _parse_united_ns(text: str, body: str) -> int:
    total = 0
    position = 0
    while position < len(body):
        match = _UNITED.match(body, position)
        if match is None:
            break
        total += _nanoseconds(match[1], match[2], match[3])
        position = match.end()
    if position < len(body) or not body:
        raise TimeFormatError(text, "is not a duration", _DURATION_HINT)
    return total


def _parse_iso_ns(text: str, body: str) -> int:
    match = _ISO.fullmatch(body)
    if match is None or body[-1] in "PT":
        raise TimeFormatError(text, "is not an ISO 8601 duration", _DURATION_HINT)
    total = 0
    for place, unit in enumerate(_ISO_UNITS):
        whole, fraction = match[2 * place + 1], match[2 * place + 2]
        if whole is None:
            continue
        if unit in ("year", "month"):
            raise TimeFormatError(text, f"counts in {unit}s, whose length varies", "Count in days, as P30D.")
        total += _nanoseconds(whole, fraction, unit)
    return total


def _nanoseconds(whole: str, fraction: str | None, unit: str) -> int:
    size = _NANOSECONDS[unit]
    return int(whole) * size + (int(fraction.ljust(9, "0")) * size // _SECOND if fraction else 0)


def format_duration_ms(duration_ms: int) -> str:
    """The shortest exact text of a duration in milliseconds, largest unit first, as `1h30m`; `0s` for none."""
    if duration_ms < 0:
        raise ValueError(f"a duration of {duration_ms} ms is negative")
    parts = []
    rest = duration_ms
    for unit in ("d", "h", "m", "s", "ms"):
        count, rest = divmod(rest, _NANOSECONDS[unit] // _MILLISECOND)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def format_duration_ns(duration_ns: int) -> str:
    """The text CEL gives a duration: seconds with 0, 3, 6 or 9 decimals, as `90s` or `1.500s`."""
    seconds, rest = divmod(abs(duration_ns), _SECOND)
    return f"{'-' if duration_ns < 0 else ''}{seconds}{_fraction_in_threes(rest)}s"


def _fraction_in_threes(nanoseconds: int) -> str:
    digits = f"{nanoseconds:09d}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f".{digits}" if digits else ""


def parse_timestamp_us(text: str) -> int:
    """The microseconds since 1970-01-01T00:00:00Z of an RFC 3339 text; digits beyond microseconds are cut off.

    Raises:
        TimeFormatError: the text is no instant, or has no offset.
    """
    return parse_timestamp_ns(text) // 1_000


def parse_timestamp_ns(text: str) -> int:
    """The nanoseconds since 1970-01-01T00:00:00Z of an RFC 3339 text.

    Raises:
        TimeFormatError: the text is no instant, or has no offset.
    """
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise TimeFormatError(text, "is not a timestamp", _TIMESTAMP_HINT)
    year, month, day, hour, minute, second = (int(match[group]) for group in range(1, 7))
    offset = 0
    if match[8]:
        offset_hour, offset_minute = int(match[9]), int(match[10])
        offset = (offset_hour * 60 + offset_minute) * (60 if match[8] == "+" else -60)
        if offset_hour > 23 or offset_minute > 59:
            raise TimeFormatError(text, "has an offset of a day or more", _TIMESTAMP_HINT)
    if hour > 23 or minute > 59 or second > 59:
        raise TimeFormatError(text, "has a time of day that does not exist", _TIMESTAMP_HINT)
    try:
        days = date(year, month, day).toordinal() - _EPOCH_ORDINAL
    except ValueError as error:
        raise TimeFormatError(text, "has a date that does not exist", _TIMESTAMP_HINT) from error
    seconds = days * 86_400 + hour * 3_600 + minute * 60 + second - offset
    return seconds * _SECOND + int((match[7] or "").ljust(9, "0"))


def format_timestamp_us(at_us: int) -> str:
    """RFC 3339 in UTC of an instant in microseconds since 1970-01-01T00:00:00Z, as `2026-11-30T07:00:00.250Z`."""
    return format_timestamp_ns(at_us * 1_000)


def format_timestamp_ns(at_ns: int) -> str:
    """RFC 3339 in UTC of an instant in nanoseconds since 1970-01-01T00:00:00Z; 0, 3, 6 or 9 decimals."""
    seconds, fraction = divmod(at_ns, _SECOND)
    days, second_of_day = divmod(seconds, 86_400)
    day = date.fromordinal(days + _EPOCH_ORDINAL)
    hour, rest = divmod(second_of_day, 3_600)
    minute, second = divmod(rest, 60)
    return f"{day.isoformat()}T{hour:02d}:{minute:02d}:{second:02d}{_fraction_in_threes(fraction)}Z"
