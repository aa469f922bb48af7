"""Removals that wait for a tier: in batches of one queue, and bounded."""

import pytest

from ductor.actors.queue import removals as module
from ductor.actors.queue.distributed import MAX_ITEMS_PER_CALL
from ductor.actors.queue.removals import Removals


def test_they_come_by_queue_as_many_as_one_call_takes():
    removals = Removals()
    removals.add([("a", "1"), ("b", "2"), ("a", "3")])
    assert removals.first() == ("a", ["1", "3"])
    removals.discard("a", ["1", "3"])
    assert removals.first() == ("b", ["2"])
    removals.add(("b", str(number)) for number in range(2 * MAX_ITEMS_PER_CALL))
    first = removals.first()
    assert first is not None
    assert len(first[1]) == MAX_ITEMS_PER_CALL
    removals.discard("b", [str(number) for number in range(2 * MAX_ITEMS_PER_CALL)])
    assert removals.first() is None


def test_the_oldest_make_room(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    monkeypatch.setattr(module, "MAX_REMEMBERED", 2)
    removals = Removals()
    removals.add([("a", "1"), ("a", "2"), ("a", "3")])
    assert removals.first() == ("a", ["2", "3"])
    assert "1 items that are done may be delivered once more" in caplog.text
