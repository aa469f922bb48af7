"""Who lives, concluded from rows of heartbeats."""

from ductor.actors.membership import ANY_TIME_US, BEATS_THAT_TELL, BURIED_AFTER_US, Membership, Observation
from ductor.actors.partitions import PartitionMap
from ductor.journal.partitions import PARTITIONS
from ductor.journal.records import HostRecord

ALIVE_US = 3_000_000
SECOND_US = 1_000_000


LONG_AGO_US = -3_600 * SECOND_US


def row(
    host_id: str,
    at_us: int,
    *,
    started_at_us: int = LONG_AGO_US,
    is_draining: bool = False,
    guests: tuple[str, ...] = (),
) -> HostRecord:
    return HostRecord(
        host_id=host_id, started_at_us=started_at_us, heartbeat_at_us=at_us, is_draining=is_draining, guests=guests
    )


def member() -> Membership:
    return Membership("me", ALIVE_US)


def rows_at(at_us: int, *others: HostRecord) -> list[HostRecord]:
    return [row("me", at_us), *others]


def test_a_host_alone_gains_everything_and_takes_over_from_nobody():
    seen = member().observe(rows_at(0))
    assert seen.partitions.owned is None
    assert seen.gained == frozenset(range(PARTITIONS))
    assert (seen.others, seen.gone, seen.taken_over) == (frozenset(), frozenset(), frozenset())


def test_a_host_that_comes_shares_and_one_whose_heartbeat_is_old_is_gone():
    membership = member()
    membership.observe(rows_at(0))
    shared = membership.observe(rows_at(SECOND_US, row("other", SECOND_US)))
    assert shared.others == {"other"}
    assert 0 < shared.partitions.count < PARTITIONS
    for second in (2, 3, 4):
        still = membership.observe(rows_at(second * SECOND_US, row("other", SECOND_US)))
        assert still.others == {"other"}
    gone = membership.observe(rows_at(4 * SECOND_US + 1, row("other", SECOND_US)))
    assert gone.gone == {"other"}
    assert gone.taken_over == gone.gained == frozenset(range(PARTITIONS)) - shared.partitions.of("me")


def test_a_host_that_left_in_order_is_gone_at_once_and_nothing_is_taken_over_from_it():
    membership = member()
    shared = membership.observe(rows_at(0, row("other", 0)))
    left = membership.observe(rows_at(SECOND_US))
    assert left.gone == {"other"}
    assert left.gained == shared.partitions.of("other")
    assert (left.dead, left.taken_over) == (frozenset(), frozenset())


def test_who_was_away_can_not_tell_who_left_in_order_from_who_died_and_was_buried():
    membership = member()
    membership.observe(rows_at(0, row("other", 0)))
    back = membership.observe(rows_at(100 * SECOND_US))
    assert back.was_away
    assert back.dead == back.gone == {"other"}
    assert back.taken_over


def test_who_drains_owns_nothing_and_is_not_taken_over_from_yet():
    membership = member()
    membership.observe(rows_at(0, row("other", 0)))
    draining = row("other", SECOND_US, is_draining=True, guests=("run/a/1",))
    seen = membership.observe(rows_at(SECOND_US, draining))
    assert seen.partitions.owned is None
    assert seen.others == {"other"}
    assert (seen.gone, seen.taken_over) == (frozenset(), frozenset())
    assert seen.elsewhere == {"run/a/1"}


def test_attempts_that_another_host_holds_no_more_are_released():
    membership = member()
    membership.observe(rows_at(0, row("other", 0, guests=("run/a/1", "run/b/1"))))
    seen = membership.observe(rows_at(SECOND_US, row("other", SECOND_US, guests=("run/b/1",))))
    assert seen.released == {"run/a/1"}
    assert membership.observe(rows_at(2 * SECOND_US)).released == {"run/b/1"}


def test_an_absence_of_the_database_makes_nobody_dead():
    """All heartbeats are as old as the absence; whoever beats first must not take over from all others."""
    membership = member()
    membership.observe(rows_at(0, row("other", 0)))
    back_us = 600 * SECOND_US
    seen = membership.observe(rows_at(back_us, row("other", 0)))
    assert seen.was_away
    assert seen.others == {"other"}
    assert not seen.gone
    assert not seen.to_bury
    seen = membership.observe(rows_at(back_us + SECOND_US, row("other", back_us + SECOND_US)))
    assert seen.others == {"other"}
    assert not seen.was_away


def test_one_that_does_not_come_back_with_the_database_is_gone_after_its_time():
    membership = member()
    membership.observe(rows_at(0, row("other", 0)))
    back_us = 600 * SECOND_US
    for after_us in (0, SECOND_US, 2 * SECOND_US):
        assert membership.observe(rows_at(back_us + after_us, row("other", 0))).others == {"other"}
    assert membership.observe(rows_at(back_us + ALIVE_US, row("other", 0))).gone == {"other"}


def test_who_stood_still_recovers_all_that_is_his():
    membership = member()
    first = membership.observe(rows_at(0, row("other", 0)))
    again = membership.observe(rows_at(10 * SECOND_US, row("other", 10 * SECOND_US)))
    assert again.was_away
    assert again.gained == first.partitions.of("me")


def test_who_starts_gives_time_to_those_that_may_be_late():
    membership = member()
    late = row("late", -10 * SECOND_US)
    assert membership.observe(rows_at(0, late)).others == {"late"}
    for second in (1, 2):
        assert membership.observe(rows_at(second * SECOND_US, late)).gone == frozenset()
    seen = membership.observe(rows_at(ALIVE_US, late))
    assert seen.gone == {"late"}
    assert seen.taken_over


def test_who_starts_takes_over_at_once_from_those_that_are_dead():
    killed, ancient = row("killed", -1), row("ancient", -BURIED_AFTER_US - 1)
    seen = member().observe(rows_at(0, killed, ancient, row("alive", 0)), known_dead=["killed"])
    assert seen.others == {"alive"}
    assert seen.gone == {"killed", "ancient"}
    assert seen.taken_over
    assert seen.taken_over < seen.partitions.of("me")
    assert seen.to_bury == ("ancient",)


def test_who_comes_takes_over_what_a_dead_host_held_without_knowing_of_it():
    """A host that dies before it has seen others come has told nobody of what it held for them."""
    held = PartitionMap("other", ["other", "old"]).owned
    assert held is not None
    membership = member()

    def seen_at(second: int) -> Observation:
        at_us = second * SECOND_US
        came = [row(name, at_us, started_at_us=SECOND_US) for name in ("me", "new")]
        return membership.observe([*came, row("other", 0), row("old", at_us)])

    assert (seen_at(1).taken_over, seen_at(3).taken_over) == (frozenset(), frozenset())
    gone = seen_at(5)
    assert gone.gone == {"other"}
    assert gone.taken_over == gone.partitions.of("me") & held
    assert gone.taken_over > gone.gained


def test_after_a_death_all_is_looked_over_once_the_others_have_told_what_they_hold():
    """The dead host may have held attempts of runs that it did not own, and told nobody of the last ones."""
    membership = member()
    looked_over_before_us = []
    for second in range(4 + BEATS_THAT_TELL + 3):
        at_us = second * SECOND_US
        seen = membership.observe(rows_at(at_us, row("dies", 0), row("lives", at_us), row("late", at_us // 2)))
        looked_over_before_us.append(seen.look_over_before_us)
    assert looked_over_before_us == [None] * (4 + BEATS_THAT_TELL) + [4 * SECOND_US, None, None]


def test_nobody_waits_for_a_host_that_goes_before_it_has_told_what_it_holds():
    membership = member()
    seen = []
    for second in range(8):
        at_us = second * SECOND_US
        leaves = [row("leaves", SECOND_US)] if second < 5 else []
        seen.append(membership.observe(rows_at(at_us, row("dies", 0), row("lives", at_us), *leaves)))
    assert [one.gone for one in seen[4:]] == [{"dies"}, {"leaves"}, frozenset(), frozenset()]
    assert [one.look_over_before_us for one in seen[4:]] == [None, None, 4 * SECOND_US, None]


def test_who_left_in_order_leaves_nothing_to_look_over():
    membership = member()
    membership.observe(rows_at(0, row("left", 0), row("lives", 0)))
    for second in range(1, 6):
        seen = membership.observe(rows_at(second * SECOND_US, row("lives", second * SECOND_US)))
        assert seen.look_over_before_us is None


def test_a_host_that_is_left_alone_looks_over_at_once_what_it_does_not_take_over():
    membership = member()
    seen = [membership.observe(rows_at(second * SECOND_US, row("other", 0))) for second in range(5)][-1]
    assert seen.taken_over < seen.partitions.of("me")
    assert seen.look_over_before_us == 4 * SECOND_US
    begins = member().observe([row("me", 0, started_at_us=0), row("killed", -1)], known_dead=["killed"])
    assert begins.taken_over == begins.partitions.of("me")
    assert begins.look_over_before_us is None


def test_partitions_are_unsettled_until_who_had_them_has_told_what_it_holds():
    membership = member()
    before = membership.observe(rows_at(0, row("other", 0)))
    settled = [membership.observe(rows_at(second * SECOND_US, row("other", second * SECOND_US))) for second in (1, 2)]
    assert settled[-1].unsettled == frozenset()
    handed_on = before.partitions.of("other")
    seen = []
    for second in range(3, 4 + BEATS_THAT_TELL):
        at_us = second * SECOND_US
        drains = row("other", at_us, is_draining=True)
        seen.append(membership.observe(rows_at(at_us, drains)).unsettled)
    assert seen == [handed_on] * BEATS_THAT_TELL + [frozenset()]


def test_a_heartbeat_that_is_seen_twice_tells_nothing_new():
    membership = member()
    membership.observe(rows_at(0, row("other", 0)))
    drains = row("other", 0, is_draining=True)
    seen = [membership.observe(rows_at(tenth * SECOND_US // 10, drains)).unsettled for tenth in range(1, 20)]
    assert all(seen)


def test_who_comes_knows_of_nothing_that_others_hold_yet():
    membership = member()
    seen = [
        membership.observe(rows_at(second * SECOND_US, row("other", second * SECOND_US)))
        for second in range(BEATS_THAT_TELL + 1)
    ]
    assert [one.unsettled for one in seen] == [one.partitions.of("me") for one in seen[:-1]] + [frozenset()]


def test_partitions_that_went_through_other_hands_wait_for_all_who_had_them():
    membership = member()
    membership.observe(rows_at(0, row("first", 0)))
    for second in (1, 2):
        membership.observe(rows_at(second * SECOND_US, row("first", second * SECOND_US)))
    second_comes = membership.observe(rows_at(3 * SECOND_US, row("first", 2 * SECOND_US), row("second", 3 * SECOND_US)))
    handed_on = PartitionMap("me", ["me", "first"]).of("first") & second_comes.partitions.of("second")
    assert handed_on <= second_comes.unsettled
    left = membership.observe(rows_at(4 * SECOND_US, row("first", 2 * SECOND_US, is_draining=True)))
    assert handed_on <= left.unsettled
    assert left.partitions.owned is None


def test_nobody_waits_for_what_the_dead_would_have_told():
    membership = member()
    membership.observe(rows_at(0, row("other", 0)))
    membership.observe(rows_at(SECOND_US, row("other", 0, is_draining=True)))
    seen = [membership.observe(rows_at(second * SECOND_US, row("other", 0, is_draining=True))) for second in (2, 3, 4)]
    assert [bool(one.unsettled) for one in seen] == [True, True, False]
    assert seen[-1].dead == {"other"}


def test_what_is_younger_than_the_last_but_one_heartbeat_of_any_host_may_be_held_untold():
    membership = member()
    seen = []
    for second in range(4):
        at_us = second * SECOND_US
        late = row("late", 2 * second // 3 * SECOND_US, started_at_us=-5)
        seen.append(membership.observe(rows_at(at_us, row("other", at_us, started_at_us=-9), late)).told_until_us)
    # of `late` the heartbeats are 0, 0, 1, 2 seconds old
    assert seen == [-9, -5, 0, SECOND_US]
    assert member().observe(rows_at(0)).told_until_us == ANY_TIME_US


def test_who_starts_with_a_clock_that_is_ahead_has_told_of_nothing_later_than_its_heartbeat():
    ahead = row("other", SECOND_US, started_at_us=3_600 * SECOND_US)
    assert member().observe(rows_at(SECOND_US, ahead)).told_until_us == SECOND_US
