"""The views for reports: names, columns and types are those of the list, before and after projections have run."""

from pathlib import Path

import asyncpg
import pytest

from ductor.journal.postgres import PostgresStore
from ductor.projections.builtin import builtin_projections
from ductor.projections.errors import InvalidProjectionError
from ductor.projections.model import Projection, check_projections
from tests.projections.journals import random_journals, write_journals
from tests.projections.projecting import project

LIST = Path(__file__).parent / "report_columns.txt"
COLUMNS = """
SELECT table_name || ' ' || column_name || ' ' || data_type FROM information_schema.columns
WHERE table_schema = 'ductor' AND table_name LIKE 'report\\_%' ORDER BY table_name, ordinal_position
"""
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "reports.md"


async def columns(connection: asyncpg.Connection) -> list[str]:
    return [row[0] for row in await connection.fetch(COLUMNS)]


async def test_names_and_columns_are_those_of_the_list(store: PostgresStore, connection: asyncpg.Connection):
    assert await columns(connection) == LIST.read_text().splitlines()
    await write_journals(connection, random_journals(5))
    await project(store)
    assert await columns(connection) == LIST.read_text().splitlines()


async def test_comments_outlive_the_first_model(store: PostgresStore, connection: asyncpg.Connection):
    query = """
        SELECT c.relname, obj_description(c.oid), count(d.*) FROM pg_class c
        LEFT JOIN pg_description d ON d.objoid = c.oid AND d.objsubid > 0
        WHERE c.relnamespace = 'ductor'::regnamespace AND c.relname LIKE 'report\\_%' GROUP BY c.oid, c.relname
    """
    before = sorted(map(tuple, await connection.fetch(query)))
    await project(store)
    assert sorted(map(tuple, await connection.fetch(query))) == before
    assert all(comment for _, comment, _ in before)
    assert len(before) == 8


async def test_every_column_is_on_the_page(connection: asyncpg.Connection):
    page = PAGE.read_text()
    for line in LIST.read_text().splitlines():
        view, column, _ = line.split(" ", 2)
        section = page.partition(f"## {view}\n")[2].partition("\n## ")[0]
        assert f"`{column}`" in section, line


async def test_every_view_can_be_read(store: PostgresStore, connection: asyncpg.Connection):
    await write_journals(connection, random_journals(20))
    await project(store)
    views = sorted({line.split(" ")[0] for line in LIST.read_text().splitlines()})
    empty = [view for view in views if not await connection.fetch(f"SELECT * FROM ductor.{view}")]
    assert empty == ["report_inbox"]  # which the journals alone don't fill
    row = await connection.fetchrow("SELECT * FROM ductor.report_step_statistics WHERE duration_ms_max > 0 LIMIT 1")
    assert row is not None
    assert row["duration_ms_p50"] <= row["duration_ms_p95"] <= row["duration_ms_p99"] <= row["duration_ms_max"]


def test_what_is_no_projection_is_refused():
    class Nameless(Projection):
        revision = 1
        schema = ""

    class Loud(Nameless):
        name = "Loud"

    class Secret(Nameless):
        name = "secret"
        views = {"secret": "SELECT 1"}  # noqa: RUF012

    class Timeless(Nameless):
        name = "timeless"
        revision = 0

    class Taken(Nameless):
        name = "taken"
        views = {"report_health": "SELECT 1"}  # noqa: RUF012

    for one in (Nameless(), Loud(), Secret(), Timeless(), Taken()):
        with pytest.raises(InvalidProjectionError):
            check_projections([one])
    with pytest.raises(InvalidProjectionError, match="two projections"):
        check_projections([*builtin_projections(), *builtin_projections()])

    class Usurper(Nameless):
        name = "usurper"
        views = {"report_runs": "SELECT 1"}  # noqa: RUF012

    with pytest.raises(InvalidProjectionError, match="the view 'report_runs' is one of the projection 'runs'"):
        check_projections([*builtin_projections(), Usurper()])
