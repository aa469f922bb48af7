"""Events in outline: what the built-in projections look at is decoded, everything else is only stepped over.

Inputs and outputs are most of a journal's bytes, and no built-in projection asks for them. A field of an event that is
not known here is stepped over like those that nobody looks at; an event that is not known is refused.
"""

import functools
import operator
from collections.abc import Mapping
from typing import cast

import msgspec

from ductor.journal.events import (
    AnyEvent,
    AttemptDispatched,
    AttemptFinished,
    ChildStarted,
    ErrorInfo,
    Event,
    NodeParked,
    NodeSettled,
    RunClosing,
    RunContinued,
    RunEnded,
    RunReopened,
    RunStarted,
    ScatterStarted,
)


class Outline(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An event of which nothing but its kind is looked at."""


class BeginningOutline(Outline, frozen=True, kw_only=True, gc=False):
    """The first thing that a step does, unless it settles at once."""

    node: str


class AttemptOutline(Outline, frozen=True, kw_only=True, gc=False):
    """See `AttemptFinished`."""

    node: str
    outcome: str
    error: ErrorInfo | None = None
    started_at_us: int = 0
    finished_at_us: int = 0


class SettledOutline(Outline, frozen=True, kw_only=True, gc=False):
    """See `NodeSettled`."""

    node: str
    status: str
    error: ErrorInfo | None = None
    taken: tuple[str, ...] = ()
    untaken: tuple[str, ...] = ()


class StartedOutline(Outline, frozen=True, kw_only=True, gc=False):
    """See `RunStarted`."""

    continued_from_run_id: str | None = None


class ClosingOutline(Outline, frozen=True, kw_only=True, gc=False):
    """See `RunClosing`."""

    error: ErrorInfo | None = None


class EndedOutline(Outline, frozen=True, kw_only=True, gc=False):
    """See `RunEnded`."""

    status: str
    error: ErrorInfo | None = None


class ReopenedOutline(Outline, frozen=True, kw_only=True, gc=False):
    """See `RunReopened`."""


class ContinuedOutline(Outline, frozen=True, kw_only=True, gc=False):
    """See `RunContinued`."""


_LOOKED_AT: Mapping[type[Event], type[Outline]] = {
    AttemptDispatched: BeginningOutline,
    NodeParked: BeginningOutline,
    ChildStarted: BeginningOutline,
    ScatterStarted: BeginningOutline,
    AttemptFinished: AttemptOutline,
    NodeSettled: SettledOutline,
    RunStarted: StartedOutline,
    RunReopened: ReopenedOutline,
    RunClosing: ClosingOutline,
    RunEnded: EndedOutline,
    RunContinued: ContinuedOutline,
}


def _outline(event: type[Event]) -> type[Outline]:
    kind = msgspec.defstruct(
        event.__name__,
        (),
        bases=(_LOOKED_AT.get(event, Outline),),
        module=__name__,
        tag_field="type",
        tag=event.__struct_config__.tag,
        frozen=True,
        kw_only=True,
        gc=False,
    )
    return cast("type[Outline]", kind)


OUTLINES: Mapping[type[Event], type[Outline]] = {event: _outline(event) for event in AnyEvent.__args__}
"""The type of an event's outline, by the event's own."""

PageOutlines = list[list[Outline]]
"""The outlines of each row's events."""
_ANY_OUTLINE = functools.reduce(operator.or_, OUTLINES.values())
_DECODER: msgspec.json.Decoder[PageOutlines] = msgspec.json.Decoder(list[list[_ANY_OUTLINE]])  # type: ignore[valid-type]


def decode_outlines(text: bytes) -> PageOutlines:
    """The outlines of rows from the JSON text of the list of their lists of events. Raises msgspec.DecodeError where
    there is anything that is not known here."""
    return _DECODER.decode(text)
