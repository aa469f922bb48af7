"""Checks of each step by itself: its own fields, and the steps it names."""

from ductor.definitions.checks.scope import Findings, Scope
from ductor.definitions.documents.report import valid_names_hint
from ductor.definitions.steps import AnyStep, GatherStep, ScatterStep


def check_steps(scope: Scope, findings: Findings) -> None:
    """Check every step of a scope."""
    for ref in scope.duplicates:
        findings.add("duplicate_ref", f"the ref `{ref}` is taken", scope.key(ref, "ref"))
    for ref, step in scope.steps.items():
        if ref not in scope.unsound:
            for problem in step.field_problems():
                findings.add(problem.code, problem.message, scope.key(ref, problem.path), problem.hint)
        _check_cancels(step, scope, findings)
        if isinstance(step, GatherStep):
            _check_gather(step, scope, findings)


def _check_cancels(step: AnyStep, scope: Scope, findings: Findings) -> None:
    for index, cancelled in enumerate(step.cancels):
        if cancelled not in scope.known:
            report_unknown_step(cancelled, scope.key(step.ref, f"cancels[{index}]"), scope, findings)


def _check_gather(step: GatherStep, scope: Scope, findings: Findings) -> None:
    key = scope.key(step.ref, "scatter_ref")
    scattering = scope.steps.get(step.scatter_ref)
    if step.scatter_ref in scope.broken:
        return
    scatters = [ref for ref, one in scope.steps.items() if isinstance(one, ScatterStep)]
    if scattering is None:
        hint = valid_names_hint(step.scatter_ref, scatters)
        findings.add("unknown_step", f"no step has the ref `{step.scatter_ref}`", key, hint)
    elif not isinstance(scattering, ScatterStep):
        hint = valid_names_hint("", scatters)
        message = f"`{step.scatter_ref}` is a `{scattering.type_name}`, there is nothing to gather from"
        findings.add("gather_without_scatter", message, key, hint)
    elif not scope.comes_after(step.ref, step.scatter_ref):
        message = f"gather `{step.ref}` does not come after its scatter `{step.scatter_ref}`"
        findings.add("gather_before_scatter", message, key, f"Let an edge lead from `{step.scatter_ref}` to it.")


def report_unknown_step(ref: str, key: str, scope: Scope, findings: Findings) -> None:
    """Note that a ref names no step."""
    findings.add("unknown_step", f"no step has the ref `{ref}`", key, valid_names_hint(ref, scope.graph.refs))
