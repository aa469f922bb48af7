"""Options that several commands share."""

from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter

OutputFormat = Literal["table", "json", "jsonl"]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class DatabaseOptions:
    """Where runs are kept, and whose they are."""

    database: Annotated[
        str | None,
        Parameter(
            name="--database",
            env_var="DUCTOR_DATABASE",
            help="Address of a PostgreSQL database; without one, an embedded server in ./.ductor is used.",
        ),
    ] = None
    tenant: Annotated[str, Parameter(name="--tenant", env_var="DUCTOR_TENANT", help="Whose definitions and runs.")] = (
        "default"
    )

    @property
    def address(self) -> str | None:
        """The address; an empty one, as of a variable set to nothing, is none."""
        return self.database or None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """How results are printed."""

    output: Annotated[
        OutputFormat, Parameter(name=["--output", "-o"], help="`table` for people, `json` or `jsonl` for programs.")
    ] = "table"
