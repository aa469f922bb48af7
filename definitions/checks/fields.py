"""Checks of what belongs to the definition as a whole: input, messages, triggers, CEL outside of steps."""

from ductor.definitions.checks.expressions import ExpressionCheck, no_names, run_names
from ductor.definitions.checks.scope import Findings, Scope
from ductor.definitions.checks.steps import report_unknown_step
from ductor.definitions.expressions import FunctionLibrary
from ductor.definitions.json_schema import Schema, schema_problems, show_path
from ductor.definitions.limits import Limits
from ductor.definitions.manifest import CanonicalizationError, canonical_json
from ductor.definitions.model import Definition, MessageHandler, Trigger
from ductor.definitions.schedules import cron_fault, timezone_fault
from ductor.definitions.steps import InteractionStep
from ductor.definitions.values import JsonObject, JsonValue
from ductor.definitions.variables import (
    CRON_TRIGGER_VARIABLES,
    EVENT_TRIGGER_VARIABLES,
    EVENT_VARIABLES,
    START_VARIABLES,
    STEP_VARIABLES,
)


class FieldsCheck:
    """Checks the fields of one definition; `scope` is that of its own steps."""

    def __init__(
        self,
        definition: Definition,
        scope: Scope,
        findings: Findings,
        functions: FunctionLibrary | None,
        limits: Limits,
    ) -> None:
        self._definition = definition
        self._scope = scope
        self._findings = findings
        self._limits = limits
        self._cel = ExpressionCheck(findings, functions)
        self._run_names = run_names(scope, findings)

    def check(self) -> None:
        """Check everything."""
        definition = self._definition
        if definition.input is not None:
            check_schema(definition.input, "input", self._findings, self._limits)
        if definition.search_attributes:
            self._cel.template(definition.search_attributes, "search_attributes", START_VARIABLES, no_names)
        if definition.lease is not None:
            self._cel.template(definition.lease.key, "lease.key", START_VARIABLES, no_names)
        if definition.repeat is not None:
            self._cel.expression(definition.repeat.until, "repeat.until", STEP_VARIABLES, self._run_names)
        if definition.timeout_ms is None and definition.on_timeout != "fail":
            self._findings.add(
                "on_timeout_without_timeout", "`on_timeout` has no effect without `timeout`", "on_timeout"
            )
        for index, trigger in enumerate(definition.triggers):
            self._check_trigger(trigger, f"triggers[{index}]")
        for index, handler in enumerate(definition.on):
            self._check_handler(handler, f"on[{index}]")

    def _check_trigger(self, trigger: Trigger, key: str) -> None:
        if (trigger.cron is None) == (trigger.event is None):
            self._findings.add("trigger_needs_one", "a trigger needs exactly one of `cron` and `event`", key)
            return
        variables = EVENT_TRIGGER_VARIABLES if trigger.cron is None else CRON_TRIGGER_VARIABLES
        if trigger.cron is not None:
            self._check_schedule(trigger, trigger.cron, key)
        if trigger.match is not None and trigger.event is not None:
            self._cel.expression(trigger.match, f"{key}.match", variables, no_names)
        self._cel.template(trigger.input, f"{key}.input", variables, no_names)
        if trigger.key is not None:
            self._cel.template(trigger.key, f"{key}.key", variables, no_names)

    def _check_schedule(self, trigger: Trigger, cron: str, key: str) -> None:
        if fault := cron_fault(cron):
            self._findings.add("invalid_cron", fault, f"{key}.cron")
        if fault := timezone_fault(trigger.timezone):
            self._findings.add("invalid_timezone", fault, f"{key}.timezone")
        if trigger.key is not None and trigger.overlap != "allow":
            message = "a schedule whose runs have a `key` of their own can't tell which of them overlap"
            self._findings.add("key_with_overlap", message, f"{key}.key", "Say `overlap: allow`.")
        if trigger.match is not None:
            self._findings.add("match_without_event", "`match` has no effect without `event`", f"{key}.match")

    def _check_handler(self, handler: MessageHandler, key: str) -> None:
        if (handler.signal is None) == (handler.event is None):
            self._findings.add("handler_needs_one", "`on` hears exactly one of `signal` and `event`", key)
        if handler.match is not None:
            self._cel.expression(handler.match, f"{key}.match", EVENT_VARIABLES, self._run_names)
        for name, value in handler.effects.items():
            self._cel.template(value, f"{key}.effects.{name}", EVENT_VARIABLES, self._run_names)
        for index, cancelled in enumerate(handler.cancels):
            if cancelled not in self._scope.known:
                report_unknown_step(cancelled, f"{key}.cancels[{index}]", self._scope, self._findings)


def check_reply_schemas(scope: Scope, findings: Findings, limits: Limits) -> None:
    """Check the schemas of `interaction` steps."""
    for ref, step in scope.steps.items():
        if isinstance(step, InteractionStep) and step.schema:
            check_schema(step.schema, scope.key(ref, "schema"), findings, limits)


def check_schema(source: JsonValue, key: str, findings: Findings, limits: Limits) -> None:
    """Check a JSON Schema, and that the defaults in it fit it."""
    try:
        size = len(canonical_json(source))
    except CanonicalizationError as error:
        findings.add("invalid_schema", error.reason, key)
        return
    if size > limits.schema_bytes:
        message = f"the schema has {size:,} bytes, more than {limits.schema_bytes:,} (limit `schema_bytes`)"
        findings.add("limit_exceeded", message, key)
        return
    found = schema_problems(source)
    for path, message in found:
        findings.add("invalid_schema", f"no valid JSON Schema: {message}", _below(key, show_path(path)))
    if not found and isinstance(source, dict):
        _check_defaults(source, source, key, findings)


def _check_defaults(root: JsonObject, schema: JsonObject, key: str, findings: Findings) -> None:
    """Check the defaults of properties, at any depth of `properties`, against the schema they stand in."""
    stack = [(schema, key)]
    while stack:
        one, at = stack.pop()
        properties = one.get("properties")
        for name, inner in properties.items() if isinstance(properties, dict) else ():
            if not isinstance(inner, dict):
                continue
            inner_key = f"{at}.properties.{name}"
            stack.append((inner, inner_key))
            if "default" not in inner:
                continue
            # References within the inner schema go to the definitions of the whole.
            for path, message in Schema({**_definitions(root), **inner}).problems(inner["default"]):
                shown = f"the default does not fit: {message}" + (f" at {show_path(path)}" if path else "")
                findings.add("invalid_default", shown, f"{inner_key}.default")


def _definitions(root: JsonObject) -> JsonObject:
    return {"$defs": root["$defs"]} if "$defs" in root else {}


def _below(key: str, path: str) -> str:
    return f"{key}{path}" if path.startswith("[") or not path else f"{key}.{path}"
