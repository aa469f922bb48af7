"""A small explicit-state model checker: every state that can be reached, whatever happens in whatever order."""

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import Final, Generic, TypeVar

S = TypeVar("S", bound=Hashable)

MAX_STATES: Final = 1_000_000


class Violation(AssertionError, Generic[S]):
    """A property that does not hold, with the steps that lead there."""

    def __init__(self, what: str, path: list[tuple[str, S]]) -> None:
        self.what, self.path = what, path
        super().__init__(what + "".join(f"\n  {step}: {state}" for step, state in path))


def check(
    initial: S,
    steps: Callable[[S], Iterable[tuple[str, S]]],
    always: Callable[[S], str | None],
    at_rest: Callable[[S], str | None],
) -> int:
    """Visit every reachable state; returns their number.

    Args:
        steps: what may happen next, with names. Every cycle must be broken by the model, so that each path ends.
        always: what is wrong with a state, None where nothing is.
        at_rest: the same, of states in which nothing can happen any more: what must come about in the end.

    Raises:
        Violation: with a shortest path.
    """
    came_from: dict[S, tuple[str, S] | None] = {initial: None}
    waiting = deque([initial])
    while waiting:
        state = waiting.popleft()
        following = list(steps(state))
        wrong = always(state) or (at_rest(state) if not following else None)
        if wrong:
            raise Violation(wrong, _path(came_from, state))
        for name, following_state in following:
            if following_state not in came_from:
                came_from[following_state] = (name, state)
                waiting.append(following_state)
        assert len(came_from) <= MAX_STATES, "the model is too large"
    return len(came_from)


def _path(came_from: dict[S, tuple[str, S] | None], state: S) -> list[tuple[str, S]]:
    path: list[tuple[str, S]] = []
    before = came_from[state]
    while before is not None:
        path.append((before[0], state))
        state = before[1]
        before = came_from[state]
    return path[::-1]
