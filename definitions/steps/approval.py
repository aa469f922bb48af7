"""`approval`: parks until people have approved or rejected."""

from collections.abc import Iterator
from typing import ClassVar, Literal

from ductor.definitions.fields import Count
from ductor.definitions.steps.step import CompiledField, FieldProblem, ParkedStep
from ductor.definitions.values import JsonValue


class ApprovalStep(ParkedStep, tag="approval", frozen=True, kw_only=True):
    """Gathers one vote a person; its output is `{decision, by, comment, votes}`.

    Attributes:
        approvers: template of the list of people or groups who may vote.
        title: template, for people.
        data: template of what they see.
        quorum: approvals needed; rejected once it can't be reached any more.
        veto: one rejection rejects.
        on_timeout: without a `timeout` edge: `fail`, `approve`, or `skip` as a false `run_if` does.
    """

    type_name: ClassVar[str] = "approval"
    outcomes: ClassVar[tuple[str, ...]] = ("approved", "rejected", "timeout", "error")

    approvers: JsonValue
    title: str = ""
    data: JsonValue = None
    quorum: Count = 1
    veto: bool = False
    on_timeout: Literal["fail", "approve", "skip"] = "fail"

    def compiled_fields(self) -> Iterator[CompiledField]:
        """Adds `approvers`, `title` and `data`."""
        yield from super().compiled_fields()
        yield CompiledField("approvers", "template", self.approvers)
        yield CompiledField("title", "template", self.title)
        yield CompiledField("data", "template", self.data)

    def field_problems(self) -> Iterator[FieldProblem]:
        """Adds: somebody must be able to approve, and enough of them."""
        yield from super().field_problems()
        approvers = self.approvers
        if isinstance(approvers, str) and "${" in approvers:
            return
        if not isinstance(approvers, list) or not approvers:
            yield FieldProblem("no_approvers", "approvers", "`approvers` must be a list of at least one, or `${...}`")
        elif self.quorum > len(approvers):
            yield FieldProblem(
                "quorum_unreachable",
                "quorum",
                f"a quorum of {self.quorum} can't be reached by {len(approvers)} approvers",
            )
