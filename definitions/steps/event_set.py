"""`event_set`: parks until a set of events has arrived."""

from collections.abc import Iterator
from typing import ClassVar, Literal

import msgspec

from ductor.definitions.fields import Cel, Count, Name, Ref
from ductor.definitions.policies import Part
from ductor.definitions.steps.step import CompiledField, FieldProblem, ParkedStep

EVENT_NAMES = ("event",)


class AwaitedEvent(Part, frozen=True, kw_only=True):
    """An event of the set. `match` is CEL over `event`; `alias` (`as` in documents) names it in the output."""

    name: Name
    match: Cel | None = None
    alias: Ref | None = msgspec.field(default=None, name="as")


class ClosingEvent(Part, frozen=True, kw_only=True):
    """The event that ends the collecting, whatever has arrived."""

    event: Name
    match: Cel | None = None


class EventSetStep(ParkedStep, tag="event_set", frozen=True, kw_only=True):
    """Collects events; its output is `{events: [{name, payload, id, at}]}` in order of arrival.

    Attributes:
        policy: `all_required`, `any`, `quorum` names, `count` events (an event id counts once), or `until_timeout`,
            where the timeout is the success.
        quorum: with `policy: quorum`.
        count: with `policy: count`.
        until: an event that ends the collecting.
    """

    type_name: ClassVar[str] = "event_set"

    events: tuple[AwaitedEvent, ...]
    policy: Literal["all_required", "any", "quorum", "count", "until_timeout"] = "all_required"
    quorum: Count | None = None
    count: Count | None = None
    until: ClosingEvent | None = None
    on_timeout: Literal["fail", "skip"] = "fail"

    def compiled_fields(self) -> Iterator[CompiledField]:
        """Adds each `match`."""
        yield from super().compiled_fields()
        for index, awaited in enumerate(self.events):
            if awaited.match is not None:
                yield CompiledField(f"events[{index}].match", "expression", awaited.match, extra=EVENT_NAMES)
        if self.until is not None and self.until.match is not None:
            yield CompiledField("until.match", "expression", self.until.match, extra=EVENT_NAMES)

    def field_problems(self) -> Iterator[FieldProblem]:
        """Adds: events to await, and each policy with its number."""
        yield from super().field_problems()
        if not self.events:
            yield FieldProblem("empty_event_set", "events", "an event set needs at least one event")
        for policy, number in (("quorum", self.quorum), ("count", self.count)):
            if self.policy == policy and number is None:
                yield FieldProblem(f"{policy}_missing", "policy", f"`policy: {policy}` needs `{policy}`")
            if self.policy != policy and number is not None:
                yield FieldProblem(f"needless_{policy}", policy, f"`{policy}` has no effect without `policy: {policy}`")
        names = {awaited.alias or awaited.name for awaited in self.events}
        if self.policy == "quorum" and self.quorum is not None and self.quorum > len(names):
            yield FieldProblem(
                "quorum_unreachable", "quorum", f"a quorum of {self.quorum} can't be reached by {len(names)} names"
            )
        if self.policy == "until_timeout" and self.timeout_ms is None:
            yield FieldProblem("timeout_missing", "policy", "`policy: until_timeout` needs `timeout`")
