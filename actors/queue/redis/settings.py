"""How to reach Redis. Apart from the driver, which is slow to import."""

from typing import Final
from urllib.parse import urlsplit

import msgspec

from ductor.actors.errors import InvalidSettingError

EXAMPLE: Final = "write it as redis://:password@host:6379/0, rediss://… for TLS, or unix:///path/of/socket"


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

    Raises InvalidSettingError for an address that is none, and for a shard without a name or with a brace.
    """

    url: str
    shard: str = "ductor"
    is_cluster: bool = False
    command_timeout_ms: int = 500
    connect_timeout_ms: int = 500
    max_connections: int = 32
    max_waiting: int = 64

    def __post_init__(self) -> None:
        reason = _fault_of_address(self.url, is_cluster=self.is_cluster)
        if reason:
            raise InvalidSettingError("the address of Redis", f"{reason}; {EXAMPLE}")
        if "{" in self.shard or "}" in self.shard or not self.shard:
            reason = f"{self.shard!r} is empty or has a brace; give it a name without, as 'ductor'"
            raise InvalidSettingError("the name of the Redis shard", reason)


def _fault_of_address(url: str, *, is_cluster: bool) -> str:
    """What is wrong with it, without what it says: it may hold a password. Empty when nothing is."""
    try:
        parts = urlsplit(url)
        port, database = parts.port, parts.path.strip("/")
    except ValueError as error:
        return f"can't be read: {error}"
    if parts.scheme == "unix":
        return "" if database else "has no path of a socket"
    if parts.scheme not in {"redis", "rediss"}:
        return "does not begin with redis://, rediss:// or unix://"
    if not parts.hostname or port == 0:
        return "names no host" if port != 0 else "has port 0"
    if database and not database.isdecimal():
        return "has something other than the number of a database after the host"
    return "has the number of a database, and a cluster has none but 0" if is_cluster and int(database or 0) else ""
