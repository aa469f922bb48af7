"""The behaviour of each step type that this version can run. A further type is one module and one line here."""

from typing import Final

from ductor.actors.steps.approval import ApprovalBehaviour
from ductor.actors.steps.behaviour import Behaviour
from ductor.actors.steps.conditional import ConditionalBehaviour
from ductor.actors.steps.digest import DigestBehaviour
from ductor.actors.steps.event_set import EventSetBehaviour
from ductor.actors.steps.gather import GatherBehaviour
from ductor.actors.steps.human_loop import HumanLoopBehaviour
from ductor.actors.steps.interaction import InteractionBehaviour
from ductor.actors.steps.rule import RuleBehaviour
from ductor.actors.steps.scatter import ScatterBehaviour
from ductor.actors.steps.subworkflow import SubworkflowBehaviour
from ductor.actors.steps.task import TaskBehaviour
from ductor.actors.steps.transform import TransformBehaviour
from ductor.actors.steps.wait import WaitBehaviour

BEHAVIOURS: Final[dict[str, Behaviour]] = {
    "task": TaskBehaviour(),
    "wait": WaitBehaviour(),
    "approval": ApprovalBehaviour(),
    "human_loop": HumanLoopBehaviour(),
    "interaction": InteractionBehaviour(),
    "event_set": EventSetBehaviour(),
    "digest": DigestBehaviour(),
    "transform": TransformBehaviour(),
    "conditional": ConditionalBehaviour(),
    "rule": RuleBehaviour(),
    "scatter": ScatterBehaviour(),
    "gather": GatherBehaviour(),
    "subworkflow": SubworkflowBehaviour(),
}

RUNNABLE_TYPES: Final[frozenset[str]] = frozenset(BEHAVIOURS)

__all__ = ["BEHAVIOURS", "RUNNABLE_TYPES", "Behaviour"]
