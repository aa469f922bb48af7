"""`gather`: shapes the results of a scatter's children into one value."""

from typing import ClassVar, Literal

from ductor.definitions.fields import Ref
from ductor.definitions.steps.step import RunsIn, Step


class GatherStep(Step, tag="gather", frozen=True, kw_only=True):
    """Gives `{"result": [...], "error": {...}}` in the order of the items.

    Attributes:
        scatter_ref: the scatter whose children are gathered.
        strategy: where failed children go: `partition` to the error map, `include` into the result's place, `drop`
            nowhere; `raise` fails at the first and cancels what still runs.
    """

    type_name: ClassVar[str] = "gather"
    runs_in: ClassVar[RunsIn] = "tick"

    scatter_ref: Ref
    strategy: Literal["partition", "include", "drop", "raise"] = "partition"
