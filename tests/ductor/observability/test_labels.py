"""However many names users make up, a label has so many values."""

from ductor.observability.labels import OTHER, BoundedNames


def test_names_beyond_the_bound_are_one():
    names = BoundedNames(2)
    assert [names(name) for name in ("a", "b", "c", "a", "d", "b")] == ["a", "b", OTHER, "a", OTHER, "b"]
    assert names.known == {"a", "b"}
