"""Identifiers. Fresh ones come from an `Ids`, handed in; derived ones are pure functions of what they name."""

import os
import re
import uuid
from collections.abc import Iterator
from hashlib import sha256
from typing import Final, Protocol

import uuid_utils

COMMIT_IDS_IN_A_ROW: Final = 1_024
"""Commit ids that follow one another before the next one is random: a call of the operating system costs as much as ten
of them."""

_COMMIT_ID_BITS = 128
_COMMIT_IDS = 1 << _COMMIT_ID_BITS
_IS_SAFE_UNKNOWN = uuid.SafeUUID.unknown
_new, _set = object.__new__, object.__setattr__
_RUN_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Ids(Protocol):
    """A source of fresh identifiers."""

    def run_id(self) -> str:
        """A UUIDv7 as text: keys of one time lie together."""
        ...

    def commit_id(self) -> uuid.UUID:
        """A UUID that nobody is given a second time: no two hosts may ever think the same commit theirs."""
        ...


class _Numbers:
    """Numbers for commit ids, ahead of their use: a random one and those that follow it. Each is given out once:
    threads take turns at an iterator, and a process that was forked off has none of its parent's.

    Attributes:
        left: those that are left.
    """

    def __init__(self) -> None:
        self.left: Iterator[int] = iter(())
        os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        """Give out nothing of what is left."""
        self.left = iter(())

    def draw(self) -> int:
        """Begin at another random number; the first one from there."""
        first = int.from_bytes(os.urandom(_COMMIT_ID_BITS // 8)) % (_COMMIT_IDS - COMMIT_IDS_IN_A_ROW)
        self.left = iter(range(first + 1, first + COMMIT_IDS_IN_A_ROW))
        return first


_numbers = _Numbers()


class SystemIds:
    """Identifiers from the operating system's randomness."""

    def run_id(self) -> str:
        """A UUIDv7 as text."""
        return str(uuid_utils.uuid7())

    def commit_id(self) -> uuid.UUID:
        """128 bits: random, or next to random ones that were given out here before."""
        # what UUID's constructor does for an integer that is known to fit, without looking at what else it may be given
        commit_id = _new(uuid.UUID)
        number = next(_numbers.left, None)
        _set(commit_id, "int", _numbers.draw() if number is None else number)
        _set(commit_id, "is_safe", _IS_SAFE_UNKNOWN)
        return commit_id


def is_run_id(text: str) -> bool:
    """Whether this could be a run's id at all; what could not names no run."""
    return _RUN_ID.fullmatch(text) is not None


def derived_run_id(at_us: int, *parts: str) -> str:
    """The id of a child or successor: UUIDv7 in shape, from the deciding tick's time and a hash of what it is for."""
    digest = sha256("\x00".join(parts).encode()).digest()
    value = bytearray((at_us // 1_000).to_bytes(6, "big") + digest[:10])
    value[6] = (value[6] & 0x0F) | 0x70
    value[8] = (value[8] & 0x3F) | 0x80
    return str(uuid.UUID(bytes=bytes(value)))


def attempt_token(run_id: str, node: str, generation: int) -> str:
    """The name of one attempt, the same on every delivery: also the handler's idempotency key."""
    return f"{run_id}/{node}/{generation}"


def run_of_token(token: str) -> str:
    """The run that a token's attempt belongs to."""
    return token.partition("/")[0]


def share(*parts: str) -> float:
    """A number in [0, 1) derived from ids: jitter that replay agrees with."""
    return int.from_bytes(sha256("\x00".join(parts).encode()).digest()[:8], "big") / 2**64
