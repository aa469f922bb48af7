"""Old journals fold for ever. See the package for what to do when this fails."""

from typing import get_args

import pytest

from ductor.actors.verify import comparable
from ductor.journal.codec import decode_events, decode_state, encode_events, encode_state
from ductor.journal.events import AnyEvent
from ductor.journal.replay import state_at, verify_chain
from tests import corpus
from tests.corpus.compacted_journals import COMPACTED
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
    assert verify_chain(rows[0].run_id, rows) == (rows[-1].version, rows[-1].hash)


@pytest.mark.parametrize("source", COMPACTED)
def test_a_compacted_journal_gives_the_state_of_the_whole_one(source: str):
    whole, compact = corpus.read(source), corpus.read(f"compacted-{source}")
    assert compact[0].version == COMPACTED[source] + 1
    state, expected = state_at(compact[0].run_id, compact), state_at(whole[0].run_id, whole)
    assert state.version == expected.version + 1
    for node in (*state.nodes.values(), *expected.nodes.values()):
        node.settled_version = 0  # one more after the row that stands for the others
    state.version, state.last_hash, state.at_us = expected.version, expected.last_hash, expected.at_us
    assert comparable(state) == comparable(expected)


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
