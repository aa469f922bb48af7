"""Checks of CEL: that it parses, uses variables that exist where it stands, and steps that come before it."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

import msgspec

from ductor.definitions.checks.scope import Findings, Scope
from ductor.definitions.documents.places import edge_place_key
from ductor.definitions.documents.report import valid_names_hint
from ductor.definitions.errors import Place
from ductor.definitions.expressions import (
    ExpressionSyntaxError,
    FunctionLibrary,
    Names,
    compile_expression,
    compile_template,
)
from ductor.definitions.steps import AnyStep
from ductor.definitions.values import JsonValue
from ductor.definitions.variables import CHOICE_VARIABLES, STEP_VARIABLES, field_variables

NamesCheck: TypeAlias = Callable[[Names, str], None]
"""Looks at the names that valid CEL uses, given with its key."""


class ExpressionCheck:
    """Compiles CEL to see whether it is valid, each text of a template by itself, so that problems have its place."""

    def __init__(self, findings: Findings, functions: FunctionLibrary | None) -> None:
        self._findings = findings
        self._functions = functions

    def expression(self, source: str, key: str, variables: frozenset[str], names_check: NamesCheck) -> None:
        """Check bare CEL."""
        try:
            found = compile_expression(source, place=Place(path=key), variables=variables, functions=self._functions)
        except ExpressionSyntaxError as error:
            self._report(error)
        else:
            names_check(found.names, key)

    def template(self, value: JsonValue, key: str, variables: frozenset[str], names_check: NamesCheck) -> None:
        """Check a value with `${...}` inside."""
        for text, text_key in _texts(value, key):
            try:
                found = compile_template(
                    text, place=Place(path=text_key), variables=variables, functions=self._functions
                )
            except ExpressionSyntaxError as error:
                self._report(error)
            else:
                names_check(found.names, text_key)

    def _report(self, error: ExpressionSyntaxError) -> None:
        for one in (error, *error.others):
            problem = one.problem()
            self._findings.add(problem.code, problem.message, one.place.path, problem.hint)


def _texts(value: JsonValue, key: str) -> Iterator[tuple[str, str]]:
    """The texts of a value that hold `${`, each with its key, in order."""
    stack: list[tuple[JsonValue, str]] = [(value, key)]
    while stack:
        one, at = stack.pop()
        if isinstance(one, str):
            if "${" in one:
                yield one, at
        elif isinstance(one, dict):
            stack.extend((item, f"{at}.{name}") for name, item in reversed(one.items()))
        elif isinstance(one, list):
            stack.extend((item, f"{at}[{index}]") for index, item in reversed(list(enumerate(one))))


def check_scope_expressions(scope: Scope, findings: Findings, functions: FunctionLibrary | None) -> None:
    """Check the CEL of every step of a scope, of its choices, and of its output."""
    check = ExpressionCheck(findings, functions)
    for step in scope.steps.values():
        _check_step(step, scope, check, findings)
    for edge in scope.edges:
        if edge.when is not None:
            names_check = _StepNames(scope, findings, edge.source, may_name_itself=True)
            key = edge_place_key(edge, scope.prefix)
            check.expression(edge.when, key, CHOICE_VARIABLES | scope.extra, names_check)
    if scope.output is not msgspec.UNSET:
        check.template(scope.output, scope.output_key, STEP_VARIABLES | scope.extra, run_names(scope, findings))


def _check_step(step: AnyStep, scope: Scope, check: ExpressionCheck, findings: Findings) -> None:
    repeats = getattr(step, "repeat", None) is not None
    for field in step.compiled_fields():
        names_check = _StepNames(scope, findings, step.ref, may_name_itself=field.own or repeats)
        key = scope.key(step.ref, field.path)
        variables = field_variables(field) | scope.extra
        if field.kind == "expression":
            check.expression(str(field.value), key, variables, names_check)
        else:
            check.template(field.value, key, variables, names_check)


class _StepNames:
    """Checks the steps named by CEL of a step: they exist, and come before it or beside it."""

    def __init__(self, scope: Scope, findings: Findings, ref: str, *, may_name_itself: bool) -> None:
        self._scope = scope
        self._findings = findings
        self._ref = ref
        self._may_name_itself = may_name_itself

    def __call__(self, names: Names, key: str) -> None:
        for named in sorted(names.steps):
            if named not in self._scope.known:
                _report_unknown(named, key, self._scope, self._findings)
            elif named == self._ref and not self._may_name_itself:
                message = f"`steps.{named}` is this very step, which has no output yet"
                hint = "Its `output` is visible in its own effects, choices and `repeat`."
                self._findings.add("own_step", message, key, hint)
            elif named != self._ref and self._scope.comes_after(named, self._ref):
                message = f"`steps.{named}` comes after `{self._ref}`, so it has no output yet"
                self._findings.add("later_step", message, key, "Use steps that come before it, or beside it.")


def run_names(scope: Scope, findings: Findings) -> NamesCheck:
    """The check of what is evaluated for the run as a whole: it may name any step but those of `defer`."""

    def check(names: Names, key: str) -> None:
        for named in sorted(names.steps):
            if named in scope.defer_refs:
                message = f"`steps.{named}` is a step of `defer`, which runs only when the run has ended"
                findings.add("later_step", message, key)
            elif named not in scope.known:
                _report_unknown(named, key, scope, findings)

    return check


def no_names(names: Names, key: str) -> None:
    """The check where no steps are visible: their variable is unknown, so there is nothing left to look at."""


def _report_unknown(named: str, key: str, scope: Scope, findings: Findings) -> None:
    findings.add("unknown_step", f"`steps.{named}` names no step", key, valid_names_hint(named, scope.graph.refs))
