"""Walking through a run row by row: the commands of `ductor replay --step-through`."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ductor.cli.moments import print_changes, print_moment

if TYPE_CHECKING:
    from ductor.replay import Replay

MAX_CHANGES_SHOWN: Final = 200
"""Changes of one row that `d` shows: more than anybody reads on the way."""

HELP: Final = """\
n      one row forward (Enter does the same)        p      one row back
12     go to row 12                                  g / e  the beginning / the end
f REF  forward to the next row that names the step   d      what the last row changed
s      the state once more                           q      leave"""


def step_through(replay: "Replay", version: int, lines: Iterable[str]) -> None:
    """Show the run after a row, and go where the person says until they have seen enough.

    Args:
        version: where to begin.
        lines: what the person says.
    """
    print_moment(replay, version)
    _prompt(replay, version)
    for line in lines:
        word, _, argument = line.strip().partition(" ")
        if word == "q":
            return
        wanted = _wanted(replay, version, word or "n", argument.strip())
        if isinstance(wanted, str):
            print(wanted)
        elif word == "d":
            print_changes(replay.diff(max(version - 1, 0), version), "table", MAX_CHANGES_SHOWN)
        else:
            version = wanted
            print_moment(replay, version)
        _prompt(replay, version)
    print()


def _wanted(replay: "Replay", version: int, word: str, argument: str) -> int | str:
    """The row to go to, or what there is to say instead."""
    last = replay.version
    if word.isdecimal():
        number = int(word)
        return number if number <= last else f"the run has {last} rows"
    if word == "n":
        return version + 1 if version < last else "this is the last row"
    if word == "p":
        return version - 1 if version else "this is before the first row"
    if word == "f":
        return _next_about(replay, version, argument)
    places = {"g": 0, "e": last, "d": version, "s": version}
    return places.get(word, HELP)


def _next_about(replay: "Replay", version: int, step: str) -> int | str:
    if not step:
        return "say which step: `f REF`"
    for later in range(version + 1, replay.version + 1):
        if any(getattr(event, "node", getattr(event, "key", None)) == step for event in replay.events(later)):
            return later
    return f"no later row is about {step}"


def _prompt(replay: "Replay", version: int) -> None:
    print(f"\n{version}/{replay.version} (n, p, NUMBER, f REF, d, q; h for help) ", end="", flush=True)
