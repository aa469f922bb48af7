"""What one expression may cost, and the meter that counts it.

Limits of form are checked when an expression is compiled, limits of cost while it is evaluated. The unit of cost is
about 0.1 µs on the reference machine: one operation of a loop's body, 16 characters of text, one item copied or
compared. The limits are fixed rather than configured, so that an expression which works on one host works on all.
"""

from ductor.definitions.expressions.errors import BudgetFault

MAX_EXPRESSION_LENGTH = 4_096
"""Characters of one expression."""
MAX_NESTING = 40
"""Brackets, conditionals and unary operators inside each other."""
MAX_TREE_DEPTH = 128
"""Depth of the syntax tree; a chain such as `a + b + c` is as deep as it has operators."""
MAX_TEMPLATE_DEPTH = 64
"""Lists and objects inside each other in a template."""
MAX_ITERATIONS = 10_000
"""Rounds of all loops of one evaluation together."""
MAX_COST = 250_000
"""Units of cost of one evaluation."""
MAX_LIST_SIZE = 10_000
"""Items of a list, or entries of a map, made by an expression."""
MAX_TEXT_LENGTH = 1_000_000
"""Characters of a text, or bytes, made by an expression."""
MAX_PATTERN_LENGTH = 512
"""Characters of a regular expression."""
MAX_RESULT_COST = 250_000
"""Units of cost of the result of one evaluation: one for each value in it, and its text."""
MAX_VALUE_DEPTH = 64
"""Lists and maps inside each other in a value that is compared, converted or returned."""
CHARACTERS_PER_UNIT = 16
"""Characters of text read or copied for one unit of cost."""
UNITS_PER_CONTAINER = 5
"""What it costs to make a list or a map, beside its items."""
UNITS_PER_PATTERN = 300
"""What it costs to compile a regular expression."""
UNITS_PER_ZONE = 1_000
"""What it costs to load a time zone."""
UNITS_PER_HOST_CALL = 50
"""What it costs to call a function that the host added, whatever it does."""


class Meter:
    """Counts the cost of one evaluation and stops it when it goes over a limit."""

    __slots__ = ("_seen", "cost", "iterations")

    def __init__(self, cost: int = MAX_COST, iterations: int = MAX_ITERATIONS) -> None:
        self.cost = cost
        self.iterations = iterations
        self._seen: frozenset[str] = frozenset()

    def charge(self, units: int) -> None:
        """Take `units` off what is left."""
        self.cost -= units
        if self.cost < 0:
            raise BudgetFault("the evaluation costs more than its budget")

    def charge_text(self, length: int) -> None:
        """Take the cost of reading or copying `length` characters or bytes."""
        self.charge(1 + length // CHARACTERS_PER_UNIT)

    def charge_iterations(self, rounds: int, units_per_round: int) -> None:
        """Take `rounds` rounds of a loop whose body costs `units_per_round`."""
        self.iterations -= rounds
        if self.iterations < 0:
            raise BudgetFault(f"the loops of the expression take more than {MAX_ITERATIONS} rounds")
        self.charge(rounds * units_per_round)

    def make_list(self, size: int) -> None:
        """Take the cost of a list or map of `size` items, and refuse one that is too large."""
        if size > MAX_LIST_SIZE:
            raise BudgetFault(f"a list or map of {size} items is larger than {MAX_LIST_SIZE}")
        self.charge(UNITS_PER_CONTAINER + size)

    def charge_once(self, what: str, units: int) -> None:
        """Take the cost of preparing something that is kept for the next evaluation, as a compiled pattern.

        Whether it must be prepared now does not count: the same evaluation costs the same everywhere.
        """
        if what not in self._seen:
            self.charge(units)
            self._seen |= {what}

    def make_text(self, length: int) -> None:
        """Take the cost of a text of `length` characters, and refuse one that is too long."""
        if length > MAX_TEXT_LENGTH:
            raise BudgetFault(f"a text of {length} characters is longer than {MAX_TEXT_LENGTH}")
        self.charge_text(length)
