"""Names of guests that are wanted no more: told until whoever holds them lets go, and bounded."""

import pytest

from ductor.actors import withdrawn as module
from ductor.actors.withdrawn import BEATS_KEPT, WithdrawnGuests


async def test_a_name_is_told_while_somebody_holds_it_and_for_some_beats_more():
    names = WithdrawnGuests()
    names.add("a")
    assert names.is_new.is_set()
    for _ in range(10):
        assert names.tell() == ("a",)
        names.told({"a", "b"})
    assert not names.is_new.is_set()
    for _ in range(BEATS_KEPT):
        assert names.tell() == ("a",)
        names.told(())
    assert names.tell() == ()


async def test_what_is_known_is_no_news():
    names = WithdrawnGuests()
    names.add("a")
    names.tell()
    names.add("a")
    assert not names.is_new.is_set()


async def test_the_oldest_name_makes_room(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MAX_WITHDRAWN", 2)
    names = WithdrawnGuests()
    for token in ("a", "b", "c"):
        names.add(token)
    assert names.tell() == ("b", "c")
