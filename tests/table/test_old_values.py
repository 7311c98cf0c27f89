"""Old values under the columns of today: nulls where none may be now, and values that cannot become what they should."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, InvalidArgumentError, Table, UpdateColumnNullability, UpdateColumnType, open_table
from paimon_engine.meta.schema_change import SchemaChange

FORMATS = ["parquet", "orc", "avro"]


def two_versions(folder: Path, kind: str, values: list[Any], **options: str) -> Table:
    """A table with `k` and `v`, whose rows 1 and 2 have been written twice."""
    table = Catalog(str(folder)).create_table(
        "db.t",
        schema={"k": "INT NOT NULL", "v": kind},
        primary_keys=["k"],
        options={"bucket": "1", "alter-column-null-to-not-null.disabled": "false", **options},
    )
    rows = pa.table([pa.array([1, 2], pa.int32()), pa.array(values, table.arrow_schema.types[1])], table.arrow_schema)
    table.write(rows)
    table.write(rows)
    return table


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    ("kind", "values", "change", "found"),
    [
        ("INT", [None, 5], UpdateColumnNullability("v", nullable=False), [None, 5]),
        (
            "DECIMAL(10, 2) NOT NULL",
            [Decimal("12345.67"), Decimal("1.00")],
            UpdateColumnType("v", "DECIMAL(4, 2)"),
            [None, Decimal("1.00")],
        ),
    ],
    ids=["null before", "null by a cast"],
)
def test_old_nulls_of_a_column_without_nulls(
    tmp_path: Path, form: str, kind: str, values: list[Any], change: SchemaChange, found: list[Any]
):
    two_versions(tmp_path, kind, values, **{"file.format": form}).alter([change])
    table = open_table(str(tmp_path / "db.db/t"))

    assert table.to_arrow()["v"].to_pylist() == found
    if form != "orc":
        with pytest.raises(InvalidArgumentError, match="column 'v' is NOT NULL, but a row .* make the column nullable"):
            table.compact(full=True)
        table.alter([UpdateColumnNullability("v", nullable=True)])
    open_table(table.path).compact(full=True)
    assert open_table(table.path).to_arrow()["v"].to_pylist() == found


@pytest.mark.parametrize("form", FORMATS)
def test_old_nulls_of_a_part_without_nulls(tmp_path: Path, form: str):
    table = two_versions(tmp_path, "ROW<a INT, b INT>", [{"a": None, "b": 1}, None], **{"file.format": form})
    table.alter([UpdateColumnNullability("v.a", nullable=False)])
    table = open_table(table.path)

    assert table.to_arrow(["k"])["k"].to_pylist() == [1, 2]
    with pytest.raises(InvalidArgumentError, match="column 'v' .* a part that is NOT NULL now has nulls"):
        table.to_arrow()
    table.alter([UpdateColumnNullability("v.a", nullable=True)])
    assert open_table(table.path).to_arrow()["v"].to_pylist() == [{"a": None, "b": 1}, None]


STEPS = [
    ("DATE", ["STRING"], "CHAR(3)", [0, None]),
    ("TIMESTAMP(3)", ["STRING"], "BYTES", [0, None]),
    ("BOOLEAN", ["BIGINT"], "TIMESTAMP(3)", [True, None]),
    ("ARRAY<DATE>", ["STRING"], "BYTES", [[0], None]),
]


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize(("kind", "between", "last", "values"), STEPS, ids=str)
def test_a_type_to_which_old_files_have_no_cast(
    tmp_path: Path, keyed: bool, kind: str, between: list[str], last: str, values: list[Any]
):
    keys, options = (["k"], {"bucket": "1"}) if keyed else ([], {"bucket": "-1"})
    table = Catalog(str(tmp_path)).create_table(
        "db.t", schema={"k": "INT NOT NULL", "v": kind}, primary_keys=keys, options=options
    )
    rows = [pa.array([1, 2], pa.int32()), pa.array(values, table.arrow_schema.types[1])]
    table.write(pa.table(rows, table.arrow_schema))
    with pytest.raises(InvalidArgumentError, match="column 'v': files from before .* compact the table fully"):
        table.alter([UpdateColumnType("v", name) for name in (*between, last)])
    for name in between:
        table.alter([UpdateColumnType("v", name)])

    with pytest.raises(InvalidArgumentError, match="column 'v': files from before .* compact the table fully"):
        open_table(table.path).alter([UpdateColumnType("v", last)])
    Catalog(str(tmp_path)).table("db.t", options={"compaction.force-rewrite-all-files": "true"}).compact(full=True)
    open_table(table.path).alter([UpdateColumnType("v", last)])
    assert open_table(table.path).to_arrow(where="v is null")["k"].to_pylist() == [2]


def test_parts_to_which_old_files_have_no_cast(tmp_path: Path):
    table = Catalog(str(tmp_path)).create_table("db.t", schema={"r": "ROW<l ARRAY<ROW<d DATE, n INT>>>"})
    rows = pa.table({"r": pa.array([{"l": [{"d": 0, "n": 1}]}], table.arrow_schema.types[0])})
    table.write(rows)
    table.alter([UpdateColumnType("r.l.element.d", "STRING"), UpdateColumnType("r.l.element.n", "STRING")])
    table = open_table(table.path)

    table.alter([UpdateColumnType("r.l.element.n", "BIGINT")])
    with pytest.raises(InvalidArgumentError, match=r"column 'r': .* have DATE, .* no cast to BYTES"):
        open_table(table.path).alter([UpdateColumnType("r.l.element.d", "BYTES")])
    assert open_table(table.path).to_arrow()["r"].to_pylist() == [{"l": [{"d": "1970-01-01", "n": 1}]}]
