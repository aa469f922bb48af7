"""Bugs planted into the engine on purpose: the simulation has to find every one of them within its budget.

Each is a small mutation. `PLANTED` lists them by name, with what they break.
"""

from scripts.simulation.planted import chains, compaction, coordinator, host, leases, restarts, store, tick, trees
from scripts.simulation.planted.planting import PLANTED, PlantedBug

__all__ = [
    "PLANTED",
    "PlantedBug",
    "chains",
    "compaction",
    "coordinator",
    "host",
    "leases",
    "restarts",
    "store",
    "tick",
    "trees",
]
