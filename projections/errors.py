"""Errors of the projections."""

from ductor.definitions.errors import DuctorError


class ProjectionsUnavailableError(DuctorError):
    """Read models were asked for where there are none: runs are not kept in PostgreSQL.

    Attributes:
        store: the kind of store that there is.
    """

    code = "projections_unavailable"

    def __init__(self, store: str) -> None:
        self.store = store
        super().__init__(
            f"read models are kept in PostgreSQL, and these runs are in a {store}: open the client with a database, or "
            "ask for single runs (`runs`, `run(...).show()`)"
        )


class ProjectionNotReadyError(DuctorError):
    """A read model was asked before it was complete for the first time.

    Attributes:
        name: which projection.
    """

    code = "projection_not_ready"

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"the projection {name!r} is not complete yet: it is once a host has run for a moment; "
            "`ductor projection list` tells how far it is"
        )


class ProjectionNotFoundError(DuctorError):
    """There is no projection of this name in the database.

    Attributes:
        name: what was asked for.
    """

    code = "projection_not_found"

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"there is no projection {name!r}: a host that has it must run first; `ductor projection list` names all"
        )


class InvalidProjectionError(DuctorError):
    """A projection's class is not fit to be one.

    Attributes:
        name: which projection.
        reason: what is wrong with it.
    """

    code = "invalid_projection"

    def __init__(self, name: str, reason: str) -> None:
        self.name, self.reason = name, reason
        super().__init__(f"projection {name!r}: {reason}")


class TransactionEndedError(DuctorError):
    """A projection has ended the transaction in which it was to change its tables.

    Attributes:
        name: which projection.
    """

    code = "transaction_ended"

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"projection {name!r} has ended the transaction that it was given (COMMIT, ROLLBACK or the like), but what"
            f" it writes must stand or fall with its checkpoint: take that out, and `ductor projection rebuild {name}`"
        )


class InvalidSearchError(DuctorError):
    """A search asks for something that can't be.

    Attributes:
        field: which part of it.
        reason: what is wrong.
    """

    code = "invalid_search"

    def __init__(self, field: str, reason: str) -> None:
        self.field, self.reason = field, reason
        super().__init__(f"search: {field}: {reason}")


class InvalidReportError(DuctorError):
    """A report is asked for that can't be.

    Attributes:
        report: which one.
        reason: what is wrong.
    """

    code = "invalid_report"

    def __init__(self, report: str, reason: str) -> None:
        self.report, self.reason = report, reason
        super().__init__(f"report {report}: {reason}")
