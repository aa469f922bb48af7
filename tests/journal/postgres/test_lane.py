"""What a lane keeps on its connection between batches."""

from collections.abc import AsyncIterator

import pytest

from ductor.journal.commit import Appended, TimerUpdate
from ductor.journal.ids import SystemIds
from ductor.journal.postgres import lane as lane_module
from ductor.journal.postgres.lane import Lane
from ductor.journal.postgres.settings import ConnectionSettings, WriterLimits
from tests.journal.postgres.commits import start, tick
from tests.postgres_fixtures import Database


@pytest.fixture
async def lane(database: Database) -> AsyncIterator[Lane]:
    lane = Lane(ConnectionSettings(dsn=database.dsn), WriterLimits(), "ductor writer under test")
    yield lane
    await lane.close()


async def statements(lane: Lane) -> dict[str, int]:
    """The lane's prepared statements on the server, and how often each was run by the plan made for it once."""
    assert lane._connection is not None
    rows = await lane._connection.fetch("SELECT statement, generic_plans FROM pg_prepared_statements")
    return {row["statement"]: row["generic_plans"] for row in rows if "eec_workflow_transition" in row["statement"]}


async def test_a_shape_of_batch_is_planned_once(lane: Lane) -> None:
    run_id = SystemIds().run_id()
    assert await lane.answers([start(run_id)]) == [Appended(1)]
    for version in range(2, 7):
        assert await lane.answers([tick(run_id, version)]) == [Appended(version)]
    assert sorted((await statements(lane)).values()) == [1, 5]


async def test_statements_beyond_the_bound_are_given_back(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_module, "MAX_PREPARED_STATEMENTS", 2)
    run_id = SystemIds().run_id()
    assert await lane.answers([start(run_id)]) == [Appended(1)]
    for version in range(2, 12, 3):
        assert await lane.answers([tick(run_id, version)]) == [Appended(version)]
        assert await lane.answers([tick(run_id, version + 1, timer=TimerUpdate(5))]) == [Appended(version + 1)]
        assert await lane.answers([start()]) == [Appended(1)]
        assert await lane.answers([tick(run_id, version + 2)]) == [Appended(version + 2)]
    assert len(lane._prepared) == 2
    assert len(await statements(lane)) <= 3  # one may wait to be closed with the next that is prepared
