"""What the checks share: the findings, and the scope that a graph of steps makes."""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import cached_property

import msgspec

from ductor.definitions.documents.places import PlaceLookup, field_key
from ductor.definitions.errors import Place, Problem
from ductor.definitions.graph import Graph
from ductor.definitions.model import Definition, Edge
from ductor.definitions.steps import AnyStep, ScatterStep
from ductor.definitions.steps.scatter import ITEM_NAMES
from ductor.definitions.values import JsonValue


class Findings:
    """Gathers problems, each at the place of a key."""

    def __init__(self, places: PlaceLookup, problems: list[Problem]) -> None:
        self.problems = problems
        self._places = places

    def add(self, code: str, message: str, key: str, hint: str = "") -> None:
        """Note a problem at the place of a key."""
        self.problems.append(Problem(code=code, message=message, place=self.place(key), hint=hint))

    def place(self, key: str) -> Place:
        """The place of a key; the key itself stands for it where there is no document."""
        return self._places.get(key) or Place(path=key)


class Scope:
    """Steps that see each other: those of a definition, or those of one inline body.

    Attributes:
        prefix: of the refs, as `fan/` for the body of step `fan`; empty for the definition.
        broken: refs of steps that could not be read, with their type where known.
        unsound: refs of steps not every field of which could be read.
        known: every ref, those of broken steps included.
        extra: names that expressions see here besides the usual ones.
    """

    def __init__(
        self,
        prefix: str,
        steps: tuple[AnyStep, ...],
        edges: tuple[Edge, ...],
        *,
        defer: tuple[AnyStep, ...] = (),
        output: JsonValue | msgspec.UnsetType = msgspec.UNSET,
        extra: frozenset[str] = frozenset(),
        broken: Mapping[str, str | None],
        unsound: AbstractSet[str],
    ) -> None:
        self.prefix = prefix
        self.edges = edges
        self.defer = defer
        self.output = output
        self.extra = extra
        self.broken = dict(_within(prefix, broken))
        self.unsound = {ref for ref, _ in _within(prefix, dict.fromkeys(unsound))}
        self.steps: dict[str, AnyStep] = {}
        self.duplicates: list[str] = []
        for step in (*steps, *defer):
            if step.ref in self.steps:
                self.duplicates.append(step.ref)
            self.steps.setdefault(step.ref, step)
        self.defer_refs = {step.ref for step in defer}
        refs = dict.fromkeys((*self.steps, *self.broken))
        self.known = refs.keys()
        self.graph = Graph([ref for ref in refs if ref not in self.defer_refs], edges)

    @property
    def output_key(self) -> str:
        """The place key of the output of this scope."""
        return f"steps.{self.prefix.removesuffix('/')}.do.output" if self.prefix else "output"

    def key(self, ref: str, path: str = "") -> str:
        """The place key of a field of a step."""
        return field_key(f"{self.prefix}{ref}", path)

    @cached_property
    def _ancestor_bits(self) -> list[int]:
        return self.graph.ancestor_bits(self.graph.order())

    def count_before(self, ref: str) -> int:
        """How many steps lead to a step."""
        return self._ancestor_bits[self.graph.numbers[ref]].bit_count()

    def comes_after(self, later: str, earlier: str) -> bool:
        """Whether `later` runs only after `earlier`: it is behind it in the graph, or a step of `defer`."""
        if later in self.defer_refs or earlier in self.defer_refs:
            return later in self.defer_refs and earlier not in self.defer_refs
        numbers = self.graph.numbers
        if later not in numbers or earlier not in numbers:
            return False
        return bool(self._ancestor_bits[numbers[later]] >> numbers[earlier] & 1)


def _within(prefix: str, refs: Mapping[str, str | None]) -> Iterator[tuple[str, str | None]]:
    for ref, kind in refs.items():
        if ref.startswith(prefix) and "/" not in ref[len(prefix) :]:
            yield ref[len(prefix) :], kind


def scopes(definition: Definition, broken: Mapping[str, str | None], unsound: AbstractSet[str]) -> Iterator[Scope]:
    """The scope of a definition, then those of its bodies."""
    yield Scope(
        "",
        definition.steps,
        definition.edges,
        defer=definition.defer,
        output=definition.output,
        broken=broken,
        unsound=unsound,
    )
    lists = {"": (*definition.steps, *definition.defer)} | {
        f"{key}/": body.steps for key, body in definition.bodies.items()
    }
    holders = {f"{prefix}{step.ref}": step for prefix, steps in lists.items() for step in steps}
    for key, body in definition.bodies.items():
        in_scatter = isinstance(holders.get(key), ScatterStep)
        yield Scope(
            f"{key}/",
            body.steps,
            body.edges,
            output=body.output,
            extra=frozenset(ITEM_NAMES) if in_scatter else frozenset(),
            broken=broken,
            unsound=unsound,
        )
