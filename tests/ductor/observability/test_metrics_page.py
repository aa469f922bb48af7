"""The reference page lists the metrics that there are."""

import re
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

from ductor.observability import gauges
from ductor.observability.labels import MAX_DEFINITIONS, MAX_QUEUES, MAX_TASKS, MAX_TENANTS
from ductor.observability.metrics import Metrics
from ductor.observability.worker_metrics import WorkerMetrics

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"


def test_every_metric_is_on_the_page_and_no_other():
    counted = {}
    for family in (*Metrics().collect(), *WorkerMetrics().collect()):
        assert isinstance(family, CounterMetricFamily | HistogramMetricFamily)
        name = f"{family.name}_total" if isinstance(family, CounterMetricFamily) else family.name
        counted[name] = ", ".join(family._labelnames)
    looked_up = set(re.findall(r'put\(\s*"(\w+)"', Path(gauges.__file__).read_text()))
    rows = [re.split(r" *\| *", line.strip("| ")) for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    on_page = {row[0].strip("`"): row[2] for row in rows if row[1] in ("counter", "histogram")}
    assert on_page == counted
    assert {row[0].strip("`") for row in rows} - set(on_page) == {f"ductor_{name}" for name in looked_up}


def test_the_bounds_on_the_page_are_those_of_the_source():
    text = PAGE.read_text()
    for bound in (f"{MAX_DEFINITIONS} definitions", f"{MAX_TASKS} handlers", f"{MAX_TENANTS} tenants"):
        assert bound in text
    assert f"{MAX_QUEUES} queues" in text
