"""`rule`: an ordered decision table."""

import msgspec

from ductor.actors.steps.behaviour import ComputedInTick
from ductor.actors.tick.settle import fail, succeed
from ductor.actors.tick.working import Tick
from ductor.definitions.program import ProgramNode
from ductor.definitions.steps.rule import RuleStep
from ductor.definitions.values import JsonObject, JsonValue
from ductor.journal.events import ErrorInfo


class RuleBehaviour(ComputedInTick):
    """Done in the tick that starts it."""

    def start(self, tick: Tick, node: ProgramNode) -> None:
        """Evaluate the table and settle."""
        step = node.step
        assert isinstance(step, RuleStep)
        rows = _rows_that_hold(tick, node, step)
        if step.hit == "unique" and len(rows) > 1:
            names = ", ".join(str(row + 1) for row in rows)
            _fail(tick, node, "RuleNotUnique", f"rows {names} hold at once and `hit` is `unique`")
            return
        if not rows and step.default is msgspec.UNSET and step.hit in ("first", "unique"):
            _fail(tick, node, "NoRuleMatched", "no row holds and there is no `default`")
            return
        output = _output(tick, node, step, rows)
        inline, ref = tick.keep(output, f"output of step {node.ref}")
        succeed(tick, node, "success", output, inline=inline, ref=ref)


def _rows_that_hold(tick: Tick, node: ProgramNode, step: RuleStep) -> list[int]:
    rows: list[int] = []
    for index in range(len(step.rules)):
        if node.expressions[f"rules[{index}].when"].evaluate_boolean(tick.activation):
            rows.append(index)
            if step.hit == "first":
                break
    return rows


def _output(tick: Tick, node: ProgramNode, step: RuleStep, rows: list[int]) -> JsonValue:
    if not rows and step.default is not msgspec.UNSET:
        return node.templates["default"].render(tick.activation)
    values = [node.templates[f"rules[{index}].then"].render(tick.activation) for index in rows]
    if step.hit == "all":
        return values
    if step.hit == "collect":
        return _collected(values)
    return values[0]


def _collected(values: list[JsonValue]) -> JsonObject:
    merged: JsonObject = {}
    for value in values:
        if isinstance(value, dict):
            merged.update(value)
    return merged


def _fail(tick: Tick, node: ProgramNode, kind: str, message: str) -> None:
    fail(tick, node, ErrorInfo(type=kind, message=f"step {node.ref}: {message}", retryable=False))
