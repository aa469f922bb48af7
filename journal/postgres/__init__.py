"""The journal in PostgreSQL."""

from ductor.journal.postgres.migrations import migrate
from ductor.journal.postgres.settings import ConnectionSettings, WriterLimits
from ductor.journal.postgres.store import PostgresStore

__all__ = ["ConnectionSettings", "PostgresStore", "WriterLimits", "migrate"]
