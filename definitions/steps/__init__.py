"""One file per step type: its fields and its own checks. A new type is a file and a line in each list here."""

from typing import TypeAlias

from ductor.definitions.steps.approval import ApprovalStep
from ductor.definitions.steps.conditional import ConditionalStep
from ductor.definitions.steps.connector import ConnectorStep
from ductor.definitions.steps.digest import DigestStep
from ductor.definitions.steps.event_set import EventSetStep
from ductor.definitions.steps.gather import GatherStep
from ductor.definitions.steps.human_loop import HumanLoopStep
from ductor.definitions.steps.interaction import InteractionStep
from ductor.definitions.steps.route import RouteStep
from ductor.definitions.steps.rule import RuleStep
from ductor.definitions.steps.scatter import ScatterStep
from ductor.definitions.steps.step import CompiledField, FieldProblem, ParkedStep, Step, WorkerStep
from ductor.definitions.steps.subworkflow import SubworkflowStep
from ductor.definitions.steps.task import TaskStep
from ductor.definitions.steps.transform import TransformStep
from ductor.definitions.steps.wait import WaitStep

AnyStep: TypeAlias = (
    TaskStep
    | ConnectorStep
    | RuleStep
    | TransformStep
    | ConditionalStep
    | ScatterStep
    | GatherStep
    | SubworkflowStep
    | WaitStep
    | ApprovalStep
    | HumanLoopStep
    | EventSetStep
    | DigestStep
    | InteractionStep
    | RouteStep
)

STEP_TYPES: dict[str, type[AnyStep]] = {
    "task": TaskStep,
    "connector": ConnectorStep,
    "rule": RuleStep,
    "transform": TransformStep,
    "conditional": ConditionalStep,
    "scatter": ScatterStep,
    "gather": GatherStep,
    "subworkflow": SubworkflowStep,
    "wait": WaitStep,
    "approval": ApprovalStep,
    "human_loop": HumanLoopStep,
    "event_set": EventSetStep,
    "digest": DigestStep,
    "interaction": InteractionStep,
    "route": RouteStep,
}

__all__ = [
    "STEP_TYPES",
    "AnyStep",
    "ApprovalStep",
    "CompiledField",
    "ConditionalStep",
    "ConnectorStep",
    "DigestStep",
    "EventSetStep",
    "FieldProblem",
    "GatherStep",
    "HumanLoopStep",
    "InteractionStep",
    "ParkedStep",
    "RouteStep",
    "RuleStep",
    "ScatterStep",
    "Step",
    "SubworkflowStep",
    "TaskStep",
    "TransformStep",
    "WaitStep",
    "WorkerStep",
]
