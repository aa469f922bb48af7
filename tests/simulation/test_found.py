"""Every fault that the simulation has found in the engine, as the shortest campaign that showed it.

The plans are kept whole and not as seeds, so that they stay what they are when the drawing of plans changes.
"""

from pathlib import Path

import msgspec
import pytest

from scripts.simulation.campaign import run_campaign
from scripts.simulation.plan import Plan

FOUND = sorted((Path(__file__).parent / "found").glob("*.json"))


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_a_fault_that_was_found_stays_mended(path: Path) -> None:
    plan = msgspec.json.decode(path.read_bytes(), type=Plan)
    outcome = run_campaign(plan)
    assert outcome.violations == []


def test_there_are_some() -> None:
    assert FOUND
