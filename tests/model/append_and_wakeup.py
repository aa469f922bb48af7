"""How hosts append to the journal of one run, and how what was sent to it is found: a model of a few states.

Hosts, all of which believe that the run is theirs, load it, send a commit that takes in what waits, and hear the
answer. Killed hosts come back without memory, and their commits on the way may still be written (zombies). Wakeups and
answers may be lost. `Mechanisms` can be taken away one by one; then a property must fail. `scripts/model` has the same
for Spin, without lost answers, and with fairness in place of budgets.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

HOSTS: Final = 2
INPUTS: Final = 2
MAX_KILLS: Final = 1
MAX_LOST_ANSWERS: Final = 1


class Mechanisms(NamedTuple):
    """What the engine relies on.

    Attributes:
        checks_version: a row is written only where the version before it is the newest.
        sweeps: hosts look at what waits in the database, woken or not.
        knows_commit_ids: a commit that is sent again is recognised by the row that it has written.
    """

    checks_version: bool = True
    sweeps: bool = True
    knows_commit_ids: bool = True


class Commit(NamedTuple):
    """A commit on its way. `life` tells the lives of a host apart."""

    host: int
    life: int
    version: int
    inputs: frozenset[int]


class Host(NamedTuple):
    """One host: how often it was killed, whether it is woken, and the commit whose answer it waits for."""

    life: int = 0
    is_woken: bool = False
    sent: Commit | None = None


class State(NamedTuple):
    """Everything. `told` are the commits that were told that they are written, `answers` those on the way back."""

    hosts: tuple[Host, ...] = (Host(),) * HOSTS
    unsent: int = INPUTS
    inbox: frozenset[int] = frozenset()
    rows: tuple[Commit, ...] = ()
    on_the_way: frozenset[Commit] = frozenset()
    told: frozenset[tuple[int, Commit]] = frozenset()
    answers: frozenset[tuple[Commit, bool]] = frozenset()
    kills: int = 0
    lost_answers: int = 0


def steps(state: State, mechanisms: Mechanisms) -> Iterator[tuple[str, State]]:
    """What may happen next."""
    yield from _sends(state)
    for number, host in enumerate(state.hosts):
        yield from _host_steps(state, number, host, mechanisms)
    for commit in state.on_the_way:
        yield f"{commit} is written or refused", _arrive(state, commit, mechanisms)
        if commit.life < state.hosts[commit.host].life:
            yield f"{commit} is lost with its host", state._replace(on_the_way=state.on_the_way - {commit})
    for commit, is_written in state.answers:
        yield from _answer(state, commit, is_written=is_written)


def always(state: State) -> str | None:
    """No version has two winners, and nothing is taken in twice."""
    versions = [version for version, _ in state.told]
    if len(set(versions)) < len(versions):
        return "two commits were told that they had written one version"
    taken = [number for row in state.rows for number in row.inputs]
    if len(set(taken)) < len(taken):
        return "something was taken in twice"
    return None


def at_rest(state: State) -> str | None:
    """What was accepted is taken in."""
    taken = {number for row in state.rows for number in row.inputs}
    return None if taken == set(range(INPUTS)) else f"forgotten: {set(range(INPUTS)) - taken}"


def _sends(state: State) -> Iterator[tuple[str, State]]:
    if state.unsent:
        number = INPUTS - state.unsent
        sent = state._replace(unsent=state.unsent - 1, inbox=state.inbox | {number})
        yield f"input {number} is sent, its wakeup lost", sent
        for host in range(HOSTS):
            woken = _with_host(sent, host, sent.hosts[host]._replace(is_woken=True))
            yield f"input {number} is sent, host {host} woken", woken


def _host_steps(state: State, number: int, host: Host, mechanisms: Mechanisms) -> Iterator[tuple[str, State]]:
    if host.sent is None and (host.is_woken or (mechanisms.sweeps and state.inbox)):
        asleep = _with_host(state, number, host._replace(is_woken=False))
        if state.inbox:
            commit = Commit(number, host.life, len(state.rows), state.inbox)
            loaded = _with_host(asleep, number, host._replace(is_woken=False, sent=commit))
            yield f"host {number} loads and commits", loaded._replace(on_the_way=state.on_the_way | {commit})
        else:
            yield f"host {number} finds nothing to do", asleep
    if host.sent is not None and host.sent not in state.on_the_way and not _has_answer(state, host.sent):
        yield f"host {number} sends again", state._replace(on_the_way=state.on_the_way | {host.sent})
    if state.kills < MAX_KILLS:
        killed = _with_host(state, number, Host(life=host.life + 1))
        yield f"host {number} is killed", killed._replace(kills=state.kills + 1)


def _arrive(state: State, commit: Commit, mechanisms: Mechanisms) -> State:
    state = state._replace(on_the_way=state.on_the_way - {commit})
    if mechanisms.knows_commit_ids and commit in state.rows:
        return state._replace(answers=state.answers | {(commit, True)})
    if mechanisms.checks_version and commit.version != len(state.rows):
        return state._replace(answers=state.answers | {(commit, False)})
    return state._replace(
        rows=(*state.rows, commit),
        inbox=state.inbox - commit.inputs,
        told=state.told | {(commit.version, commit)},
        answers=state.answers | {(commit, True)},
    )


def _answer(state: State, commit: Commit, *, is_written: bool) -> Iterator[tuple[str, State]]:
    rest = state._replace(answers=state.answers - {(commit, is_written)})
    host = state.hosts[commit.host]
    if host.sent != commit:
        yield f"nobody hears of {commit}", rest
        return
    yield f"host {commit.host} hears of its commit", _with_host(rest, commit.host, host._replace(sent=None))
    if state.lost_answers < MAX_LOST_ANSWERS:
        yield f"the answer to {commit} is lost", rest._replace(lost_answers=state.lost_answers + 1)


def _has_answer(state: State, commit: Commit) -> bool:
    return any(answered == commit for answered, _ in state.answers)


def _with_host(state: State, number: int, host: Host) -> State:
    return state._replace(hosts=(*state.hosts[:number], host, *state.hosts[number + 1 :]))
