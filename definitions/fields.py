"""What the fields of a definition may hold, as annotated types.

The structs are the one table of the language: the reader of documents, the JSON Schema for editors and the decoder of
manifests all derive from their annotations, so a new field or a new step type is written down once.

A field annotated `DurationMs` or `TimestampUs` loses its unit in documents, where the value carries it: `timeout_ms`
in a struct is `timeout: 30s` in a document.
"""

from typing import Annotated, Final, TypeAlias

from msgspec import Meta

REF_PATTERN: Final = "^[a-z][a-z0-9_]*$"
REF_LENGTH_MAX: Final = 64
NAME_PATTERN: Final = r"^[^\s\x00-\x1f\x7f]+$"
NAME_LENGTH_MAX: Final = 200
TITLE_LENGTH_MAX: Final = 1_000
DURATION_MS_MAX: Final = 10 * 365 * 24 * 60 * 60 * 1_000
TIMESTAMP_US_MAX: Final = 2**53 - 1
"""What canonical JSON carries: until the year 2255."""
ATTEMPTS_MAX: Final = 100_000
COUNT_MAX: Final = 1_000_000
INLINE_CHILDREN_MAX: Final = 10_000

Ref: TypeAlias = Annotated[
    str, Meta(pattern=REF_PATTERN, min_length=1, max_length=REF_LENGTH_MAX, extra={"kind": "ref"})
]
"""The name of a step, unique in its definition."""

Name: TypeAlias = Annotated[
    str, Meta(pattern=NAME_PATTERN, min_length=1, max_length=NAME_LENGTH_MAX, extra={"kind": "name"})
]
"""The name of something outside the definition: a handler, a queue, an event, another definition."""

Title: TypeAlias = Annotated[str, Meta(max_length=TITLE_LENGTH_MAX)]
"""Text for people."""

Cel: TypeAlias = Annotated[str, Meta(min_length=1, extra={"kind": "cel"})]
"""Bare CEL."""

TemplateText: TypeAlias = Annotated[str, Meta(min_length=1, extra={"kind": "template"})]
"""Text that may hold `${...}`."""

LimitMs: TypeAlias = Annotated[int, Meta(ge=1, le=DURATION_MS_MAX, extra={"kind": "duration"})]
"""As `DurationMs`, and longer than nothing: how long something may take."""

DurationMs: TypeAlias = Annotated[int, Meta(ge=0, le=DURATION_MS_MAX, extra={"kind": "duration"})]
"""Whole milliseconds; `30s`, `1h30m`, `PT30S` in documents."""

TimestampUs: TypeAlias = Annotated[int, Meta(ge=-TIMESTAMP_US_MAX, le=TIMESTAMP_US_MAX, extra={"kind": "timestamp"})]
"""Microseconds since 1970 in UTC; RFC 3339 with an offset in documents."""

Count: TypeAlias = Annotated[int, Meta(ge=1, le=COUNT_MAX)]
"""How many of something, at least one."""

Attempts: TypeAlias = Annotated[int, Meta(ge=1, le=ATTEMPTS_MAX)]
"""Attempts in all, the first one included."""

Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
"""A part of one."""

UNDO_SUFFIX: Final = ".compensate"
"""`<ref>.compensate` is the node that undoes the step `<ref>`."""
