"""What two tiers say of the same queue, put together."""

from collections.abc import Mapping
from itertools import chain
from typing import Final

from ductor.actors.queue.items import LaneDepth, QueueDepth, TokenState

_RANK: Final[Mapping[TokenState, int]] = {"dead": 0, "queued": 1, "leased": 2}


def merged_states(first: Mapping[str, TokenState], second: Mapping[str, TokenState]) -> dict[str, TokenState]:
    """How tokens stand in the tier where they have come furthest."""
    merged = dict(first)
    for token, state in second.items():
        if token not in merged or _RANK[state] > _RANK[merged[token]]:
            merged[token] = state
    return merged


def added_depths(first: QueueDepth, second: QueueDepth) -> QueueDepth:
    """Both together."""
    lanes: dict[str, LaneDepth] = {}
    for lane in chain(first.lanes, second.lanes):
        other = lanes.get(lane.tenant)
        lanes[lane.tenant] = (
            lane
            if other is None
            else LaneDepth(
                tenant=lane.tenant,
                queued=lane.queued + other.queued,
                in_flight=lane.in_flight + other.in_flight,
                oldest_age_ms=max(lane.oldest_age_ms, other.oldest_age_ms),
            )
        )
    return QueueDepth(
        queue=first.queue,
        queued=first.queued + second.queued,
        in_flight=first.in_flight + second.in_flight,
        dead=first.dead + second.dead,
        lanes=tuple(lane for _, lane in sorted(lanes.items())),
    )
