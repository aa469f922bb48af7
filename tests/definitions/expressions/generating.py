"""Strategies for expressions, most of them meaningful, and for the data they run over."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from hypothesis import strategies as st

INTEGERS = st.integers(-4, 4) | st.sampled_from([2**53 + 1, 2**63 - 1, -(2**63)])
NUMBERS = INTEGERS | st.sampled_from([0.0, 0.5, -1.5, 2.0, 3.0, 1e16, 2.0**53])
TEXTS = st.sampled_from(["", "a", "ab", "b", "é😀", "1", "-2.5", "true"])
ANYTHING = st.none() | st.booleans() | NUMBERS | TEXTS | st.lists(NUMBERS, max_size=2)
OBJECTS = st.fixed_dictionaries({"q": NUMBERS, "s": TEXTS}, optional={"z": ANYTHING, "d": st.just({"q": 1, "s": "a"})})
DATA = st.fixed_dictionaries(
    {
        "n": NUMBERS,
        "m": INTEGERS,
        "s": TEXTS,
        "t": st.booleans(),
        "x": ANYTHING,
        "o": OBJECTS,
        "l": st.lists(NUMBERS, max_size=4),
        "r": st.lists(OBJECTS, max_size=4),
        "w": st.lists(ANYTHING | OBJECTS, max_size=3),
    }
)
ODD = ("x", "null", "w[0]", "o.z", "r[1].z")
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
QUANTIFIERS = ("all", "exists", "exists_one")
Alternative: TypeAlias = Callable[[], str]


class Writer:
    """Writes one expression by drawing; every operand has the type its place wants, but for one in twelve.

    `numbers` and `objects` are the variables of the loops around what is written.
    """

    def __init__(self, draw: st.DrawFn, *, with_default: bool) -> None:
        self.draw = draw
        self.with_default = with_default
        self.numbers: list[str] = []
        self.objects: list[str] = []

    def pick(self, options: Sequence[str]) -> str:
        return self.draw(st.sampled_from(options))

    def choose(self, depth: int, leaves: Sequence[str], alternatives: Sequence[Alternative]) -> str:
        if self.draw(st.integers(0, 11)) == 11:
            return self.pick(ODD)
        if depth == 0 or self.draw(st.integers(0, 4)) == 4:
            return self.pick(leaves)
        return alternatives[self.draw(st.integers(0, len(alternatives) - 1))]()

    def defaulted(self, write: Callable[[int], str], depth: int) -> list[Alternative]:
        paths = ("o.missing", "o.z.q", "x.q", "r[3].q", "o.d.q", "unbound.q", "l[1]")
        return [lambda: f"default({self.pick(paths)}, {write(depth)})"] if self.with_default else []

    def number(self, depth: int) -> str:
        fields = [f"{name}.q" for name in (*self.objects, "o", "r[0]")]
        leaves = ["0", "1", "-2", "3", "0.5", "2.0", "n", "m", "l[0]", "o.d.q", *self.numbers, *self.numbers, *fields]
        down = depth - 1
        alternatives: list[Alternative] = [
            lambda: f"({self.number(down)} {self.pick('+-*/%')} {self.number(down)})",
            lambda: f"-({self.number(down)})",
            lambda: f"size({self.pick((self.text(down), self.numbers_list(down), self.objects_list(down)))})",
            lambda: f"({self.condition(down)} ? {self.number(down)} : {self.number(down)})",
            lambda: f"({self.numbers_list(down)})[{self.number(down)}]",
            lambda: f"{self.pick(('int', 'double'))}({self.pick((self.number(down), self.text(down)))})",
            *self.defaulted(self.number, down),
        ]
        return self.choose(depth, leaves, alternatives)

    def text(self, depth: int) -> str:
        leaves = ["''", "'a'", "'ab'", "'é'", "s", "o.s", *(f"{name}.s" for name in self.objects)]
        down = depth - 1
        alternatives: list[Alternative] = [
            lambda: f"({self.text(down)} + {self.text(down)})",
            lambda: f"string({self.pick((self.number(down), self.condition(down), self.text(down)))})",
            lambda: f"({self.condition(down)} ? {self.text(down)} : {self.text(down)})",
            *self.defaulted(self.text, down),
        ]
        return self.choose(depth, leaves, alternatives)

    def condition(self, depth: int) -> str:
        down = depth - 1
        roots = [*self.objects, "o", "r[0]", "o.d", "o.z", "x"]
        alternatives: list[Alternative] = [
            lambda: f"({self.number(down)} {self.pick(COMPARISONS)} {self.number(down)})",
            lambda: f"({self.text(down)} {self.pick(COMPARISONS)} {self.text(down)})",
            lambda: f"({self.anything(down)} {self.pick(('==', '!='))} {self.anything(down)})",
            lambda: f"({self.number(down)} in {self.numbers_list(down)})",
            lambda: f"({self.text(down)} in {self.pick(('[s, 1]', 'o', chr(123) + '}'))})",
            lambda: f"({self.condition(down)} {self.pick(('&&', '||'))} {self.condition(down)})",
            lambda: f"!({self.condition(down)})",
            lambda: f"has({self.pick(roots)}.{self.pick('qzd')})",
            lambda: f"({self.text(down)}).{self.pick(('contains', 'startsWith', 'endsWith'))}({self.text(down)})",
            lambda: self.loop(self.pick(QUANTIFIERS), self.condition, down),
            *self.defaulted(self.condition, down),
        ]
        return self.choose(depth, ["true", "false", "t", "(m > 0)"], alternatives)

    def numbers_list(self, depth: int) -> str:
        down = depth - 1
        alternatives: list[Alternative] = [
            lambda: f"[{self.number(down)}, {self.number(down)}]",
            lambda: f"({self.numbers_list(down)} + {self.numbers_list(down)})",
            lambda: self.loop("map", self.number, down),
            lambda: self.loop_over(self.numbers_list(down), "filter", "i", self.numbers, self.condition, down),
        ]
        return self.choose(depth, ["l", "l", "[]", "[1, 2.0, 3]"], alternatives)

    def objects_list(self, depth: int) -> str:
        down = depth - 1
        alternatives: list[Alternative] = [
            lambda: self.loop_over(self.objects_list(down), "filter", "j", self.objects, self.condition, down),
            lambda: f"r.map(k, {{'q': {self.number(down)}, 's': {self.text(down)}}})",
        ]
        return self.choose(depth, ["r", "r", "w", "[o]"], alternatives)

    def loop(self, kind: str, body: Callable[[int], str], depth: int) -> str:
        if self.draw(st.booleans()):
            return self.loop_over(self.numbers_list(depth), kind, "i", self.numbers, body, depth)
        return self.loop_over(self.objects_list(depth), kind, "j", self.objects, body, depth)

    def loop_over(
        self, source: str, kind: str, letter: str, scope: list[str], body: Callable[[int], str], depth: int
    ) -> str:
        variable = f"{letter}{len(scope)}"
        scope.append(variable)
        text = f"({source}).{kind}({variable}, {body(depth)})"
        scope.pop()
        return text

    def anything(self, depth: int) -> str:
        writers = (self.number, self.text, self.condition, self.numbers_list, self.objects_list)
        return writers[self.draw(st.integers(0, len(writers) - 1))](depth)


@st.composite
def expressions(draw: st.DrawFn, *, with_default: bool = False) -> str:
    """The text of an expression over `DATA`."""
    return Writer(draw, with_default=with_default).anything(draw(st.integers(1, 4)))
