"""The reference pages that are written from the source say what the source says."""

from pathlib import Path

from ductor.journal.events import Event
from scripts import reference_pages
from tests.docs.pages import CHECKOUT


def test_the_pages_are_up_to_date():
    stale = [
        name
        for name, text in reference_pages.pages(CHECKOUT).items()
        if (CHECKOUT / reference_pages.FOLDER / name).read_text() != text
    ]
    assert not stale, f"{', '.join(stale)}: run scripts/reference_pages.py"


def test_every_event_and_every_table_has_a_chapter():
    pages = reference_pages.pages(CHECKOUT)
    tags = {kind.__struct_config__.tag for kind in Event.__subclasses__()}
    assert tags == {line.removeprefix("## ") for line in pages["events.md"].splitlines() if line.startswith("## ")}
    schema = (CHECKOUT / "journal" / "postgres" / "schema.sql").read_text()
    assert schema.count("CREATE TABLE") == pages["tables.md"].count("\n## ")


def test_limits_are_read_from_the_source(tmp_path: Path):
    file = tmp_path / "limits.py"
    file.write_text(
        'KIB = 1 << 10\nMAX_BYTES = 4 * KIB\n"""Bytes of one\nthing."""\n'
        '_PRIVATE = 1\n"""Hidden."""\nMADE = int("1")\n"""Called."""\n'
    )
    assert list(reference_pages.constants(file)) == [("MAX_BYTES", 4096, "Bytes of one thing.")]
