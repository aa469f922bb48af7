"""What an exception of the driver means for what was sent.

* `lock`: a key is held by somebody else's transaction for longer than the batch may wait. Nothing was written.
* `content`: the server or the driver refuses a value. Nothing was written; sent again it would be refused again.
* `again`: nothing was written, and the same statement may well succeed now (deadlock, serialization, a start that
  lost in mid-statement).
* `stale`: the prepared statement is gone or no longer fits; prepare anew and send again.
* `unavailable`: all else: the connection is lost or the server can't serve. Whether anything was written is unknown.
"""

import re
from typing import Literal

import asyncpg

from ductor.journal.errors import StoreUnavailableError

Failure = Literal["lock", "content", "again", "stale", "unavailable"]

CONNECTION_ERRORS: tuple[type[Exception], ...] = (
    OSError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
"""What using a connection may raise, besides refusals of arguments. The last one comes from a connection that was cut
in the middle of an answer and has not noticed yet."""

_LOCK_STATES = frozenset({"55P03"})
_AGAIN_STATES = frozenset({"40001", "40P01", "DU001"})
_STALE_STATES = frozenset({"26000", "0A000", "42P05"})
# two starts of one batch that want one key, data, integrity, and program limits such as an index row that is too large
_CONTENT_CLASSES = frozenset({"21", "22", "23", "54"})
_ENCODING_ERRORS = (ValueError, TypeError, OverflowError)
_PARAMETER_NUMBER = re.compile(r"(?:parameter|argument) \$(\d+)")


def classify(error: Exception) -> Failure:
    """What to do about an exception raised while a statement was sent or answered."""
    state = getattr(error, "sqlstate", None) or ""  # what asyncpg and psycopg call it
    if state or isinstance(error, asyncpg.PostgresError):
        if state in _LOCK_STATES:
            return "lock"
        if state in _AGAIN_STATES:
            return "again"
        if state in _STALE_STATES:
            return "stale"
        return "content" if state[:2] in _CONTENT_CLASSES else "unavailable"
    return "content" if isinstance(error, _ENCODING_ERRORS) else "unavailable"


def refused_field(error: Exception, parameters: tuple[str, ...]) -> str:
    """Which column or part of a commit the server refused, empty when it does not say."""
    column: str | None = getattr(error, "column_name", None)
    if column:
        return column
    constraint: str | None = getattr(error, "constraint_name", None)
    if constraint:
        return constraint.removeprefix(f"{getattr(error, 'table_name', '')}_")
    said = f"{error} {getattr(error, 'context', None) or ''}"
    found = _PARAMETER_NUMBER.search(said)
    if found is None or int(found[1]) > len(parameters):
        return ""
    # a parameter's name is the part of the batch and then the field
    return parameters[int(found[1]) - 1].partition("_")[2]


def unavailable(error: Exception) -> StoreUnavailableError:
    """The error for callers of a store whose database can't serve."""
    return StoreUnavailableError(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
