"""Work on a table with many columns grows with their number, not with its square."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog
from paimon_engine.meta.schema import TableSchema
from paimon_engine.table.files.projection import projected
from paimon_engine.table.write.row_input import RowInput
from paimon_engine.types import AtomicType, DataField, RowType, TypeRoot

FEW, MANY = 60, 240
"""Four times as many: work with the square of the number takes sixteen times as much."""


def _rows(columns: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({f"c{number}": pa.array([1, 2], pa.int32()) for number in range(columns)})


class _Watched:
    """Rows that count how often their schema is requested, of which Arrow lists all names each time."""

    def __init__(self, rows: pa.RecordBatch) -> None:
        self.asked = 0
        self._rows = rows

    @property
    def schema(self) -> pa.Schema:
        self.asked += 1
        return self._rows.schema

    def __getitem__(self, name: str) -> pa.Array:
        return self._rows[name]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rows, name)


def _project(rows: Any) -> pa.RecordBatch:
    schema = rows.schema
    return projected(rows, schema.names, schema)


def _take_in(rows: Any) -> pa.RecordBatch:
    fields = (DataField(number, name, AtomicType(TypeRoot.INT)) for number, name in enumerate(rows.schema.names))
    return RowInput(TableSchema(id=0, row_type=RowType(tuple(fields)), highest_field_id=MANY)).read(rows)


@pytest.mark.parametrize("work", [_project, _take_in])
def test_the_names_of_the_columns_are_listed_once_for_all_columns(work: Callable[[Any], pa.RecordBatch]):
    rows = _Watched(_rows(MANY))

    assert work(rows).num_rows == 2
    assert rows.asked < 10


def _calls(work: Callable[[], object]) -> int:
    """How many calls of Python's functions the work takes, each step of a generator among them."""
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def test_reads_of_named_columns_and_statistics_take_calls_by_the_number_of_columns(tmp_path: Path):
    calls = []
    for count in (FEW, MANY):
        rows = _rows(count)
        table = Catalog(str(tmp_path / str(count))).create_table("db.t", schema=rows.schema)
        table.write(pa.Table.from_batches([rows]))
        names = rows.schema.names
        table.to_arrow(names)
        table.analyze()
        calls.append((_calls(lambda: table.to_arrow(names)), _calls(table.analyze)))  # noqa: B023 - called at once

    for few, many in zip(*calls, strict=True):
        assert many < few * 5, calls
