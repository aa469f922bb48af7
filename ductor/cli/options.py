"""Options that several commands share."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

if TYPE_CHECKING:
    from ductor.actors.queue.redis.settings import RedisSettings

OutputFormat = Literal["table", "json", "jsonl"]

JsonArgument = Annotated[str, Parameter(allow_leading_hyphen=True)]
"""JSON as text, `@file`, or `-` for standard input; the parser would take a `-` for an option."""


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
class RequestOptions:
    """Who asks something of runs, and why."""

    by: Annotated[str, Parameter(name="--by", help="Who asks, for the record.")] = ""
    reason: Annotated[str, Parameter(name="--reason", help="Why, for the record.")] = ""
    request_id: Annotated[str | None, Parameter(name="--request-id", help="Makes the request idempotent.")] = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RedisOptions:
    """The queue between processes."""

    redis: Annotated[
        str | None,
        Parameter(
            name="--redis",
            env_var="DUCTOR_REDIS_URL",
            help="Address of the Redis that takes work to other processes; without one, PostgreSQL does.",
        ),
    ] = None
    redis_shard: Annotated[
        str,
        Parameter(
            name="--redis-shard",
            env_var="DUCTOR_REDIS_SHARD",
            help="Names the installation, where several share one Redis.",
        ),
    ] = "ductor"
    redis_cluster: Annotated[
        bool,
        Parameter(
            name="--redis-cluster",
            env_var="DUCTOR_REDIS_CLUSTER",
            help="The address is that of a node of a Redis cluster.",
            negative="",
        ),
    ] = False

    @property
    def settings(self) -> "RedisSettings | None":
        """How to reach it; None where no address, or an empty one, is given."""
        from ductor.actors.queue.redis.settings import RedisSettings

        if not self.redis:
            return None
        return RedisSettings(url=self.redis, shard=self.redis_shard, is_cluster=self.redis_cluster)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class LogOptions:
    """How a process that serves writes its log."""

    log_format: Annotated[
        Literal["text", "json"],
        Parameter(
            name="--log-format",
            env_var="DUCTOR_LOG_FORMAT",
            help="`text` for people; `json` for one object a line, with run ids and the like as fields.",
        ),
    ] = "text"


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """How results are printed."""

    output: Annotated[
        OutputFormat, Parameter(name=["--output", "-o"], help="`table` for people, `json` or `jsonl` for programs.")
    ] = "table"
