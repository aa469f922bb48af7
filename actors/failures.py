"""From an exception to a failure as a value.

- The type is the class name (for `NonRetryable` and `RetryAfter` the one they give), which retry policies match on.
- The message is the exception's text, details its attribute `details` where that is JSON.
- A group that holds a single exception counts as that exception: `asyncio.TaskGroup` wraps what its tasks raise. A
  group of several is retried unless one of them says not to.

An exception that itself misbehaves (its text raises, its details are no JSON) still gives a failure.
"""

import logging

import msgspec

from ductor.actors.errors import InvalidInputError, NonRetryable, ResultNotEncodableError, RetryAfter
from ductor.journal.codec import safe_error
from ductor.journal.events import ErrorInfo, TimeoutKind

_log = logging.getLogger(__name__)


def error_info(error: BaseException) -> ErrorInfo:
    """The failure that an exception stands for."""
    error = _unwrapped(error)
    if isinstance(error, InvalidInputError):
        return _info("InvalidInput", str(error), {"path": error.path, "reason": error.reason}, retryable=False)
    if isinstance(error, ResultNotEncodableError):
        details = {"path": error.path, "python_type": error.python_type, "reason": error.reason}
        return _info("ResultNotEncodable", str(error), details, retryable=False)
    name = type(error).__name__
    if isinstance(error, NonRetryable):
        return _info(error.error_type or name, _text(error), _details(error), retryable=False)
    if isinstance(error, RetryAfter):
        info = _info(error.error_type or name, _text(error), _details(error))
        return msgspec.structs.replace(info, retry_after_ms=error.pause_ms)
    return _info(name, _text(error), _details(error), retryable=not _says_no_retry(error))


def timeout_info(kind: TimeoutKind, limit_ms: int | None, last_heartbeat: object) -> ErrorInfo:
    """The failure of an attempt that exceeded a limit. After `total` there is no time left for a retry.

    Args:
        kind: which limit.
        limit_ms: the limit as configured; None where only its end is known.
        last_heartbeat: the details of the handler's last heartbeat.
    """
    details: dict[str, object] = {"kind": kind}
    if limit_ms is not None:
        details["limit_ms"] = limit_ms
    if last_heartbeat is not None:
        details["last_heartbeat"] = last_heartbeat
    message = f"the {kind} timeout{f' of {limit_ms} ms' if limit_ms is not None else ''} is over"
    return _info("Timeout", message, details, retryable=kind != "total")


def _info(name: str, message: str, details: object, *, retryable: bool = True) -> ErrorInfo:
    # `safe_error` makes JSON of the details, or says why they were dropped.
    return safe_error(ErrorInfo(type=name, message=message, details=details, retryable=retryable))  # type: ignore[arg-type]


def _unwrapped(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _says_no_retry(error: BaseException) -> bool:
    return isinstance(error, BaseExceptionGroup) and error.subgroup(NonRetryable) is not None


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - the text of an exception is code of its author
        _log.warning("the text of a %s raised", type(error).__name__, exc_info=True)
        return "(its text could not be made)"


def _details(error: BaseException) -> object:
    try:
        details = getattr(error, "details", None)
        return None if callable(details) else msgspec.to_builtins(details, str_keys=True)
    except Exception as problem:  # noqa: BLE001 - may be a property, or hold anything
        return {"dropped": f"{type(problem).__name__} while they were read"}
