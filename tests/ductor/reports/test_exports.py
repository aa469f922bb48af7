"""CSV and Parquet give back exactly what went in."""

import csv
import io
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from ductor.reports import Column, MissingExtraError, ReportFileError, ReportTable, csv_lines, write_csv, write_parquet
from ductor.reports.table import Cell

COLUMNS = (
    Column("name", "text"),
    Column("count", "integer"),
    Column("share", "real"),
    Column("at", "timestamp"),
    Column("day", "date"),
    Column("data", "json"),
)
AT = datetime(2026, 1, 31, 12, 0, 0, 250, tzinfo=UTC)
ROW: tuple[Cell, ...] = ("a", 2**60, 0.1, AT, date(2026, 1, 31), {"x": [1, "é"]})
EMPTY: tuple[Cell, ...] = (None,) * 6


def table(*rows: tuple[Cell, ...]) -> ReportTable:
    return ReportTable(name="test", columns=COLUMNS, rows=rows)


def test_each_type_has_its_form():
    assert list(csv_lines(table(ROW, EMPTY, ("", *EMPTY[1:])))) == [
        "name,count,share,at,day,data\n",
        'a,1152921504606846976,0.1,2026-01-31T12:00:00.000250Z,2026-01-31,"{""x"":[1,""é""]}"\n',
        ",,,,,\n",
        '"",,,,,\n',
    ]


def test_json_texts_are_told_from_texts():
    (_, line) = csv_lines(ReportTable(name="t", columns=(Column("data", "json"),), rows=(("x",),)))
    assert line == '"""x"""\n'


moments = st.datetimes(timezones=st.just(UTC))
texts = st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
rows = st.tuples(
    texts,
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    moments,
    st.dates(),
    st.dictionaries(texts, st.integers(-(2**53), 2**53)),
)


@given(st.lists(rows, max_size=5))
def test_what_a_csv_reader_reads_is_what_was_written(given_rows: list[tuple[Cell, ...]]):
    read = list(csv.reader(io.StringIO("".join(csv_lines(table(*given_rows))), newline="")))[1:]
    assert len(read) == len(given_rows)
    for found, wanted in zip(read, given_rows, strict=True):
        name, count, share, at, day, data = found
        assert (name, int(count), float(share)) == wanted[:3]
        assert datetime.fromisoformat(at) == wanted[3]
        assert (date.fromisoformat(day), msgspec.json.decode(data)) == wanted[4:]


def test_parquet_has_types_and_values(tmp_path: Path):
    path = tmp_path / "report.parquet"
    write_parquet(table(ROW, EMPTY), path)
    read = parquet.read_table(path)
    assert [str(field.type) for field in read.schema] == [
        "string",
        "int64",
        "double",
        "timestamp[us, tz=UTC]",
        "date32[day]",
        "string",
    ]
    first, second = read.to_pylist()
    assert first == {**dict(zip([one.name for one in COLUMNS], ROW, strict=True)), "data": '{"x":[1,"é"]}'}
    assert first["at"] - AT == timedelta(0)
    assert set(second.values()) == {None}


def test_an_empty_report_keeps_its_types(tmp_path: Path):
    path = tmp_path / "report.parquet"
    write_parquet(table(), path)
    assert parquet.read_table(path).schema.field("count").type == "int64"


def test_a_file_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "report.csv"
    write_csv(table(ROW), path)
    before = path.read_text()

    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(ReportFileError, match=r"report\.csv: No space left"):
        write_csv(table(), path)
    assert path.read_text() == before
    assert [one.name for one in tmp_path.iterdir()] == ["report.csv"]
    with pytest.raises(ReportFileError, match="No such file"):
        write_csv(table(ROW), tmp_path / "nowhere" / "report.csv")


def test_without_the_extra_parquet_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'ductor-engine\[reports\]'") as raised:
        write_parquet(table(ROW), tmp_path / "report.parquet")
    assert (raised.value.library, raised.value.extra) == ("pyarrow", "reports")
    assert list(tmp_path.iterdir()) == []
