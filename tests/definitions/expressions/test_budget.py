"""No expression stalls its host: every limit, and hostile expressions, on all engines."""

import time
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from ductor.definitions.expressions import (
    STANDARD_LIBRARY,
    ExpressionError,
    ExpressionSyntaxError,
    compile_expression,
    compile_template,
)
from ductor.definitions.expressions.budget import (
    MAX_COST,
    MAX_EXPRESSION_LENGTH,
    MAX_ITERATIONS,
    MAX_LIST_SIZE,
    MAX_NESTING,
    MAX_PATTERN_LENGTH,
    MAX_RESULT_COST,
    MAX_TEXT_LENGTH,
    MAX_TREE_DEPTH,
    MAX_VALUE_DEPTH,
    UNITS_PER_HOST_CALL,
    UNITS_PER_PATTERN,
)
from ductor.definitions.expressions.cel_expr_engine import MAX_INPUT_VALUES
from ductor.definitions.expressions.engine import Engine
from ductor.definitions.expressions.functions.encodings import MAX_JSON_LENGTH
from tests.definitions.expressions.evaluating import failure, outcome

Result = TypeVar("Result")
CPU_SECONDS_MAX = 1.0
"""Of the processor; the aim is 0.05 on an idle machine, the rest is room for a busy or slow one."""


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


DATA: dict[str, Any] = {
    "sixty": list(range(60)),
    "numbers": list(range(10_000)),
    "doubles": [float(number) for number in range(10_000)],
    "items": [{"n": number, "s": "x" * 50, "l": list(range(10))} for number in range(5_000)],
    "table": {str(number): number for number in range(5_000)},
    "text": "ab" * 250_000,
    "deep": nested(500),
}


def in_time(work: Callable[[], Result]) -> Result:
    begun = time.process_time()
    result = work()
    taken = time.process_time() - begun
    assert taken < CPU_SECONDS_MAX, f"it took {taken * 1000:.0f} ms of the processor"
    return result


HOSTILE = [
    "sixty.all(a, sixty.all(b, sixty.all(c, a + b + c >= 0)))",
    "numbers.map(i, numbers)",
    "numbers.map(i, text)",
    "range(10000).map(i, range(10000))",
    "[text].map(s, s + s).map(s, s + s)",
    "text + text + text",
    "'xx'.replace('x', text + text)",
    "numbers.map(i, 'x'.replace('', text))",
    "numbers.join(text)",
    "text.split('')",
    "text.matches('(a{1,100}){1,5}b')",
    "items.filter(i, i in items)",
    "numbers.all(i, i in numbers)",
    "items.map(i, table == table)",
    "items.map(i, table.all(k, true))",
    "items.map(i, text.contains('zz'))",
    "items.map(i, text == text + '')",
    "numbers.map(i, json(table))",
    "numbers.map(i, hash(table))",
    "numbers.map(i, uuid(text))",
    "numbers.map(i, '%s'.format([items]))",
    "numbers.map(i, 'abc'.matches('a' + string(i)))",
    "numbers.map(i, date(i, '%A %B %d %Y %H:%M:%S', 'Europe/Oslo'))",
    "numbers.map(i, timestamp('2020-01-01T00:00:00Z')).map(t, t.getHours('Europe/Oslo'))",
    "numbers.map(i, duration('1h30m'))",
    "numbers.map(i, numbers + numbers)",
    "numbers.map(i, numbers.slice(0))",
    "numbers.map(i, text.slice(0))",
    "numbers.map(i, text.lower())",
    "numbers.map(i, avg(numbers))",
    "numbers.map(i, numbers).flatten()",
    "sort_by(numbers.map(i, text + string(i)))",
    "numbers.map(i, {'a': i, 'b': [i], 'c': {'d': i}})",
    "numbers.exists(i, timestamp(i).getHours('Zone/' + string(i)) == 1)",
    "numbers.map(i, timestamp(0).getHours('+' + ('0' + string(i % 24)).slice(-2) + ':' + string(i % 50 + 10)))",
    "[deep]",
    "deep == deep",
    "distinct([deep])",
    "json(deep)",
    "parse_json(text)",
    "range(9223372036854775807)",
    "range(-9223372036854775807, 9223372036854775807, 9223372036854775807)",
]


@pytest.mark.parametrize("source", HOSTILE)
def test_a_hostile_expression_ends_soon(source: str, engine: Engine) -> None:
    status, detail = in_time(lambda: outcome(source, DATA, engine))
    if not source.startswith(("range(-", "parse_json")):
        assert (status, detail) == ("failed", ("budget", None))


def test_a_missing_key_of_a_large_map_is_told_soon(engine: Engine) -> None:
    large: dict[str, Any] = {"table": {f"name_{number}": number for number in range(100_000)}}
    error = in_time(lambda: failure("table.name_1x == 1 || table.nam == 2", large, engine))
    assert "name_1" in error.nearest
    absorbed = "range(5000).exists(i, table.nope == i || i == 4999)"
    assert in_time(lambda: outcome(absorbed, large, engine)) == ("value", True)


def test_a_joined_text_has_a_budget(engine: Engine) -> None:
    template = compile_template("${deep} and ${items}", engine=engine)

    def refused() -> None:
        for data in ({"deep": DATA["deep"], "items": []}, {"deep": [], "items": DATA["items"]}):
            with pytest.raises(ExpressionError) as caught:
                template.render(data)
            assert caught.value.kind == "budget"

    in_time(refused)


def test_calls_of_a_host_function_are_priced(engine: Engine) -> None:
    calls: list[Any] = []

    def counted(value: Any) -> Any:
        calls.append(value)
        return value

    library = STANDARD_LIBRARY.with_function("counted", counted, least=1)
    with pytest.raises(ExpressionError) as caught:
        compile_expression("numbers.map(i, counted(i))", functions=library, engine=engine).evaluate(DATA)
    assert caught.value.kind == "budget"
    assert len(calls) <= MAX_COST // UNITS_PER_HOST_CALL


LARGE_BUT_FINE = [
    "doubles.filter(d, d >= 5000.0).size()",
    "items.map(i, i.n * 2)",
    "items.filter(i, i.n % 2 == 0).map(i, i.s).size()",
    "numbers.map(i, i + 1)",
    "items.exists(i, i.n == 4999)",
    "items.sort_by('n').slice(0, 3)",
    "items.to_map(i, string(i.n), i.s).size()",
    "numbers.sum() + max(numbers)",
    "sixty.map(a, sixty.map(b, a * b)).flatten().distinct().size()",
    "text.matches('b$')",
]


@pytest.mark.parametrize("source", LARGE_BUT_FINE)
def test_a_large_but_reasonable_expression_has_its_value_in_time(source: str, engine: Engine) -> None:
    status, _ = in_time(lambda: outcome(source, DATA, engine))
    assert status == "value"


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("(" * 200 + "1" + ")" * 200, f"nests deeper than {MAX_NESTING}"),
        ("[" * 2000, f"nests deeper than {MAX_NESTING}"),
        ("!" * 2000 + "true", f"nests deeper than {MAX_NESTING}"),
        ("-" * 2000 + "x", f"nests deeper than {MAX_NESTING}"),
        ("a ? b : " * 400 + "c", f"nests deeper than {MAX_NESTING}"),
        ("[1].map(x, " * 50 + "1" + ")" * 50, f"nests deeper than {MAX_NESTING}"),
        ("+".join("1" * 900), f"deeper than {MAX_TREE_DEPTH} operators"),
        ("a" + ".b" * 1000, f"deeper than {MAX_TREE_DEPTH} operators"),
        ("a" + "[0]" * 1000, f"deeper than {MAX_TREE_DEPTH} operators"),
        ("'" + "\\n" * 2000, "is not closed"),
        ("'''" + "\\n" * 2000, "is not closed"),
        ("'" * 2001, "is not closed"),
        ("1" * (MAX_EXPRESSION_LENGTH + 1), f"more than {MAX_EXPRESSION_LENGTH}"),
        ("1" * MAX_EXPRESSION_LENGTH, "does not fit a 64-bit integer"),
        ("1" * 4000 + "e", "can't be read"),
        ("." * 4000, "expected"),
        ("/" * 4001, "is empty"),
    ],
    ids=lambda value: value[:20],
)
def test_a_hostile_text_is_refused_soon(source: str, says: str) -> None:
    def refused() -> None:
        with pytest.raises(ExpressionSyntaxError, match=says) as caught:
            compile_expression(source)
        assert len(str(caught.value)) < 6_000

    in_time(refused)


@pytest.mark.parametrize(
    ("within", "beyond"),
    [
        ("(" * (MAX_NESTING - 1) + "1" + ")" * (MAX_NESTING - 1), "(" * MAX_NESTING + "1" + ")" * MAX_NESTING),
        ("+".join("1" * MAX_TREE_DEPTH), "+".join("1" * (MAX_TREE_DEPTH + 1))),
        ("1" + " " * (MAX_EXPRESSION_LENGTH - 1), "1" + " " * MAX_EXPRESSION_LENGTH),
    ],
    ids=["nesting", "depth", "length"],
)
def test_a_limit_of_form_is_exact(within: str, beyond: str, engine: Engine) -> None:
    assert compile_expression(within, engine=engine).evaluate({})
    with pytest.raises(ExpressionSyntaxError) as caught:
        compile_expression(beyond)
    assert caught.value.kind == "limit"


@pytest.mark.parametrize(
    ("within", "beyond", "data"),
    [
        (f"range({MAX_ITERATIONS}).all(x, true)", f"range({MAX_LIST_SIZE}).all(x, true) && [1].all(x, true)", {}),
        (f"size(range({MAX_LIST_SIZE}))", f"size(range({MAX_LIST_SIZE + 1}))", {}),
        ("size(a + a)", "size(a + a + 'x')", {"a": "x" * (MAX_TEXT_LENGTH // 2)}),
        ("size(n + n)", "size(n + n + [1])", {"n": [1] * (MAX_LIST_SIZE // 2)}),
        ("'a'.matches(p)", "'a'.matches(p + 'a')", {"p": "a" * MAX_PATTERN_LENGTH}),
        ("a == b", "[a] == [b]", {"a": nested(MAX_VALUE_DEPTH - 1), "b": nested(MAX_VALUE_DEPTH - 1)}),
        ("[a]", "[[a]]", {"a": nested(MAX_VALUE_DEPTH - 2)}),
        ("[a]", "[a, a]", {"a": "x" * (MAX_RESULT_COST * 10)}),
        ("size(parse_json(a))", "size(parse_json(a + ' '))", {"a": "[]" + " " * (MAX_JSON_LENGTH - 2)}),
    ],
    ids=["rounds", "list", "text", "joined list", "pattern", "compared", "nested", "result", "json"],
)
def test_a_limit_of_cost_is_exact(within: str, beyond: str, data: dict[str, Any], engine: Engine) -> None:
    assert outcome(within, data, engine)[0] == "value"
    assert outcome(beyond, data, engine) == ("failed", ("budget", None))


def test_cost_adds_up_over_the_parts_of_an_expression(engine: Engine) -> None:
    count = MAX_COST // UNITS_PER_PATTERN
    source = "p.all(x, 'b'.matches(x) || true)"
    few: list[Any] = [f"a{number}" for number in range(count // 2)]
    many: list[Any] = [f"a{number}" for number in range(count + 1)]
    assert outcome(source, {"p": few}, engine) == ("value", True)
    assert outcome(source, {"p": many}, engine) == ("failed", ("budget", None))


def test_going_over_a_budget_is_never_absorbed(engine: Engine) -> None:
    for source in (
        "size(range(100000)) > 0 || true",
        "true || size(range(100000)) > 0",
        "default(range(100000), 1)",
        "[1, 2].exists(x, x == 2 || size(range(100000)) > 0)",
    ):
        expected = ("value", True) if source.startswith("true") else ("failed", ("budget", None))
        assert outcome(source, {}, engine) == expected


def test_every_evaluation_has_a_budget_of_its_own(engine: Engine) -> None:
    expression = compile_expression("numbers.all(i, i >= 0)", engine=engine)
    for _ in range(3):
        assert expression.evaluate(DATA) is True


def test_a_path_into_data_of_any_size_needs_no_budget() -> None:
    large: dict[str, Any] = {"trigger": {"list": list(range(MAX_INPUT_VALUES * 10))}}
    assert compile_expression("trigger.list").evaluate(large) is large["trigger"]["list"]


def test_an_error_of_the_budget_says_what_to_do(engine: Engine) -> None:
    with pytest.raises(ExpressionError, match="larger than 10000") as caught:
        compile_expression("range(10001)", engine=engine).evaluate({})
    assert "in a task" in str(caught.value)
