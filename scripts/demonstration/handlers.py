"""The handlers of folder_inspection.yaml. Each notes in the ledger when it begins and how it ends.

They take a moment before they work, so that a person can follow them, and `files.fingerprint` takes long enough to be
killed at it. `text.count_lines` fails at its first attempt, as something on the other end of a network may.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ductor import Task, TaskContext
from scripts.demonstration import folder as inspected
from scripts.demonstration.folder import File
from scripts.demonstration.ledger import Event, Ledger
from scripts.demonstration.report import Inspected, write_report

LONG_PACES = 5
"""`files.fingerprint` takes so many times as long as the others."""


class UnsteadyError(Exception):
    """The trouble that the demonstration makes for itself."""


class Handlers:
    """The handlers, with the ledger that they write.

    Args:
        pace_s: how long each takes before it works, in seconds.
    """

    def __init__(self, ledger: Ledger, pace_s: float) -> None:
        self._ledger, self._pace_s = ledger, pace_s

    def tasks(self) -> list[Task[..., Any]]:
        """The handlers by the names that the definition calls them."""
        return [
            Task("folder.inventory", self.inventory),
            Task("text.count_lines", self.count_lines),
            Task("files.fingerprint", self.fingerprint),
            Task("files.check_links", self.check_links),
            Task("files.ages", self.ages),
            Task("report.write", self.write_report),
            Task("folder.sign_off", self.sign_off),
        ]

    def inventory(self, folder: str, context: TaskContext) -> dict[str, object]:
        """List the files."""
        with self._noted(context):
            return inspected.inventory(folder)

    def count_lines(self, folder: str, files: list[File], context: TaskContext) -> dict[str, object]:
        """Count lines; the first attempt fails."""
        with self._noted(context):
            if context.attempt == 1:
                raise UnsteadyError("the first attempt fails, on purpose")
            return inspected.count_lines(folder, files)

    def fingerprint(self, folder: str, files: list[File], context: TaskContext) -> dict[str, object]:
        """Hash every file."""
        with self._noted(context, paces=LONG_PACES):
            return inspected.fingerprint(folder, files)

    def check_links(self, folder: str, context: TaskContext) -> dict[str, object]:
        """Find links that lead nowhere."""
        with self._noted(context):
            return inspected.check_links(folder)

    def ages(self, folder: str, files: list[File], context: TaskContext) -> dict[str, object]:
        """Find the file that was left alone for the longest."""
        with self._noted(context):
            return inspected.ages(folder, files)

    def write_report(self, path: str, inspected: Inspected, context: TaskContext) -> dict[str, object]:
        """Write the report. Doing it twice gives the same file."""
        with self._noted(context):
            return write_report(Path(path), inspected)

    def sign_off(self, status: str, grade: str, context: TaskContext) -> str:
        """Close the inspection, whatever its end."""
        with self._noted(context):
            return f"the inspection is {status}, the grade is {grade}"

    @contextmanager
    def _noted(self, context: TaskContext, paces: int = 1) -> Iterator[None]:
        self._ledger.write(context.step, context.idempotency_key, Event.BEGAN)
        try:
            context.wait_cancelled(self._pace_s * paces)
            context.raise_if_cancelled()
            yield
        except BaseException:
            self._ledger.write(context.step, context.idempotency_key, Event.FAILED)
            raise
        self._ledger.write(context.step, context.idempotency_key, Event.ENDED)
