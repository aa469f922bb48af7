"""Arguments out of text."""

import re
import sys
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from ductor.definitions.durations import TimeFormatError, parse_duration_ms, parse_timestamp_us
from ductor.definitions.errors import DuctorError
from ductor.definitions.values import JsonValue

_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")


class ArgumentError(DuctorError):
    """An argument can't be understood.

    Attributes:
        argument: which one.
        reason: why.
    """

    code = "invalid_argument"

    def __init__(self, argument: str, reason: str) -> None:
        self.argument, self.reason = argument, reason
        super().__init__(f"{argument}: {reason}")


def json_argument(text: str | None, argument: str) -> JsonValue:
    """JSON given as text, as `@file`, or as `-` for standard input; None for nothing.

    Raises:
        ArgumentError: the file can't be read, or its text is no JSON.
    """
    if text is None:
        return None
    source = argument
    if text == "-":
        source, text = "standard input", sys.stdin.read()
    elif text.startswith("@"):
        source = text[1:]
        try:
            text = Path(source).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ArgumentError(argument, f"can't read {source}: {error}") from error
    try:
        value: JsonValue = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise ArgumentError(argument, f"{source} is no JSON: {error}. Text needs double quotes.") from error
    return value


def duration_argument(text: str | None, argument: str) -> int | None:
    """A duration in milliseconds, None for nothing.

    Raises:
        ArgumentError: it is none.
    """
    if text is None:
        return None
    try:
        return parse_duration_ms(text)
    except TimeFormatError as error:
        raise ArgumentError(argument, str(error)) from error


class TimeBound(NamedTuple):
    """A time as it was given: an age, or a moment; in microseconds."""

    is_age: bool
    value_us: int

    def at_us(self, now_us: int) -> int:
        """The moment."""
        return now_us - self.value_us if self.is_age else self.value_us


def time_bound(text: str | None, option: str) -> TimeBound | None:
    """A time out of text: an age, a day in UTC, or a moment. Raises ArgumentError."""
    if text is None:
        return None
    if _DATE.match(text):
        try:
            return TimeBound(False, parse_timestamp_us(f"{text}T00:00:00Z" if _DATE.fullmatch(text) else text))
        except TimeFormatError as error:
            raise ArgumentError(option, str(error)) from error
    try:
        return TimeBound(True, parse_duration_ms(text) * 1_000)
    except TimeFormatError as error:
        reason = (
            f"{text!r} is no time. Write how long ago, as `2h` or `7d`, a day as `2026-01-31`, or a moment (RFC 3339)"
        )
        raise ArgumentError(option, reason) from error


def time_bounds(since: str | None, until: str | None) -> tuple[TimeBound | None, TimeBound | None]:
    """Both ends of a time. Raises ArgumentError."""
    return time_bound(since, "--since"), time_bound(until, "--until")


def times_between(bounds: tuple[TimeBound | None, TimeBound | None], now_us: int) -> tuple[int | None, int | None]:
    """Both ends as moments. Raises ArgumentError where the second does not come after the first."""
    since, until = (None if bound is None else bound.at_us(now_us) for bound in bounds)
    if since is not None and until is not None and until <= since:
        raise ArgumentError("--until", "it does not come after `--since`: nothing is between them")
    return since, until
