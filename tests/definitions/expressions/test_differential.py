"""Generated expressions over generated data: the engines agree, and none contradicts CEL's own C++ runtime.

That runtime is asked twice: as our engine uses it, and directly, with the text as written and all data bound. Directly
it refuses more than we do (numbers of different types, presence below null); where it gives a value, ours is the same.
"""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from ductor.definitions.expressions.engine import Engine
from tests.definitions.expressions.conftest import engine_named
from tests.definitions.expressions.evaluating import exact, outcome
from tests.definitions.expressions.generating import DATA, expressions

EXAMPLES = 300


@pytest.fixture(scope="module")
def portable() -> Engine:
    return engine_named("portable")


@pytest.fixture(scope="module", params=["cel-python", "cel-expr"])
def other(request: pytest.FixtureRequest) -> Engine:
    return engine_named(request.param)


@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(source=expressions(with_default=True), data=DATA)
def test_all_engines_give_the_same_value_or_the_same_failure(
    source: str, data: dict[str, Any], portable: Engine, other: Engine
) -> None:
    assert exact(outcome(source, data, other)) == exact(outcome(source, data, portable))


@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(source=expressions(), data=DATA)
def test_a_value_of_the_runtime_itself_is_ours_too(source: str, data: dict[str, Any], portable: Engine) -> None:
    cel = pytest.importorskip("cel_expr_python.cel", reason="cel-expr-python has no wheel for this platform")
    environment = cel.NewEnv(variables=dict.fromkeys(data, cel.Type.DYN))
    try:
        result = environment.compile(source).eval(data=data)
    except RuntimeError:  # its type checker refuses more than we do
        return
    if result.type() != cel.Type.ERROR:
        assert exact(outcome(source, data, portable)) == exact(("value", result.plain_value()))
