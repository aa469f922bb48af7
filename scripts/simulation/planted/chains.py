"""Bugs planted into runs that continue each other."""

from collections.abc import Iterator
from typing import Any

from ductor.actors.tick import schedule as schedules
from ductor.journal.commit import MessageDisposition
from ductor.journal.memory_chains import MemoryChains
from ductor.journal.memory_forwarding import MemoryForwarding
from ductor.journal.memory_rows import RunRows
from scripts.simulation.planted.planting import planted, replaced


@planted("what waits for a run that is continued is sent on to nobody")
def _seam_loses_messages() -> Iterator[None]:
    def forgetful(self: MemoryForwarding, run: RunRows, _target: RunRows, version: int | None) -> None:
        messages = self._messages_of(run.head.run_id)
        for message in messages.read_unconsumed():
            messages.dispose(MessageDisposition(message.id, "forwarded"), version)
        self._with_messages.pop(run.head.run_id, None)

    with replaced(MemoryForwarding, "_forward_messages", forgetful):
        yield


@planted("ids of messages are unique in a run, and not in its chain")
def _chain_forgets_ids() -> Iterator[None]:
    with replaced(MemoryChains, "_note_input", lambda *_: None):
        yield


@planted("what turns up in a run that was continued is taken up again by a later one that has had it")
def _late_input_taken_twice() -> Iterator[None]:
    with replaced(MemoryChains, "_place_elsewhere", lambda *_: None):
        yield


@planted("steps start in a run that is about to be continued")
def _starts_while_it_winds_down() -> Iterator[None]:
    readiness = schedules.readiness

    def hasty(state: Any, node: Any, sources_settled: int, sources_taken: int) -> bool | None:
        continuing, state.continuing = state.continuing, None
        answer = readiness(state, node, sources_settled, sources_taken)
        state.continuing = continuing
        return answer

    with replaced(schedules, "readiness", hasty):
        yield
