"""Policies of queues and of tenants in them, as a host sets them when it starts. All hosts should set the same."""

import msgspec

from ductor.actors.queue.distributed import DistributedQueue
from ductor.actors.queue.items import LanePolicy, QueuePolicy


class TenantInQueue(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a queue serves one tenant."""

    queue: str
    tenant: str
    policy: LanePolicy


class QueuePolicies(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What differs from the defaults: bounds of queues by name, and how they serve tenants."""

    queues: dict[str, QueuePolicy] = msgspec.field(default_factory=dict)
    tenants: tuple[TenantInQueue, ...] = ()

    async def set(self, queue: DistributedQueue) -> None:
        """Have all tiers keep to them. Raises QueueUnavailableError."""
        for name, policy in self.queues.items():
            await queue.set_queue_policy(name, policy)
        for one in self.tenants:
            await queue.set_lane_policy(one.queue, one.tenant, one.policy)
