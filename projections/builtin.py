"""The projections that every host keeps unless it is told otherwise."""

from ductor.projections.funnel import FunnelProjection
from ductor.projections.model import Projection
from ductor.projections.runs import RunsProjection
from ductor.projections.steps import StepsProjection
from ductor.projections.usage import UsageProjection


def builtin_projections() -> tuple[Projection, ...]:
    """One of each."""
    return (RunsProjection(), StepsProjection(), UsageProjection(), FunnelProjection())
