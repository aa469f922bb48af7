"""Evaluating a text on an engine, by every way there is."""

from collections.abc import Mapping

import pytest

from ductor.definitions.expressions import STANDARD_LIBRARY, ExpressionError, MappingActivation, compile_expression
from ductor.definitions.expressions.cel_values import to_json
from ductor.definitions.expressions.engine import Engine
from ductor.definitions.expressions.errors import Fault
from ductor.definitions.expressions.parse import parse
from ductor.definitions.values import JsonValue


def through_engine(source: str, data: Mapping[str, JsonValue], engine: Engine) -> tuple[str, object]:
    """The outcome without the quick way of constants and paths: `("value", ...)` or `("failed", kind, key)`."""
    program = engine.compile(parse(source), STANDARD_LIBRARY)
    try:
        return "value", to_json(program(MappingActivation(data)))
    except Fault as fault:
        return "failed", (fault.kind, fault.key)


def outcome(source: str, data: Mapping[str, JsonValue], engine: Engine) -> tuple[str, object]:
    """The outcome of the expression as everybody evaluates it, in the form of `through_engine`."""
    try:
        return "value", compile_expression(source, engine=engine).evaluate(data)
    except ExpressionError as error:
        return "failed", (error.kind, error.key)


def exact(value: object) -> object:
    """A form in which 1, 1.0 and true differ."""
    if isinstance(value, list | tuple):
        return [exact(item) for item in value]
    if isinstance(value, dict):
        return {key: exact(item) for key, item in value.items()}
    return type(value).__name__, value


def evaluate(source: str, data: Mapping[str, JsonValue], engine: Engine) -> JsonValue:
    """The value of an expression that must succeed, the same by both ways."""
    status, value = outcome(source, data, engine)
    assert status == "value", f"{source} failed: {value}"
    assert exact(through_engine(source, data, engine)) == exact((status, value))
    return value  # type: ignore[return-value]  # it is JSON when the status says so


def failure(source: str, data: Mapping[str, JsonValue], engine: Engine) -> ExpressionError:
    """The error of an expression that must fail, the same by both ways."""
    with pytest.raises(ExpressionError) as caught:
        compile_expression(source, engine=engine).evaluate(data)
    error = caught.value
    assert through_engine(source, data, engine) == ("failed", (error.kind, error.key))
    return error
