"""Reads steps, the defaults of their types, and the inline bodies they hold."""

from typing import Any, Final, cast

import msgspec

from ductor.definitions.documents.nodes import Node, shorten
from ductor.definitions.documents.places import DocumentPlaces
from ductor.definitions.documents.report import Report, valid_names_hint
from ductor.definitions.fields import Ref
from ductor.definitions.limits import Limits
from ductor.definitions.model import Body, Edge
from ductor.definitions.parsing.edges import OUTCOMES, EdgeReader
from ductor.definitions.parsing.struct_shapes import shape_of_annotation, struct_shape
from ductor.definitions.steps import STEP_TYPES, AnyStep
from ductor.definitions.values import JsonValue

CHILD_REF: Final = "do"
"""The ref of a scatter's child, which documents don't give."""

CHILD_TYPES: Final = ("task", "connector", "subworkflow")
BODY_TYPES: Final = frozenset({"scatter", "subworkflow"})
"""Types that may hold an inline body under `do`."""

STEP_ONLY_KEYS: Final = frozenset({"ref", "type", "next", "do"})
"""Keys that `defaults` can't give."""

FAILING_POLICIES: Final = frozenset({None, "fail", "fail_parent"})
"""What `on_timeout` may say without a timeout: it is what holds where it says nothing."""

_REF: Final = shape_of_annotation(Ref)


class StepsReader:
    """Reads the steps of one document.

    Attributes:
        edges: of the steps read last.
        bodies: inline bodies so far, by the ref of their step.
        broken, unsound: as in `Draft`, refs of bodies with their prefix.
    """

    def __init__(self, report: Report, places: DocumentPlaces, limits: Limits) -> None:
        self.edges: list[Edge] = []
        self.bodies: dict[str, Body] = {}
        self.broken: dict[str, str | None] = {}
        self.unsound: set[str] = set()
        self._report = report
        self._places = places
        self._limits = limits
        self._defaults: dict[str, dict[str, object]] = {}
        self._default_nodes: dict[str, Node] = {}
        self._count = 0

    def read_defaults(self, root: Node) -> None:
        """Read `defaults` of a definition: values for the steps of a type that don't give their own."""
        node = root.value.get("defaults") if isinstance(root.value, dict) else None
        if node is None:
            return
        if not isinstance(node.value, dict):
            self._report.add(
                "wrong_type", f"expected a map by step type, found {node.kind()}", "defaults", node.position
            )
            return
        for name, fields in node.value.items():
            path = f"defaults.{name}"
            step_type = STEP_TYPES.get(name)
            if step_type is None:
                self._report_type(name, path, node, name)
            elif not isinstance(fields.value, dict):
                self._report.add("wrong_type", f"expected a map, found {fields.kind()}", path, fields.position)
            else:
                for key in STEP_ONLY_KEYS & fields.value.keys():
                    message = f"`{key}` can't have a default"
                    self._report.add("invalid_default", message, f"{path}.{key}", fields.key_position(key))
                values, _ = struct_shape(step_type).read_fields(fields, path, self._report, STEP_ONLY_KEYS)
                self._defaults[name] = values
                self._default_nodes[name] = fields

    def read_steps(self, holder: Node, key: str, path: str = "", prefix: str = "") -> list[AnyStep]:
        """Read the list of steps under a key of a node; their edges are added to `edges`.

        Args:
            path: of the node.
            prefix: of the refs, within a body.
        """
        node = holder.value.get(key) if isinstance(holder.value, dict) else None
        path = f"{path}.{key}" if path else key
        if node is None:
            if key == "steps":
                self._report.add("missing_key", "`steps` is missing", path.rpartition(".")[0], holder.position)
            return []
        if not isinstance(node.value, list) or (key == "steps" and not node.value):
            found = "an empty list" if node.value == [] else node.kind()
            self._report.add("wrong_type", f"expected a list of steps, found {found}", path, node.position)
            return []
        self._count += len(node.value)
        if self._count > self._limits.steps:
            message = f"more than {self._limits.steps:,} steps (limit `steps`)"
            self._report.add("limit_exceeded", message, path, node.position)
            return []
        seen: dict[str, Node] = {}
        steps = []
        for index, child in enumerate(node.value):
            step = self._step(child, f"{path}[{index}]", prefix, seen, has_edges=key == "steps")
            if step is not None:
                steps.append(step)
        return steps

    def _step(self, node: Node, path: str, prefix: str, seen: dict[str, Node], *, has_edges: bool) -> AnyStep | None:
        if not isinstance(node.value, dict):
            self._report.add("wrong_type", f"expected a step, found {node.kind()}", path, node.position)
            return None
        ref = self._ref(node, path, seen)
        name, step_type = self._type(node, path)
        key = f"{prefix}{ref}"
        if ref is not None:
            self._places.add_step(key, path, node, self._default_nodes.get(name))
        if "next" in node.value:
            outcomes = tuple(OUTCOMES - {"done"}) if step_type is None else step_type.outcomes
            self._next(node, path, prefix, ref, outcomes, has_edges=has_edges)
        if "compensate" in node.value and not has_edges:
            position = node.key_position("compensate")
            message = "a step of `defer` is never undone"
            self._report.add("compensate_in_defer", message, f"{path}.compensate", position, "Leave `compensate` out.")
        step = None if step_type is None else self._fields(node, path, key, name, step_type)
        if ref is None or step is None:
            if ref is not None:
                self.broken[key] = name or None
            return None
        return step

    def _ref(self, node: Node, path: str, seen: dict[str, Node]) -> str | None:
        child = node.value.get("ref") if isinstance(node.value, dict) else None
        if child is None:
            self._report.add(
                "missing_key", "`ref` is missing", path, node.position, "Every step has a name of its own."
            )
            return None
        ref = _REF.read(child, f"{path}.ref", self._report)
        if not isinstance(ref, str):
            return None
        if ref in seen:
            line, column = seen[ref].position
            before = f", first in line {line}, column {column}" if line else ""
            self._report.add("duplicate_ref", f"the ref `{ref}` is taken{before}", f"{path}.ref", child.position)
            return None
        seen[ref] = child
        return ref

    def _type(self, node: Node, path: str) -> tuple[str, type[AnyStep] | None]:
        child = node.value.get("type") if isinstance(node.value, dict) else None
        if child is None:
            hint = f"Valid: {', '.join(STEP_TYPES)}."
            self._report.add("missing_key", "`type` is missing", path, node.position, hint)
            return "", None
        name = child.value
        if isinstance(name, str) and name in STEP_TYPES:
            return name, STEP_TYPES[name]
        if isinstance(name, str):
            self._report.add(
                "unknown_type", f"`{shorten(name)}` is no step type", f"{path}.type", child.position,
                valid_names_hint(name, STEP_TYPES),
            )  # fmt: skip
        else:
            self._report.add(
                "wrong_type", f"expected a step type, found {child.kind()}", f"{path}.type", child.position
            )
        return "", None

    def _report_type(self, name: str, path: str, holder: Node, key: str) -> None:
        hint = valid_names_hint(name, STEP_TYPES)
        self._report.add("unknown_type", f"`{shorten(name)}` is no step type", path, holder.key_position(key), hint)

    def _next(
        self, node: Node, path: str, prefix: str, ref: str | None, outcomes: tuple[str, ...], *, has_edges: bool
    ) -> None:
        child = node.value["next"] if isinstance(node.value, dict) else node
        path = f"{path}.next"
        if not has_edges:
            position = node.key_position("next")
            self._report.add("next_in_defer", "a step of `defer` has no edges", path, position, "Leave `next` out.")
            return
        reader = EdgeReader(ref or "", outcomes, prefix, self._report, self._places, self._limits)
        edges = reader.read(child, path)
        if ref is not None:
            self.edges.extend(edges)

    def _fields(self, node: Node, path: str, key: str, name: str, step_type: type[AnyStep]) -> AnyStep | None:
        shape = struct_shape(step_type)
        holds_body = name in BODY_TYPES
        others = ("ref", "type", "next", "do") if holds_body else ("ref", "type", "next")
        values, sound = shape.read_fields(node, path, self._report, others)
        policy = values.get("on_timeout")
        values = {**self._defaults.get(name, {}), **values, "ref": key.rpartition("/")[2]}
        if policy not in FAILING_POLICIES and "timeout_ms" not in values:
            self._report_idle_policy(node, path)
        complete = shape.report_missing(values, node, path, self._report)
        child = node.value.get("do") if holds_body and isinstance(node.value, dict) else None
        if holds_body:
            sound = self._do(node, child, path, key, name, values) and sound
        if not sound:
            self.unsound.add(key)
        return step_type(**cast("dict[str, Any]", values)) if complete else None

    def _report_idle_policy(self, node: Node, path: str) -> None:
        """Of `on_timeout` that the step itself has; among `defaults` it is meant for those that have a timeout."""
        if isinstance(node.value, dict) and "timeout" not in node.value:  # one that can't be read is reported already
            message = "`on_timeout` has no effect without `timeout`"
            self._report.add(
                "on_timeout_without_timeout", message, f"{path}.on_timeout", node.key_position("on_timeout")
            )

    def _do(self, node: Node, child: Node | None, path: str, key: str, name: str, values: dict[str, object]) -> bool:
        """Read `do` of a scatter or a subworkflow: a child step, or an inline body."""
        named = "definition" in values
        if child is None:
            if name == "scatter":
                self._report.add("missing_key", "`do` is missing", path, node.position, "Say what each child does.")
            elif not named:
                self._report.add(
                    "missing_key", "`definition` is missing", path, node.position, "Name it, or give `do`."
                )
            return name != "scatter" and named
        path = f"{path}.do"
        if named:
            message = "`definition` and `do` exclude each other"
            self._report.add("two_children", message, path, node.key_position("do"), "Keep one of them.")
            return False
        if not isinstance(child.value, dict):
            self._report.add("wrong_type", f"expected a map, found {child.kind()}", path, child.position)
            return False
        if "steps" in child.value or name == "subworkflow":
            return self._body(child, path, key)
        return self._child(child, path, key, values)

    def _child(self, node: Node, path: str, key: str, values: dict[str, object]) -> bool:
        name, step_type = self._type(node, path)
        if step_type is None:
            return False
        if name not in CHILD_TYPES:
            message = f"a child can't be a `{name}`"
            self._report.add(
                "invalid_child", message, f"{path}.type", node.position, f"Valid: {', '.join(CHILD_TYPES)}."
            )
            return False
        for forbidden in ("ref", "next"):
            if isinstance(node.value, dict) and forbidden in node.value:
                message = f"a child has no `{forbidden}`"
                self._report.add("invalid_child", message, f"{path}.{forbidden}", node.key_position(forbidden))
                return False
        step = self._fields(node, path, f"{key}/{CHILD_REF}", name, step_type)
        if step is None:
            return False
        values["do"] = step
        return f"{key}/{CHILD_REF}" not in self.unsound

    def _body(self, node: Node, path: str, key: str) -> bool:
        if key.count("/") >= self._limits.body_depth:
            message = f"more than {self._limits.body_depth} inline bodies within each other (limit `body_depth`)"
            self._report.add("limit_exceeded", message, path, node.position)
            return False
        value = node.value if isinstance(node.value, dict) else {}
        for name in value:
            if name not in ("steps", "output"):
                hint = valid_names_hint(name, ("steps", "output"))
                self._report.add(
                    "unknown_key", f"unknown key `{shorten(name)}`", f"{path}.{name}", node.key_position(name), hint
                )
        outer, self.edges = self.edges, []
        steps = self.read_steps(node, "steps", path, f"{key}/")
        output: JsonValue | msgspec.UnsetType = value["output"].plain() if "output" in value else msgspec.UNSET
        self.bodies[key] = Body(steps=tuple(steps), edges=tuple(self.edges), output=output)
        self.edges = outer
        return True
