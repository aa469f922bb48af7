"""Which faults are active, whether one strikes now, and how often each kind has struck."""

from collections import Counter

from ductor.testing.clock import VirtualClock
from scripts.simulation.chance import Chance
from scripts.simulation.plan import FaultKind, HandlerFault, Plan


class Weather:
    """The faults of one campaign.

    Attributes:
        struck: how often each kind of fault has struck.
    """

    def __init__(self, plan: Plan, clock: VirtualClock, chance: Chance) -> None:
        self._clock, self._chance = clock, chance
        self._windows = [fault for fault in plan.faults if fault.rate or fault.kind == "database_away"]
        self._quiet_at_us = plan.quiet_at_ms * 1_000
        self._handler_faults = plan.handler_faults
        self.struck: Counter[str] = Counter()

    @property
    def is_quiet(self) -> bool:
        """Whether all faults are over."""
        return self._clock.elapsed_us >= self._quiet_at_us

    @property
    def quiet_in_s(self) -> float:
        """How long it is until all faults are over."""
        return max(0.0, (self._quiet_at_us - self._clock.elapsed_us) / 1e6)

    def strikes(self, kind: FaultKind, host: int) -> bool:
        """Whether a fault of this kind strikes now. A chance that comes while none is active draws nothing."""
        rate = self._rate(kind, host)
        if not rate or not self._chance.happens(rate):
            return False
        self.struck[kind] += 1
        return True

    def delay_s(self, kind: FaultKind, host: int, usual_s: float) -> float:
        """How long something takes on its way: usually about `usual_s`, a thousand times that where it is slow."""
        slow = self.strikes(kind, host)
        return self._chance.waiting(usual_s * 1_000 if slow else usual_s)

    def database_back_in_s(self) -> float:
        """How long the database will be away still; 0 when it is there."""
        now_ms = self._clock.elapsed_us / 1_000
        ends = [
            fault.at_ms + fault.for_ms
            for fault in self._windows
            if fault.kind == "database_away" and fault.at_ms <= now_ms < fault.at_ms + fault.for_ms
        ]
        return (max(ends) - now_ms) / 1_000 if ends else 0.0

    def handler_fault(self, chance: Chance, likely: float) -> HandlerFault | None:
        """What is wrong with a handler that is called now; nothing once the faults are over."""
        if self.is_quiet or not self._handler_faults or not chance.happens(likely):
            return None
        fault = chance.one_of(self._handler_faults)
        self.struck[f"handler {fault}"] += 1
        return fault

    def _rate(self, kind: FaultKind, host: int) -> float:
        now_ms = self._clock.elapsed_us / 1_000
        rates = [
            fault.rate
            for fault in self._windows
            if fault.kind == kind and fault.host in {0, host} and fault.at_ms <= now_ms < fault.at_ms + fault.for_ms
        ]
        return max(rates, default=0.0)
