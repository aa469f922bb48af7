"""How a worker behaves, and which queues it may serve."""

from collections.abc import Sequence
from typing import Final

import msgspec

from ductor.actors.errors import InvalidSettingError
from ductor.actors.queue.distributed import MAX_QUEUES_PER_LEASE, MAX_VISIBILITY_MS
from ductor.actors.queue.items import SYSTEM_PREFIX

MAX_CONCURRENCY: Final = 10_000
MIN_VISIBILITY_MS: Final = 100
"""A lease is renewed three times within it: a shorter one is lost to the pauses of any loop."""
MAX_DRAIN_MS: Final = 24 * 3_600_000


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a worker behaves.

    Attributes:
        concurrency: attempts at a time, coroutines and threads together.
        visibility_ms: what a dead worker had goes to another one after this.
        drain_ms: how long `stop` lets attempts finish.

    Raises InvalidSettingError.
    """

    concurrency: int = 64
    visibility_ms: int = 15_000
    drain_ms: int = 30_000

    def __post_init__(self) -> None:
        for setting, found, least, most in (
            ("concurrency", self.concurrency, 1, MAX_CONCURRENCY),
            ("visibility_ms", self.visibility_ms, MIN_VISIBILITY_MS, MAX_VISIBILITY_MS),
            ("drain_ms", self.drain_ms, 0, MAX_DRAIN_MS),
        ):
            if not least <= found <= most:
                raise InvalidSettingError(setting, f"is {found}; {least} to {most} are possible")


def check_queues(queues: Sequence[str]) -> None:
    """Raise InvalidSettingError for none, for more than MAX_QUEUES_PER_LEASE, and for names of no queue of attempts."""
    if not 1 <= len(queues) <= MAX_QUEUES_PER_LEASE:
        raise InvalidSettingError("queues", f"are {len(queues)}; a worker serves 1 to {MAX_QUEUES_PER_LEASE}")
    for name in queues:
        if not name or name.startswith(SYSTEM_PREFIX):
            reason = f"hold {name!r}, which is no queue of attempts: name those that steps have as their `queue`"
            raise InvalidSettingError("queues", reason)
