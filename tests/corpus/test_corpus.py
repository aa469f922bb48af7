"""Old journals fold for ever. See the package for what to do when this fails."""

from typing import get_args

import pytest

from ductor.journal.codec import decode_events, decode_state, encode_events, encode_state
from ductor.journal.events import AnyEvent
from ductor.journal.replay import state_at, verify_chain
from tests import corpus
from tests.corpus.fan_out_journals import FAN_OUT_JOURNALS
from tests.corpus.journals import JOURNALS


@pytest.mark.parametrize("name", corpus.names())
def test_a_journal_gives_its_state(name: str):
    rows = corpus.read(name)
    expected = decode_state(corpus.state_path(name).read_bytes())
    assert encode_state(state_at(rows[0].run_id, rows)) == encode_state(expected)


@pytest.mark.parametrize("name", corpus.names())
def test_a_journal_is_written_today_as_it_was(name: str):
    for row in corpus.read(name):
        assert encode_events(decode_events(row.events, run_id=row.run_id, version=row.version)) == row.events


@pytest.mark.parametrize("name", corpus.names())
def test_the_chain_of_a_journal_holds(name: str):
    rows = corpus.read(name)
    assert verify_chain(rows[0].run_id, rows) == (len(rows), rows[-1].hash)


def test_the_corpus_is_whole():
    assert set(corpus.names()) >= set(JOURNALS | FAN_OUT_JOURNALS)
    assert {path.stem.removesuffix(".state") for path in corpus.DIRECTORY.glob("*.state.json")} == set(corpus.names())


def test_every_event_of_the_vocabulary_occurs():
    found = {
        type(event)
        for name in corpus.names()
        for row in corpus.read(name)
        for event in decode_events(row.events, run_id=row.run_id, version=row.version)
    }
    assert found == set(get_args(AnyEvent))


def test_a_journal_that_is_there_is_not_written_again():
    with pytest.raises(FileExistsError):
        corpus.write("completed", corpus.read("completed"))
    assert len(corpus.read("completed")) == len(JOURNALS["completed"])
