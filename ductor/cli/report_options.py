"""Options that reports share: about what, how printed, and which files."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple

from cyclopts import Parameter

ReportFormat = Literal["table", "json", "jsonl", "csv"]
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")


class TimeBound(NamedTuple):
    """A time as it was given: an age, or a moment; in microseconds."""

    is_age: bool
    value_us: int

    def at_us(self, now_us: int) -> int:
        """The moment."""
        return now_us - self.value_us if self.is_age else self.value_us


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ReportTime:
    """From when until when."""

    since: Annotated[
        str | None,
        Parameter(
            help="From then on: so long ago, as `2h` or `7d`, a day as `2026-01-31` (UTC), or a moment (RFC 3339)."
        ),
    ] = None
    until: Annotated[str | None, Parameter(help="Before then, in the same forms.")] = None

    def bounds(self) -> tuple[TimeBound | None, TimeBound | None]:
        """Both ends. Raises ArgumentError."""
        return time_bound(self.since, "--since"), time_bound(self.until, "--until")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ReportOutput:
    """Where a report goes: printed, unless files are asked for."""

    output: Annotated[
        ReportFormat,
        Parameter(name=["--output", "-o"], help="`table` for people; `json`, `jsonl` or `csv` for programs."),
    ] = "table"
    csv: Annotated[Path | None, Parameter(help="Write a CSV file.")] = None
    parquet: Annotated[Path | None, Parameter(help="Write a Parquet file (extra `reports`).")] = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PictureOutput:
    """Pictures of a report."""

    svg: Annotated[Path | None, Parameter(help="Write a picture.")] = None
    png: Annotated[Path | None, Parameter(help="Write a picture as PNG (extra `reports`).")] = None

    @property
    def is_given(self) -> bool:
        """Whether one is wanted."""
        return self.svg is not None or self.png is not None


def time_bound(text: str | None, option: str) -> TimeBound | None:
    """A time out of text. Raises ArgumentError."""
    from ductor.cli.arguments import ArgumentError, duration_argument
    from ductor.definitions.durations import TimeFormatError, parse_timestamp_us

    if text is None:
        return None
    if _DATE.match(text):
        try:
            return TimeBound(False, parse_timestamp_us(f"{text}T00:00:00Z" if _DATE.fullmatch(text) else text))
        except TimeFormatError as error:
            raise ArgumentError(option, str(error)) from error
    return TimeBound(True, (duration_argument(text, option) or 0) * 1_000)
