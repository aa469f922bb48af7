"""Parsing, and what is known about an expression before it is evaluated."""

import pytest

from ductor.definitions.errors import Place
from ductor.definitions.expressions import ExpressionSyntaxError, Names, compile_expression
from ductor.definitions.expressions.parse import parse
from ductor.definitions.expressions.syntax import walk

KNOWN = frozenset({"trigger", "config", "context", "steps"})


@pytest.mark.parametrize(
    ("source", "variables", "steps", "all_steps"),
    [
        ("1 + 2", set(), set(), False),
        ("steps.reserve.output.total > config.limit", {"steps", "config"}, {"reserve"}, False),
        ('steps["reserve"].output', {"steps"}, {"reserve"}, False),
        ("has(steps.reserve)", {"steps"}, {"reserve"}, False),
        ("has(steps.reserve.output.x)", {"steps"}, {"reserve"}, False),
        ("default(steps.a.output, steps.b.output)", {"steps"}, {"a", "b"}, False),
        ("steps[trigger.name].output", {"steps", "trigger"}, set(), True),
        ("steps", {"steps"}, set(), True),
        ("steps.map(ref, ref)", {"steps"}, set(), True),
        ("steps[0]", {"steps"}, set(), True),
        ("steps.a.output[context.n]", {"steps", "context"}, {"a"}, False),
        ("trigger.items.all(steps, steps.x > config.y)", {"trigger", "config"}, set(), False),
        ("trigger.items.map(i, steps.a.output + i)", {"trigger", "steps"}, {"a"}, False),
        ("trigger.items.filter(i, i > 0).exists(i, i == trigger.n)", {"trigger"}, set(), False),
        ("trigger.items.sort_by(i, i.rank + config.n)", {"trigger", "config"}, set(), False),
        ("type(trigger.x) == int", {"trigger"}, set(), False),
    ],
)
def test_the_names_an_expression_uses_are_known(
    source: str, variables: set[str], steps: set[str], all_steps: bool
) -> None:
    expected = Names(variables=frozenset(variables), steps=frozenset(steps), all_steps=all_steps)
    assert compile_expression(source, variables=KNOWN).names == expected


@pytest.mark.parametrize(
    ("source", "kind", "offset", "message", "hint"),
    [
        ("", "syntax", 0, "the expression is empty", ""),
        ("1 +", "syntax", 3, "found the end where a value was expected", ""),
        ("1 2", "syntax", 2, "found '2' where an operator or the end was expected", ""),
        ("(1", "syntax", 2, "found the end where ')' was expected", ""),
        ("[1, 2", "syntax", 5, "found the end where ']' was expected", ""),
        ("{'a' 1}", "syntax", 5, "found '1' where ':' was expected", ""),
        ("a.1", "syntax", 1, "found '.1' where an operator or the end was expected", ""),
        ("a.true", "syntax", 2, "found 'true' where a field name was expected", ""),
        ("1 = 2", "syntax", 2, "'=' can't be read", ""),
        ("'abc", "syntax", 0, "the text that starts here is not closed", ""),
        ("12ab", "syntax", 0, "'12ab' can't be read", ""),
        (r"'\q'", "syntax", 0, r"the escape \q does not exist", "Write \\\\ for a backslash."),
        (r"'\ud800'", "syntax", 0, r"\ud800 is no character", ""),
        (r"b'\u00e9'", "syntax", 0, r"\u00e9 is not valid in bytes", ""),
        ("if", "syntax", 0, "'if' is a reserved word and can't be a name", ""),
        ("a.b{c: 1}", "syntax", 3, "messages do not exist here, only maps", 'Write {"key": value}.'),
        (".a", "syntax", 0, "found '.' where a value was expected", ""),
        ("9223372036854775808", "syntax", 0, "9223372036854775808 does not fit a 64-bit integer", None),
        ("triger.x", "unknown_variable", 0, "there is no variable 'triger' here", "Did you mean 'trigger'?"),
        (
            "1 + zzz",
            "unknown_variable",
            4,
            "there is no variable 'zzz' here",
            "There are config, context, steps, trigger.",
        ),
        ("[1].map(x, y)", "unknown_variable", 11, "there is no variable 'y' here", None),
        ("[1].map(x, x) + [x]", "unknown_variable", 17, "there is no variable 'x' here", None),
        ("siz(trigger)", "unknown_function", 0, "there is no function 'siz' here", "Did you mean 'size'?"),
        ("trigger.splt(',')", "unknown_function", 8, "there is no function 'splt' here", "Did you mean 'split'?"),
        ("split('a')", "wrong_arguments", 0, "split() takes 2 to 3 arguments here, not 1", ""),
        ("'a'.split()", "wrong_arguments", 4, "split() takes 1 to 2 arguments here, not 0", ""),
        ("'a'.size(1)", "wrong_arguments", 4, "size() takes 0 arguments here, not 1", ""),
        ("contains('a', 'b')", "wrong_arguments", 0, "contains() is called as x.contains(...)", ""),
        ("'1'.int()", "wrong_arguments", 4, "int() is called as int(...)", ""),
        ("has(trigger)", "wrong_arguments", 4, "has() takes a field such as `trigger.customer`", ""),
        ("has(trigger.a, 1)", "wrong_arguments", 0, None, ""),
        ("default(1)", "wrong_arguments", 0, None, ""),
        ("[1].all(x)", "wrong_arguments", 4, "all() takes 2 arguments, the first a variable, not 1", ""),
        ("[1].all(1, true)", "wrong_arguments", 8, "all() needs a variable here, as `x`", ""),
        ("sort_by([1], 1, 2)", "wrong_arguments", 13, "sort_by() needs a variable here, as `x`", ""),
    ],
)
def test_what_is_wrong_is_said_before_a_run_starts(
    source: str, kind: str, offset: int, message: str | None, hint: str | None
) -> None:
    with pytest.raises(ExpressionSyntaxError) as caught:
        compile_expression(source, variables=KNOWN)
    error = caught.value
    assert (error.kind, error.offset) == (kind, offset)
    assert message is None or error.message == message
    assert hint is None or error.hint == hint


def test_an_error_has_line_column_and_place() -> None:
    place = Place(file="order.yaml", line=12, column=5, path="steps[2].when")
    with pytest.raises(ExpressionSyntaxError) as caught:
        compile_expression("trigger.a >\n  1 &&\n  ) ", place=place)
    error = caught.value
    assert (error.line, error.column, error.offset) == (3, 3, 21)
    assert str(error).startswith("order.yaml:12:5 (steps[2].when): ")
    problem = error.problem()
    assert (problem.code, problem.place) == ("expression_syntax", place)


def test_any_variable_may_be_used_where_none_are_named() -> None:
    assert compile_expression("anything.goes").evaluate({"anything": {"goes": 1}}) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1 + 2 * 3 == 7 && !a || b", "((1 + (2 * 3)) == 7 && (!a)) || b"),
        ("a ? b : c ? d : e", "a ? b : (c ? d : e)"),
        ("a - b - c", "(a - b) - c"),
        ("-a.b", "-(a.b)"),
        ("a.b[c].d(e)", "((a.b)[c]).d(e)"),
        ("a in b == c", "(a in b) == c"),
        ("a && b && c", "(a && b && c)"),
    ],
)
def test_operators_bind_as_in_cel(one: str, other: str) -> None:
    def shape(source: str) -> list[str]:
        return [type(node).__name__ for node in walk(parse(source))]

    assert shape(one) == shape(other)
