"""What cel-python's operators do, mended where they differ from the language of ductor.

cel-python's own types compute; what stands here is what they are given and which of their answers count:

* Numbers of JSON compute and compare across int and double: the operands are brought to one type first. Pairs of types
  that have no overload fail, whatever Python's inheritance would allow (`1 + true`).
* Equality, membership and indexes go by the language's rules; Python's negative indexes don't exist.
* `&&`, `||` and `?:` evaluate only what they need; cel-python would evaluate all operands.
* Tests of loops must be true or false; cel-python would take any value for one of them.

A failure is a Python error that cel-python absorbs as CEL wants it. `Refused` and a budget that is exceeded end the
evaluation, which the portable engine then does again.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, cast

from celpy.celtypes import (
    BoolType,
    BytesType,
    DoubleType,
    DurationType,
    IntType,
    ListType,
    MapType,
    StringType,
    TimestampType,
    UintType,
    logical_and,
    logical_not,
    logical_or,
)
from celpy.evaluation import (
    function_contains,
    function_endsWith,
    function_size,
    function_startsWith,
    result,
)

from ductor.definitions.expressions.budget import Meter
from ductor.definitions.expressions.cel_python_values import FALSE, TRUE, CelValue, Refused, from_cel, to_cel
from ductor.definitions.expressions.errors import BudgetFault, Fault
from ductor.definitions.expressions.functions.declared import Implementation

Kinds: TypeAlias = tuple[type, type]
Branch: TypeAlias = "Callable[[Variables], CelValue]"
"""A part of an expression that waits to be evaluated."""

# Their declared types ask for cel-python's own variables, and leave out what they are given in fact.
_outcome = cast(Callable[[object, object], CelValue], result)
_and = cast(Callable[[CelValue, CelValue], CelValue], logical_and)
_or = cast(Callable[[CelValue, CelValue], CelValue], logical_or)
_NUMBERS = frozenset((IntType, UintType, DoubleType))
_ORDERED = frozenset((BoolType, StringType, BytesType, TimestampType, DurationType))
_SIZED = frozenset((StringType, BytesType, ListType, MapType))
_INTEGERS: dict[Kinds, type] = {(IntType, IntType): IntType, (UintType, UintType): UintType}
_COMPUTED: dict[Kinds, type] = {
    **_INTEGERS,
    (DoubleType, DoubleType): DoubleType,
    (IntType, DoubleType): DoubleType,
    (DoubleType, IntType): DoubleType,
}
_ADDED: dict[Kinds, type] = {
    **_COMPUTED,
    (StringType, StringType): StringType,
    (BytesType, BytesType): BytesType,
    (ListType, ListType): ListType,
    (DurationType, DurationType): DurationType,
    (TimestampType, DurationType): TimestampType,
    (DurationType, TimestampType): TimestampType,
}
_SUBTRACTED: dict[Kinds, type] = {
    **_COMPUTED,
    (DurationType, DurationType): DurationType,
    (TimestampType, TimestampType): DurationType,
    (TimestampType, DurationType): TimestampType,
}
"""For each operator the types of operands it takes, and the type of what it gives."""


class Variables:
    """The variables of one evaluation, as attributes; cel-python makes a nested one for each round of a loop.

    Args:
        meter: what the rounds are charged to.
        round_costs: what a round costs, by the variable of its loop.
        values: the variables.
    """

    def __init__(self, meter: Meter, round_costs: Mapping[str, int], values: Mapping[str, CelValue]) -> None:
        self._meter = meter
        self._round_costs = round_costs
        vars(self).update(values)

    def nested_activation(self, vars: dict[str, CelValue]) -> "Variables":  # noqa: A002  # cel-python's name
        """These variables and that of a loop, for one round."""
        (variable,) = vars
        self._meter.charge_iterations(1, self._round_costs[variable])
        nested = object.__new__(Variables)
        nested.__dict__ = {**self.__dict__, **vars}
        return nested

    def __getattr__(self, name: str) -> CelValue:
        raise NameError(name)


class Operations:
    """The operators and functions of one evaluation, by the names that the transpiled text has for them.

    Attributes:
        functions: the functions that the expression calls, in the order of their calls.
    """

    def __init__(self, meter: Meter, implementations: Sequence[Implementation]) -> None:
        self._meter = meter
        self.functions = [_called(meter, implementation) for implementation in implementations]

    def add(self, left: CelValue, right: CelValue) -> CelValue:
        """`left + right`."""
        if type(left) is StringType or type(left) is BytesType:
            self._meter.make_text(len(left) + _length(right))
        elif type(left) is ListType:
            self._meter.make_list(len(left) + _length(right))
        return _compute("+", operator.add, _ADDED, left, right)

    @staticmethod
    def subtract(left: CelValue, right: CelValue) -> CelValue:
        """`left - right`."""
        return _compute("-", operator.sub, _SUBTRACTED, left, right)

    @staticmethod
    def multiply(left: CelValue, right: CelValue) -> CelValue:
        """`left * right`."""
        return _compute("*", operator.mul, _COMPUTED, left, right)

    @staticmethod
    def divide(left: CelValue, right: CelValue) -> CelValue:
        """`left / right`."""
        if not right and DoubleType in (type(left), type(right)):
            raise Refused("a double divided by zero, which cel-python always takes for infinity")
        return _compute("/", operator.truediv, _COMPUTED, left, right)

    @staticmethod
    def modulo(left: CelValue, right: CelValue) -> CelValue:
        """`left % right`."""
        return _compute("%", operator.mod, _INTEGERS, left, right)

    @staticmethod
    def negate(operand: CelValue) -> CelValue:
        """`-operand`."""
        if type(operand) is IntType or type(operand) is DoubleType:
            return -operand
        raise TypeError("no overload of -")

    @staticmethod
    def negation(operand: CelValue) -> CelValue:
        """`!operand`."""
        return logical_not(operand)

    @staticmethod
    def less(left: CelValue, right: CelValue) -> BoolType:
        """`left < right`."""
        return _ordered("<", operator.lt, left, right)

    @staticmethod
    def less_or_equal(left: CelValue, right: CelValue) -> BoolType:
        """`left <= right`."""
        return _ordered("<=", operator.le, left, right)

    @staticmethod
    def greater(left: CelValue, right: CelValue) -> BoolType:
        """`left > right`."""
        return _ordered(">", operator.gt, left, right)

    @staticmethod
    def greater_or_equal(left: CelValue, right: CelValue) -> BoolType:
        """`left >= right`."""
        return _ordered(">=", operator.ge, left, right)

    @staticmethod
    def equal(left: CelValue, right: CelValue) -> BoolType:
        """`left == right`."""
        return TRUE if _same(left, right) else FALSE

    @staticmethod
    def not_equal(left: CelValue, right: CelValue) -> BoolType:
        """`left != right`."""
        return FALSE if _same(left, right) else TRUE

    @staticmethod
    def contained(item: CelValue, container: CelValue) -> BoolType:
        """`item in container`."""
        if type(container) is ListType:
            return TRUE if any(_same(item, other) for other in container) else FALSE
        if type(container) is not MapType or type(item) in (ListType, MapType):
            raise TypeError("no overload of in")
        return TRUE if type(item) is StringType and item in container else FALSE

    @staticmethod
    def index(operand: CelValue, key: CelValue) -> CelValue:
        """`operand[key]`; maps have texts as keys only."""
        if type(operand) is MapType and type(key) is StringType:
            return operand[key]
        if (
            type(operand) is ListType
            and type(key) in _NUMBERS
            and not (type(key) is DoubleType and not key.is_integer())
        ):
            position = int(key)
            if 0 <= position < len(operand):
                return operand[position]
            raise IndexError(position)
        if operand is None or (type(operand) is MapType and type(key) in (BoolType, *_NUMBERS)):
            raise KeyError(key)
        raise TypeError("no overload of []")

    @classmethod
    def present(cls, operand: CelValue, keys: Sequence[CelValue]) -> BoolType:
        """`has` over a path of keys below `operand`."""
        try:
            for key in keys[:-1]:
                operand = cls.index(operand, key)
        except LookupError:
            return FALSE
        if type(operand) is MapType:
            return TRUE if keys[-1] in operand else FALSE
        if operand is None:
            return FALSE
        raise TypeError("no overload of has")

    @staticmethod
    def boolean(value: CelValue) -> BoolType:
        """The test of a loop, which must be true or false."""
        if type(value) is BoolType:
            return value
        raise TypeError("a test is neither true nor false")

    @classmethod
    def choose(cls, variables: Variables, test: Branch, when_true: Branch, when_false: Branch) -> CelValue:
        """`test ? when_true : when_false`."""
        return (when_true if cls.boolean(test(variables)) else when_false)(variables)

    @classmethod
    def conjunction(cls, variables: Variables, left: Branch, right: Branch) -> BoolType:
        """`left && right`."""
        decided = _outcome(variables, left)
        if type(decided) is BoolType and not decided:
            return decided
        return cls.boolean(_and(decided, _outcome(variables, right)))

    @classmethod
    def disjunction(cls, variables: Variables, left: Branch, right: Branch) -> BoolType:
        """`left || right`."""
        decided = _outcome(variables, left)
        if type(decided) is BoolType and decided:
            return decided
        return cls.boolean(_or(decided, _outcome(variables, right)))

    @staticmethod
    def size(value: CelValue) -> CelValue:
        """`size(value)`."""
        if type(value) in _SIZED:
            return function_size(value)
        raise TypeError("no overload of size()")

    @staticmethod
    def contains(text: CelValue, part: CelValue) -> CelValue:
        """`text.contains(part)`."""
        return function_contains(*_texts(text, part))

    @staticmethod
    def starts_with(text: CelValue, part: CelValue) -> CelValue:
        """`text.startsWith(part)`."""
        return function_startsWith(*_texts(text, part))

    @staticmethod
    def ends_with(text: CelValue, part: CelValue) -> CelValue:
        """`text.endsWith(part)`."""
        return function_endsWith(*_texts(text, part))


def _called(meter: Meter, implementation: Implementation) -> Callable[..., CelValue]:
    """A function of the library or of the host, over cel-python's values."""

    def call(*arguments: CelValue) -> CelValue:
        given = [from_cel(argument) for argument in arguments]
        try:
            return to_cel(implementation(meter, *given))
        except BudgetFault:
            raise
        except Fault as fault:
            raise ValueError(fault.message) from fault

    return call


def _compute(
    symbol: str, compute: Callable[..., CelValue], kinds: Mapping[Kinds, type], left: CelValue, right: CelValue
) -> CelValue:
    """What cel-python's types make of two operands, in the type the language gives it."""
    kind = kinds.get((type(left), type(right)))
    if kind is None:
        raise TypeError(f"no overload of {symbol}")
    if kind is DoubleType:
        left, right = float.__new__(DoubleType, left), float.__new__(DoubleType, right)
    computed = compute(left, right)
    return computed if type(computed) is kind else kind(computed)


def _ordered(symbol: str, compare: Callable[..., bool], left: CelValue, right: CelValue) -> BoolType:
    kind = type(left)
    if kind is not type(right):
        left, right = _alike(symbol, left, right)
    elif kind not in _NUMBERS and kind not in _ORDERED:
        raise TypeError(f"no overload of {symbol}")
    return TRUE if compare(left, right) else FALSE


def _alike(symbol: str, left: CelValue, right: CelValue) -> tuple[CelValue, CelValue]:
    """Two numbers of different types in one that compares them: doubles if one is a double, else integers."""
    kinds = {type(left), type(right)}
    if not kinds <= _NUMBERS:
        raise TypeError(f"no overload of {symbol}")
    if DoubleType in kinds:
        return float.__new__(DoubleType, left), float.__new__(DoubleType, right)
    return int.__int__(left), int.__int__(right)


def _same(left: CelValue, right: CelValue) -> bool:
    """Whether two values are equal: numbers by value, lists and maps item by item; different types are unequal."""
    kind = type(left)
    if kind is not type(right):
        if kind not in _NUMBERS or type(right) not in _NUMBERS:
            return False
        left, right = _alike("==", left, right)
    elif kind is ListType:
        return len(left) == len(right) and all(map(_same, left, right))
    elif kind is MapType:
        return left.keys() == right.keys() and all(_same(item, right[key]) for key, item in left.items())
    return bool(left == right)


def _texts(*values: CelValue) -> tuple[CelValue, ...]:
    if all(type(value) is StringType for value in values):
        return values
    raise TypeError("no overload for what is no text")


def _length(value: CelValue) -> int:
    return len(value) if type(value) in _SIZED else 0
