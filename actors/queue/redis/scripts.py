"""The tier's scripts, read from `lua/`: each is `lanes.lua`, which they share, and its own text."""

from collections.abc import Mapping
from hashlib import sha1
from importlib import resources
from typing import Final

import msgspec

NAMES: Final = (
    "adopt",
    "dead_letters",
    "depth",
    "enqueue",
    "held",
    "lease",
    "policy",
    "release",
    "remove",
    "renew",
    "replay",
    "touch",
)

# In the order in which `lanes.lua` reads them.
KEYS_OF_A_QUEUE: Final = (
    "pending",
    "bodies",
    "records",
    "leased",
    "holders",
    "dead",
    "ready",
    "blocked",
    "resting",
    "policies",
    "rates",
    "state",
    "bell",
)


class Script(msgspec.Struct, frozen=True):
    """A script, and the name by which the server knows it once it was sent."""

    text: str
    digest: str


def _read(name: str) -> str:
    return resources.files(__package__).joinpath(f"lua/{name}.lua").read_text(encoding="utf-8")


def _script(text: str) -> Script:
    # the server's protocol names scripts by SHA-1; nothing rests on its strength
    return Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest())


SCRIPTS: Final[Mapping[str, Script]] = {name: _script(f"{_read('lanes')}\n{_read(name)}") for name in NAMES}
