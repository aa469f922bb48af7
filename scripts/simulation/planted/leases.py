# ruff: noqa: SLF001 - a planted bug reaches inside
"""Bugs planted into leases."""

from collections.abc import Iterator
from typing import Any

import msgspec

from ductor.actors.leases import Leases
from ductor.actors.tick.outbox import Outbox
from ductor.journal.commit import Commit
from ductor.journal.memory_leases import MemoryLeases
from scripts.simulation.planted.planting import planted, replaced


@planted("who has settled keeps its lease")
def _lease_kept() -> Iterator[None]:
    leave = Outbox.leave

    def grasping(self: Outbox, ref: str, node: Any) -> None:
        leave(self, ref, node)
        self.leases_gone.clear()

    with replaced(Outbox, "leave", grasping):
        yield


@planted("a lease is granted to whoever asks")
def _lease_limit_unchecked() -> Iterator[None]:
    write_leases = MemoryLeases._write_leases

    def generous(self: MemoryLeases, commit: Commit) -> None:
        asked = tuple(msgspec.structs.replace(wait, limit=wait.limit + 1) for wait in commit.leases)
        write_leases(self, msgspec.structs.replace(commit, leases=asked))

    with replaced(MemoryLeases, "_write_leases", generous):
        yield


@planted("places that got free are given to nobody when a host dies or can't reach the database then")
def _leases_not_swept() -> Iterator[None]:
    async def blind(self: Leases, now_us: int) -> None:
        """Find nothing."""

    with replaced(Leases, "sweep", blind):
        yield
