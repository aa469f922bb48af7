"""Runs whose journals come near to the `continue_as_new_after` of their definition: health reports name them."""

import logging
from collections import OrderedDict

from ductor.actors.log_fields import run_fields
from ductor.journal.state import RunState

MAX_LONG_RUNS = 1_000
"""Runs with a long journal that health reports name; the oldest are forgotten first."""

_log = logging.getLogger(__name__)


class LongRuns:
    """See the module's docstring.

    Attributes:
        transitions: how long each journal is, by run id.
    """

    def __init__(self) -> None:
        self.transitions: OrderedDict[str, int] = OrderedDict()

    def add(self, state: RunState) -> None:
        """The journal of a run has become long: health reports name it until it ends, and the log once."""
        if state.is_terminal:
            self.transitions.pop(state.run_id, None)
            return
        if state.run_id not in self.transitions:
            fields = run_fields(state.run_id, state)
            _log.warning("run %s of %s has %d transitions", state.run_id, state.definition, state.version, extra=fields)
        self.transitions[state.run_id] = state.version
        if len(self.transitions) > MAX_LONG_RUNS:
            self.transitions.popitem(last=False)
