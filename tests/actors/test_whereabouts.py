"""What may be issued again: nothing that another host may have."""

import pytest

from ductor.actors.membership import ANY_TIME_US, Membership, Observation
from ductor.actors.messages import Assignment
from ductor.actors.partitions import PartitionMap
from ductor.actors.whereabouts import Whereabouts
from ductor.journal.partitions import partition_of
from ductor.journal.records import HostRecord
from tests.actors.pools import assignment

ALONE = PartitionMap("me", ["me"])
SHARED = PartitionMap("me", ["me", "other"])
SECOND_US = 1_000_000


def run_of(owner: str) -> str:
    return next(run_id for run_id in map("{:02x}".format, range(256)) if SHARED.owner(run_id) == owner)


def attempt(run_id: str, *, at_us: int = 0, number: int = 1) -> Assignment:
    return assignment("work", run_id=run_id, number=number, dispatched_at_us=at_us, is_redelivery=True)


def observation(
    *,
    partitions: PartitionMap = SHARED,
    elsewhere: tuple[str, ...] = (),
    unsettled: tuple[int, ...] = (),
    told_until_us: int = ANY_TIME_US,
) -> Observation:
    seen = Membership("me", 3 * SECOND_US).observe([HostRecord(host_id="me", started_at_us=0, heartbeat_at_us=0)])
    changes = {"partitions": partitions, "elsewhere": frozenset(elsewhere), "unsettled": frozenset(unsettled)}
    return Observation(
        **{name: getattr(seen, name) for name in Observation.__struct_fields__}
        | changes
        | {"told_until_us": told_until_us}
    )


def test_who_is_alone_issues_anything_again():
    assert Whereabouts().may_issue_again(attempt("ab", at_us=2**62), ALONE)


def test_what_another_host_holds_or_owns_is_left_alone():
    whereabouts = Whereabouts()
    mine, theirs = attempt(run_of("me")), attempt(run_of("other"))
    whereabouts.told(observation(elsewhere=(mine.token,)))
    assert not whereabouts.may_issue_again(mine, SHARED)
    assert not whereabouts.may_issue_again(theirs, SHARED)
    assert not whereabouts.holds_back
    assert whereabouts.told(observation()) == []
    assert whereabouts.may_issue_again(mine, SHARED)


def test_what_was_offered_in_vain_is_offered_again_once_whoever_owns_the_run():
    whereabouts = Whereabouts()
    theirs = attempt(run_of("other"))
    whereabouts.offered_in_vain(theirs.token)
    assert whereabouts.was_offered_in_vain(theirs.token)
    assert not whereabouts.was_offered_in_vain(theirs.token)
    assert not whereabouts.may_issue_again(theirs, SHARED)


def test_what_others_have_not_told_of_yet_is_held_back_until_they_have():
    whereabouts, run_id = Whereabouts(), run_of("me")
    for dispatched_at_us, told in (
        (5, observation(unsettled=(partition_of(run_id),))),
        (SECOND_US, observation(told_until_us=SECOND_US)),
    ):
        whereabouts.told(told)
        assert not whereabouts.may_issue_again(attempt(run_id, at_us=dispatched_at_us), SHARED)
        assert whereabouts.told(told) == []
        assert whereabouts.holds_back
        assert whereabouts.told(observation(told_until_us=SECOND_US + 1)) == [run_id]
        assert whereabouts.may_issue_again(attempt(run_id, at_us=dispatched_at_us), SHARED)


def test_a_run_waits_for_the_youngest_of_its_attempts():
    whereabouts, run_id = Whereabouts(), run_of("me")
    whereabouts.told(observation(told_until_us=0))
    for number, at_us in enumerate((3, 9, 6)):
        assert not whereabouts.may_issue_again(attempt(run_id, at_us=at_us, number=number), SHARED)
    assert whereabouts.told(observation(told_until_us=9)) == []
    assert whereabouts.told(observation(told_until_us=10)) == [run_id]


def test_a_run_that_gets_another_owner_is_held_back_no_more():
    whereabouts, run_id = Whereabouts(), run_of("other")
    whereabouts.told(observation(partitions=ALONE, told_until_us=0))
    assert not whereabouts.may_issue_again(attempt(run_id), ALONE)
    assert whereabouts.told(observation(told_until_us=0)) == []
    assert not whereabouts.holds_back


def test_no_more_is_remembered_than_the_bounds_allow(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ductor.actors.whereabouts.MAX_HELD_BACK", 2)
    monkeypatch.setattr("ductor.actors.whereabouts.MAX_OFFERED_IN_VAIN", 2)
    whereabouts = Whereabouts()
    whereabouts.told(observation(partitions=ALONE, told_until_us=0))
    for run_id in ("00", "01", "02", "01"):
        assert not whereabouts.may_issue_again(attempt(run_id), ALONE)
    assert whereabouts.told(observation(partitions=ALONE)) == ["00", "01"]
    theirs = [attempt(run_of("other"), number=number) for number in range(3)]
    for one in theirs:
        whereabouts.offered_in_vain(one.token)
    assert [whereabouts.was_offered_in_vain(one.token) for one in theirs] == [False, True, True]
