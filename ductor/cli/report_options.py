"""Options that reports share: about what, how printed, and which files."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from ductor.cli.arguments import TimeBound, time_bounds

ReportFormat = Literal["table", "json", "jsonl", "csv"]


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
        return time_bounds(self.since, self.until)


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
