"""The function library, and functions of a host."""

import hashlib
import uuid
from typing import Any

import pytest

from ductor.definitions.expressions import (
    STANDARD_LIBRARY,
    ExpressionError,
    ExpressionSyntaxError,
    FunctionLibrary,
    compile_expression,
)
from ductor.definitions.expressions.engine import Engine
from ductor.definitions.expressions.functions.encodings import UUID_NAMESPACE
from ductor.definitions.values import JsonValue
from tests.definitions.expressions.evaluating import evaluate, exact, failure

DATA: dict[str, Any] = {
    "trigger": {
        "items": [{"sku": "b", "price": 3}, {"sku": "a", "price": 1.5}, {"sku": "c", "price": 1.5}],
        "at": "2026-11-30T23:30:00Z",
    }
}

VALUES: list[tuple[str, object]] = [
    ("'a,b,c'.split(',')", ["a", "b", "c"]),
    ("split('a,b,c', ',', 2)", ["a", "b,c"]),
    ("'a,b'.split(',', 0)", []),
    ("'aé😀'.split('')", ["a", "é", "😀"]),
    ("'abc'.split('', 2)", ["a", "bc"]),
    ("''.split(',')", [""]),
    ("['a', 1, null, 2.0, true].join('-')", "a-1--2-true"),
    ("['a', 'b'].join()", "ab"),
    ("[].join(',')", ""),
    ("'aXbX'.replace('X', 'yy')", "ayybyy"),
    ("'aXbX'.replace('X', '', 1)", "abX"),
    ("' \\t a b \\n'.trim()", "a b"),
    ("lower('ÆØÅ') + upper('æ')", "æøåÆ"),
    ("'%s has %d of %.1f, %e'.format(['a', 3, 2.25, 12345.678])", "a has 3 of 2.2, 1.234568e+04"),
    ("'%x %X %o %b %%'.format([255, 255, 8, 5])", "ff FF 10 101 %"),
    ("'%s %s %s %s'.format([[1, 2.0], {'b': 1, 'a': null}, null, true])", '[1,2] {"a":null,"b":1} null true'),
    ("'%s %s'.format([timestamp(0), duration('1m')])", "1970-01-01T00:00:00Z 60s"),
    ("'order-123-x'.regex_extract('[0-9]+')", "123"),
    ("'key=value'.regex_extract('(\\\\w+)=(\\\\w+)')", "key"),
    ("regex_extract('key=value', r'(\\w+)=(\\w+)', 2)", "value"),
    ("'key=value'.regex_extract(r'(\\w+)=(\\w+)', 0)", "key=value"),
    ("'abc'.regex_extract('[0-9]+')", None),
    ("sum([1, 2, 3])", 6),
    ("[1, 2.5].sum()", 3.5),
    ("sum([])", 0),
    ("sum([duration('1m'), duration('30s')])", "90s"),
    ("sum(trigger.items.map(i, i.price))", 6.0),
    ("min([3, 1.5, 2])", 1.5),
    ("max(3, 7, 5)", 7),
    ("max(['a', 'c', 'b'])", "c"),
    ("min([timestamp(5), timestamp(3)])", "1970-01-01T00:00:03Z"),
    ("avg([1, 2])", 1.5),
    ("[2, 4].avg()", 3.0),
    ("[[1], 2, [3, [4]]].flatten()", [1, 2, 3, [4]]),
    ("flatten([[1, [2, [3]]]], 3)", [1, 2, 3]),
    ("flatten([[1]], 0)", [[1]]),
    ("[1, 1.0, true, 'a', 'a', null, null].distinct()", [1, True, "a", None]),
    ("[[1], [1.0], {'a': 1}, {'a': 1.0}, [true]].distinct()", [[1], {"a": 1}, [True]]),
    ("sort_by([3, 1.5, 2])", [1.5, 2, 3]),
    ("trigger.items.sort_by('price').map(i, i.sku)", ["a", "c", "b"]),
    ("trigger.items.sort_by(i, -i.price).map(i, i.sku)", ["b", "a", "c"]),
    ("sort_by(trigger.items, i, i.sku).map(i, i.sku)", ["a", "b", "c"]),
    ("sort_by([], 'x')", []),
    ("[1, 2, 3, 4].slice(1, 3)", [2, 3]),
    ("[1, 2, 3, 4].slice(-2)", [3, 4]),
    ("'hello'.slice(1, -1)", "ell"),
    ("[1].slice(5, 9)", []),
    ("range(3)", [0, 1, 2]),
    ("range(1, 4)", [1, 2, 3]),
    ("range(10, 0, -4)", [10, 6, 2]),
    ("range(0)", []),
    ("range(5, 1)", []),
    ("[1, 2, 3].chunk(2)", [[1, 2], [3]]),
    ("chunk([], 3)", []),
    ("merge({'a': 1, 'b': 1}, {'b': 2}, {'c': 3})", {"a": 1, "b": 2, "c": 3}),
    ("{'a': 1}.merge({'a': 2})", {"a": 2}),
    ("trigger.items.to_map('sku', 'price')", {"b": 3, "a": 1.5, "c": 1.5}),
    ("to_map([{'id': 7}], 'id')", {"7": {"id": 7}}),
    ("trigger.items.to_map(i, upper(i.sku), i.price * 2)", {"B": 6, "A": 3.0, "C": 3.0}),
    ("json({'b': 1.0, 'a': [null, 'é', timestamp(0)]})", '{"a":[null,"é","1970-01-01T00:00:00Z"],"b":1}'),
    ("parse_json('{\"a\": [1, 2.5, null, true]}')", {"a": [1, 2.5, None, True]}),
    ("parse_json(json({'a': [1, 'x']})) == {'a': [1, 'x']}", True),
    ("base64('héj')", "aMOpag=="),
    ("base64(b'\\xff')", "/w=="),
    ("hash('abc')", hashlib.sha256(b"abc").hexdigest()),
    ("hash({'b': 1, 'a': 2.0})", hashlib.sha256(b'{"a":2,"b":1}').hexdigest()),
    ("uuid('order-1')", str(uuid.uuid5(UUID_NAMESPACE, "order-1"))),
    ("date(trigger.at, '%Y-%m-%d')", "2026-11-30"),
    ("date(trigger.at, '%Y-%m-%d %H:%M %z %Z', 'Europe/Oslo')", "2026-12-01 00:30 +0100 CET"),
    ("timestamp(trigger.at).date('%a %A %b %B %d %j %y', '-02:30')", "Mon Monday Nov November 30 334 26"),
    ("date(trigger.at, '%I%p %u %G-W%V %S.%f %%')", "11PM 1 2026-W49 00.000000 %"),
    ("timestamp('2026-07-01T12:00:00Z').date('%H:%M', 'Europe/Oslo')", "14:00"),
]


@pytest.mark.parametrize(("source", "expected"), VALUES, ids=[source for source, *_ in VALUES])
def test_a_function_gives_its_value(source: str, expected: object, engine: Engine) -> None:
    assert exact(evaluate(source, DATA, engine)) == exact(expected)


@pytest.mark.parametrize(
    ("source", "kind", "says"),
    [
        ("split(1, ',')", "no_such_overload", "split() does not take (int)"),
        ("'a'.split(',', -2)", "invalid_argument", "from -1 on"),
        ("join('abc', ',')", "no_such_overload", "join()"),
        ("'%d'.format(['a'])", "no_such_overload", "%d of format()"),
        ("'%s %s'.format([1])", "invalid_argument", "fewer values"),
        ("'%s'.format([1, 2])", "invalid_argument", "more values"),
        ("'%q'.format([1])", "invalid_argument", "no directive '%q'"),
        ("'%.99f'.format([1.0])", "invalid_argument", "at most 20 decimals"),
        ("'a'.regex_extract('(')", "invalid_argument", "not valid in RE2"),
        ("'a'.regex_extract('a', 1)", "invalid_argument", "has 0 groups"),
        ("sum(['a'])", "no_such_overload", "sum() does not take (string)"),
        ("sum([1, duration('1s')])", "no_such_overload", "+ does not take"),
        ("sum([9223372036854775807, 1])", "overflow", "more than 64 bits"),
        ("min([])", "invalid_argument", "empty list"),
        ("max([1, 'a'])", "no_such_overload", "< does not take"),
        ("max([[1]])", "no_such_overload", "max()"),
        ("avg([])", "invalid_argument", "empty list"),
        ("avg(['a'])", "no_such_overload", "avg()"),
        ("flatten(1)", "no_such_overload", "flatten()"),
        ("sort_by([1, 'a'])", "no_such_overload", "sort_by() does not take (int, string)"),
        ("sort_by([{'a': 1}], 'b')", "missing_key", "no key 'b'"),
        ("sort_by([1.0, double('nan')])", "invalid_argument", "NaN"),
        ("slice(1, 2)", "no_such_overload", "slice()"),
        ("range(1, 5, 0)", "invalid_argument", "not 0"),
        ("range(1.5)", "no_such_overload", "range()"),
        ("chunk([1], 0)", "invalid_argument", "from 1 on"),
        ("merge({}, [])", "no_such_overload", "merge()"),
        ("to_map([{'id': 'a'}, {'id': 'a'}], 'id')", "duplicate_key", "'a'"),
        ("to_map([{'id': 1.5}], 'id')", "no_such_overload", "to_map()"),
        ("parse_json('{')", "invalid_argument", "not JSON"),
        ("parse_json('NaN')", "invalid_argument", "not JSON"),
        ("parse_json('1e999')", "invalid_argument", "too large"),
        ("json(double('inf'))", "not_json", "no form in JSON"),
        ("json([9007199254740993])", "not_json", "no canonical JSON"),
        ("base64(1)", "no_such_overload", "base64()"),
        ("uuid(1)", "no_such_overload", "uuid()"),
        ("date('2026-11-30', '%Y')", "invalid_argument", "is not a timestamp"),
        ("date(0, '%Q')", "invalid_argument", "no code '%Q'"),
        ("date(0, '%Y', 'Nowhere')", "invalid_argument", "no time zone 'Nowhere'"),
    ],
)
def test_a_function_says_what_it_can_not_do(source: str, kind: str, says: str, engine: Engine) -> None:
    error = failure(source, DATA, engine)
    assert error.kind == kind
    assert says in error.message


def joined(*arguments: JsonValue) -> JsonValue:
    return "-".join(str(argument) for argument in arguments)


def test_a_host_adds_a_pure_function(engine: Engine) -> None:
    library = STANDARD_LIBRARY.with_function("glue", joined, least=1, most=3)
    for source, expected in [
        ("glue('a', 1, null)", "a-1-None"),
        ("trigger.x.glue('b')", "7-b"),
        ("glue(timestamp(0))", "1970-01-01T00:00:00Z"),
        ("[1, 2].map(x, glue(x)).join() + string(1 + size(glue('q')))", "122"),
    ]:
        expression = compile_expression(source, functions=library, engine=engine)
        assert expression.evaluate({"trigger": {"x": 7}}) == expected
    with pytest.raises(ExpressionSyntaxError, match="takes 1 to 3 arguments"):
        compile_expression("glue()", functions=library, engine=engine)
    with pytest.raises(ExpressionSyntaxError, match="there is no function 'glue'"):
        compile_expression("glue(1)", engine=engine)


def test_what_a_host_function_raises_is_an_error_of_the_expression(engine: Engine) -> None:
    def refuse(value: JsonValue) -> JsonValue:
        raise LookupError(f"no {value}")

    library = STANDARD_LIBRARY.with_function("refuse", refuse, least=1)
    with pytest.raises(ExpressionError, match=r"refuse\(\) failed: LookupError: no x") as caught:
        compile_expression("refuse('x')", functions=library, engine=engine).evaluate({})
    assert caught.value.kind == "function_failed"


@pytest.mark.parametrize("result", [object(), (1, 2), {1, 2}, [object()], float("nan"), {1.5: 1}])
def test_a_host_function_must_give_json(result: Any, engine: Engine) -> None:
    library = STANDARD_LIBRARY.with_function("odd", lambda value: result, least=1)
    with pytest.raises(ExpressionError, match=r"odd\(\) gave no JSON") as caught:
        compile_expression("odd(1)", functions=library, engine=engine).evaluate({})
    assert caught.value.kind == "function_failed"


@pytest.mark.parametrize(
    ("name", "least", "most", "says"),
    [
        ("size", 1, 1, "name of a function already"),
        ("has", 1, 1, "name of a function already"),
        ("map", 1, 1, "name of a function already"),
        ("not-a-name", 1, 1, "can't name a function"),
        ("if", 1, 1, "can't name a function"),
        ("in", 1, 1, "can't name a function"),
        ("naïve", 1, 1, "can't name a function"),
        ("none", 0, 0, "takes 1 to 8 arguments"),
        ("turned", 2, 1, "takes 1 to 8 arguments"),
        ("many", 1, 9, "takes 1 to 8 arguments"),
    ],
)
def test_a_function_that_can_not_be_added_is_refused(name: str, least: int, most: int, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        STANDARD_LIBRARY.with_function(name, joined, least=least, most=most)


def test_adding_a_function_leaves_the_library_as_it_was() -> None:
    library: FunctionLibrary = STANDARD_LIBRARY.with_function("glue", joined, least=1)
    assert "glue" in library.names()
    assert "glue" not in STANDARD_LIBRARY.names()
