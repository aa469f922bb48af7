"""The engines, each of which every test of meaning runs on."""

import pytest

from ductor.definitions.expressions.engine import Engine
from ductor.definitions.expressions.select_engine import ENGINES, select_engine


def engine_named(name: str) -> Engine:
    """The engine, or a skipped test where its wheel does not exist."""
    if name == "cel-expr":
        pytest.importorskip("cel_expr_python", reason="cel-expr-python has no wheel for this platform")
    return select_engine(name)


@pytest.fixture(scope="session", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Engine:
    return engine_named(request.param)
