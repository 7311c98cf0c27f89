"""Keys by which a bucket is cut into parts come from footers where files have many row groups, and from rows else."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, Table, open_table
from paimon_engine.format import parquet
from paimon_engine.table.compaction import key_samples
from paimon_engine.table.files import data_file
from tests.support.canonical import assert_same_rows, rows_of

ROWS = 6_000
GROUP_ROWS = 150
FIRST: dict[str, Any] = {
    "bigint": (pa.int64(), lambda number: number),
    "int": (pa.int32(), lambda number: number - ROWS // 2),
    "string": (pa.string(), lambda number: f"key {number:06d}"),
    "date": (pa.date32(), lambda number: date(2000, 1, 1) + timedelta(days=number)),
    "decimal": (pa.decimal128(12, 2), lambda number: Decimal(number)),
    "double": (pa.float64(), lambda number: number / 7),
}


def _table(tmp_path: Path, kind: str, *, repeated: int = 1, **options: str) -> Table:
    """Four overlapping runs, each with 40 row groups."""
    arrow_type, value = FIRST[kind]
    schema = pa.schema(
        [pa.field("k", arrow_type, nullable=False), pa.field("n", pa.int32(), nullable=False), ("v", pa.int64())]
    )
    given = {"bucket": "1", "write-only": "true", **options}
    table = Catalog(str(tmp_path)).create_table("db.t", schema=schema, primary_keys=["k", "n"], options=given)
    for run in range(4):
        numbers = [4 * number + run for number in range(ROWS)]
        first = pa.array([value(number // repeated) for number in numbers], arrow_type)
        table.write(pa.table([first, pa.array(numbers, pa.int32()), pa.array(numbers)], schema=schema))
    return open_table(table.path, options={"write-only": "false"})


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Files of which keys were decoded for samples."""
    monkeypatch.setattr(parquet, "ROW_GROUP_ROWS_MAX", GROUP_ROWS)
    names: list[str] = []
    read = data_file.read_data_file

    def noted(table: Any, location: Any, file: Any, *arguments: Any, **given: Any) -> Any:
        names.append(file.name)
        return read(table, location, file, *arguments, **given)

    monkeypatch.setattr(key_samples, "read_data_file", noted)
    return names


def _compacted_in_parts(table: Table) -> list[int]:
    """Rows of each new file."""
    expected = rows_of(table.to_arrow())
    task_bytes = sum(table.files()["file_size_in_bytes"].to_pylist()) // 4
    table.compact(full=True, task_bytes=task_bytes)
    assert_same_rows(rows_of(table.to_arrow()), expected)
    return list(table.files()["record_count"].to_pylist())


@pytest.mark.parametrize("kind", [kind for kind in FIRST if kind != "double"])
def test_footers_divide_files_of_many_row_groups(tmp_path: Path, decoded: list[str], kind: str):
    counts = _compacted_in_parts(_table(tmp_path, kind))
    assert decoded == []
    assert len(counts) >= 4
    assert max(counts) <= 1.3 * min(counts)


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("bigint", {"repeated": 4 * ROWS}),
        ("bigint", {"file.format": "orc"}),
        ("bigint", {"file.format": "avro"}),
        ("double", {}),
    ],
)
def test_keys_are_decoded_where_footers_do_not_tell(tmp_path: Path, decoded: list[str], kind: str, given: Any):
    """One value in the first column, another format, and numbers whose bounds do not show all."""
    counts = _compacted_in_parts(_table(tmp_path, kind, **given))
    assert decoded
    assert len(counts) >= 4
    assert max(counts) <= 1.5 * min(counts)


def test_files_of_few_row_groups_are_decoded(tmp_path: Path, decoded: list[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(parquet, "ROW_GROUP_ROWS_MAX", ROWS)
    counts = _compacted_in_parts(_table(tmp_path, "bigint"))
    assert decoded
    assert len(counts) >= 4
