"""Since when each step of each run works or waits: what is needed to know how long it took, and that it began once.

Most steps begin and settle within one batch of rows and never touch the table. `keys_of` tells which ones a batch has
to read; the pure part asks `OpenSteps`, and what it changed is written afterwards.
"""

from collections.abc import Iterable, Mapping, Sequence

import asyncpg

from ductor.journal.events import AttemptDispatched, ChildStarted, Event, NodeParked, NodeSettled, ScatterStarted
from ductor.projections.model import RunRow

SCHEMA = """
CREATE TABLE open_step (
    run_id uuid NOT NULL,
    step text COLLATE "C" NOT NULL,
    since_us bigint NOT NULL,
    PRIMARY KEY (run_id, step)
);
"""
_READ = """
SELECT o.run_id::text, o.step, o.since_us FROM unnest($1::uuid[], $2::text[]) AS k (run_id, step)
JOIN open_step o ON o.run_id = k.run_id AND o.step = k.step
"""
_ADD = """
INSERT INTO open_step (run_id, step, since_us) SELECT * FROM unnest($1::uuid[], $2::text[], $3::bigint[])
ON CONFLICT (run_id, step) DO UPDATE SET since_us = excluded.since_us
"""
_REMOVE = """
DELETE FROM open_step o USING unnest($1::uuid[], $2::text[]) AS k (run_id, step)
WHERE o.run_id = k.run_id AND o.step = k.step
"""
_REMOVE_RUNS = "DELETE FROM open_step WHERE run_id = ANY ($1::uuid[])"

BEGINNING: frozenset[type[Event]] = frozenset({AttemptDispatched, NodeParked, ChildStarted, ScatterStarted})
"""What a step does first, unless it settles at once."""
_ABOUT_OPEN = BEGINNING | {NodeSettled}

StepKey = tuple[str, str]
"""Run id, step."""


class OpenSteps:
    """The open steps of one batch. `known` are those that were open before it, as far as the batch is about them."""

    def __init__(self, known: Mapping[StepKey, int]) -> None:
        self._before = known
        self._now: dict[str, dict[str, int]] = {}
        for (run_id, step), at_us in known.items():
            self._now.setdefault(run_id, {})[step] = at_us
        self.ended_runs: set[str] = set()

    def begin(self, run_id: str, step: str, at_us: int) -> bool:
        """The step works or waits; whether it did not before."""
        of_run = self._now.get(run_id)
        if of_run is None:
            of_run = self._now[run_id] = {}
        elif step in of_run:
            return False
        of_run[step] = at_us
        return True

    def settle(self, run_id: str, step: str) -> int | None:
        """The step is done; since when it was open, None where it never was."""
        of_run = self._now.get(run_id)
        return None if of_run is None else of_run.pop(step, None)

    def end(self, run_id: str) -> None:
        """The run has ended; what it has left open is forgotten."""
        self.ended_runs.add(run_id)
        self._now.pop(run_id, None)

    def added(self) -> list[tuple[str, str, int]]:
        """What is open now and was not before, in order of key."""
        return sorted(
            (run_id, step, at_us)
            for run_id, of_run in self._now.items()
            for step, at_us in of_run.items()
            if self._before.get((run_id, step)) != at_us
        )

    def removed(self) -> list[StepKey]:
        """What was open before and is not now, in order of key."""
        return sorted(key for key in self._before if key[1] not in self._now.get(key[0], ()))


def keys_of(rows: Iterable[RunRow]) -> list[StepKey]:
    """The steps about which a batch has to know whether they were open before it."""
    started: set[str] = set()
    keys: dict[StepKey, None] = {}
    for row in rows:
        run_id = row.head.run_id
        if row.version == 1:
            started.add(run_id)
        elif run_id not in started:
            for event in row.events:
                if type(event) in _ABOUT_OPEN:
                    keys[run_id, event.node] = None  # type: ignore[union-attr]
    return list(keys)


async def read_open_steps(connection: asyncpg.Connection, rows: Sequence[RunRow]) -> OpenSteps:
    """The open steps that a batch is about."""
    keys = keys_of(rows)
    if not keys:
        return OpenSteps({})
    found = await connection.fetch(_READ, [key[0] for key in keys], [key[1] for key in keys])
    return OpenSteps({(row[0], row[1]): row[2] for row in found})


async def write_open_steps(connection: asyncpg.Connection, steps: OpenSteps, rows: Sequence[RunRow]) -> None:
    """Keep what is open after the batch."""
    removed, added = steps.removed(), steps.added()
    if removed:
        await connection.execute(_REMOVE, [key[0] for key in removed], [key[1] for key in removed])
    started = {row.head.run_id for row in rows if row.version == 1}
    ended = sorted(steps.ended_runs - started)
    if ended:
        await connection.execute(_REMOVE_RUNS, ended)
    if added:
        await connection.execute(_ADD, *(list(column) for column in zip(*added, strict=True)))
