"""Kills a host at its commits, dispatches and acknowledgements, and goes on with a new one on the same store.

A kill drops everything at once: the loop with its actors, timers, workers and handlers is left where it stands and
never runs again, and whatever it still asks of its store is not heard. Then a new host starts, as after `kill -9` on
the same machine. What may differ from an undisturbed run is how long it took and how often an attempt was delivered;
nothing else.

| killed | before | after |
| --- | --- | --- |
| commit | it was never written | it is durable, and nobody was told |
| dispatch | the journal says that the attempt runs, no worker has it | its handler has begun |
| acknowledgement | the result is durable, its worker does not know | its worker has forgotten it |
"""

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, cast

import msgspec

from ductor.actors.host import EngineHost
from ductor.actors.messages import Assignment
from ductor.actors.worker import WorkerPool
from ductor.definitions.errors import DuctorError
from ductor.journal.commit import Commit, CommitAnswer
from ductor.journal.store import Store
from ductor.testing.loop import VirtualTimeLoop
from ductor.testing.losing import lose
from ductor.testing.scenarios.played import Played, PlayedRun
from ductor.testing.scenarios.runner import Playing

_RUN_ID: Final = re.compile(rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

MAX_LIVES: Final = 2_000

Fate = Literal["before", "after"]
FATES: Final[dict[int, Fate]] = {1: "before", 2: "after"}
"""Of a commit, by how often it has been tried, where hosts are killed at every commit."""

Moment = Literal["commit", "dispatch", "acknowledgement"]
"""What a host does that it can be killed at."""

MOMENTS: Final[tuple[Moment, ...]] = Moment.__args__  # type: ignore[attr-defined]


class CrashPoint(msgspec.Struct, frozen=True):
    """Where a host is killed: at its n-th commit, from 1, or its n-th of another moment. `every` kills at each of them,
    before and after in turn."""

    number: int
    when: Fate
    every: bool = False
    at: Moment = "commit"

    def __str__(self) -> str:
        """For a person."""
        return f"at every {self.at}" if self.every else f"{self.when} {self.at} {self.number}"


class TooManyLivesError(DuctorError):
    """A run made no progress from one life of its host to the next.

    Attributes:
        lives: how many there were.
    """

    code = "too_many_lives"

    def __init__(self, lives: int) -> None:
        self.lives = lives
        super().__init__(f"after {lives} lives of the host the run has not settled: something is lost at each kill")


class _MortalStore:
    """A store as one life of a host sees it. Once dead it answers nothing and takes nothing."""

    def __init__(self, store: Store, die: Callable[[], None], plan: "_Plan") -> None:
        self._store = store
        self._plan = plan
        self._die = die
        self._is_dead = False

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._store, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            result = await method(*args, **kwargs) if not self._is_dead else None
            if self._is_dead:
                await asyncio.get_running_loop().create_future()
            return result

        return call

    def commit(self, commit: Commit, answer: Callable[[CommitAnswer], None]) -> None:
        if self._is_dead:
            return
        fate = self._plan.fate("commit", _identity(commit))
        if fate == "before":
            self.end()
        elif fate == "after":
            self._store.commit(commit, lambda _: self.end())
        else:
            self._store.commit(commit, lambda result: None if self._is_dead else answer(result))

    def end(self) -> None:
        """This life is over."""
        if not self._is_dead:
            self._is_dead = True
            self._die()


class _MortalPool:
    """The workers of one life of a host."""

    def __init__(self, pool: WorkerPool, die: Callable[[], None], plan: "_Plan") -> None:
        self._pool, self._die, self._plan = pool, die, plan

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)

    def offer(self, assignment: Assignment) -> bool:
        fate = self._plan.fate("dispatch", (assignment.token,))
        if fate == "before":
            self._die()
            return True
        is_taken = self._pool.offer(assignment)
        if fate == "after":
            asyncio.get_running_loop().call_soon(self._die)  # the handler begins first
        return is_taken

    def confirm(self, token: str) -> None:
        fate = self._plan.fate("acknowledgement", (token,))
        if fate == "before":
            self._die()
            return
        self._pool.confirm(token)
        if fate == "after":
            self._die()


class _Plan:
    """Counts commits and the other moments over all lives, and says which of them is fatal."""

    def __init__(self, point: CrashPoint | None) -> None:
        self._point = point
        self.counts: Counter[Moment] = Counter()
        self._kills: Counter[tuple[str, ...]] = Counter()

    def fate(self, moment: Moment, identity: tuple[str, ...]) -> Fate | None:
        """Whether this one is fatal. Args: `identity` is the same when a later life comes to it again."""
        self.counts[moment] += 1
        point = self._point
        if point is None or point.at != moment:
            return None
        if point.every:
            # killed before it, then after it; what is tried a third time, as the start of a key that has its run, lives
            self._kills[identity] += 1
            return FATES.get(self._kills[identity])
        return point.when if self.counts[moment] == point.number else None


def _identity(commit: Commit) -> tuple[str, ...]:
    """What is the same when a later life tries the same commit; a start of the same key has another run id then."""
    if commit.start is not None and commit.start.key is not None:
        return ("start", commit.start.definition, commit.start.key)
    return (commit.run_id, str(commit.version))


def play_with_crashes(
    make: Callable[[Store], Playing], store: Store, point: CrashPoint | None
) -> tuple[Played, Mapping[Moment, int]]:
    """Play something and kill its host where `point` says; None lets it live.

    Args:
        make: makes what is played, on the store given.
        store: open, and not bound to a loop; it lives through all lives.

    Returns:
        What came of it, and the numbers of commits and other moments over all lives.

    Raises:
        TooManyLivesError: it does not settle.
    """
    plan = _Plan(point)
    playing = make(store)
    for _ in range(MAX_LIVES):
        if _live(playing, store, plan):
            break
    else:
        raise TooManyLivesError(MAX_LIVES)
    playing.store = store
    with asyncio.Runner(loop_factory=lambda: VirtualTimeLoop(playing.clock)) as runner:
        return runner.run(playing.played()), plan.counts


def _live(playing: Playing, store: Store, plan: _Plan) -> bool:
    """One life; whether it went to its end."""
    loop = VirtualTimeLoop(playing.clock)
    mortal = _MortalStore(store, loop.stop, plan)
    playing.store = cast("Store", mortal)

    def make_mortal(host: EngineHost) -> None:
        host.engine.pool = cast("WorkerPool", _MortalPool(host.engine.pool, mortal.end, plan))

    playing.on_host = make_mortal
    life = loop.create_task(_after_burial(playing, store), name="life")
    life.add_done_callback(lambda _: loop.stop())
    try:
        loop.run_forever()
        if life.done():
            life.result()
            return True
        return False
    finally:
        _drop(loop)


async def _after_burial(playing: Playing, store: Store) -> None:
    """A host that is found dead on its machine is removed by the next one; so are the killed ones here."""
    for host_id in playing.host_ids:
        await store.leave(host_id)
    await playing.live()


def _drop(loop: VirtualTimeLoop) -> None:
    """Make the loop's remains vanish without running anything of them."""
    loop.set_exception_handler(lambda _loop, _context: None)
    for task in asyncio.all_tasks(loop):
        lose(task)  # what its `finally` blocks do finds a dead store and no loop
    loop.close()


def crash_differences(reference: Played, crashed: Played) -> list[str]:
    """What a crash changed that it must not change: outcome, steps, context, and the effects of each attempt."""
    if reference.refusal != crashed.refusal:
        return [f"start: {reference.refusal} became {crashed.refusal}"]
    found: list[str] = []
    if reference.root is not None and crashed.root is not None:
        found.extend(_run_differences(reference.root, crashed.root))
    if reference.statuses != crashed.statuses:
        found.append(f"runs: {reference.statuses} became {crashed.statuses}")
    for label, run in reference.runs.items():
        if label in crashed.runs:
            found.extend(f"run {label}: {line}" for line in _run_differences(run, crashed.runs[label]))
    if _effects(reference) != _effects(crashed):
        found.append(f"calls: {_effects(reference)} became {_effects(crashed)}")
    if reference.mistakes != crashed.mistakes:
        found.append(f"mistakes: {reference.mistakes} became {crashed.mistakes}")
    return found


def _run_differences(reference: PlayedRun, crashed: PlayedRun) -> Iterator[str]:
    for what in ("status", "output", "error", "context"):
        before, after = getattr(reference.view, what), getattr(crashed.view, what)
        if _without_run_ids(before) != _without_run_ids(after):
            yield f"{what}: {before!r} became {after!r}"
    statuses = {step.ref: step.status for step in crashed.view.steps}
    for step in reference.view.steps:
        if statuses[step.ref] != step.status:
            yield f"step {step.ref}: {step.status} became {statuses[step.ref]}"
    # their names alone: a payload may hold the run's id, which a start that is tried again has anew
    before, after = ([event.name for event in run.emitted] for run in (reference, crashed))
    if before != after:
        yield f"emitted: {before} became {after}"


def _without_run_ids(value: object) -> bytes:
    """A value as text in which all run ids are one: a start that is tried again has another, and so have its children,
    as those have that are started at another time."""
    return _RUN_ID.sub(b"<run id>", msgspec.json.encode(value))


def _effects(played: Played) -> Sequence[tuple[str, str, int, str]]:
    """Which attempts reached which handler with what; each counts once, however often it was delivered."""
    return sorted(
        (call.task, call.step, call.attempt, msgspec.json.encode(call.input).decode()) for call in played.calls
    )
