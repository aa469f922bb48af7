"""Bugs planted into compaction."""

from collections.abc import Iterable, Iterator

import msgspec

from ductor.actors.tick import controls
from ductor.journal.events import RunCompacted
from ductor.journal.memory_rows import RunRows
from ductor.journal.records import Transition
from ductor.journal.state import RunState
from scripts.simulation.planted.planting import planted, replaced


@planted("a compacted row forgets signals that are buffered")
def _compaction_forgets_signals() -> Iterator[None]:
    compacted = controls.__dict__["compacted"]

    def forgetful(state: RunState) -> RunCompacted:
        event: RunCompacted = compacted(msgspec.structs.replace(state, inbox={}))
        return event

    with replaced(controls, "compacted", forgetful):
        yield


@planted("one row more goes than another one stands for")
def _needed_row_removed() -> Iterator[None]:
    remove_compacted = RunRows.remove_compacted

    def greedy(self: RunRows, before_us: int, limit: int, texts: Iterable[bytes]) -> list[Transition]:
        gone = remove_compacted(self, before_us, limit, texts)
        if gone and len(self.transitions) > 1:
            gone.append(self.transitions.pop(0))
        return gone

    with replaced(RunRows, "remove_compacted", greedy):
        yield


@planted("large values go that are named by what is left")
def _needed_value_removed() -> Iterator[None]:
    remove_compacted = RunRows.remove_compacted

    def greedy(self: RunRows, before_us: int, limit: int, texts: Iterable[bytes]) -> list[Transition]:
        gone = remove_compacted(self, before_us, limit, texts)
        if gone:
            self.payloads = {}
        return gone

    with replaced(RunRows, "remove_compacted", greedy):
        yield
