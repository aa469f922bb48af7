"""Which engine evaluates, and what the C++ runtime is given."""

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from ductor.definitions.expressions import STANDARD_LIBRARY, compile_expression
from ductor.definitions.expressions.cel_expr_source import MAX_GROWING_ITEMS, CelExprEmitter
from ductor.definitions.expressions.emitter import MAX_INPUTS, MAX_JOINS, Unsupported
from ductor.definitions.expressions.engine import Engine
from ductor.definitions.expressions.parse import parse
from ductor.definitions.expressions.select_engine import ENGINE_VARIABLE, ENGINES, chosen_engine, select_engine
from tests.definitions.expressions.conftest import engine_named
from tests.definitions.expressions.evaluating import outcome


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    chosen_engine.cache_clear()
    yield monkeypatch
    chosen_engine.cache_clear()


def test_the_portable_engine_is_chosen_unless_the_environment_names_another(
    environment: pytest.MonkeyPatch,
) -> None:
    environment.delenv(ENGINE_VARIABLE, raising=False)
    assert chosen_engine().name == "portable"


@pytest.mark.parametrize("name", ENGINES)
def test_the_environment_names_the_engine(name: str, environment: pytest.MonkeyPatch) -> None:
    engine_named(name)
    environment.setenv(ENGINE_VARIABLE, name)
    assert chosen_engine().name == name
    assert compile_expression("a.b + 1").evaluate({"a": {"b": 1}}) == 2


def test_an_engine_that_does_not_exist_is_refused(environment: pytest.MonkeyPatch) -> None:
    environment.setenv(ENGINE_VARIABLE, "quick")
    with pytest.raises(ValueError, match="no expression engine 'quick'"):
        chosen_engine()


def test_no_runtime_is_imported_that_is_not_asked_for() -> None:
    program = (
        "import sys; from ductor.definitions.expressions import compile_expression as c;"
        "c('a.b + 1').evaluate({'a': {'b': 1}}); print({'celpy', 'cel_expr_python'} & set(sys.modules))"
    )
    unset = {name: value for name, value in os.environ.items() if name != ENGINE_VARIABLE}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=unset)
    assert done.stdout == "set()\n"


def emitted(source: str) -> str | None:
    try:
        return CelExprEmitter().emit(parse(source), {})
    except Unsupported:
        return None


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("a.b.c > 1 && d.e", "((v0 > 1) && v1)"),
        ("a.b == 'x \"y\"\\n'", '(v0 == "x \\"y\\"\\n")'),
        ("has(a.b.c) ? -a.b.c : default(a.d, 2.5)", "(v0 ? (-(v1)) : (v2 ? v3 : (2.5)))"),
        ("a.items.filter(i, i.n > 1).map(j, j.`odd key`)", 'v0.filter(x0, (x0.n > 1)).map(x1, x1["odd key"])'),
        ("a.items.all(i, has(i.n.m))", "v0.all(x0, has(x0.n.m))"),
        ("a.items.exists(i, i.s in ['x', 'y'])", 'v0.exists(x0, (x0.s in ["x", "y"]))'),
        ("size(a.b) + 1 - -2", "((size(v0) + 1) - (-2))"),
        ("a.b.contains('x')", 'v0.contains("x")'),
        ("{'k': [a.b, null, true]}", '{"k": [v0, null, true]}'),
        ("a.b[c.d]", "v0[v1]"),
    ],
)
def test_the_runtime_gets_the_expression_with_its_paths_as_inputs(source: str, text: str) -> None:
    assert emitted(source) == text


@pytest.mark.parametrize(
    "source",
    [
        "a.b.matches('x')",  # the runtime does not price patterns
        "a.items.all(i, i.s.contains('x'))",  # nor text in loops
        "a.items.all(i, i.s == a.s)",
        "a.items.all(i, i in a.items)",
        "a.items.map(i, i.s + 'x')",
        "a.items.map(i, a.items)",
        "a.items.map(i, [i, i])",
        "a.items.map(i, a.items.map(j, j))",
        "a.items.map(i, i.tags.filter(j, j > 1))",
        "a.items.map(i, i.tags).map(t, t.map(u, u))",
        "timestamp(a.b)",
        "string(a.b)",
        "sum(a.b)",
        "type(a.b) == int",
        "1u + 1u",
        "b'x' == b'y'",
        "{a.b: 1}",
        "{1: 2}",
        "a.items.sort_by(i, i.n)",
        " + ".join(["a.b"] * (MAX_JOINS + 2)),
        " && ".join(f"a.b{number}" for number in range(MAX_INPUTS + 1)),
    ],
)
def test_the_runtime_does_not_get_what_it_can_not_be_trusted_with(source: str) -> None:
    assert emitted(source) is None


class Counting:
    """A compiled expression of the runtime that counts its evaluations."""

    def __init__(self, compiled: Any) -> None:
        self.compiled = compiled
        self.evaluations = 0

    def eval(self, data: dict[str, Any]) -> Any:
        self.evaluations += 1
        return self.compiled.eval(data=data)


@pytest.mark.parametrize(
    ("source", "data", "given"),
    [
        ("a.b + 1", {"b": 2}, True),
        ("a.b + 1", {"b": 2**63}, False),
        ("a.b + 'x'", {"b": "x" * 150_000}, False),
        ("a.b.filter(i, i > 1)", {"b": list(range(MAX_GROWING_ITEMS))}, True),
        ("a.b.filter(i, i > 1)", {"b": list(range(MAX_GROWING_ITEMS + 1))}, False),
        ("a.b.all(i, i > 1)", {"b": list(range(MAX_GROWING_ITEMS + 1))}, True),
        ("a.b.map(k, k)", {"b": {"z": 1, "a": 2}}, False),
        ("size(a.b)", {"b": [[[1]]]}, True),
        ("size(a.b)", {"b": list(range(9_999))}, False),
    ],
)
def test_the_runtime_is_asked_only_about_data_it_reads_as_we_do(
    source: str, data: Any, given: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    native = engine_named("cel-expr")
    counting: list[Counting] = []
    compiled_by = native._environment.compile  # type: ignore[attr-defined]  # a look inside

    class Environment:
        def compile(self, text: str) -> Counting:
            counting.append(Counting(compiled_by(text)))
            return counting[-1]

    monkeypatch.setattr(native, "_environment", Environment())
    variables = {"a": data}
    assert outcome(source, variables, native) == outcome(source, variables, select_engine("portable"))
    assert [count.evaluations for count in counting] == [1 if given else 0]


def test_half_a_surrogate_pair_does_not_disturb_an_engine(engine: Engine) -> None:
    data: dict[str, Any] = {"a": {"b": "\ud83d"}}
    assert outcome("size(a.b)", data, engine) == ("value", 1)
    assert outcome("a.b == 'x'", data, engine) == ("value", False)
    assert outcome("hash(a.b)", data, engine)[0] == "failed"
    assert outcome("json(a)", data, engine)[0] == "failed"


def test_a_program_can_be_used_inside_itself(engine: Engine) -> None:
    """Evaluations keep their state apart: a host function that evaluates the same expression does not disturb it."""

    def again(n: Any) -> Any:
        return expression.evaluate({"n": n - 1}) if n > 0 else []

    library = STANDARD_LIBRARY.with_function("again", again, least=1)
    expression = compile_expression("[n].map(x, [again(x), x][1]) + [n]", functions=library, engine=engine)
    assert expression.evaluate({"n": 3}) == [3, 3]
    expression = compile_expression("true ? [size(again(n)), n] : []", functions=library, engine=engine)
    assert expression.evaluate({"n": 3}) == [2, 3]
