"""The link farm shows type checkers and import analysers each room and each entry of the face."""

from pathlib import Path

import pytest

from scripts import link_farm
from scripts.link_farm import CHECKOUT


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for folder in (*link_farm.ROOMS, "ductor/cli", "ductor/__pycache__"):
        (tmp_path / folder).mkdir(parents=True)
    for file in ("ductor/__init__.py", "ductor/py.typed", "ductor/notes.txt"):
        (tmp_path / file).write_text("")
    link_farm.refresh(tmp_path)
    return tmp_path


def test_this_farm_is_up_to_date() -> None:
    assert link_farm.problems(CHECKOUT) == []


def test_farm_links_rooms_and_face(checkout: Path) -> None:
    farm = link_farm.farm_folder(checkout)
    assert {entry.name for entry in farm.iterdir()} == {*link_farm.ROOMS, "__init__.py", "cli", "py.typed"}
    assert all(entry.is_symlink() and entry.exists() for entry in farm.iterdir())
    assert link_farm.problems(checkout) == []


def test_new_entry_of_the_face_is_missed(checkout: Path) -> None:
    (checkout / "ductor" / "host.py").write_text("")
    assert link_farm.problems(checkout) == [
        "scripts/namespace/ductor/host.py: the link is missing (run scripts/link_farm.py)"
    ]
    link_farm.refresh(checkout)
    assert link_farm.problems(checkout) == []


def test_removed_entry_of_the_face_is_stale(checkout: Path) -> None:
    (checkout / "ductor" / "cli").rmdir()
    assert link_farm.problems(checkout) == ["scripts/namespace/ductor/cli: stale (run scripts/link_farm.py)"]
    link_farm.refresh(checkout)
    assert link_farm.problems(checkout) == []


def test_link_that_leads_elsewhere_is_found_and_mended(checkout: Path) -> None:
    link = link_farm.farm_folder(checkout) / "journal"
    link.unlink()
    link.symlink_to("../../../actors")
    assert link_farm.problems(checkout) == ["scripts/namespace/ductor/journal: not a link to ../../../journal"]
    link_farm.refresh(checkout)
    assert link_farm.problems(checkout) == []


def test_copy_in_place_of_a_link_is_found_and_kept(checkout: Path) -> None:
    link = link_farm.farm_folder(checkout) / "journal"
    link.unlink()
    link.mkdir()
    link_farm.refresh(checkout)
    assert link_farm.problems(checkout) == ["scripts/namespace/ductor/journal: not a link to ../../../journal"]
