"""`ductor db`."""

from ductor.cli.options import DatabaseOptions, OutputOptions


def migrate(*, database: DatabaseOptions = DatabaseOptions(), output: OutputOptions = OutputOptions()) -> int:
    """Bring the schema of the database up to date. Safe to repeat, and to run from several places at once."""
    from ductor.cli.output import print_rows, progress, say
    from ductor.cli.session import run_async
    from ductor.database import EMBEDDED_DIRECTORY
    from ductor.journal.embedded import EmbeddedPostgres
    from ductor.journal.postgres import migrate as migrate_database

    async def work() -> int:
        with progress("migrating", output.output):
            if database.address is not None:
                applied = await migrate_database(database.address)
            else:
                async with EmbeddedPostgres(EMBEDDED_DIRECTORY) as server:
                    applied = await migrate_database(server.dsn())
        rows = [{"number": one.number, "name": one.name} for one in applied]
        print_rows(rows, output.output, ("migration", "name"), [(str(one.number), one.name) for one in applied])
        if not applied:
            say("the schema is up to date", output.output)
        return 0

    return run_async(work())
