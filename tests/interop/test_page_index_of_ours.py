"""Files of ours have page indexes, also of key columns and row groups that are copies: other readers skip pages by them."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from math import nan
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from paimon_engine import Catalog, Table
from paimon_engine.format import parquet
from tests.support.canonical import rows_of
from tests.support.oracle import JavaPaimon
from tests.support.page_indexes import assert_indexes_fit
from tests.support.pypaimon import PyPaimon
from tests.support.small_row_groups import copied_row_groups, make_row_groups_small

ROWS = 24_000
GROUP_ROWS, PAGE_ROWS = 6_000, 1_000
FIRST_DAY = date(2019, 1, 1)
SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        ("text", pa.string()),
        ("few", pa.string()),
        ("number", pa.int32()),
        ("price", pa.decimal128(9, 2)),
        ("day", pa.date32()),
        ("x", pa.float64()),
        ("list", pa.list_(pa.int32())),
    ]
)
KEYED = {"bucket": "1", "write-only": "true"}
TABLES: dict[str, dict[str, str]] = {
    "keyed": KEYED,
    "deletion vectors": KEYED | {"deletion-vectors.enabled": "true"},
    "without copies of keys": KEYED | {"data-file.thin-mode": "true"},
    "append": {"bucket": "-1"},
}


def rows(begin: int, end: int, mark: str = "text") -> pa.Table:
    """Keys in order are multiples of 3, and most columns follow them, so that bounds of pages are of use."""
    numbers = range(begin, end)
    columns = [
        pa.array([number * 3 for number in numbers]),
        pa.array([None if number % 11 == 0 else f"{mark} {number:07} {'ü' * (number % 40)}" for number in numbers]),
        pa.array([f"value {number // 5_000}" for number in numbers]),
        pa.array([number // 100 if number < ROWS // 2 else None for number in numbers], pa.int32()),
        pa.array([Decimal(number).scaleb(-2) for number in numbers], pa.decimal128(9, 2)),
        pa.array([FIRST_DAY + timedelta(number // 50) for number in numbers]),
        pa.array([nan if mark == "later" and number == ROWS - 500 else number / 4 for number in numbers]),
        pa.array([[number] * (number % 4) for number in numbers], pa.list_(pa.int32())),
    ]
    return pa.table(columns, schema=SCHEMA)


@pytest.fixture(params=TABLES)
def table(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    """A table whose last compaction copied row groups, if it has a key, or made deletion vectors."""
    make_row_groups_small(monkeypatch, GROUP_ROWS)
    monkeypatch.setattr(parquet, "PAGE_ROWS", PAGE_ROWS)
    copied = copied_row_groups(monkeypatch)
    options = TABLES[request.param]
    keys = ["k"] if "write-only" in options else []
    found = Catalog(str(tmp_path)).create_table("db.t", schema=SCHEMA, primary_keys=keys, options=options)
    found.write(rows(0, ROWS if keys else ROWS - 2_000))
    if keys:
        found.compact(full=True)
    found.write(rows(ROWS - 2_000, ROWS, "later"))
    if keys:
        found.compact(full=True)
    if "deletion-vectors.enabled" not in options:
        assert bool(copied) == bool(keys)
    else:
        # Not where rows are deleted.
        found.write(rows(7_000, 7_010, "new"))
        found.compact()
    live = found.files()["file_path"].to_pylist()
    assert live
    for path in live:
        assert assert_indexes_fit(Path(path).read_bytes()) > len(SCHEMA) - 2
    return found


def filters() -> list[tuple[list[Any], Any]]:
    """Filters as Java's harness takes them, each with the same one for Arrow."""
    field, random = pc.field, Random(7)
    keys = [3 * random.randrange(ROWS) for _ in range(6)]
    found: list[tuple[list[Any], Any]] = [(["=", "k", key], field("k") == key) for key in [*keys, keys[0] + 1]]
    for low in keys[:3]:
        between = (field("k") >= low) & (field("k") < low + 7_000)
        found.append((["and", [">=", "k", low], ["<", "k", low + 7_000]], between))
    day = FIRST_DAY + timedelta(140)
    return [
        *found,
        (["=", "text", "text 0001234 " + "ü" * (1_234 % 40)], field("text") == "text 0001234 " + "ü" * (1_234 % 40)),
        (["=", "text", "new 0007001 ü"], field("text") == "new 0007001 ü"),
        (["and", ["=", "few", "value 1"], ["<", "k", 16_000]], (field("few") == "value 1") & (field("k") < 16_000)),
        (["=", "number", 77], field("number") == 77),
        (["and", ["isnull", "number"], ["<", "k", 36_300]], field("number").is_null() & (field("k") < 36_300)),
        (["=", "price", "123.45"], field("price") == pa.scalar(Decimal("123.45"), pa.decimal128(9, 2))),
        (["=", "day", str(day)], field("day") == pa.scalar(day)),
        # NaN is the largest number.
        ([">=", "x", 5_999.0], (field("x") >= 5_999) | field("x").is_nan()),
        (["=", "x", "NaN"], field("x").is_nan()),
        (["=", "x", 123.25], field("x") == 123.25),
    ]


@pytest.mark.java
def test_java_finds_the_rows(table: Table, oracle: JavaPaimon, paimon2: JavaPaimon):
    everything = table.to_arrow()
    names = ("k", "text", "few", "number", "x", "list")
    places = [everything.schema.get_field_index(name) for name in names]
    for java in (oracle, paimon2):
        # Positions of deleted rows are compared with those in the indexes.
        found = java.read(table.path)
        assert sorted([row[place] for place in places] for row in found) == sorted(rows_of(everything.select(names)))
    for where, expression in filters():
        wanted = rows_of(everything.filter(expression).select(names))
        assert len(wanted) < ROWS / 2
        for java in (oracle, paimon2):
            found = java.read(table.path, filter=where, execute_filter=True)
            assert sorted([row[place] for place in places] for row in found) == sorted(wanted), where


@pytest.mark.parametrize("client", ["python", "rust"])
def test_pypaimon_finds_the_rows(table: Table, pypaimon: PyPaimon, client: Any):
    everything = table.to_arrow()
    for name, values in (("k", [0, 3, 3 * 7_005, 3 * (ROWS - 1), 4]), ("few", ["value 1"]), ("number", [77])):
        for value in values:
            wanted = everything.filter(pc.field(name) == value)
            found = pypaimon.read(table.path, equal={name: value}, client=client)
            # The Rust client skips pages, and gives the other rows of those that it reads.
            found = found.filter(pc.field(name) == value).select(everything.column_names)
            assert sorted(rows_of(found)) == sorted(rows_of(wanted))
