"""Columns of VARIANT, in turns with Java Paimon 2.0, which shows their values as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Table, open_table
from tests.support.oracle import JavaPaimon

pytestmark = pytest.mark.java

FIELDS = [
    ["k", "BIGINT NOT NULL"],
    ["v", "VARIANT"],
    ["a", "ARRAY<VARIANT>"],
    ["m", "MAP<STRING, VARIANT>"],
    ["r", "ROW<x VARIANT, n INT>"],
]
VALUES = [
    '{"a":1,"b":[true,null,"ü"]}',
    "12345678901",
    '"text"',
    "null",
    "[]",
    "1.25",
    '{"deep":{"er":{"é":[1,{"x":2}]}}}',
]
KINDS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "primary key": (("k",), {"bucket": "1"}),
    "append": ((), {"bucket": "-1"}),
    "partial update": (("k",), {"bucket": "2", "merge-engine": "partial-update"}),
    "last value": (("k",), {"bucket": "1", "merge-engine": "aggregation"}),
    "changelog by lookup": (("k",), {"bucket": "1", "changelog-producer": "lookup"}),
    "deletion vectors": (("k",), {"bucket": "1", "deletion-vectors.enabled": "true"}),
    "row ids": ((), {"bucket": "-1", "row-tracking.enabled": "true"}),
}


def row(key: int, step: int = 0) -> list[Any]:
    one, other = VALUES[(key + step) % len(VALUES)], VALUES[(key + step + 1) % len(VALUES)]
    if key % 5 == 4:
        return [key, None, None, None, None]
    return [key, one, [one, None, other], [["p", other], ["q", None]], [one, key]]


def made(java: JavaPaimon, path: Path, keys: tuple[str, ...], options: dict[str, str]) -> str:
    java.call(
        "create_table", table=str(path), fields=FIELDS, primary_keys=list(keys), partition_keys=[], options=options
    )
    return str(path)


def by_java(java: JavaPaimon, path: str) -> list[Any]:
    return sorted(java.read(path), key=lambda one: one[0])


def ours(path: str) -> pa.Table:
    return open_table(path).to_arrow().sort_by("k")


def moved(rows: pa.Table, by: int) -> pa.Table:
    keys = pa.array([key + by for key in rows["k"].to_pylist()])
    return rows.set_column(0, rows.schema.field("k"), keys)


@pytest.mark.parametrize(("keys", "options"), KINDS.values(), ids=KINDS)
def test_both_read_what_both_write_and_compact(
    keys: tuple[str, ...], options: dict[str, str], paimon2: JavaPaimon, tmp_path: Path
):
    path = made(paimon2, tmp_path / "t", keys, options)
    table = open_table(path)
    paimon2.call("write", table=path, rows=[row(key) for key in range(10)])
    paimon2.call("write", table=path, rows=[row(key, 1) for key in range(10, 20)])
    if "deletion-vectors.enabled" in options:
        table.compact(full=True)
    expected = [row(key, int(key >= 10)) for key in range(20)]
    assert by_java(paimon2, path) == expected

    found = ours(path)
    table.write(moved(found, 20))
    table.compact(full=True)
    both = expected + [[line[0] + 20, *line[1:]] for line in expected]
    assert by_java(paimon2, path) == both
    assert paimon2.problems(path) == []

    again = ours(path)
    assert again.slice(0, 20).equals(found)
    paimon2.call("compact", table=path, full=True)
    assert ours(path).equals(again)
    assert open_table(path).verify("rows").status == "sound"
    few = open_table(path).to_arrow(columns=["k", "v"], where="v is null").to_pydict()
    assert sorted(few["k"]) == [key for key in range(40) if key % 20 % 5 == 4]


def test_later_versions_of_a_key_replace_earlier_ones(paimon2: JavaPaimon, tmp_path: Path):
    path = made(paimon2, tmp_path / "t", ("k",), {"bucket": "1"})
    paimon2.call("write", table=path, rows=[row(key) for key in range(6)])
    newer = ours(path)
    paimon2.call("write", table=path, rows=[row(key, 3) for key in range(3)])
    table = open_table(path)
    table.write(newer.slice(2, 2))
    expected = [row(0, 3), row(1, 3), row(2), row(3), row(4), row(5)]
    assert by_java(paimon2, path) == expected
    table.compact(full=True)
    assert by_java(paimon2, path) == expected


def test_what_this_engine_creates_is_read_by_java(paimon2: JavaPaimon, tmp_path: Path):
    source = made(paimon2, tmp_path / "s", ("k",), {"bucket": "1"})
    paimon2.call("write", table=source, rows=[row(key) for key in range(10)])
    from paimon_engine import Catalog

    found = ours(source)
    schema = pa.schema([field.with_nullable(field.name != "k") for field in found.schema])
    copy: Table = Catalog(str(tmp_path / "lake")).create_table(
        "db.t", schema=schema, primary_keys=["k"], options={"bucket": "1"}
    )
    copy.write(found.cast(schema))
    assert by_java(paimon2, copy.path) == by_java(paimon2, source)
    types = {column["name"]: column["type"] for column in paimon2.call("read", table=copy.path)["columns"]}
    assert types["v"] == "VARIANT"
    assert types["a"] == "ARRAY<VARIANT>"
