"""Who owns which partition, for any set of hosts."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ductor.actors.partitions import PartitionMap
from ductor.journal.ids import SystemIds, derived_run_id
from ductor.journal.partitions import PARTITIONS, partition_of

host_sets = st.sets(st.text("abcdefgh:0123456789", min_size=1, max_size=12), min_size=1, max_size=8)


@given(host_sets)
def test_all_hosts_agree_and_every_partition_has_one_owner(hosts: set[str]):
    maps = [PartitionMap(host, hosts) for host in hosts]
    owned = Counter(partition for one in maps for partition in one.of(one.own_id))
    assert owned == dict.fromkeys(range(PARTITIONS), 1)
    for run_id in (SystemIds().run_id() for _ in range(20)):
        (owner,) = {one.owner(run_id) for one in maps}
        assert [one.own_id for one in maps if one.owns(run_id)] == [owner]


@given(host_sets, st.text("ijk", min_size=1, max_size=5))
def test_a_host_that_comes_takes_from_others_and_moves_nothing_else(hosts: set[str], newcomer: str):
    before, after = PartitionMap(newcomer, hosts), PartitionMap(newcomer, hosts | {newcomer})
    for host in hosts:
        assert after.of(host) <= before.of(host)
    assert after.gained_since(before) == after.of(newcomer)


@given(host_sets.filter(lambda hosts: len(hosts) > 1))
def test_what_a_host_that_is_gone_had_is_inherited_once(hosts: set[str]):
    gone, *left = sorted(hosts)
    had = PartitionMap(gone, hosts).of(gone)
    inherited = [PartitionMap(host, left).inherited_from({gone}, left) for host in left]
    assert Counter(partition for part in inherited for partition in part) == dict.fromkeys(had, 1)
    assert PartitionMap(left[0], left).inherited_from((), left) == frozenset()


@pytest.mark.parametrize("count", [2, 3, 4, 8])
def test_shares_are_even_enough(count: int):
    hosts = [f"machine-{number}:{1000 + number}:{number:08x}" for number in range(count)]
    shares = [PartitionMap(host, hosts).count for host in hosts]
    assert sum(shares) == PARTITIONS
    assert max(shares) < 1.6 * PARTITIONS / count


def test_a_host_alone_owns_everything_without_looking():
    alone = PartitionMap("a", ["a"])
    assert alone.owned is None
    assert alone.count == PARTITIONS
    assert alone.owns(SystemIds().run_id())


def test_who_drains_owns_nothing():
    draining = PartitionMap("a", ["b"])
    assert draining.count == 0
    run_id = SystemIds().run_id()
    assert not draining.owns(run_id)
    assert draining.owner(run_id) == "b"


def test_drawn_and_derived_ids_spread_over_all_partitions():
    drawn = Counter(partition_of(SystemIds().run_id()) for _ in range(20_000))
    derived = Counter(partition_of(derived_run_id(1, "parent", str(number))) for number in range(20_000))
    for found in (drawn, derived):
        assert len(found) == PARTITIONS
        assert max(found.values()) < 3 * 20_000 / PARTITIONS
