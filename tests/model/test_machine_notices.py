"""The state machine notices when host and model differ: each of these is a small fault, planted into the model."""

from collections import deque

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model import reference
from tests.model.reference import Reference
from tests.model.test_state_machine import HostAgainstReference

EXAMPLES = 40


class LastFirst(deque[int]):
    def popleft(self) -> int:
        return self.pop()


def forgets_duplicates(monkeypatch):
    signal = Reference.signal

    def planted(self, run, message_id, payload):
        run.messages.discard(message_id)
        return signal(self, run, message_id, payload)

    monkeypatch.setattr(Reference, "signal", planted)


def takes_the_last_signal(monkeypatch):
    start = Reference.start

    def planted(self, order):
        is_new = start(self, order)
        if is_new:
            self.runs[order].signals = LastFirst()
        return is_new

    monkeypatch.setattr(Reference, "start", planted)


def retries_late(monkeypatch):
    monkeypatch.setattr(reference, "RETRY_S", reference.RETRY_S + 2)


@pytest.mark.parametrize("plant", [forgets_duplicates, takes_the_last_signal, retries_late])
def test_a_planted_difference_is_noticed(monkeypatch, plant):
    plant(monkeypatch)
    quick = settings(max_examples=EXAMPLES, stateful_step_count=40, phases=[Phase.generate])
    with pytest.raises(AssertionError):
        run_state_machine_as_test(HostAgainstReference, settings=quick)
