"""Tables that pypaimon partitions: by nanoseconds, which are noted in microseconds, and by nulls in a form of their own."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from paimon_engine import Table, open_table
from tests.support.canonical import assert_same_rows, rows_of
from tests.support.pypaimon import PyPaimon

SCHEMA = pa.schema(
    [
        pa.field("t", pa.timestamp("ns"), nullable=False),
        pa.field("k", pa.int64(), nullable=False),
        ("v", pa.int64()),
    ]
)
FIRST = pa.table(
    {"t": [1_000_000_001, 1_000_000_999, 2_000_000_000_123_456_789], "k": [1, 2, 3], "v": [1, 2, 3]}, SCHEMA
)
SECOND = pa.table({"t": [1_000_000_002, 2_000_000_000_123_456_788], "k": [4, 5], "v": [4, 5]}, SCHEMA)


@pytest.fixture(params=["append", "keyed"])
def table(request: pytest.FixtureRequest, tmp_path: Path, pypaimon: PyPaimon) -> Table:
    path = tmp_path / "x.db" / "t"
    keys = ["t", "k"] if request.param == "keyed" else []
    options = {"bucket": "1", **({} if keys else {"bucket-key": "k"})}
    pypaimon.create(path, SCHEMA, primary_keys=keys, partition_keys=["t"], options=options)
    pypaimon.append(path, FIRST, SECOND)
    return open_table(str(path))


def test_they_are_read_filtered_and_compacted_as_pypaimon_reads_them(table: Table, pypaimon: PyPaimon) -> None:
    expected = rows_of(pypaimon.read(table.path))
    micros = rows_of(table.to_arrow(where="t = TIMESTAMP '1970-01-01 00:00:01'"))

    assert_same_rows(rows_of(table.to_arrow()), expected)
    assert sorted(row[1] for row in micros) == [1, 2, 4]
    assert table.compact(full=True).status == "committed"
    assert_same_rows(rows_of(open_table(table.path).to_arrow()), expected)
    assert_same_rows(rows_of(pypaimon.read(table.path)), expected)


def test_verify_says_what_they_are_and_calls_them_no_damage(table: Table) -> None:
    found = table.verify(depth="rows")

    assert (found.status, found.problems) == ("sound", ())
    assert found.notes
    assert all("partition column t" in note.what and "microseconds" in note.what for note in found.notes)


@pytest.mark.parametrize("kind", [pa.decimal128(20, 3), pa.timestamp("us")], ids=str)
def test_a_null_partition_of_pypaimon_is_no_damage(kind: pa.DataType, tmp_path: Path, pypaimon: PyPaimon) -> None:
    """It writes this null in another form than Java does."""
    schema = pa.schema([pa.field("k", pa.int64()), pa.field("d", kind)])
    path = tmp_path / "x.db" / "t"
    pypaimon.create(path, schema, partition_keys=["d"], options={"bucket": "-1"})
    pypaimon.append(path, pa.table({"k": [1], "d": pa.array([None], kind)}, schema))

    found = open_table(str(path)).verify(depth="rows")

    assert (found.status, found.problems) == ("sound", ())
    assert [note for note in found.notes if "has a null in another form" in note.what]
