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

CONNECT_ERRORS: tuple[type[Exception], ...] = (*CONNECTION_ERRORS, OverflowError)
"""What connecting may raise; the last one comes from a port that is none."""

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


_ADVICE_ON_ADDRESS = "write its address as postgresql://user:password@host:5432/database"
_ADVICE = {
    "25006": "it takes no writes, as a standby: name the primary in the address",
    "28": "check user and password in its address, and that the server lets this user in",
    "3D": "create it, or name another one in its address",
    "42501": "the role in its address must own the schema `ductor`, or may create it at the first migration",
    "53300": "let it take more connections, or start fewer processes",
}
"""What to do, by the server's code for an error or its first two characters."""


def unavailable(error: Exception) -> StoreUnavailableError:
    """The error for callers of a store whose database can't serve."""
    words = " ".join(str(error).split())  # a server's details come in lines of their own
    reason = f"{type(error).__name__}: {words}" if words else type(error).__name__
    state = getattr(error, "sqlstate", None) or ""
    advice = _ADVICE.get(state) or _ADVICE.get(state[:2])
    if isinstance(error, (asyncpg.ClientConfigurationError, OverflowError)):
        advice = _ADVICE_ON_ADDRESS
    return StoreUnavailableError(reason, advice) if advice else StoreUnavailableError(reason)
