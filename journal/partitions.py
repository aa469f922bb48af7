"""Partitions of runs: what hosts divide among themselves.

A run's partition is the last byte of its id: random in ids that are drawn, of a hash in ids that are derived. The same
run has the same partition everywhere and for ever.
"""

from collections.abc import Collection
from typing import Final

PARTITIONS: Final = 256
"""Fixed: so many parts can be divided evenly among the hosts that one database carries."""

Partitions = Collection[int] | None
"""A choice of partitions; None for all."""


def partition_of(run_id: str) -> int:
    """The partition of a run, 0 to PARTITIONS - 1."""
    return int(run_id[-2:], 16)
