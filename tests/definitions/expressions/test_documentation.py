"""The reference page of expressions: every example is executed, every function and limit is named."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ductor.definitions.expressions import (
    STANDARD_LIBRARY,
    ExpressionError,
    budget,
    compile_expression,
    compile_template,
)
from ductor.definitions.expressions.engine import Engine
from ductor.definitions.expressions.errors import ADVICE
from ductor.definitions.expressions.functions.encodings import MAX_JSON_LENGTH
from ductor.definitions.expressions.macros import MACROS
from tests.definitions.expressions.evaluating import exact

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "expressions.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def examples(language: str) -> list[tuple[str, str]]:
    lines = [line for block in blocks(language) for line in block.splitlines()]
    return [(left, right) for left, _, right in (line.rpartition(" => ") for line in lines)]


DATA: dict[str, Any] = json.loads(blocks("json")[0])


@pytest.mark.parametrize(("source", "expected"), examples("cel"))
def test_an_example_gives_what_the_page_says(source: str, expected: str, engine: Engine) -> None:
    expression = compile_expression(source, variables=frozenset(DATA), engine=engine)
    if expected.startswith("error "):
        with pytest.raises(ExpressionError) as caught:
            expression.evaluate(DATA)
        assert caught.value.kind == expected.removeprefix("error ")
    else:
        assert exact(expression.evaluate(DATA)) == exact(json.loads(expected))


@pytest.mark.parametrize(("source", "expected"), examples("template"))
def test_a_template_renders_as_the_page_says(source: str, expected: str, engine: Engine) -> None:
    template = compile_template(json.loads(source), variables=frozenset(DATA), engine=engine)
    assert exact(template.render(DATA)) == exact(json.loads(expected))


@pytest.mark.parametrize("program", blocks("python"))
def test_a_program_runs(program: str) -> None:
    exec(compile(program, "expressions.md", "exec"), {})


def test_the_page_has_examples() -> None:
    assert len(examples("cel")) > 50
    assert len(examples("template")) > 5
    assert len(blocks("python")) == 1


@pytest.mark.parametrize("name", sorted((STANDARD_LIBRARY.names() | MACROS) - {"existsOne"}))
def test_every_function_is_on_the_page(name: str) -> None:
    assert re.search(rf"\b{name}\b", PAGE)


@pytest.mark.parametrize("kind", ADVICE)
def test_every_kind_of_failure_is_on_the_page(kind: str) -> None:
    assert f"`{kind}`" in PAGE


@pytest.mark.parametrize(
    "limit",
    [
        budget.MAX_EXPRESSION_LENGTH,
        budget.MAX_NESTING,
        budget.MAX_TREE_DEPTH,
        budget.MAX_ITERATIONS,
        budget.MAX_LIST_SIZE,
        budget.MAX_TEXT_LENGTH,
        budget.MAX_PATTERN_LENGTH,
        budget.MAX_VALUE_DEPTH,
        budget.MAX_COST,
        budget.MAX_RESULT_COST,
        MAX_JSON_LENGTH,
    ],
)
def test_every_limit_is_on_the_page(limit: int) -> None:
    assert f"| {limit:,} |" in PAGE
