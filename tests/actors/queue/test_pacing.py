"""How often to look at what tells nobody when it changes."""

from hypothesis import given
from hypothesis import strategies as st

from ductor.actors.queue.pacing import BUSY_PAUSE_MS, QUIET_SHARE, Pacing

IDLE_MS = 1_000


def looks_until(end_s: float, pacing: Pacing) -> int:
    """How many looks begin before a time."""
    now_s, count = 0.0, 0
    while now_s < end_s:
        now_s += pacing.pause_ms(now_s) / 1_000
        count += 1
    return count


def test_who_has_never_seen_anything_looks_seldom():
    assert Pacing(IDLE_MS).pause_ms(5.0) == IDLE_MS


def test_after_something_has_happened_looks_are_frequent_and_become_seldom():
    pacing = Pacing(IDLE_MS)
    pacing.stirred(10.0)
    assert [pacing.pause_ms(now_s) for now_s in (10.0, 10.4, 12.0, 20.0, 30.0, 500.0)] == [20, 20, 100, 500, 1000, 1000]


def test_one_stir_costs_a_bounded_number_of_looks():
    pacing = Pacing(IDLE_MS)
    pacing.stirred(0.0)
    assert looks_until(20.0, pacing) < 120
    pacing.stirred(0.0)
    assert looks_until(1_000.0, pacing) < 120 + 980


@given(st.floats(0, 1e6), st.floats(0, 1e6))
def test_a_pause_is_a_share_of_the_quiet_time_within_bounds(stirred_at_s: float, quiet_s: float):
    pacing = Pacing(IDLE_MS)
    pacing.stirred(stirred_at_s)
    pause_ms = pacing.pause_ms(stirred_at_s + quiet_s)
    assert BUSY_PAUSE_MS <= pause_ms <= IDLE_MS
    assert pause_ms <= max(BUSY_PAUSE_MS, quiet_s * 1_000 / QUIET_SHARE + 1)
