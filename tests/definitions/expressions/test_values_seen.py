"""What an expression is said to read."""

import pytest

from ductor.definitions.expressions import MappingActivation
from ductor.definitions.expressions.values_seen import MAX_VALUES_SEEN, SeenValue, values_seen
from ductor.definitions.values import JsonObject

VARIABLES: JsonObject = {
    "trigger": {"total": 7, "lines": [{"sku": "a"}], "odd-key": True},
    "steps": {"pay": {"output": {"ok": True}}},
}


def seen(source: str) -> list[SeenValue]:
    return values_seen(source, MappingActivation(VARIABLES))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("trigger.total > 3", [SeenValue("trigger.total", 7)]),
        ("trigger.lines[0].sku == 'b'", [SeenValue("trigger.lines[0].sku", "a")]),
        (
            'trigger["odd-key"] && steps.pay.output.ok',
            [SeenValue('trigger["odd-key"]', True), SeenValue("steps.pay.output.ok", True)],
        ),
        ("trigger.total + trigger.total", [SeenValue("trigger.total", 7)]),
        ("trigger.lines.exists(line, line.sku == 'a')", [SeenValue("trigger.lines", [{"sku": "a"}])]),
        ("type(trigger.total) == int", [SeenValue("trigger.total", 7)]),
        ("1 < 2", []),
    ],
)
def test_each_path_is_read_once(source: str, expected: list[SeenValue]):
    assert seen(source) == expected


@pytest.mark.parametrize("source", ["trigger.none.at_all > 1", "has(trigger.none)"])
def test_a_path_that_leads_nowhere_says_so(source: str):
    (found,) = seen(source)
    assert found.value is None
    assert "none" in found.problem


def test_the_paths_are_bounded():
    source = " + ".join(f"trigger.k{number}" for number in range(MAX_VALUES_SEEN + 5))
    assert len(seen(source)) == MAX_VALUES_SEEN
