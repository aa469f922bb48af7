"""Reads `next`: the forms of edges in documents become plain edges."""

from typing import Final, get_args

from ductor.definitions.documents.nodes import Node, shorten
from ductor.definitions.documents.places import DocumentPlaces, edge_place_key
from ductor.definitions.documents.report import INVALID, Report, valid_names_hint
from ductor.definitions.fields import Ref
from ductor.definitions.limits import Limits
from ductor.definitions.model import Edge, Outcome
from ductor.definitions.parsing.shapes import Shape, TextShape
from ductor.definitions.parsing.struct_shapes import shape_of_annotation

OUTCOMES: Final[frozenset[str]] = frozenset(get_args(Outcome))

_REF: Final[Shape] = shape_of_annotation(Ref)
_CONDITION: Final = TextShape("cel", 1)


class EdgeReader:
    """Reads the `next` of one step.

    Args:
        source: ref of the step.
        outcomes: what its type can end with, `done` left out; every outcome when the type is unknown.
        prefix: of the refs of the body the step belongs to, for the keys of places.
    """

    def __init__(
        self,
        source: str,
        outcomes: tuple[str, ...],
        prefix: str,
        report: Report,
        places: DocumentPlaces,
        limits: Limits,
    ) -> None:
        self._source = source
        self._outcomes = outcomes
        self._prefix = prefix
        self._report = report
        self._places = places
        self._limits = limits
        self._edges: dict[str, Edge] = {}
        self._groups = 0

    def read(self, node: Node, path: str) -> list[Edge]:
        """Return the edges; what is wrong is in the report."""
        value = node.value
        if isinstance(value, dict) and "choice" not in value:
            for name, target in value.items():
                if self._check_outcome(name, node, f"{path}.{name}"):
                    self._outcome(name, target, f"{path}.{name}")
        else:
            self._outcome("success", node, path)
        return list(self._edges.values())

    def _check_outcome(self, name: str, node: Node, path: str) -> bool:
        if name in OUTCOMES:
            return True
        hint = valid_names_hint(name, (*self._outcomes, "done"))
        self._report.add("unknown_outcome", f"`{shorten(name)}` is no outcome", path, node.key_position(name), hint)
        return False

    def _outcome(self, name: str, node: Node, path: str) -> None:
        self._groups = 0
        if isinstance(node.value, list):
            for index, item in enumerate(node.value):
                self._target(name, item, f"{path}[{index}]")
        else:
            self._target(name, node, path)

    def _target(self, name: str, node: Node, path: str) -> None:
        if isinstance(node.value, dict):
            self._choice(name, node, path)
        elif (to := self._ref(node, path)) is not None:
            self._add(name, to, node, path)

    def _ref(self, node: Node, path: str) -> str | None:
        if not isinstance(node.value, str):
            message = f"expected a ref or a choice, found {node.kind()}"
            self._report.add("wrong_type", message, path, node.position)
            return None
        ref = _REF.read(node, path, self._report)
        return ref if isinstance(ref, str) else None

    def _choice(self, name: str, node: Node, path: str) -> None:
        value = node.value if isinstance(node.value, dict) else {}
        for key in value:
            if key != "choice":
                hint = "A target is a ref, a list, or `{choice: [{when, to}, {to}]}`."
                self._report.add(
                    "unknown_key", f"unknown key `{shorten(key)}`", f"{path}.{key}", node.key_position(key), hint
                )
        branches = value.get("choice")
        if branches is None:
            return
        path = f"{path}.choice"
        if not isinstance(branches.value, list) or not branches.value:
            message = f"expected a list of branches, found {branches.kind()}"
            self._report.add("wrong_type", message, path, branches.position)
            return
        if len(branches.value) > self._limits.choice_branches:
            message = f"more than {self._limits.choice_branches} branches (limit `choice_branches`)"
            self._report.add("limit_exceeded", message, path, branches.position)
            return
        group, self._groups = self._groups, self._groups + 1
        for order, branch in enumerate(branches.value):
            self._branch(name, branch, f"{path}[{order}]", group, order)

    def _branch(self, name: str, node: Node, path: str, group: int, order: int) -> None:
        if not isinstance(node.value, dict):
            self._report.add("wrong_type", f"expected `{{when, to}}`, found {node.kind()}", path, node.position)
            return
        for key in node.value:
            if key not in ("when", "to"):
                hint = valid_names_hint(key, ("when", "to"))
                self._report.add(
                    "unknown_key", f"unknown key `{shorten(key)}`", f"{path}.{key}", node.key_position(key), hint
                )
        when = node.value.get("when")
        condition = None if when is None else _CONDITION.read(when, f"{path}.when", self._report)
        target = node.value.get("to")
        if target is None:
            self._report.add("missing_key", "`to` is missing", path, node.position)
        elif (to := self._ref(target, f"{path}.to")) is not None and condition is not INVALID:
            self._add(name, to, when or target, path, group=group, order=order, when=str(condition) if when else None)

    def _add(
        self,
        name: str,
        to: str,
        node: Node,
        path: str,
        *,
        group: int | None = None,
        order: int = 0,
        when: str | None = None,
    ) -> None:
        edge = Edge(source=self._source, outcome=_OUTCOME_OF[name], to=to, group=group, order=order, when=when)
        key = edge_place_key(edge, self._prefix)
        if key in self._edges:
            self._report.add("duplicate_edge", f"`{to}` is listed twice", path, node.position, "Keep one of them.")
            return
        self._edges[key] = edge
        self._places.edges[key] = self._report.place(path, node.position)


_OUTCOME_OF: Final[dict[str, Outcome]] = {outcome: outcome for outcome in get_args(Outcome)}
