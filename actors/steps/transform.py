"""`transform`: computes a value; with `end` it also ends the run on purpose."""

from ductor.actors.steps.behaviour import ComputedInTick
from ductor.actors.tick.closing import begin_closing, complete
from ductor.actors.tick.settle import own_values, succeed
from ductor.actors.tick.working import Tick
from ductor.definitions.program import ProgramNode
from ductor.definitions.steps.transform import EndError, TransformStep
from ductor.definitions.values import JsonValue
from ductor.journal.codec import safe_text
from ductor.journal.events import ErrorInfo

MAX_ERROR_TEXT = 10_000
"""Characters of an error's type or message at most; longer ones are cut."""


class TransformBehaviour(ComputedInTick):
    """Done in the tick that starts it."""

    def start(self, tick: Tick, node: ProgramNode) -> None:
        """Compute, settle, and end the run where the step says so."""
        step = node.step
        assert isinstance(step, TransformStep)
        output = node.templates["value"].render(tick.activation)
        inline, ref = tick.keep(output, f"output of step {node.ref}")
        # evaluated before anything is decided: when it fails, the step fails
        error = _end_error(tick, node, step.error, output) if step.end == "failed" else None
        if not succeed(tick, node, "success", output, inline=inline, ref=ref):
            return
        if step.end == "completed":
            complete(tick)
        elif step.end == "failed":
            begin_closing(tick, "failed", error=error, reason=f"ended by step {node.ref}")
        elif step.end == "cancelled":
            begin_closing(tick, "cancelled", reason=f"ended by step {node.ref}")


def _end_error(tick: Tick, node: ProgramNode, error: EndError | None, output: JsonValue) -> ErrorInfo:
    if error is None:
        return ErrorInfo(type="EndedByStep", message=f"step {node.ref} ended the run as failed", retryable=False)
    activation = tick.activation.with_own(own_values(tick, node, output, None))
    details = node.templates["error.details"].render(activation)
    return ErrorInfo(
        type=_text(node.templates["error.type"].render(activation)),
        message=_text(node.templates["error.message"].render(activation)),
        details=tick.keep_inline(details, f"error details of step {node.ref}"),
        retryable=False,
    )


def _text(value: JsonValue) -> str:
    return safe_text(value if isinstance(value, str) else str(value), MAX_ERROR_TEXT)
