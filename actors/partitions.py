"""Who owns which partition of runs: rendezvous hashing over the hosts that live.

Every host computes the same map from the same hosts, without asking anybody. When a host comes, it takes its share from
all others, and nothing else moves; when one goes, its share is spread over those that stay.

Ownership is affinity, not correctness: what two hosts decide about one run at a time is decided by the version check of
its journal. An owner is who sweeps, recovers and is woken.
"""

from collections.abc import Collection, Iterable
from hashlib import blake2b

from ductor.journal.partitions import PARTITIONS, partition_of


class PartitionMap:
    """The owners of all partitions, as one host sees them.

    Attributes:
        hosts: those that own something.
        owned: partitions of this host; None means all, as for a host that is alone.
    """

    def __init__(self, own_id: str, hosts: Iterable[str]) -> None:
        """Args:
        own_id: the host that looks.
        hosts: those that live and do not drain, this one among them if it is one of those.
        """
        self.own_id, self.hosts = own_id, frozenset(hosts)
        self.owned: frozenset[int] | None = None
        self._owners: tuple[str, ...] = (own_id,) * PARTITIONS
        if self.hosts != {own_id}:
            ranked = sorted(self.hosts)  # of equal weights the same one wins everywhere
            self._owners = tuple(
                max(ranked, key=lambda host: _weight(host, partition), default="") for partition in range(PARTITIONS)
            )
            self.owned = self.of(own_id)

    def owner(self, run_id: str) -> str:
        """Who owns a run; "" while no host does."""
        return self._owners[partition_of(run_id)]

    def owns(self, run_id: str) -> bool:
        """Whether this host owns a run."""
        return self.owned is None or partition_of(run_id) in self.owned

    @property
    def count(self) -> int:
        """How many partitions this host owns."""
        return len(self.of(self.own_id))

    def gained_since(self, before: "PartitionMap") -> frozenset[int]:
        """Partitions of this host that were not its own before."""
        return self.of(self.own_id) - before.of(self.own_id)

    def inherited_from(self, gone: Collection[str], rivals: Collection[str]) -> frozenset[int]:
        """Partitions of this host that hosts that are gone may have owned when they were heard last.

        Args:
            rivals: those that they knew then; who came later took nothing over from them.
        """
        if not gone:
            return frozenset()
        before = PartitionMap(self.own_id, {*rivals, *gone})
        return self.of(self.own_id) & frozenset[int]().union(*map(before.of, gone))

    def of(self, host: str) -> frozenset[int]:
        """The partitions that a host owns."""
        return frozenset(partition for partition, owner in enumerate(self._owners) if owner == host)


def _weight(host: str, partition: int) -> bytes:
    return blake2b(f"{partition}/{host}".encode(), digest_size=8).digest()
