"""Label values whose number is bounded: names that users choose must not fill a metrics database."""

from typing import Final

OTHER: Final = "other"

MAX_DEFINITIONS: Final = 200
MAX_TASKS: Final = 500
MAX_TENANTS: Final = 100
MAX_QUEUES: Final = 32


class BoundedNames:
    """The first `limit` names that come stay what they are, until the process ends; all further ones are `other`."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: set[str] = set()

    def __call__(self, name: str) -> str:
        """The label's value for a name."""
        if name in self._known:
            return name
        if len(self._known) < self._limit:
            self._known.add(name)
            return name
        return OTHER

    @property
    def known(self) -> frozenset[str]:
        """The names that stay what they are."""
        return frozenset(self._known)
