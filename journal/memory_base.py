"""What every part of the memory store has in hand."""

from ductor.journal.clock import Clock
from ductor.journal.errors import StoreUnavailableError
from ductor.journal.memory_rows import RunRows


class MemoryBase:
    """The rows of runs, the clock that stands in for the database's, and whether the store is open."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._is_open = False
        self._runs: dict[str, RunRows] = {}

    def _run(self, run_id: str) -> RunRows | None:
        self._check_open()
        return self._runs.get(run_id)

    def _check_open(self) -> None:
        if not self._is_open:
            raise StoreUnavailableError("the store is closed")
