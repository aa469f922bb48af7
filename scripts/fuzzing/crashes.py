"""Input that once broke a target, kept as tests."""

import base64
import hashlib
from pathlib import Path
from typing import Final

CRASHES: Final = Path(__file__).resolve().parents[2] / "tests" / "fuzzing" / "crashes"


def crash_folder(name: str) -> Path:
    """Where input is kept that once broke a target."""
    return CRASHES / name


def keep_crash(folder: Path, data: bytes) -> None:
    """Write input that broke a target; as base64, because files of this repository are text."""
    folder.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(data).hexdigest()[:16]
    (folder / f"{name}.b64").write_text(base64.b64encode(data).decode() + "\n")


def kept_crashes(folder: Path) -> list[bytes]:
    """What `keep_crash` wrote, in the order of the names."""
    return [base64.b64decode(path.read_text()) for path in sorted(folder.glob("*.b64"))]
