"""What cel-python is given, what it answers itself, and that its flaws don't show.

Every case of `ANSWERED` is evaluated with the portable engine out of reach, so that cel-python must know the answer.
"""

import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier
from typing import Any

import pytest
from celpy.celparser import CELParser
from hypothesis import HealthCheck, given, settings

from ductor.definitions.expressions import STANDARD_LIBRARY, FunctionLibrary, MappingActivation, compile_expression
from ductor.definitions.expressions.activation import Activation
from ductor.definitions.expressions.cel_python_engine import (
    MAX_INPUT_VALUES,
    MAX_NATIVE_COST,
    CelPythonEngine,
    _parser,
)
from ductor.definitions.expressions.cel_python_source import MAX_DEPTH, MAX_ROUNDS, CelPythonEmitter
from ductor.definitions.expressions.cel_values import Value, to_json
from ductor.definitions.expressions.emitter import Unsupported
from ductor.definitions.expressions.engine import Program
from ductor.definitions.expressions.errors import Fault
from ductor.definitions.expressions.parse import parse
from ductor.definitions.expressions.portable_engine import PortableEngine
from ductor.definitions.expressions.select_engine import select_engine
from ductor.definitions.expressions.syntax import Node
from tests.definitions.expressions.evaluating import exact, outcome
from tests.definitions.expressions.generating import expressions

EXAMPLES = 200
DATA: dict[str, Any] = {
    "o": {"n": 150, "d": 1.5, "s": "abc", "t": True, "z": None, "odd key": 7},
    "l": [{"q": 1, "s": "a"}, {"q": 2.5, "s": "b", "in": {"q": 1}}],
    "n": [1, 2.0, 3],
}


class Watched(PortableEngine):
    """A portable engine that counts how often one expression is evaluated on it."""

    def __init__(self, tree: Node) -> None:
        self.tree = tree
        self.evaluations = 0

    def compile(self, tree: Node, functions: FunctionLibrary) -> Program:
        program = super().compile(tree, functions)

        def counted(activation: Activation) -> Value:
            self.evaluations += 1
            return program(activation)

        return counted if tree is self.tree else program


def watched(source: str, library: FunctionLibrary = STANDARD_LIBRARY) -> tuple[Program | None, Watched]:
    """The program on cel-python, if it is given the expression, and what it falls back to."""
    tree = parse(source)
    portable = Watched(tree)
    return CelPythonEngine(portable).compile_native(tree, library), portable


ANSWERED: list[tuple[str, object]] = [
    ("o.n + 1", 151),
    ("o.n * o.d", 225.0),
    ("o.n > 149.5", True),
    ("o.n == 150.0", True),
    ("[1, 2] == [1.0, 2.0]", True),
    ("{'a': [1]} == {'a': [1.0]}", True),
    ("2.0 in n", True),
    ("'n' in o", True),
    ("1 in o", False),
    ("true == 1", False),
    ("1u < 2.5", True),
    ("2u > 1", True),
    ("-7 / 2", -3),
    ("-7 % 4", -3),
    ("-o.d", -1.5),
    ("!o.t", False),
    ("n[1.0]", 2.0),
    ("l[size(l) - 1].s", "b"),
    ("'a' + o.s + '\\\\\"\\n'", 'aabc\\"\n'),
    ("[1] + n", [1, 1, 2.0, 3]),
    ("b'a' + b'b'", "YWI="),
    ("o.s.contains('b') && o.s.startsWith('a') && o.s.endsWith('c')", True),
    ("{'k': [o.z, true]}", {"k": [None, True]}),
    ("has(o.z) && !has(o.nope.deep)", True),
    ("has({'a': 1}.a)", True),
    ("default(o.nope.deep, o.n)", 150),
    # What fails is absorbed, or is not evaluated
    ("o.nope == 1 || true", True),
    ("true || o.nope == 1", True),
    ("1 / 0 > 1 && false", False),
    ("n[7] == 1 || o.t", True),
    ("l[0].nope == 1 || o.t", True),
    ("9223372036854775807 + 1 > 0 || o.t", True),
    ("1 + true > 0 || o.t", True),
    ("o.z['a'] == 1 || o.t", True),
    ("[0, 2].exists(x, 4 / x > 1)", True),
    ("[0, 2].all(x, 4 / x > 5)", False),
    ("o.t ? o.n : 1 / 0", 150),
    ("o.z == null ? 'none' : o.z.deep", "none"),
    # Loops
    ("l.filter(i, i.q > 1).map(i, i.s)", ["b"]),
    ("l.map(i, i.q > 1, i.q * 2)", [5.0]),
    ("l.exists_one(i, i.s == 'a')", True),
    ("l.all(i, l.exists(j, i.q < 3))", True),
    ("l.filter(i, has(i.`in`.q)).map(i, i['in'])", [{"q": 1}]),
    ("[].all(x, x)", True),
    # The library
    ("upper(o.s)", "ABC"),
    ("n.sum()", 6.0),
    ("range(3) + [9]", [0, 1, 2, 9]),
    ("int('12') + int(3.9)", 15),
    ("timestamp('2026-11-30T23:30:00.25Z') + duration('1h')", "2026-12-01T00:30:00.250Z"),
    ("duration('1h') + timestamp('2026-11-30T23:30:00Z')", "2026-12-01T00:30:00Z"),
    ("timestamp('2026-11-30T23:30:00Z') - timestamp('2026-11-30T22:00:00Z')", "5400s"),
    ("timestamp('2026-11-30T23:30:00Z') - duration('1h') < timestamp('2026-12-01T00:00:00Z')", True),
    ("duration('1h') - duration('90m') + duration('1ms')", "-1799.999s"),
    ("timestamp('2026-11-30T23:30:00Z').getDate('Europe/Oslo')", 1),
]


@pytest.mark.parametrize(("source", "value"), ANSWERED)
def test_cel_python_answers_itself(source: str, value: object) -> None:
    program, portable = watched(source)
    assert program is not None
    assert exact(to_json(program(MappingActivation(DATA)))) == exact(value)
    assert portable.evaluations == 0


PASSED_ON: list[tuple[str, Any]] = [
    ("1.0 / 0.0 > 1.0", {}),  # cel-python would say infinity for -1.0 as well
    ("timestamp('2026-11-30T23:30:00.000000001Z') > timestamp(0)", {}),  # it cuts what is below microseconds
    ("v + 1 > 0", {"v": 2**63}),  # no integer of 64 bits
    ("v.map(k, k)", {"v": {"b": 1, "a": 2}}),  # its maps keep no order
    ("size(v)", {"v": list(range(MAX_INPUT_VALUES))}),
    ("v.all(i, i >= 0)", {"v": list(range(MAX_ROUNDS + 1))}),
    ("v.all(i, v.all(j, i * j >= 0))", {"v": list(range(40))}),
    ("v.all(i, v.all(j, i * j * 2 * 3 * 4 * 5 * 6 >= 0))", {"v": list(range(30))}),
    (f"size(range({MAX_NATIVE_COST // 3})) + size(range({MAX_NATIVE_COST // 3})) + size(range(9999))", {}),
    ("size(range(6001) + range(4000))", {}),
    ("to_map([1], 'nope') == {} || has(v.a)", {"v": {}}),
    ("-v", {"v": "text"}),
    ("[1].all(x, x)", {}),  # it would take 1 for true
    ("[1, 'a'].filter(x, x)", {}),
    ("v[-1]", {"v": [1]}),  # Python would count from the end
    ("size(v)", {"v": None}),  # it would say 0
    ("1 + true", {}),  # Python would say 2
    ("nope.a + 1", {}),
]


@pytest.mark.parametrize(("source", "data"), PASSED_ON)
def test_the_portable_engine_answers_what_cel_python_can_not(source: str, data: Any) -> None:
    program, portable = watched(source)
    assert program is not None
    given = {**dict.fromkeys("v"), **data}
    assert exact(outcome(source, given, CelPythonEngine())) == exact(outcome(source, given, select_engine("portable")))
    with suppress(Fault):  # that it is the same failure was asserted above
        program(MappingActivation(given))
    assert portable.evaluations == 1


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("a.b.c > 1 && d.e", "((v0 > c0) && v1)"),
        ("a.b == '''\"\\\\'''", "(v0 == c0)"),
        ("has(a.b) ? -a.b : default(a.d, 2.5)", "(v0 ? (-(v1)) : (v2 ? v3 : c0))"),
        ("l.map(i, i.n > 1, i.`odd key`)", "v0.filter(x0, boolean((x0[c0] > c1))).map(x1, x1[c2])"),
        ("l.all(i, has(i.n.m))", "v0.all(x0, boolean(present(x0, k0)))"),
        ("has({'a': 1}.a)", "present({c1: c0}, k0)"),
        ("a.b.upper() + hash(a.c)", "(call0(v0) + call1(v1))"),
        ("a.b.contains('x')", "contains(v0, c0)"),
    ],
)
def test_cel_python_gets_names_and_operators_only(source: str, text: str) -> None:
    assert CelPythonEmitter(STANDARD_LIBRARY).emit(parse(source), {}) == text


@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(source=expressions(with_default=True))
def test_no_text_of_an_author_meets_the_lexer(source: str) -> None:
    try:
        text = CelPythonEmitter(STANDARD_LIBRARY).emit(parse(source), {})
    except Unsupported:
        return
    words = re.findall(r"[A-Za-z_]\w*", text)
    assert re.fullmatch(r"[\w ()\[\]{}?:,.<>=!&|+*/%-]*", text)
    macros = {"all", "exists", "exists_one", "filter", "map", "in", "size", "contains", "startsWith", "endsWith"}
    assert {word for word in words if not re.fullmatch(r"[vckx]\d+|call\d+", word)} <= macros | {"boolean", "present"}


@pytest.mark.parametrize(
    "source",
    [
        "l.all(i, i.s.contains('x'))",
        "l.all(i, upper(i.s) == 'A')",
        "l.sort_by(i, i.q)",
        "type(o.n) == int",
        "{o.n: 1}",
        "{1: 2}",
        "+".join(["1"] * (MAX_DEPTH + 1)),
    ],
)
def test_cel_python_does_not_get_what_it_can_not_be_trusted_with(source: str) -> None:
    assert watched(source)[0] is None


def test_the_deepest_tree_that_is_given_is_answered() -> None:
    additions = MAX_DEPTH - 2  # the path has a depth of 2
    nested = "(" * additions + "o.n" + " + 1)" * additions
    program, portable = watched(nested)
    assert program is not None
    assert program(MappingActivation(DATA)) == 150 + additions
    assert portable.evaluations == 0


def test_a_function_of_the_host_is_called_where_it_is_needed_and_once() -> None:
    calls: list[Any] = []

    def noted(value: Any) -> Any:
        calls.append(value)
        return value

    library = STANDARD_LIBRARY.with_function("noted", noted, least=1)
    program, portable = watched("(o.t || noted(1)) && (o.t ? noted(o.n) : noted(2)) == 150", library)
    assert program is not None
    assert program(MappingActivation(DATA)) is True
    assert (calls, portable.evaluations) == ([150], 0)


@pytest.fixture
def meeting() -> Iterator[Barrier]:
    barrier = Barrier(2, timeout=10)
    yield barrier
    barrier.abort()


def test_threads_may_share_a_program(meeting: Barrier) -> None:
    """cel-python keeps what it evaluates in global variables; here both evaluations are under way at the same time."""

    def met(value: Any) -> Any:
        meeting.wait()
        return value

    library = STANDARD_LIBRARY.with_function("met", met, least=1)
    expression = compile_expression(
        "met(n) > 0 ? [n, n].map(x, x * n) : []", functions=library, engine=CelPythonEngine()
    )
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda n: expression.evaluate({"n": n}), [2, 3]))
    assert results == [[4, 4], [9, 9]]


def test_the_process_keeps_its_limit_of_recursion_and_its_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = sys.getrecursionlimit()
    monkeypatch.setattr(CELParser, "CEL_PARSER", None)
    _parser.cache_clear()
    assert outcome("o.n + 1", DATA, CelPythonEngine()) == ("value", 151)
    assert CELParser.CEL_PARSER is None
    assert sys.getrecursionlimit() == limit
