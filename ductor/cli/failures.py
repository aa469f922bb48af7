"""Exit codes, and errors as text or JSON.

| code | meaning |
| --- | --- |
| 0 | done |
| 1 | the run, check or test that was asked for failed |
| 2 | usage, invalid input, or a database that can't be used: nothing was done |
| 3 | there is no such run, definition or request |
| 4 | the wait timed out; what was waited for goes on |
| 5 | conflict: the run's state forbids it, it was sent before, or the engine is overloaded |
"""

import sys
from typing import Any, Final

import msgspec

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_NOT_FOUND: Final = 3
EXIT_WAIT_TIMEOUT: Final = 4
EXIT_CONFLICT: Final = 5
EXIT_INTERRUPTED: Final = 130
EXIT_TERMINATED: Final = 143

EXIT_BY_CODE: Final = {
    "run_unsuccessful": EXIT_FAILED,
    "run_failed": EXIT_FAILED,
    "run_cancelled": EXIT_FAILED,
    "run_terminated": EXIT_FAILED,
    "run_not_found": EXIT_NOT_FOUND,
    "definition_not_found": EXIT_NOT_FOUND,
    "request_not_found": EXIT_NOT_FOUND,
    "attempt_not_recorded": EXIT_NOT_FOUND,
    "not_a_scatter": EXIT_NOT_FOUND,
    "projection_not_found": EXIT_NOT_FOUND,
    "nothing_checked": EXIT_NOT_FOUND,
    "wait_timeout": EXIT_WAIT_TIMEOUT,
    "control_refused": EXIT_CONFLICT,
    "import_refused": EXIT_CONFLICT,
    "bulk_control_refused": EXIT_CONFLICT,
    "message_refused": EXIT_CONFLICT,
    "overloaded": EXIT_CONFLICT,
}
"""By an error's `code`; every other error that ductor knows is a matter of usage, input or installation."""


def exit_code_of(error: Exception) -> int:
    """The exit code for an error."""
    return EXIT_BY_CODE.get(getattr(error, "code", ""), EXIT_USAGE)


def report_failure(error: Exception, *, as_json: bool) -> int:
    """Say on standard error what went wrong, and give the exit code."""
    code = exit_code_of(error)
    as_text = f"error: {error}"
    print(msgspec.json.encode({"error": error_fields(error)}).decode() if as_json else as_text, file=sys.stderr)
    return code


def error_fields(error: Exception) -> dict[str, Any]:
    """An error as JSON: its code, its text, its own fields, and the exit code."""
    fields = {name: _plain(value) for name, value in vars(error).items() if not name.startswith("_")}
    code = getattr(error, "code", "usage")
    if not hasattr(error, "code"):
        fields = {}  # an error of the command line's parser, whose fields are its own machinery
    return {"code": code, "text": str(error), "exit_code": exit_code_of(error), "fields": fields}


def _plain(value: object) -> object:
    try:
        return msgspec.to_builtins(value, enc_hook=str)
    except (TypeError, ValueError):
        return str(value)
