"""How the store connects, and its bounds."""

from collections.abc import Mapping

import msgspec

# A generic plan made while tables were small must stay right when they are large: every look-up by index, no scan, no
# join that reads a whole table, no bitmap that gives up the order of the index by which a page is read. Just-in-time
# compilation costs more than any of these statements.
PLANNER_SETTINGS = {
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_seqscan": "off",
    "jit": "off",
}
# The writer's arrays look cheaper to plan anew at their true length than they are: planning costs more than running.
WRITER_PLANNER_SETTINGS = {**PLANNER_SETTINGS, "plan_cache_mode": "force_generic_plan"}

# A machine that vanishes says no farewell. The server would keep its session, with all that this has locked, for as
# long as its system keeps silent connections (two hours, as a rule); so it asks, and ends the session after 25 seconds.
LOST_CLIENT_SETTINGS = {
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "25000",
}


class ConnectionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach PostgreSQL.

    Attributes:
        dsn: the address.
        through_pooler: a transaction pooler stands between. Session settings are not kept there, so they are made
            anew in each transaction of the writer, at the price of two more round trips a batch.
        prepared_statements: use named prepared statements. A pooler must support them (PgBouncer 1.21 or newer with
            `max_prepared_statements`); where it does not, switch them off, at the price of planning every statement.
        pool_size: connections for reads and single writes; the writer has its lanes and one for commits set aside.
        connect_timeout_s, command_timeout_s: how long to wait for a connection and for an answer before the connection
            counts as lost.
    """

    dsn: str
    through_pooler: bool = False
    prepared_statements: bool = True
    pool_size: int = 4
    connect_timeout_s: float = 10.0
    command_timeout_s: float = 60.0

    def of_session(self, own: Mapping[str, str]) -> dict[str, str] | None:
        """What the server is told at the start of a session that wants `own` set; None through a pooler."""
        return None if self.through_pooler else {**LOST_CLIENT_SETTINGS, **own}


class WriterLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The writer's bounds.

    Attributes:
        lanes: connections that take batches in turn. With one, nothing is made ready while the server works; more than
            two make batches smaller and gain nothing.
        queue_commits: commits that may wait; beyond it starts are refused. Ticks of running runs are always taken:
            there is one at most for each run that is at work.
        batch_commits, batch_bytes: one statement's size. A single larger commit goes alone.
        lock_timeout_ms: how long a batch waits for a key that somebody else's open transaction holds.
        split_lock_timeout_ms: the same while a batch is being split to find out which commit it is.
        backoff_first_s, backoff_max_s: pauses between attempts while the database is away.
        close_timeout_s: how long `close` waits for queued commits.
    """

    lanes: int = 2
    queue_commits: int = 10_000
    batch_commits: int = 400
    batch_bytes: int = 4 * 1024 * 1024
    lock_timeout_ms: int = 100
    split_lock_timeout_ms: int = 20
    backoff_first_s: float = 0.05
    backoff_max_s: float = 2.0
    close_timeout_s: float = 30.0
