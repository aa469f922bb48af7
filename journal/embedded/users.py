"""Who uses an embedded server, kept as file locks so that a killed user can never be counted for ever.

Two lock files lie in the server's directory. Every user holds a shared lock on `users` for as long as it uses the
server; whoever starts, joins, leaves or stops holds `change.lock` exclusively for that moment. The kernel drops both
when a process dies, however it dies. A user that leaves and can turn its shared lock into an exclusive one was the
last.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ductor.journal.embedded.errors import EmbeddedPostgresError

CHANGE_TIMEOUT_S = 600.0
CHANGE_POLL_S = 0.02


class Users:
    """This user's part in the locks of one server's directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._descriptor: int | None = None

    @contextmanager
    def changing(self, timeout_s: float = CHANGE_TIMEOUT_S) -> Iterator[None]:
        """Be the only one to start, join, leave or stop the server while the block runs.

        Raises EmbeddedPostgresError (`busy`) if another process is at it for longer than `timeout_s`.
        """
        descriptor = os.open(self._directory / "change.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            deadline = time.monotonic() + timeout_s
            while not _locked(descriptor):
                if time.monotonic() > deadline:
                    raise EmbeddedPostgresError(
                        f"Another process has been starting or stopping the server for {timeout_s:g} s",
                        kind="busy",
                        directory=str(self._directory),
                        advice="Look for a hanging process that holds `change.lock` open.",
                    )
                time.sleep(CHANGE_POLL_S)
            yield
        finally:
            os.close(descriptor)

    def join(self) -> None:
        """Count as a user from now on. To be called while `changing`."""
        self._descriptor = os.open(self._directory / "users", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_SH)

    def leave(self) -> bool:
        """Stop being a user, and say whether nobody uses the server now. To be called while `changing`."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            descriptor = os.open(self._directory / "users", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            return _locked(descriptor)
        finally:
            os.close(descriptor)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
