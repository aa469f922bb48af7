"""Strikes are planned from a seed alone, and each of them as often as was asked for."""

from collections import Counter

from scripts.chaos_run.plan import DURATIONS_S, STRIKES, Strike, planned

COUNTS: dict[Strike, int] = {"host-kill": 30, "postgres-kill": 6, "stall": 4}


def test_the_same_seed_gives_the_same_strikes_and_another_one_others():
    assert planned(COUNTS, 1) == planned(COUNTS, 1)
    assert [strike.kind for strike in planned(COUNTS, 1)] != [strike.kind for strike in planned(COUNTS, 2)]


def test_each_kind_comes_as_often_as_wanted():
    assert Counter(strike.kind for strike in planned(COUNTS, 1)) == Counter(COUNTS)
    assert planned({}, 1) == []


def test_times_grow_and_durations_keep_their_bounds():
    plan = planned(dict.fromkeys(STRIKES, 20), 3)
    times = [strike.at for strike in plan]
    assert times == sorted(times)
    assert 0 <= times[0] < times[-1] <= 1
    for strike in plan:
        shortest_s, longest_s = DURATIONS_S.get(strike.kind, (0.0, 0.0))
        assert shortest_s <= strike.duration_s <= longest_s
        assert 0 <= strike.draw < 1
