"""Where attempts are that the journal calls running, as far as this host knows: what may be issued again.

An attempt that is issued again while another host has it is carried out twice. So nothing is, unless nobody can have
it:

- What this host has is no question. What it offered in vain it may offer again, whoever owns the run.
- Runs of other owners are theirs: an owner tells nobody of what it holds.
- Of its own runs a host knows what others hold of them (`elsewhere`), once they have told: see `unsettled` and
  `told_until_us` of `ductor.actors.membership.Observation`. Until then the run is held back, and looked at again after
  the heartbeat that tells.

Failure cases:
- A run that is held back gets another owner: who owns it takes over what there is.
- More is held back than is remembered, or an attempt is lost that was dispatched by who is no owner: the watchdog of
  the owner finds the run by its not getting on.
"""

from collections.abc import Collection

from ductor.actors.membership import ANY_TIME_US, Observation
from ductor.actors.messages import Assignment
from ductor.actors.partitions import PartitionMap
from ductor.journal.partitions import partition_of

MAX_HELD_BACK = 100_000
"""Runs remembered until others have told what they hold. Those beyond are looked at again by the watchdog."""

MAX_OFFERED_IN_VAIN = 100_000
"""Attempts remembered that nobody has taken; the oldest are forgotten."""


class Whereabouts:
    """See the module's docstring.

    Attributes:
        elsewhere: tokens of attempts that other hosts hold although they do not own their runs.
    """

    def __init__(self) -> None:
        self.elsewhere: Collection[str] = frozenset()
        self._unsettled: Collection[int] = frozenset()
        self._told_until_us = ANY_TIME_US
        self._held_back: dict[str, int] = {}  # when the youngest attempt was dispatched
        self._offered_in_vain: dict[str, None] = {}

    def may_issue_again(self, assignment: Assignment, partitions: PartitionMap) -> bool:
        """Whether no other host has the attempt. Where that is not known yet, its run is held back."""
        token, run_id = assignment.token, assignment.run_id
        if token in self.elsewhere or not partitions.owns(run_id):
            return False
        if self._is_told_of(run_id, assignment.dispatched_at_us):
            return True
        if run_id in self._held_back or len(self._held_back) < MAX_HELD_BACK:
            self._held_back[run_id] = max(assignment.dispatched_at_us, self._held_back.get(run_id, 0))
        return False

    def offered_in_vain(self, token: str) -> None:
        """An attempt was offered from here, and no other host has it."""
        self._offered_in_vain[token] = None
        if len(self._offered_in_vain) > MAX_OFFERED_IN_VAIN:
            del self._offered_in_vain[next(iter(self._offered_in_vain))]

    def was_offered_in_vain(self, token: str) -> bool:
        """Whether that is so; true once for each such offer."""
        if token not in self._offered_in_vain:
            return False
        del self._offered_in_vain[token]
        return True

    def told(self, observation: Observation) -> list[str]:
        """Others have told what they hold. Runs to be looked at again for what was held back."""
        self.elsewhere, self._unsettled = observation.elsewhere, observation.unsettled
        self._told_until_us = observation.told_until_us
        to_look_at = []
        for run_id, dispatched_at_us in tuple(self._held_back.items()):
            is_ours = observation.partitions.owns(run_id)
            if is_ours and not self._is_told_of(run_id, dispatched_at_us):
                continue
            del self._held_back[run_id]
            if is_ours:
                to_look_at.append(run_id)
        return to_look_at

    @property
    def holds_back(self) -> bool:
        """Whether there are runs to be looked at again."""
        return bool(self._held_back)

    def _is_told_of(self, run_id: str, dispatched_at_us: int) -> bool:
        """Whether an attempt that another host held would be `elsewhere`."""
        return dispatched_at_us < self._told_until_us and partition_of(run_id) not in self._unsettled
