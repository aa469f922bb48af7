"""Ends an embedded server after its parent's death: `python -m ductor.journal.embedded.watcher DIRECTORY`.

The parent holds the other end of standard input. However it ends, the kernel closes that end and the read below returns.
"""

import sys
from pathlib import Path

from ductor.journal.embedded.cluster import Cluster
from ductor.journal.embedded.users import Users


def main(directory: Path) -> None:
    """Wait for the parent's end, then stop the server unless somebody else uses it."""
    sys.stdin.buffer.read()
    if not directory.exists():
        return
    users = Users(directory)
    with users.changing():
        if users.leave():
            Cluster(directory).stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
