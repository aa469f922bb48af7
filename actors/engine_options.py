"""What a host may be told about how much it does."""

from typing import Final

import msgspec

from ductor.actors.errors import InvalidSettingError

MIN_MAX_LOSSES: Final = 5
"""What was lost together with an attempt that ends hosts has been tried apart from it by then: see
`ductor.actors.losses`."""


class EngineOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one host. Raises InvalidSettingError.

    Attributes:
        concurrency: async handlers that run at once; threads: sync ones.
        max_hot_runs: coordinators kept in memory while nothing happens to them.
        idle_ms: a coordinator at rest for so long leaves memory.
        remote_queues: queues whose attempts are left to workers in other processes, even if their handlers are here.
        compact_every_rows: a journal is compacted whenever it has grown by so many rows; 0 for only when asked.
        max_losses: how often an attempt may be lost with hosts that died, or were stopped, while they had it, and is
            issued again; its run is set aside after that. `MIN_MAX_LOSSES` at least.
    """

    concurrency: int = 256
    threads: int = 16
    max_hot_runs: int = 10_000
    idle_ms: int = 30_000
    remote_queues: tuple[str, ...] = ()
    compact_every_rows: int = 0
    max_losses: int = 10

    def __post_init__(self) -> None:
        if self.max_losses < MIN_MAX_LOSSES:
            reason = f"is {self.max_losses}; at least {MIN_MAX_LOSSES} is possible: who ends hosts has to be found out"
            raise InvalidSettingError("max_losses", reason)
