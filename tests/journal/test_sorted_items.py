from hypothesis import given
from hypothesis import strategies as st

from ductor.journal.sorted_items import MIN_LISTED_BEFORE_SWEEP, SortedItems

items = st.tuples(st.integers(0, 5), st.sampled_from("abc"))
steps = st.lists(st.tuples(st.booleans(), items), max_size=60)


@given(steps, items)
def test_it_behaves_like_a_sorted_set(changes, bound):
    model: set[tuple[int, str]] = set()
    tested: SortedItems[tuple[int, str]] = SortedItems()
    for is_added, item in changes:
        (model.add if is_added else model.discard)(item)
        (tested.add if is_added else tested.discard)(item)
        assert (item in tested) == (item in model)
    assert len(tested) == len(model)
    assert list(tested.ascending()) == sorted(model)
    assert list(tested.descending()) == sorted(model, reverse=True)
    assert list(tested.ascending(bound)) == [item for item in sorted(model) if item > bound]
    assert list(tested.descending(bound)) == [item for item in sorted(model, reverse=True) if item < bound]


def test_what_was_removed_is_forgotten_in_the_end():
    tested: SortedItems[str] = SortedItems()
    for n in range(10_000):
        tested.add(f"{n:05}")
        tested.discard(f"{n - 10:05}")
    assert list(tested.ascending()) == [f"{n:05}" for n in range(9_990, 10_000)]
    assert len(tested._listed) <= MIN_LISTED_BEFORE_SWEEP + 1
    assert len(tested._removed) <= MIN_LISTED_BEFORE_SWEEP + 1
