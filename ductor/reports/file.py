"""Files of reports: there once they are whole."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ductor.reports.errors import ReportFileError


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """The path to write to meanwhile; afterwards the file has the name that was asked for.

    Raises:
        ReportFileError: it can't be written. Nothing is left behind, and a file that was there before stays.
    """
    unfinished = path.with_name(path.name + ".unfinished")
    try:
        yield unfinished
        unfinished.replace(path)
    except OSError as error:
        raise ReportFileError(str(path), error.strerror or str(error)) from error
    finally:
        unfinished.unlink(missing_ok=True)


def write_picture(picture: str | bytes, path: Path) -> None:
    """Write SVG text or PNG bytes. Raises ReportFileError."""
    with whole_file(path) as unfinished:
        unfinished.write_bytes(picture.encode() if isinstance(picture, str) else picture)
