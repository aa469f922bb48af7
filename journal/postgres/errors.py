"""Errors of the PostgreSQL store beside those of the journal."""

from typing import ClassVar

from ductor.journal.errors import JournalError


class UnsupportedServerError(JournalError):
    """The server is too old.

    Attributes:
        found: the server's version, as 130012.
        needed: the oldest one supported, as 140000.
    """

    code: ClassVar[str] = "unsupported_server"

    def __init__(self, found: int, needed: int) -> None:
        self.found, self.needed = found, needed
        super().__init__(f"PostgreSQL {found // 10_000} is too old; PostgreSQL {needed // 10_000} or newer is needed")


class ChangedMigrationError(JournalError):
    """A migration that was applied to the database differs from the one of this version.

    Attributes:
        number, name: which migration.
    """

    code: ClassVar[str] = "changed_migration"

    def __init__(self, number: int, name: str) -> None:
        self.number, self.name = number, name
        super().__init__(
            f"migration {number:04} ({name}) was applied with another text than this version has: the database was "
            "migrated by an unreleased or changed version; restore the version that made it"
        )
