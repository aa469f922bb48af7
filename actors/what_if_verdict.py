"""What a what-if says: how a run would stand under another definition, and whether it could be moved there.

Verdicts, the worst of all findings:
- *safe*: everything that has happened would have happened the same way. The run could go on under the other definition.
- *needs mapping*: the other definition asks for something that the history does not answer (a step is new where the run
  has passed, or gone, or was called with another input). A person has to say what stands for what.
- *impossible*: the history contradicts the other definition: a step that ran would not run, or is another kind of step,
  or would have ended otherwise; the run could not have been started like this.

A step that was skipped, or that nothing has happened to, contradicts nothing.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

import msgspec

from ductor.definitions.program import Program
from ductor.definitions.values import JsonValue
from ductor.journal.events import SETTLED_NODE_STATUSES
from ductor.journal.state import NodeState, RunState

Verdict = Literal["safe", "needs mapping", "impossible"]
_SEVERITY: dict[Verdict, int] = {"safe": 0, "needs mapping": 1, "impossible": 2}

StepFinding = Literal["same", "differs", "missing", "new"]

_encode_sorted = msgspec.json.Encoder(order="sorted").encode


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that keeps a what-if from being safe. `step` is empty for the run as a whole."""

    verdict: Verdict
    text: str
    step: str = ""


class DecisionDifference(msgspec.Struct, frozen=True, kw_only=True):
    """The first decision that is another one. `expected` was decided then, `actual` would be decided now."""

    version: int
    at_us: int
    event_index: int
    expected: JsonValue = None
    actual: JsonValue = None


class StepComparison(msgspec.Struct, frozen=True, kw_only=True):
    """One step then and now; statuses are empty where the definition has no such step.

    Attributes:
        finding: `missing`: the other definition does not have it; `new`: only that one has it.
        reads_otherwise: what its attempts were given differs: `task` or `input`.
    """

    step: str
    finding: StepFinding
    recorded: str
    what_if: str
    recorded_attempts: int = 0
    what_if_attempts: int = 0
    reads_otherwise: tuple[str, ...] = ()
    recorded_output: JsonValue = None
    what_if_output: JsonValue = None


class WhatIf(msgspec.Struct, frozen=True, kw_only=True):
    """How a recorded run would stand under another definition.

    Attributes:
        recorded_status, what_if_status: of the run.
        first_difference: None where every decision is the same.
        steps: those that something happened to, then or now, in the order of the definitions.
        open_steps: steps whose results the history does not have: they would be at work.
    """

    run_id: str
    manifest_hash: str
    other_manifest_hash: str
    verdict: Verdict
    reasons: tuple[Reason, ...]
    recorded_status: str
    what_if_status: str
    first_difference: DecisionDifference | None
    steps: tuple[StepComparison, ...]
    open_steps: tuple[str, ...]


class DispatchedAttempt(msgspec.Struct, frozen=True):
    """What an attempt was given: its handler, and its input as sorted JSON text."""

    task: str
    input: bytes


Dispatches = Mapping[tuple[str, int], DispatchedAttempt]
"""By step and generation."""


class Sides(msgspec.Struct, frozen=True, kw_only=True):
    """Both sides of a comparison."""

    program: Program
    state: RunState
    dispatches: Dispatches
    other_program: Program
    other_state: RunState
    other_dispatches: Dispatches


def worst(reasons: Iterable[Reason]) -> Verdict:
    """The verdict of all reasons together."""
    return max((reason.verdict for reason in reasons), key=_SEVERITY.__getitem__, default="safe")


def compare_steps(sides: Sides) -> tuple[list[StepComparison], list[Reason]]:
    """Every step that something happened to, and what its comparison means."""
    comparisons: list[StepComparison] = []
    reasons: list[Reason] = []
    for ref in _refs(sides):
        before = sides.state.nodes.get(ref) or NodeState()
        after = sides.other_state.nodes.get(ref) or NodeState()
        if not _has_happened(before) and not _has_happened(after) and before.status == after.status:
            continue
        found = list(_step_reasons(sides, ref, before, after))
        reasons += found
        comparisons.append(_comparison(sides, ref, before, after, differs=bool(found)))
    return comparisons, reasons


def run_reasons(sides: Sides) -> Iterator[Reason]:
    """What differs for the run as a whole."""
    before, after = sides.state, sides.other_state
    if before.is_terminal and after.is_terminal and before.status != after.status:
        yield Reason(verdict="impossible", text=f"the run has {before.status}, and would have {_ended(after)}")
    elif not before.is_terminal and after.is_terminal:
        yield Reason(verdict="impossible", text=f"the run is {before.status}, and would have {_ended(after)}")
    elif before.is_terminal and not after.is_terminal:
        yield Reason(verdict="needs mapping", text=f"the run has {before.status}, and would be {after.status}")
    elif before.is_terminal and (_value(before, before) != _value(after, after) or before.error != after.error):
        yield Reason(verdict="needs mapping", text="the run would have ended with another output or error")
    for key in {**before.context, **after.context}:
        if _encode_sorted(before.context.get(key)) != _encode_sorted(after.context.get(key)):
            yield Reason(verdict="needs mapping", text=f"`context.{key}` would have another value")


def _refs(sides: Sides) -> list[str]:
    """In the order of the recorded definition, then what only the other one has, then children and undos."""
    touched = {**sides.state.nodes, **sides.other_state.nodes}
    ordered = [*sides.program.nodes, *sides.other_program.nodes, *touched]
    return [ref for ref in dict.fromkeys(ordered) if ref in touched]


def _step_reasons(sides: Sides, ref: str, before: NodeState, after: NodeState) -> Iterator[Reason]:
    kind, other_kind = _kind(sides.program, ref), _kind(sides.other_program, ref)
    if not other_kind:
        if _has_happened(before):
            yield _reason("needs mapping", ref, f"it {_was(before)}, and the other definition has no such step")
        return
    if not kind:
        if _has_happened(after):
            yield _reason("needs mapping", ref, f"it is new, and would be {after.status} by now")
        return
    if kind != other_kind and _has_happened(before):
        yield _reason("impossible", ref, f"it is a {kind} that {_was(before)}, and would be a {other_kind}")
        return
    yield from _outcome_reasons(sides, ref, before, after)
    for what in _reads_otherwise(sides, ref):
        yield _reason("needs mapping", ref, f"its recorded result is for another {what}")


def _outcome_reasons(sides: Sides, ref: str, before: NodeState, after: NodeState) -> Iterator[Reason]:
    if not _has_happened(before):
        if _has_happened(after):
            yield _reason("needs mapping", ref, f"nothing had happened to it, and it would be {after.status}")
        return
    if not _has_happened(after):
        # it may come yet, once the history is told what the steps before it gave
        waits = after.status == "pending" and not sides.other_state.is_terminal and bool(sides.other_state.open_nodes)
        what = "would still be waiting for its turn" if waits else "would not have run"
        yield _reason("needs mapping" if waits else "impossible", ref, f"it {_was(before)}, and {what}")
    elif _progress(before) != _progress(after):
        was_settled, is_settled = before.status in SETTLED_NODE_STATUSES, after.status in SETTLED_NODE_STATUSES
        verdict: Verdict = "needs mapping" if was_settled and not is_settled else "impossible"
        would = f"be {_told(after)}" if after.status == "waiting" else f"have {_told(after)}"
        yield _reason(verdict, ref, f"it {_was(before)}, and would {would}")
    elif _output(sides.state, before) != _output(sides.other_state, after):
        yield _reason("needs mapping", ref, "it would have another output")


def _comparison(sides: Sides, ref: str, before: NodeState, after: NodeState, *, differs: bool) -> StepComparison:
    has, other_has = bool(_kind(sides.program, ref)), bool(_kind(sides.other_program, ref))
    finding: StepFinding = "missing" if not other_has else "new" if not has else "differs" if differs else "same"
    return StepComparison(
        step=ref,
        finding=finding,
        recorded=before.status if has else "",
        what_if=after.status if other_has else "",
        recorded_attempts=before.generation,
        what_if_attempts=after.generation,
        reads_otherwise=tuple(_reads_otherwise(sides, ref)) if has and other_has else (),
        recorded_output=_output(sides.state, before) if differs else None,
        what_if_output=_output(sides.other_state, after) if differs else None,
    )


def _reads_otherwise(sides: Sides, ref: str) -> list[str]:
    state, other = sides.state.nodes.get(ref), sides.other_state.nodes.get(ref)
    if state is None or other is None:
        return []
    found: dict[str, None] = {}
    for generation in range(1, min(state.generation, other.generation) + 1):
        then, now = sides.dispatches.get((ref, generation)), sides.other_dispatches.get((ref, generation))
        if then is not None and now is not None:
            found.update(dict.fromkeys(["task"] if then.task != now.task else []))
            found.update(dict.fromkeys(["input"] if then.input != now.input else []))
    return list(found)


def _has_happened(node: NodeState) -> bool:
    return node.generation > 0 or node.status not in {"pending", "skipped"}


def _progress(node: NodeState) -> tuple[object, ...]:
    return node.status, node.outcome, node.generation, node.iteration, node.waiting


def _kind(program: Program, ref: str) -> str:
    """The type of a step, a scatter's child or an undo; empty where there is none such."""
    try:
        return program.node(ref).step.type_name
    except (KeyError, ValueError):
        return ""


def _told(node: NodeState) -> str:
    attempts = f" after {node.generation} attempts" if node.generation > 1 else ""
    if node.status == "failed" and node.error is not None:
        return f"failed{attempts} ({node.error.type})"
    if node.status == "succeeded" and node.outcome not in {"", "success"}:
        return f"succeeded{attempts} as `{node.outcome}`"
    return f"{'begun' if node.status in {'running', 'pending'} else node.status}{attempts}"


def _was(node: NodeState) -> str:
    return f"{'is' if node.status == 'waiting' else 'has'} {_told(node)}"


def _ended(state: RunState) -> str:
    return f"{state.status} ({state.error.type}: {state.error.message})" if state.error is not None else state.status


def _output(state: RunState, node: NodeState) -> JsonValue:
    return state.payloads.get(node.output_ref.hash) if node.output_ref is not None else node.output


def _value(state: RunState, holder: RunState) -> bytes:
    value = state.payloads.get(holder.output_ref.hash) if holder.output_ref is not None else holder.output
    return _encode_sorted(value)


def _reason(verdict: Verdict, ref: str, text: str) -> Reason:
    return Reason(verdict=verdict, step=ref, text=f"step {ref}: {text}")
