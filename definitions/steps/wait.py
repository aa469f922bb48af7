"""`wait`: parks until a time comes, or a signal or an event arrives."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

import msgspec

from ductor.definitions.fields import Cel, DurationMs, Name, TimestampUs
from ductor.definitions.schedules import cron_fault, timezone_fault
from ductor.definitions.steps.step import CompiledField, FieldProblem, ParkedStep

EVENT_NAMES = ("event",)


class WaitStep(ParkedStep, tag="wait", frozen=True, kw_only=True):
    """Waits for exactly one thing; its output is the payload of the signal or event.

    Attributes:
        until_us: an absolute time; one in the past fires at once.
        cron: the next time that fits, in `timezone`.
        until_expr: CEL giving a timestamp or a duration, evaluated once.
        signal_name: the signal waited for. Documents say `signal: name`; a list under `signal` is what the step sends.
        event: name of an event; `match` (CEL over `event`) chooses among them.
        lookback_ms: how far back in the past an event may lie.
    """

    type_name: ClassVar[str] = "wait"

    duration_ms: DurationMs | None = None
    until_us: TimestampUs | None = None
    cron: str | None = None
    timezone: str = "UTC"
    until_expr: Cel | None = None
    signal_name: Annotated[Name | None, msgspec.Meta(extra={"key": "signal"})] = None
    event: Name | None = None
    match: Cel | None = None
    lookback_ms: DurationMs = 0
    on_timeout: Literal["fail", "skip"] = "fail"

    def compiled_fields(self) -> Iterator[CompiledField]:
        """Adds `until_expr` and `match`."""
        yield from super().compiled_fields()
        if self.until_expr is not None:
            yield CompiledField("until_expr", "expression", self.until_expr)
        if self.match is not None:
            yield CompiledField("match", "expression", self.match, extra=EVENT_NAMES)

    def field_problems(self) -> Iterator[FieldProblem]:
        """Adds: exactly one thing to wait for, and each companion beside what it belongs to."""
        yield from super().field_problems()
        given = [form for form, value in self._forms().items() if value is not None]
        if len(given) != 1:
            found = " and ".join(f"`{form}`" for form in given) or "none"
            yield FieldProblem(
                "wait_needs_one",
                given[1] if given else "",
                f"a wait needs exactly one thing to wait for, found {found}",
                f"Valid: {', '.join(self._forms())}.",
            )
        if self.cron is not None and (fault := cron_fault(self.cron)):
            yield FieldProblem("invalid_cron", "cron", fault)
        if fault := timezone_fault(self.timezone):
            yield FieldProblem("invalid_timezone", "timezone", fault)
        if self.cron is None and self.timezone != "UTC":
            yield FieldProblem("timezone_without_cron", "timezone", "`timezone` has no effect without `cron`")
        if self.event is None and self.match is not None:
            yield FieldProblem("match_without_event", "match", "`match` has no effect without `event`")
        if self.event is None and self.lookback_ms:
            yield FieldProblem("lookback_without_event", "lookback", "`lookback` has no effect without `event`")

    def _forms(self) -> dict[str, object]:
        return {
            "duration": self.duration_ms,
            "until": self.until_us,
            "cron": self.cron,
            "until_expr": self.until_expr,
            "signal": self.signal_name,
            "event": self.event,
        }
