"""The ledger: what really happened, in a file outside of the engine and its database.

The client notes what was acknowledged to it, handlers what they do, each with one line that is on disk before anything
else happens. Several processes append to one file; a line is short enough to be written whole.
"""

import os
from collections import Counter
from pathlib import Path

import msgspec


class Ledger:
    """The file, open for appending."""

    def __init__(self, file: Path) -> None:
        self._descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def note(self, *words: object) -> None:
        """Append a line, and return when it is on disk."""
        os.write(self._descriptor, (" ".join(str(word) for word in words) + "\n").encode())
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


class Noted(msgspec.Struct):
    """What a ledger says.

    Attributes:
        starts: by number of the run, each id that a start of it was answered with.
        messages: by run id as it was sent to, ids of the signals that were acknowledged.
        events: numbers of runs for which an event was acknowledged.
        executions: how often a handler began an attempt, by token.
        effects: how often a handler had its effect, by token.
        fences: by key of a lease, what it was held with: token to fence.
    """

    starts: dict[int, set[str]]
    messages: dict[str, set[str]]
    events: set[int]
    executions: Counter[str]
    effects: Counter[str]
    fences: dict[str, dict[str, int]]


def read_ledger(file: Path) -> Noted:
    """What the ledger says by now. Raises ValueError for a line that nobody writes."""
    noted = Noted({}, {}, set(), Counter(), Counter(), {})
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            match line.split():
                case ["started", number, run_id]:
                    noted.starts.setdefault(int(number), set()).add(run_id)
                case ["signalled", run_id, message_id]:
                    noted.messages.setdefault(run_id, set()).add(message_id)
                case ["published", number]:
                    noted.events.add(int(number))
                case ["began", token]:
                    noted.executions[token] += 1
                case ["did", token]:
                    noted.effects[token] += 1
                case ["held", key, token, fence]:
                    noted.fences.setdefault(key, {})[token] = int(fence)
                case _:
                    raise ValueError(f"{file}: a line that nobody writes: {line!r}")
    return noted
