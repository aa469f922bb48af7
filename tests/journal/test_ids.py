"""Identifiers are never given twice."""

import os
import uuid
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

from ductor.journal.ids import COMMIT_IDS_IN_A_ROW, SystemIds

MANY = 4 * COMMIT_IDS_IN_A_ROW


def test_commit_ids_are_uuids_of_which_no_two_are_equal():
    ids = [SystemIds().commit_id() for _ in range(MANY)]
    assert len(set(ids)) == MANY
    for one in ids[:: COMMIT_IDS_IN_A_ROW // 2]:
        assert one == uuid.UUID(bytes=one.bytes)
        assert one.is_safe is uuid.SafeUUID.unknown


def test_commit_ids_begin_anew_at_a_random_number():
    ids = [SystemIds().commit_id().int for _ in range(MANY)]
    jumps = sum(1 for one, following in pairwise(ids) if following != one + 1)
    assert 3 <= jumps <= 4


def test_threads_get_no_commit_id_twice():
    ids = SystemIds()
    with ThreadPoolExecutor(8) as threads:
        drawn = [
            one for part in threads.map(lambda _: [ids.commit_id() for _ in range(MANY)], range(8)) for one in part
        ]
    assert len(set(drawn)) == 8 * MANY


def test_a_process_that_is_forked_off_has_none_of_its_parents_commit_ids():
    first = SystemIds().commit_id()
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, SystemIds().commit_id().bytes)
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        childs = uuid.UUID(bytes=pipe.read())
    mine = SystemIds().commit_id()
    assert childs not in (first, mine)
    assert abs(childs.int - mine.int) > COMMIT_IDS_IN_A_ROW
