"""The journal in PostgreSQL."""

from ductor.journal.postgres.bus import publish_event_on
from ductor.journal.postgres.messages import send_message_on
from ductor.journal.postgres.migrations import migrate
from ductor.journal.postgres.settings import ConnectionSettings, WriterLimits
from ductor.journal.postgres.starts import start_on
from ductor.journal.postgres.store import PostgresStore

__all__ = [
    "ConnectionSettings",
    "PostgresStore",
    "WriterLimits",
    "migrate",
    "publish_event_on",
    "send_message_on",
    "start_on",
]
