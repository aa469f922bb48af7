"""Templates: JSON values with `${...}` inside.

A string that is one whole `${...}` keeps the type of its value. In any other, the parts are joined as text: strings as
they are, null as nothing, all else as canonical JSON. `$${` is a literal `${`. Keys are never evaluated.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from ductor.definitions.errors import Place
from ductor.definitions.expressions.activation import Activation, as_activation
from ductor.definitions.expressions.analysis import Names
from ductor.definitions.expressions.budget import MAX_TEMPLATE_DEPTH, Meter
from ductor.definitions.expressions.engine import Engine
from ductor.definitions.expressions.errors import NOWHERE, ExpressionError, ExpressionSyntaxError, Fault
from ductor.definitions.expressions.expression import Expression, compile_expression
from ductor.definitions.expressions.functions.declared import FunctionLibrary
from ductor.definitions.expressions.functions.texts import join
from ductor.definitions.expressions.tokens import end_of_embedded
from ductor.definitions.values import JsonObject, JsonValue

_Renderer: TypeAlias = Callable[[Activation], JsonValue]
_OPENING = "${"
_ESCAPED = "$${"


class Template:
    """A compiled template. It keeps no state between renderings and may be shared.

    Attributes:
        source: the value it was compiled from.
        names: the variables and steps its expressions use.
        constant: whether there is nothing to evaluate.
    """

    __slots__ = ("_render", "constant", "names", "source")

    def __init__(self, source: JsonValue, names: Names, render: _Renderer, *, constant: bool) -> None:
        self.source = source
        self.names = names
        self.constant = constant
        self._render = render

    def render(self, activation: Activation | Mapping[str, JsonValue]) -> JsonValue:
        """The value with its expressions evaluated.

        The result may share lists and objects with the template and the activation; none may be changed.

        Raises:
            ExpressionError: an expression failed, or a joined text is too long.
        """
        return self._render(activation if isinstance(activation, Activation) else as_activation(activation))


def compile_template(
    value: JsonValue,
    *,
    place: Place | None = None,
    variables: frozenset[str] | None = None,
    functions: FunctionLibrary | None = None,
    engine: Engine | None = None,
) -> Template:
    """Compile a JSON value with `${...}` inside.

    Args:
        value: any JSON value; only texts that are values are looked into, never keys.
        place: where the value stands, for errors; they extend its path.
        variables: names the expressions may use; None allows any.
        functions: functions they may call; the standard library if left out.
        engine: what evaluates them; see `select_engine`.

    Raises:
        ExpressionSyntaxError: for the first expression that is wrong; its `others` are the rest.
    """

    def compile_at(source: str, where: Place) -> Expression:
        return compile_expression(source, place=where, variables=variables, functions=functions, engine=engine)

    compiler = _Compiler(compile_at)
    render = compiler.compile(value, place or NOWHERE, 0)
    if compiler.errors:
        first, *others = compiler.errors
        raise first.among(others)
    names = Names()
    for expression in compiler.expressions:
        names = names.union(expression.names)
    return Template(value, names, render or _constant(value), constant=not compiler.expressions)


class _Compiler:
    """Builds renderers; None stands for one that would give the value unchanged."""

    def __init__(self, compile_at: Callable[[str, Place], Expression]) -> None:
        self.compile_at = compile_at
        self.expressions: list[Expression] = []
        self.errors: list[ExpressionSyntaxError] = []

    def compile(self, value: JsonValue, place: Place, depth: int) -> _Renderer | None:
        if depth > MAX_TEMPLATE_DEPTH:
            message = f"the template nests deeper than {MAX_TEMPLATE_DEPTH}"
            self.errors.append(ExpressionSyntaxError("", 0, message, kind="limit", place=place))
            return None
        if isinstance(value, str):
            return self.compile_text(value, place) if _OPENING in value else None
        if isinstance(value, list):
            items = [self.compile(item, _below(place, position), depth + 1) for position, item in enumerate(value)]
            if not any(items):
                return None
            return _list([item or _constant(own) for item, own in zip(items, value, strict=True)])
        if isinstance(value, dict):
            fields = {key: self.compile(item, _below(place, key), depth + 1) for key, item in value.items()}
            if not any(fields.values()):
                return None
            return _object(value, [(key, field) for key, field in fields.items() if field is not None])
        return None

    def compile_text(self, text: str, place: Place) -> _Renderer | None:
        parts: list[str | Expression] = []
        try:
            for part, is_expression in _parts(text):
                parts.append(self.compile_at(part, place) if is_expression else part)
        except ExpressionSyntaxError as error:
            self.errors.append(error.at(place))
            return None
        found = [part for part in parts if isinstance(part, Expression)]
        self.expressions += found
        if len(parts) == 1 and found:
            return found[0].evaluate_in
        return _text(text, place, parts) if found else _constant("".join(map(str, parts)))


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    """The pieces of a text, each with whether it is an expression; literal pieces are unescaped."""
    position = 0
    literal = ""
    while (opening := text.find(_OPENING, position)) >= 0:
        if opening > position and text[opening - 1] == "$":
            literal += text[position : opening - 1] + _OPENING
            position = opening + len(_OPENING)
            continue
        literal += text[position:opening]
        closing = end_of_embedded(text, opening + len(_OPENING))
        if closing is None:
            hint = f"Close it with }}, or write {_ESCAPED} for the text {_OPENING}."
            raise ExpressionSyntaxError(text, opening, "the expression that starts here is not closed", hint=hint)
        if literal:
            yield literal, False
            literal = ""
        yield text[opening + len(_OPENING) : closing], True
        position = closing + 1
    literal += text[position:]
    if literal:
        yield literal, False


def _below(place: Place, key: str | int) -> Place:
    """The place of an item or a field of the value at `place`."""
    plain = isinstance(key, str) and key.isidentifier()
    step = f".{key}" if plain else f"[{key!r}]"
    return Place(path=(place.path + step).removeprefix("."), file=place.file, line=place.line, column=place.column)


def _constant(value: JsonValue) -> _Renderer:
    return lambda activation: value


def _list(items: list[_Renderer]) -> _Renderer:
    return lambda activation: [item(activation) for item in items]


def _object(source: JsonObject, fields: list[tuple[str, _Renderer]]) -> _Renderer:
    """The source with `fields` rendered; the others are constants."""

    def render(activation: Activation) -> JsonObject:
        rendered = source.copy()
        for key, field in fields:
            rendered[key] = field(activation)
        return rendered

    return render


def _text(source: str, place: Place, parts: list[str | Expression]) -> _Renderer:
    def render(activation: Activation) -> str:
        values = [part if isinstance(part, str) else part.evaluate(activation) for part in parts]
        try:
            return join(Meter(), values)
        except Fault as fault:
            raise ExpressionError(source, place, fault) from None

    return render
