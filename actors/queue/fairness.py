"""Which lane is served next: weighted fair queueing that counts work in flight as well as work dispatched.

Every lane has a virtual time. A delivery moves it on by 1/weight, so that lanes which are served in the order of their
virtual times get deliveries in proportion to their weights (start-time fair queueing). The queue's own virtual time is
that of the last delivery. A lane that comes back after a pause begins there: it keeps no credit for what it did not ask
for, and it pays the debt of what it got ahead of its time.

That alone would share deliveries, not workers: a tenant whose tasks take a hundred times as long would hold nearly all
of them. So a lane that holds its share of the leases (`fair_share`) is passed over while there are others, and what it
misses that way it does not get later.

The bound: among n lanes that have items, one that holds less than its share of the leases gets its next delivery after
at most `weights of all lanes / its own weight + n` deliveries to others, however much they have queued. With equal
weights that is 2 n, and n where the lane was not served lately. The rule looks at LANES_LOOKED_AT lanes; where more
than that are over their share, the one with the lowest virtual time goes.

The tiers carry the same rule out in their own languages; a test gives all of them the same calls and compares.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

LANES_LOOKED_AT: Final = 32
ROUNDING: Final = 1e-9
"""What floating point may add to a share that is a whole number."""


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """A lane that has items and may be served."""

    tenant: str
    virtual_time: float
    weight: int


def fair_share(weight: int, looked_at: Sequence[Candidate], ready_lanes: int, in_flight: int) -> int:
    """How many leases a lane of this weight may hold before others go first, when `in_flight` + 1 are out.

    `looked_at` stands for all `ready_lanes`: their mean weight is taken for that of the others.
    """
    weights = sum(lane.weight for lane in looked_at) * ready_lanes / len(looked_at)
    return math.ceil(weight / weights * (in_flight + 1) - ROUNDING)


def choose(
    looked_at: Sequence[Candidate], ready_lanes: int, in_flight: int, in_flight_of: Callable[[str], int]
) -> Candidate:
    """The lane to serve next.

    Args:
        looked_at: ready lanes by virtual time, the lowest first, LANES_LOOKED_AT at most.
        ready_lanes: how many there are in all.
        in_flight: leases of the whole queue; `in_flight_of` tells those of a tenant.
    """
    if len(looked_at) > 1:
        for lane in looked_at:
            if in_flight_of(lane.tenant) < fair_share(lane.weight, looked_at, ready_lanes, in_flight):
                return lane
    return looked_at[0]
