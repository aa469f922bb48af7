"""Arguments out of text."""

import sys
from pathlib import Path

import msgspec

from ductor.definitions.durations import TimeFormatError, parse_duration_ms
from ductor.definitions.errors import DuctorError
from ductor.definitions.values import JsonValue


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
