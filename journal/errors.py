"""Errors of the journal."""

from ductor.definitions.errors import DuctorError


class JournalError(DuctorError):
    """Base of the journal's errors."""

    code = "journal"


class ValueRefusedError(JournalError):
    """A value can't be stored: it is not exact JSON, or too large.

    Attributes:
        what: which value, as `trigger` or `output of step reserve`.
        path: where in the value, as `items[3].price`; empty for the value as a whole.
        reason: what is wrong with it.
    """

    code = "value_refused"

    def __init__(self, what: str, path: str, reason: str) -> None:
        self.what, self.path, self.reason = what, path, reason
        super().__init__(f"{what} can't be stored: {path + ': ' if path else ''}{reason}")


class OverloadedError(JournalError):
    """The journal's queue is full. Nothing was written; try again after a pause.

    Attributes:
        queued: commits that wait.
        limit: the bound.
    """

    code = "overloaded"

    def __init__(self, queued: int, limit: int) -> None:
        self.queued, self.limit = queued, limit
        super().__init__(f"overloaded: {queued} commits wait and the limit is {limit}; nothing was written, try again")


class PoisonedCommitError(JournalError):
    """The database refuses this one commit for what it contains. The run is set aside; its neighbours are not affected.

    Attributes:
        run_id: whose commit.
        version: which version.
        field: the column or part that was refused, empty when the database did not say.
        reason: the database's words.
    """

    code = "poisoned_commit"

    def __init__(self, run_id: str, version: int, field: str, reason: str) -> None:
        self.run_id, self.version, self.field, self.reason = run_id, version, field, reason
        where = f" in {field}" if field else ""
        super().__init__(f"run {run_id}: version {version} was refused by the database{where}: {reason}")


class StoreUnavailableError(JournalError):
    """The database can't be reached, or refuses to serve. Reads fail with this; commits wait and are sent again.

    Attributes:
        reason: the driver's words.
        advice: what to do.
    """

    code = "store_unavailable"

    def __init__(self, reason: str, advice: str = "check that it runs and that its address is right") -> None:
        self.reason, self.advice = reason, advice
        super().__init__(f"the database does not serve: {reason}; {advice}")


class UnknownEventError(JournalError):
    """A journal row holds an event that this version of the software does not know: the run is quarantined here.

    Attributes:
        run_id, version: the row.
        reason: what the decoder said.
    """

    code = "unknown_event"

    def __init__(self, run_id: str, version: int, reason: str) -> None:
        self.run_id, self.version, self.reason = run_id, version, reason
        super().__init__(
            f"run {run_id}: version {version} of its journal can't be read by this version of ductor ({reason}); "
            "the run is left as it is; a host with a newer version carries it on"
        )


class UnreadableSnapshotError(JournalError):
    """A stored state can't be read, though its fold revision is this software's. The journal still gives the state.

    Attributes:
        reason: what the decoder said.
    """

    code = "unreadable_snapshot"

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"a snapshot can't be read ({reason}); delete its row, the journal gives the same state")


class BrokenChainError(JournalError):
    """A journal's hash chain does not hold: a row was changed, removed or inserted outside of ductor.

    Attributes:
        run_id: which run.
        version: the first row that does not fit.
    """

    code = "broken_chain"

    def __init__(self, run_id: str, version: int) -> None:
        self.run_id, self.version = run_id, version
        super().__init__(f"run {run_id}: the hash of version {version} does not fit its journal")


class MissingVersionError(JournalError):
    """A row of a journal is not among those at hand, so that the state after it can't be told.

    Attributes:
        run_id: which run.
        version: the first row that is missing.
        begins_at: the first version that is left of a journal that was compacted; 0 for any other.
        ends_at: the last version, where somebody asked for one outside of the journal; 0 where one is lost.
    """

    code = "missing_version"

    def __init__(self, run_id: str, version: int, begins_at: int = 0, ends_at: int = 0) -> None:
        self.run_id, self.version, self.begins_at, self.ends_at = run_id, version, begins_at, ends_at
        if begins_at:
            why = f"was compacted away; its history begins at version {begins_at}, ask for that or a later one"
        elif ends_at:
            why = f"does not exist; it has versions up to {ends_at}, and 0 is before the first"
        else:
            why = "is missing: rows were lost, or the journal was given without them"
        super().__init__(f"run {run_id}: version {version} of its journal {why}")


class SchemaVersionError(JournalError):
    """The database's schema does not fit this version of the software.

    Attributes:
        found: newest migration applied, 0 for none.
        needed: newest migration that this version knows.
    """

    code = "schema_version"

    def __init__(self, found: int, needed: int) -> None:
        self.found, self.needed = found, needed
        advice = "run `ductor db migrate`" if found < needed else "upgrade ductor on this host"
        super().__init__(f"the database's schema is at migration {found}, this version needs {needed}: {advice}")


class ExportFormatError(JournalError):
    """A file is no whole export: it was cut off, changed, or is something else.

    Attributes:
        file, line: where; line 0 means the file as a whole.
        reason: what is wrong.
    """

    code = "export_format"

    def __init__(self, file: str, line: int, reason: str) -> None:
        self.file, self.line, self.reason = file, line, reason
        super().__init__(f"{file}{f':{line}' if line else ''}: {reason}")


class RunNotExportedError(JournalError):
    """A run can't be read for a replay or an export.

    Attributes:
        run_id: which run.
        reason: why.
    """

    code = "run_not_found"

    def __init__(self, run_id: str, reason: str) -> None:
        self.run_id, self.reason = run_id, reason
        super().__init__(f"run {run_id!r} can't be read: {reason}")


class RunTooLargeError(JournalError):
    """A run has more rows than are replayed in memory.

    Attributes:
        run_id: which run.
        limit: rows at most.
    """

    code = "run_too_large"

    def __init__(self, run_id: str, limit: int) -> None:
        self.run_id, self.limit = run_id, limit
        super().__init__(f"run {run_id} has more than {limit} rows and is not replayed; `ductor export` takes it whole")


class ReceiptFormatError(JournalError):
    """A file is no receipt of this version.

    Attributes:
        file: which one.
        reason: what is wrong.
    """

    code = "receipt_format"

    def __init__(self, file: str, reason: str) -> None:
        self.file, self.reason = file, reason
        super().__init__(f"{file} is no receipt: {reason}")
