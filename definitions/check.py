"""What is wrong with a definition as a whole.

The checks go over a definition in normal form, made from a document or by hand. The definition's own steps and those of
each inline body are graphs of their own. All problems are gathered; nothing here stops at the first.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from ductor.definitions.checks.expressions import check_scope_expressions
from ductor.definitions.checks.fields import FieldsCheck, check_reply_schemas
from ductor.definitions.checks.graph import check_graph
from ductor.definitions.checks.scope import Findings, Scope, scopes
from ductor.definitions.checks.steps import check_steps
from ductor.definitions.documents.places import NO_PLACES, PlaceLookup
from ductor.definitions.documents.report import ProblemList
from ductor.definitions.errors import Problem
from ductor.definitions.expressions import FunctionLibrary
from ductor.definitions.limits import DEFAULT_LIMITS, Limits
from ductor.definitions.model import Definition


def check_definition(
    definition: Definition,
    *,
    problems: list[Problem] | None = None,
    places: PlaceLookup = NO_PLACES,
    functions: FunctionLibrary | None = None,
    broken: Mapping[str, str | None] | None = None,
    unsound: AbstractSet[str] = frozenset(),
    limits: Limits = DEFAULT_LIMITS,
) -> list[Problem]:
    """Return everything that is wrong with a definition.

    Args:
        problems: where to add them; a new list if left out. The limit on their number holds either way.
        places: where things stand in its document.
        functions: the function library that expressions may use.
        broken, unsound: steps that could not be read, or not wholly, as in `Draft`.
    """
    findings = Findings(places, ProblemList(limits) if problems is None else problems)
    if not _check_counts(definition, findings, limits):
        return findings.problems
    all_scopes = list(scopes(definition, broken or {}, unsound))
    if not _check_reach(all_scopes, findings, limits):
        return findings.problems
    FieldsCheck(definition, all_scopes[0], findings, functions, limits).check()
    for scope in all_scopes:
        check_steps(scope, findings)
        check_reply_schemas(scope, findings, limits)
        check_graph(scope, findings)
        check_scope_expressions(scope, findings, functions)
    return findings.problems


def _check_counts(definition: Definition, findings: Findings, limits: Limits) -> bool:
    """Whether there are few enough of everything to go on."""
    within = True
    bodies = definition.bodies.values()
    steps = len(definition.steps) + len(definition.defer) + sum(len(body.steps) for body in bodies)
    edges = len(definition.edges) + sum(len(body.edges) for body in bodies)
    for limit, count, key in (
        ("steps", steps, "steps"),
        ("edges", edges, "steps"),
        ("handlers", len(definition.triggers), "triggers"),
        ("handlers", len(definition.on), "on"),
    ):
        allowed = getattr(limits, limit)
        if count > allowed:
            findings.add("limit_exceeded", f"{count:,} {limit}, more than {allowed:,} (limit `{limit}`)", key)
            within = False
    return within


def _check_reach(all_scopes: list[Scope], findings: Findings, limits: Limits) -> bool:
    """Whether the sets of the steps before `cancel_rest` joins, which programs keep, are bounded together."""
    reach = 0
    for scope in all_scopes:
        for ref, step in scope.steps.items():
            if step.cancel_rest and ref in scope.graph.numbers:
                reach += scope.count_before(ref)
        if reach > limits.cancel_rest_reach:
            message = f"`cancel_rest` joins reach back over more than {limits.cancel_rest_reach:,} steps together"
            findings.add("limit_exceeded", f"{message} (limit `cancel_rest_reach`)", "steps")
            return False
    return True
