"""Our counters say on Prometheus' page what Prometheus' own would."""

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from ductor.observability.counting import CounterSet, HistogramSet
from tests.ductor.observability.http import parsed

BOUNDS = (0.1, 1, 5.0)


class One(Collector):
    def __init__(self, kept: CounterSet | HistogramSet) -> None:
        self._kept = kept

    def collect(self):
        return [self._kept.family()]


@given(st.lists(st.one_of(st.floats(0, 10), st.sampled_from(BOUNDS)), max_size=20))
def test_a_histogram_is_that_of_the_library(values: list[float]):
    ours, registry = HistogramSet("h", "text", BOUNDS), CollectorRegistry()
    theirs = Histogram("h", "text", buckets=BOUNDS, registry=registry)
    for value in values:
        ours.add(value)
        theirs.observe(value)
    expected = {key: value for key, value in parsed(generate_latest(registry)).items() if key[0] != "h_created"}
    assert parsed(generate_latest(One(ours))) == expected


def test_counters_are_kept_by_labels_and_one_without_labels_begins_at_nought():
    counters = CounterSet("c", "text", ("a", "b"))
    for labels in (("x", "1"), ("x", "2"), ("x", "1")):
        counters.add(labels)
    assert parsed(generate_latest(One(counters))) == {
        ("c_total", frozenset({("a", "x"), ("b", "1")})): 2,
        ("c_total", frozenset({("a", "x"), ("b", "2")})): 1,
    }
    assert parsed(generate_latest(One(CounterSet("d", "text")))) == {("d_total", frozenset()): 0}
