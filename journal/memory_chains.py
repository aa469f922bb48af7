"""What the memory store keeps of chains: the latest run of each, and which run has what was sent to an earlier one."""

from bisect import bisect_right, insort
from collections.abc import Sequence
from typing import Literal

from ductor.journal.clock import Clock
from ductor.journal.memory_base import MemoryBase
from ductor.journal.memory_rows import RunRows
from ductor.journal.records import Head

InputKind = Literal["message", "control"]


class MemoryChains(MemoryBase):
    """The way from any run of a chain to the latest."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._latest: dict[str, str] = {}
        self._chains: dict[str, list[str]] = {}
        self._chain_inputs: dict[tuple[str, InputKind, str], str] = {}

    async def latest_of_chain(self, run_id: str) -> str | None:
        """The run that carries on what this one began: itself, or the latest one that continues it."""
        run = self._run(run_id)
        return None if run is None else self._latest_run(run).head.run_id

    async def chain(self, run_id: str, *, after_iteration: int = -1, limit: int = 1_000) -> Sequence[Head]:
        """The runs of the chain that this one belongs to, in order."""
        run = self._run(run_id)
        if run is None:
            return []
        chain = self._chains.get(_chain_of(run), [run.head.run_id])
        begin = bisect_right(chain, after_iteration, key=self._iteration)
        return [self._runs[each].read_head() for each in chain[begin : begin + limit]]

    def _latest_run(self, run: RunRows) -> RunRows:
        """The run that is meant where this one is named."""
        return self._runs[self._latest.get(_chain_of(run), run.head.run_id)] if run.is_continued else run

    def _places_of_input(self, run: RunRows, kind: InputKind, input_id: str) -> list[str]:
        """The runs that may have an input that is sent to `run`, the likeliest first."""
        found = self._chain_inputs.get((_chain_of(run), kind, input_id))
        named = [found] if found is not None else []
        return [*named, run.head.run_id, self._latest.get(_chain_of(run), run.head.run_id)]

    def _note_latest(self, run: RunRows, successor_run_id: str) -> None:
        self._latest[_chain_of(run)] = successor_run_id
        self._chains.setdefault(_chain_of(run), [run.head.run_id]).append(successor_run_id)

    def _note_imported(self, run: RunRows) -> None:
        """The run may be one of a chain of which others come before or after it, or never."""
        if run.head.chain_run_id is not None or run.is_continued:
            chain = self._chains.setdefault(_chain_of(run), [])
            insort(chain, run.head.run_id, key=self._iteration)
            self._latest[_chain_of(run)] = chain[-1]

    def _iteration(self, run_id: str) -> int:
        return self._runs[run_id].head.iteration

    def _note_input(self, run: RunRows, kind: InputKind, input_id: str, where: str) -> None:
        self._chain_inputs[_chain_of(run), kind, input_id] = where

    def _place_elsewhere(self, run: RunRows, kind: InputKind, input_id: str) -> str | None:
        """Another run of the chain that has an input which this run has, too."""
        found = self._chain_inputs.get((_chain_of(run), kind, input_id))
        return None if found == run.head.run_id else found

    def _has_come_before(self, run: RunRows, kind: InputKind, input_id: str) -> bool:
        """Whether an earlier run of the chain has had this input."""
        return run.head.chain_run_id is not None and (_chain_of(run), kind, input_id) in self._chain_inputs


def _chain_of(run: RunRows) -> str:
    return run.head.chain_run_id or run.head.run_id
