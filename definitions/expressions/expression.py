"""An expression, compiled once and evaluated many times."""

from collections.abc import Mapping

from ductor.definitions.errors import Place
from ductor.definitions.expressions.activation import Activation, as_activation
from ductor.definitions.expressions.analysis import Names, analyze, is_type_constant
from ductor.definitions.expressions.cel_values import to_json, type_name
from ductor.definitions.expressions.engine import Engine, Program
from ductor.definitions.expressions.errors import NOWHERE, ExpressionError, ExpressionSyntaxError, Fault
from ductor.definitions.expressions.functions.declared import FunctionLibrary
from ductor.definitions.expressions.functions.library import STANDARD_LIBRARY
from ductor.definitions.expressions.parse import parse
from ductor.definitions.expressions.paths import path_reader
from ductor.definitions.expressions.select_engine import chosen_engine
from ductor.definitions.expressions.syntax import Literal, Node, path_of
from ductor.definitions.values import JsonValue


class Expression:
    """A compiled expression. It keeps no state between evaluations and may be shared.

    Attributes:
        source: its text.
        names: the variables and steps it uses.
        place: where it stands in a document.
    """

    __slots__ = ("_program", "_result_is_json", "names", "place", "source")

    def __init__(self, source: str, names: Names, place: Place, program: Program, *, result_is_json: bool) -> None:
        self.source = source
        self.names = names
        self.place = place
        self._program = program
        self._result_is_json = result_is_json

    def evaluate(self, activation: Activation | Mapping[str, JsonValue]) -> JsonValue:
        """The value of the expression, as JSON.

        The result may share lists and objects with the activation; neither may be changed.

        Raises:
            ExpressionError: the evaluation failed.
        """
        return self.evaluate_in(as_activation(activation))

    def evaluate_in(self, activation: Activation) -> JsonValue:
        """As `evaluate`, of variables that are an activation already."""
        try:
            value = self._program(activation)
            return value if self._result_is_json else to_json(value)
        except Fault as fault:
            raise ExpressionError(self.source, self.place, fault) from None

    def evaluate_boolean(self, activation: Activation | Mapping[str, JsonValue]) -> bool:
        """The value of an expression that must be true or false.

        Raises:
            ExpressionError: the evaluation failed, or its result is not a boolean (kind `not_boolean`).
        """
        try:
            value = self._program(as_activation(activation))
            if type(value) is bool:
                return value
            raise Fault("not_boolean", f"the result is of type {type_name(value)}, not bool")
        except Fault as fault:
            raise ExpressionError(self.source, self.place, fault) from None


def compile_expression(
    source: str,
    *,
    place: Place | None = None,
    variables: frozenset[str] | None = None,
    functions: FunctionLibrary | None = None,
    engine: Engine | None = None,
) -> Expression:
    """Compile the text of an expression.

    Args:
        source: CEL, without `${` and `}`.
        place: where it stands, for errors.
        variables: names it may use; None allows any.
        functions: functions it may call; the standard library if left out.
        engine: what evaluates it; see `select_engine`.

    Raises:
        ExpressionSyntaxError: it is not an expression, or uses a name or a number of arguments that does not exist.
    """
    library = functions or STANDARD_LIBRARY
    try:
        tree = parse(source)
        names = analyze(source, tree, library, variables)
    except ExpressionSyntaxError as error:
        raise (error if place is None else error.at(place)) from None
    direct = _direct_program(tree)
    program = direct or (engine or chosen_engine()).compile(tree, library)
    return Expression(source, names, place or NOWHERE, program, result_is_json=direct is not None)


def expression_of(source: str, tree: Node, functions: FunctionLibrary | None = None) -> Expression:
    """The expression that a part of a parsed text is. `source` is the whole text; it was analysed before."""
    library = functions or STANDARD_LIBRARY
    names = analyze(source, tree, library, None)
    direct = _direct_program(tree)
    program = direct or chosen_engine().compile(tree, library)
    return Expression(source, names, NOWHERE, program, result_is_json=direct is not None)


def _direct_program(tree: Node) -> Program | None:
    """The program of a constant or a pure path, which needs no engine."""
    if isinstance(tree, Literal):
        return _constant_program(tree)
    path = path_of(tree)
    if path is None or is_type_constant(path[0].name, path[1]):
        return None
    return path_reader(path[0].name, path[1])


def _constant_program(tree: Literal) -> Program | None:
    """The program of a constant; None for one that JSON can't say, as `1e999`: it is refused when it is evaluated."""
    try:
        value = to_json(tree.value)
    except Fault:
        return None
    return lambda activation: value
