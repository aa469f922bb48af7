"""Which variables an expression sees, by where it stands."""

from typing import Final

from ductor.definitions.steps import CompiledField

STEP_VARIABLES: Final = frozenset({"trigger", "config", "context", "run", "steps", "now"})
"""What every expression of a step sees, and the definition's `output` and `repeat`."""

OWN_VARIABLES: Final = frozenset({"output", "error", "iteration", "previous"})
"""What a step's own effects, choices, `repeat` and `compensate` see besides."""

CHOICE_VARIABLES: Final = STEP_VARIABLES | OWN_VARIABLES

START_VARIABLES: Final = frozenset({"trigger", "config", "context", "run", "now"})
"""What is there when a run starts: for `search_attributes` and the definition's `lease`."""

EVENT_VARIABLES: Final = STEP_VARIABLES | {"event"}
"""Where a message is heard while the run lives."""

EVENT_TRIGGER_VARIABLES: Final = frozenset({"event", "config"})
"""Where an event starts a run."""

CRON_TRIGGER_VARIABLES: Final = frozenset({"scheduled_at", "config"})
"""Where a schedule starts a run."""


def field_variables(field: CompiledField) -> frozenset[str]:
    """Return the variables that the CEL of a step's field may use."""
    variables = CHOICE_VARIABLES if field.own else STEP_VARIABLES
    return variables.union(field.extra) if field.extra else variables
