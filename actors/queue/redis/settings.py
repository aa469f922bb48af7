"""How to reach Redis. Apart from the driver, which is slow to import."""

import msgspec


class RedisSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach Redis.

    Attributes:
        url: as `redis://host:6379/0`, `rediss://` or `unix://`; the address of any node with `is_cluster`.
        shard: all keys of one shard share a cluster slot. Queues that one caller leases from together must share it.
        is_cluster: the address is that of a cluster.
        command_timeout_ms: how long an answer may take before the server counts as away.
        connect_timeout_ms: the same for a connection.
        max_connections: of this process for commands; who wants one more waits for it.
        max_waiting: callers of this process that wait for items at once, each with a connection of its own; others look
            again after RING_WAIT_MAX_MS.
    """

    url: str
    shard: str = "ductor"
    is_cluster: bool = False
    command_timeout_ms: int = 500
    connect_timeout_ms: int = 500
    max_connections: int = 32
    max_waiting: int = 64
