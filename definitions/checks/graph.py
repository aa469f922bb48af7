"""Checks of the graph: edges, choices, joins, cycles, steps that can never run."""

from itertools import groupby

from ductor.definitions.checks.scope import Findings, Scope
from ductor.definitions.checks.steps import report_unknown_step
from ductor.definitions.documents.places import edge_place_key
from ductor.definitions.graph import sorted_edges
from ductor.definitions.model import Edge
from ductor.definitions.steps import STEP_TYPES, AnyStep, ParkedStep, SubworkflowStep, TransformStep


def check_graph(scope: Scope, findings: Findings) -> None:
    """Check the edges of a scope and what they make of its steps."""
    for edge in scope.edges:
        _check_edge(edge, scope, findings)
    _check_choices(scope, findings)
    for cycle in scope.graph.cycles():
        shown = " → ".join((*cycle, cycle[0]))
        hint = "To run a step again, give it `repeat`."
        findings.add("cycle", f"the steps form a cycle: {shown}", scope.key(cycle[0]), hint)
    for ref, step in scope.steps.items():
        _check_join(ref, step, scope, findings)
    _check_skips(scope, findings)


def _check_edge(edge: Edge, scope: Scope, findings: Findings) -> None:
    key = edge_place_key(edge, scope.prefix)
    if edge.to in scope.defer_refs:
        hint = "Steps of `defer` run when the run ends; no edge leads to them."
        findings.add("edge_to_defer", f"`{edge.to}` is a step of `defer`", key, hint)
    elif edge.to not in scope.known:
        report_unknown_step(edge.to, key, scope, findings)
    step = scope.steps.get(edge.source)
    if step is None and edge.source not in scope.broken:
        report_unknown_step(edge.source, key, scope, findings)
    type_name = step.type_name if step is not None else scope.broken.get(edge.source)
    if type_name is not None:
        _check_outcome(edge, type_name, key, findings)
    if step is not None and edge.source not in scope.unsound:
        _check_source(edge, step, key, findings)


def _check_outcome(edge: Edge, type_name: str, key: str, findings: Findings) -> None:
    outcomes = (*STEP_TYPES[type_name].outcomes, "done")
    if edge.outcome not in outcomes:
        message = f"step `{edge.source}` is a `{type_name}`, which can't end as `{edge.outcome}`"
        findings.add("impossible_outcome", message, key, f"Valid: {', '.join(outcomes)}.")


def _check_source(edge: Edge, step: AnyStep, key: str, findings: Findings) -> None:
    if edge.outcome == "error" and not step.may_lead_on_after_error:
        message = f"the `error` edge of `{edge.source}` is never taken, because its failure fails the run"
        findings.add("error_edge_without_continue", message, key, "Give the step `on_error: continue`.")
    if edge.outcome == "timeout" and isinstance(step, (ParkedStep, SubworkflowStep)) and step.timeout_ms is None:
        message = f"the `timeout` edge of `{edge.source}` is never taken, because it has no `timeout`"
        findings.add("timeout_edge_without_timeout", message, key, "Give the step `timeout`.")
    if isinstance(step, TransformStep) and step.end is not None:
        message = f"nothing comes after `{edge.source}`, which ends the run (`end: {step.end}`)"
        findings.add("edge_after_end", message, key)


def _check_choices(scope: Scope, findings: Findings) -> None:
    grouped = [edge for edge in sorted_edges(scope.edges) if edge.group is not None]
    for (source, _, _), edges in groupby(grouped, key=lambda edge: (edge.source, edge.outcome, edge.group)):
        branches = list(edges)
        if source in scope.unsound or source in scope.broken:
            continue
        if branches[-1].when is not None:
            key = edge_place_key(branches[-1], scope.prefix)
            findings.add("choice_without_default", "the choice has no default", key, "End it with `{to: ref}`.")
        for edge in branches[:-1]:
            if edge.when is None:
                message = "a branch without `when` always holds, so those after it are never taken"
                findings.add("choice_default_first", message, edge_place_key(edge, scope.prefix), "Put it last.")


def _check_join(ref: str, step: AnyStep, scope: Scope, findings: Findings) -> None:
    number = scope.graph.numbers.get(ref)
    sources = len(scope.graph.predecessors[number]) if number is not None else 0
    if isinstance(step.join, int) and step.join > sources:
        message = f"`{ref}` can never run: it joins {step.join} steps, and {sources} lead to it"
        findings.add("join_unreachable", message, scope.key(ref, "join"))
    if step.cancel_rest and step.join in ("all", "every"):
        message = f"`cancel_rest` has no effect with `join: {step.join}`, which waits for every branch"
        findings.add(
            "cancel_rest_without_race", message, scope.key(ref, "cancel_rest"), "Valid: join: any, or a number."
        )


def _check_skips(scope: Scope, findings: Findings) -> None:
    outcomes: dict[str, set[str]] = {}
    for edge in scope.edges:
        outcomes.setdefault(edge.source, set()).add(edge.outcome)
    for ref, step in scope.steps.items():
        taken = outcomes.get(ref, set())
        if step.run_if is None or step.on_skip == "stop" or not taken or taken & {"success", "done"}:
            continue
        message = f"when `run_if` of `{ref}` is false none of its edges is taken"
        findings.add("on_skip_missing", message, scope.key(ref, "run_if"), "Say so with `on_skip: stop`.")
