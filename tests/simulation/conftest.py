"""What holds for every simulated campaign."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A host that is dropped dead never awaits what it was about to do; Python warns of that when it is forgotten."""
    forgotten = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(forgotten)
