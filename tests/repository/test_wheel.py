"""The wheel, built from the source distribution, holds every file of the rooms and the face, and nothing else."""

import shutil
import subprocess
import sys
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import pytest

import ductor.definitions
import ductor.journal
from scripts.link_farm import CHECKOUT, FACE, ROOMS

ROOT_FILES = ("CHANGELOG.md", "LICENSE", "MANIFEST.in", "README.md", "pyproject.toml", "setup.py")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built as a release builds it: checkout -> source distribution -> wheel."""
    checkout = tmp_path_factory.mktemp("checkout")
    for folder in (FACE, *ROOMS):
        shutil.copytree(CHECKOUT / folder, checkout / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ROOT_FILES:
        shutil.copy(CHECKOUT / file, checkout / file)
    # What a build must not sweep up.
    (checkout / "tests").mkdir()
    (checkout / "tests" / "__init__.py").write_text("")
    (checkout / "journal" / "__pycache__").mkdir()
    (checkout / "journal" / "__pycache__" / "store.cpython-311.pyc").write_bytes(b"")

    built = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", checkout / "dist", checkout],
        check=False,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    wheels = list((checkout / "dist").glob("*.whl"))
    assert len(wheels) == 1
    return wheels[0]


def installed_names() -> set[str]:
    names = {f"{FACE}/{name}" for name in files_of(FACE)}
    for room in ROOMS:
        names.update(f"{FACE}/{room}/{name}" for name in files_of(room))
    return names


def files_of(folder: str) -> list[str]:
    root = CHECKOUT / folder
    files = [path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return [path.relative_to(root).as_posix() for path in files]


def test_wheel_holds_every_source_file_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == installed_names()
    assert "ductor/py.typed" in names


def test_wheel_names_its_command_its_licence_and_its_python(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        folder = next(name.split("/")[0] for name in archive.namelist() if ".dist-info/" in name)
        metadata = HeaderParser().parsestr(archive.read(f"{folder}/METADATA").decode())
        entry_points = archive.read(f"{folder}/entry_points.txt").decode()
    assert folder == f"ductor_engine-{metadata['Version']}.dist-info"
    assert metadata["Name"] == "ductor-engine"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["License-File"] == "LICENSE"
    assert metadata["Requires-Python"] == ">=3.11"
    assert entry_points == (
        "[console_scripts]\nductor = ductor.cli.main:main\n\n[pytest11]\nductor = ductor.pytest_plugin\n"
    )


def test_tests_run_against_this_checkout() -> None:
    """An installed copy would be tested in its place, and changes would seem to have no effect."""
    assert [Path(path) for path in ductor.definitions.__path__] == [CHECKOUT / "definitions"]
    assert [Path(path) for path in ductor.journal.__path__] == [CHECKOUT / "journal"]


def test_no_room_is_loaded_under_its_bare_name() -> None:
    """A module loaded twice has two sets of classes, and `isinstance` fails between them."""
    assert not set(ROOMS) & set(sys.modules)
