"""Merge functions that came after Paimon 0.9: the newest release of Java reads what we read."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog
from tests.support.canonical import Row, rows_of
from tests.support.newest import NewestPaimon

LINE = pa.struct([("id", pa.int32()), ("seq", pa.int64()), ("note", pa.string())])
STAMPED = pa.map_(pa.string(), pa.struct([("note", pa.string()), ("ts", pa.string())]))
AGGREGATION = {"bucket": "1", "merge-engine": "aggregation"}


def lines(chance: random.Random) -> Any:
    keys = chance.sample(range(4), chance.randrange(4))
    return [{"id": key, "seq": chance.randrange(9), "note": chance.choice(["a", "b", None])} for key in keys]


def stamped(chance: random.Random) -> Any:
    keys = chance.sample("abc", chance.randrange(4))
    return [(key, {"note": chance.choice("xyz"), "ts": chance.choice(["1", "2", "3", None])}) for key in keys]


def texts(chance: random.Random) -> Any:
    return chance.choice(["a", "b,c", "c,,a", "d,d", None])  # what is blank differs in 2.0


FUNCTIONS: Mapping[str, tuple[dict[str, str], pa.DataType, Any]] = {
    "distinct texts": ({"aggregate-function": "listagg", "distinct": "true"}, pa.string(), texts),
    "a limit": ({"aggregate-function": "nested_update", "count-limit": "3"}, pa.list_(LINE), lines),
    "fields of rows": ({"aggregate-function": "nested_partial_update", "nested-key": "id"}, pa.list_(LINE), lines),
    "entries by time": ({"aggregate-function": "merge_map_with_keytime", "ts-field": "ts"}, STAMPED, stamped),
}


def ordered(rows: list[Row]) -> Any:
    """Rows in the order of their keys, elements of lists and maps in any one order."""

    def plain(value: Any) -> Any:
        return sorted(map(repr, value)) if isinstance(value, list) else value

    return sorted(([plain(value) for value in row] for row in rows), key=repr)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_gives_what_the_newest_java_gives(name: str, tmp_path: Path, newest: NewestPaimon) -> None:
    own, kind, values = FUNCTIONS[name]
    options = {**AGGREGATION, **{f"fields.v.{key}": text for key, text in own.items()}}
    schema = pa.schema([pa.field("k", pa.int32(), nullable=False), pa.field("v", kind)])
    table = Catalog(str(tmp_path)).create_table("db.t", schema=schema, primary_keys=["k"], options=options)
    chance = random.Random(name)
    for step in range(4):
        keys = chance.choices(range(30), k=40)
        table.write(pa.table({"k": keys, "v": [values(chance) for _ in keys]}, schema=schema))

        assert ordered(rows_of(table.to_arrow())) == ordered(newest.read(table.path)), f"step {step}"


@pytest.mark.parametrize(
    "options",
    [
        {**AGGREGATION, "fields.v.aggregate-function": "sum", "aggregation.remove-record-on-delete": "true"},
        {
            "bucket": "1",
            "merge-engine": "partial-update",
            "fields.g.sequence-group": "v",
            "partial-update.remove-record-on-sequence-group": "g",
        },
    ],
    ids=["aggregation", "sequence group"],
)
def test_a_delete_removes_the_row_as_in_the_newest_java(
    options: dict[str, str], tmp_path: Path, newest: NewestPaimon
) -> None:
    schema = pa.schema(
        [pa.field("k", pa.int32(), nullable=False), ("g", pa.int32()), ("v", pa.int64()), ("o", pa.string())]
    )
    table = Catalog(str(tmp_path)).create_table("db.t", schema=schema, primary_keys=["k"], options=options)
    chance = random.Random(0)
    for step, kind in enumerate(["+I", "+I", "-D"]):
        keys = chance.sample(range(40), 30)
        rows = {"k": keys, "g": [chance.randrange(9) for _ in keys], "v": keys, "o": ["x"] * 30}
        table.write(pa.table(rows, schema=schema), row_kinds=[kind] * 30)

        assert ordered(rows_of(table.to_arrow())) == ordered(newest.read(table.path)), f"step {step}"
