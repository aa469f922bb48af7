"""Tamper evidence: each journal row carries a hash over the previous row's hash and its own content."""

from hashlib import sha256


def link(previous_hash: bytes, run_id: str, version: int, at_us: int, events: bytes) -> bytes:
    """The chain hash of a row (32 bytes). `previous_hash` is empty for version 1; `events` is the text as stored."""
    return sha256(b"%b\n%b\n%d\n%d\n%b" % (previous_hash, run_id.encode(), version, at_us, events)).digest()
