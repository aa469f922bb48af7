"""The machine's clock, corrected to the database's."""

from ductor.journal.clock import MAX_CLOCK_ERROR_US, SystemClock

SECOND_US = 1_000_000


class Machine:
    """Two clocks to set."""

    def __init__(self) -> None:
        self.wall_us, self.monotonic_us = 100 * SECOND_US, 5 * SECOND_US

    def clock(self) -> SystemClock:
        return SystemClock(lambda: self.wall_us * 1_000, lambda: self.monotonic_us * 1_000)


def test_setting_the_wall_clock_moves_nothing() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.wall_us += 3_600 * SECOND_US
    assert clock.now_us() == 100 * SECOND_US
    machine.monotonic_us += 7
    assert clock.now_us() == 100 * SECOND_US + 7


def test_the_database_corrects_it() -> None:
    machine = Machine()
    clock = machine.clock()
    clock.synchronise(200 * SECOND_US, clock.uncorrected_us(), clock.uncorrected_us())
    assert clock.now_us() == 200 * SECOND_US
    assert clock.uncorrected_us() == 100 * SECOND_US


def test_a_reading_that_was_long_under_way_is_taken_only_where_there_is_no_better_one() -> None:
    clock = Machine().clock()
    sent_us = clock.uncorrected_us()
    clock.synchronise(200 * SECOND_US, sent_us, sent_us + 4 * SECOND_US)
    assert clock.error_us == 2 * SECOND_US
    clock.synchronise(300 * SECOND_US, sent_us, sent_us + 2 * MAX_CLOCK_ERROR_US)
    assert clock.error_us == MAX_CLOCK_ERROR_US
    before = clock.offset_us
    clock.synchronise(400 * SECOND_US, sent_us, sent_us + 4 * SECOND_US)
    assert (clock.offset_us, clock.error_us) == (before, MAX_CLOCK_ERROR_US)
    clock.synchronise(500 * SECOND_US, sent_us, sent_us)
    assert clock.error_us == 0


def test_readings_that_contradict_nothing_leave_the_clock_alone() -> None:
    """A busy database answers late, on either way: that moves no timer."""
    clock = Machine().clock()
    sent_us = clock.uncorrected_us()
    clock.synchronise(200 * SECOND_US + 100, sent_us, sent_us + 200)
    known = (clock.offset_us, clock.error_us)
    for way_us in (0, 20_000, 40_000):
        clock.synchronise(200 * SECOND_US + way_us, sent_us, sent_us + 40_000)
        assert (clock.offset_us, clock.error_us) == known


def test_a_reading_that_is_better_or_contradicts_is_taken() -> None:
    clock = Machine().clock()
    sent_us = clock.uncorrected_us()
    clock.synchronise(200 * SECOND_US, sent_us, sent_us + 400)
    clock.synchronise(200 * SECOND_US, sent_us, sent_us + 100)
    assert (clock.now_us(), clock.error_us) == (200 * SECOND_US - 50, 50)
    clock.synchronise(201 * SECOND_US, sent_us, sent_us + 40_000)  # the database has moved to another machine
    assert (clock.now_us(), clock.error_us) == (201 * SECOND_US - 20_000, 20_000)
