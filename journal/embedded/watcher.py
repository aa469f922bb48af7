"""Ends an embedded server after its parent's death: `python -m ductor.journal.embedded.watcher DIRECTORY PARENT`.

The parent holds the other end of standard input. However it ends, the kernel closes that end and the read below
returns; a parent that left in good order says so by a byte. A dying process loses its files one by one, so its locks
count as gone only when its children have been handed to another parent.
"""

import os
import sys
import time
from pathlib import Path

from ductor.journal.embedded.cluster import Cluster
from ductor.journal.embedded.users import Users

PARENT_POLL_S = 0.01


def main(directory: Path, parent: int) -> None:
    """Wait for the end of process `parent`, then stop the server unless somebody else uses it."""
    if sys.stdin.buffer.read():
        return
    while os.getppid() == parent:
        time.sleep(PARENT_POLL_S)
    if not directory.exists():
        return
    users = Users(directory)
    with users.changing():
        if users.leave():
            Cluster(directory).stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
