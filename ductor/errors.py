"""Errors that the face adds to the hierarchy: how a run ended, for whoever waited for its output."""

from collections.abc import Sequence

from ductor.definitions.errors import DuctorError
from ductor.definitions.values import JsonValue
from ductor.journal.events import ErrorInfo


class RunUnsuccessfulError(DuctorError):
    """A run ended otherwise than completed.

    Attributes:
        run_id: which run.
        type, message, details: of the run's error; empty where it ended without one.
    """

    code = "run_unsuccessful"
    how = "ended"

    def __init__(self, run_id: str, error: ErrorInfo | None) -> None:
        self.run_id = run_id
        self.type = error.type if error else ""
        self.message = error.message if error else ""
        self.details: JsonValue = error.details if error else None
        why = ": ".join(part for part in (self.type, self.message) if part)
        super().__init__(
            f"run {run_id} {self.how}{f' ({why})' if why else ''}; `ductor show {run_id}` tells what its steps did"
        )


class RunFailedError(RunUnsuccessfulError):
    """The run failed, by the error of a step or its own timeout."""

    code = "run_failed"
    how = "failed"


class RunCancelledError(RunUnsuccessfulError):
    """The run was cancelled."""

    code = "run_cancelled"
    how = "was cancelled"


class RunTerminatedError(RunUnsuccessfulError):
    """The run was terminated."""

    code = "run_terminated"
    how = "was terminated"


class PortUnavailableError(DuctorError):
    """The endpoint for metrics and health can't listen where it was told to.

    Attributes:
        address, port: where; the last of several ports that were tried.
        reason: the system's words.
    """

    code = "port_unavailable"

    def __init__(self, address: str, port: int, reason: str) -> None:
        self.address, self.port, self.reason = address, port, reason
        super().__init__(
            f"metrics and health can't be told at {address}:{port}: {reason}; name another one, or stop what has it"
        )


class RequestNotFoundError(DuctorError):
    """Nothing was sent to a run, or asked of it, under this id; or no request to many runs has it.

    Attributes:
        run_id, request_id: what was looked for; `run_id` is empty for a request to many runs.
    """

    code = "request_not_found"

    def __init__(self, run_id: str, request_id: str) -> None:
        self.run_id, self.request_id = run_id, request_id
        whom = f"to run {run_id}, or asked of it," if run_id else "to many runs"
        super().__init__(f"nothing was sent {whom} under the id {request_id!r}")


class TasksNotLoadedError(DuctorError):
    """Handlers could not be loaded from where they were said to be.

    Attributes:
        source: as given, `module` or `module:attribute`.
        reason: what went wrong.
    """

    code = "tasks_not_loaded"

    def __init__(self, source: str, reason: str) -> None:
        self.source, self.reason = source, reason
        super().__init__(
            f"no tasks from {source!r}: {reason}. Name a module, or `module:attribute` for one thing in it."
        )


class FunctionsNotLoadedError(DuctorError):
    """The functions that expressions call could not be loaded from where they were said to be.

    Attributes:
        source: as given, `module:attribute`.
        reason: what went wrong.
    """

    code = "functions_not_loaded"

    def __init__(self, source: str, reason: str) -> None:
        self.source, self.reason = source, reason
        super().__init__(f"no functions from {source!r}: {reason}. Name a FunctionLibrary as `module:attribute`.")


class DefinitionNotInSourceError(DuctorError):
    """None of the definitions at hand has the name of a run's.

    Attributes:
        name: of the run's definition.
        found: names of those at hand.
    """

    code = "definition_not_in_source"

    def __init__(self, name: str, found: Sequence[str]) -> None:
        self.name, self.found = name, tuple(found)
        super().__init__(f"there is no definition {name!r} among {', '.join(self.found) or 'none'}; name its file")


class NothingCheckedError(DuctorError):
    """There was no recorded run that could be checked, so that nothing is proved.

    Attributes:
        not_covered: how many runs there were that none of the definitions at hand is for.
    """

    code = "nothing_checked"

    def __init__(self, not_covered: int) -> None:
        self.not_covered = not_covered
        why = f"all {not_covered} runs are of other definitions" if not_covered else "no run fits"
        super().__init__(
            f"nothing was checked, so nothing is proved: {why}; look at the filters, files and names given"
        )


def unsuccessful(status: str, run_id: str, error: ErrorInfo | None) -> RunUnsuccessfulError:
    """The error for a run that ended with this status."""
    kinds = {"failed": RunFailedError, "cancelled": RunCancelledError, "terminated": RunTerminatedError}
    return kinds.get(status, RunUnsuccessfulError)(run_id, error)
