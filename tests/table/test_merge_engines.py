"""Tables with partial-update, aggregation and first-row: written, compacted and read here, and read alike by Java."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine.env import Env, EnvConfig
from paimon_engine.errors import InvalidArgumentError
from paimon_engine.storage import MemoryStorage
from paimon_engine.table.read.open_read import open_read
from paimon_engine.table.read.read_request import ReadRequest
from paimon_engine.table.state.handle import load_table
from paimon_engine.table.state.warehouse import create_table
from tests.support.canonical import assert_same_rows
from tests.support.oracle import JavaPaimon
from tests.table.conftest import MakeTable, Subject

FIRST_ROW = {"bucket": "1", "merge-engine": "first-row"}
PARTIAL_UPDATE = {"bucket": "1", "merge-engine": "partial-update"}
AGGREGATION = {"bucket": "1", "merge-engine": "aggregation"}
ITEM = pa.struct([("id", pa.int32()), ("name", pa.string())])


# ── tables that Java reads ──────────────────────────────────────────────────────────────────────

TYPES = {
    "n": pa.int32(),
    "x": pa.float64(),
    "d": pa.decimal128(22, 2),
    "t": pa.string(),
    "g": pa.int32(),
    "h": pa.string(),
    "flag": pa.bool_(),
    "day": pa.date32(),
    "tags": pa.list_(pa.string()),
    "pairs": pa.map_(pa.string(), pa.int32()),
    "items": pa.list_(ITEM),
}
FUNCTIONS = {
    "n": "sum", "x": "product", "d": "sum", "t": "listagg", "g": "max", "h": "min", "flag": "bool_or",
    "day": "first_value", "tags": "collect", "pairs": "merge_map", "items": "nested_update",
}  # fmt: skip
ENGINES = {
    "aggregation": {
        **AGGREGATION,
        **{f"fields.{name}.aggregate-function": function for name, function in FUNCTIONS.items()},
        **{f"fields.{name}.ignore-retract": "true" for name in ("x", "t", "g", "h", "flag", "day")},
        "fields.items.nested-key": "id",
    },
    "partial-update": PARTIAL_UPDATE,
    "sequence groups": {
        **PARTIAL_UPDATE,
        "fields.g,h.sequence-group": "n,t,day,pairs",
        "fields.n.aggregate-function": "sum",
        "fields.t.aggregate-function": "listagg",
        "fields.t.ignore-retract": "true",
    },
    "ignore-delete": {**PARTIAL_UPDATE, "ignore-delete": "true"},
    "remove-record-on-delete": {**PARTIAL_UPDATE, "partial-update.remove-record-on-delete": "true"},
}


def value(chance: random.Random, kind: pa.DataType) -> Any:
    if chance.random() < 0.25 and not pa.types.is_nested(kind):
        return None
    if pa.types.is_list(kind) and pa.types.is_struct(kind.value_type):
        return [{"id": number, "name": chance.choice(["x", None])} for number in chance.sample(range(4), 2)]
    if pa.types.is_list(kind):
        return chance.choices("abc", k=chance.randint(0, 3))
    if pa.types.is_map(kind):
        return [(key, chance.randint(0, 9)) for key in chance.sample("abc", 2)]
    return chance.choice("abc") if pa.types.is_string(kind) else chance.random() < 0.5 if kind == pa.bool_() else (
        chance.randint(-4, 4)
    )  # fmt: skip


def changes(chance: random.Random, keys: Sequence[int], kinds: Sequence[str]) -> pa.Table:
    columns = {name: pa.array([value(chance, kind) for _ in keys], pa.int32() if name == "day" else kind).cast(kind)
               for name, kind in TYPES.items()}  # fmt: skip
    return pa.table({"k": pa.array(keys, pa.int32()), **columns, "_KIND": pa.array(kinds)})


@pytest.mark.parametrize("engine", ENGINES)
def test_java_reads_what_was_merged_here(make_table: MakeTable, oracle: JavaPaimon, engine: str) -> None:
    chance = random.Random(engine)
    options = ENGINES[engine]
    table = make_table({"k": pa.int32(), **TYPES}, primary_keys=["k"], options=options, on_disk=True)
    twice = [*range(20), *range(10)]
    table.write(changes(chance, twice, ["+I"] * 30))

    for full in (None, False, None, True, None):
        table.write(changes(chance, twice, ["+U"] * 30))
        if engine != "partial-update":
            keys = chance.sample(range(10), 4)
            table.write(changes(chance, keys, ["-D", "-U", "-U", "-D"] if engine != "aggregation" else ["-U"] * 4))
        if engine == "remove-record-on-delete":
            # Java 0.9 fails where an add follows a delete in one merge.
            table.compact()
        if full is not None:
            table.compact(full=full)
        unordered = [] if engine != "aggregation" else ["items"]
        assert_same_rows(table.read(), oracle.read(table.path), unordered=unordered)

    assert oracle.problems(table.path) == []


def test_both_engines_write_one_table_in_turns(make_table: MakeTable, oracle: JavaPaimon) -> None:
    options = {**AGGREGATION, "fields.n.aggregate-function": "sum", "fields.t.aggregate-function": "listagg"}
    table = make_table({"k": pa.int32(), "n": pa.int64(), "t": pa.string()}, primary_keys=["k"], options=options,
                       on_disk=True)  # fmt: skip

    table.write({"k": [1, 1, 2], "n": [1, 2, 3], "t": ["a", "b", "c"]})
    oracle.call("write", table=table.path, rows=[[1, 10, "d"], [2, 20, None]])
    table.compact().write({"k": [1, 2], "n": [100, None], "t": ["e", "f"]})
    oracle.call("compact", table=table.path)

    expected = [(1, 113, "a,b,d,e"), (2, 23, "c,f")]
    assert table.rows() == expected
    assert [tuple(row) for row in oracle.read(table.path)] == expected


def test_java_sees_each_first_row_once(make_table: MakeTable, oracle: JavaPaimon) -> None:
    table = make_table({"k": pa.int32(), "v": pa.int32()}, primary_keys=["k"], options=FIRST_ROW, on_disk=True)

    for number in range(4):
        table.write({"k": [1, 2 + number, 2 + number], "v": [number, number, 99]}).compact(full=number % 2 == 1)
        assert [tuple(row) for row in oracle.read(table.path)] == table.rows()

    assert table.rows() == [(1, 0), (2, 0), (3, 1), (4, 2), (5, 3)]
    assert oracle.problems(table.path) == []


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("engine", ["aggregation", "partial-update"])
def test_a_row_that_is_null_has_no_fields_that_must_not_be(
    make_table: MakeTable, oracle: JavaPaimon, engine: str, file_format: str
) -> None:
    place = pa.struct([pa.field("x", pa.int32(), nullable=False), ("y", pa.string())])
    options = {"bucket": "1", "merge-engine": engine, "file.format": file_format, "changelog-producer": "input"}
    table = make_table({"k": pa.int32(), "v": place}, primary_keys=["k"], options=options, on_disk=True)
    rows = pa.table({"k": pa.array([1, 2], pa.int32()), "v": pa.array([None, {"x": 1, "y": None}], place)})

    table.write(rows).write(rows).compact().write(rows)

    assert table.rows() == [(1, None), (2, {"x": 1, "y": None})]
    assert_same_rows(oracle.read(table.path), [[1, None], [2, [1, None]]])
    changes = open_read(table.handle, ReadRequest(incremental=(1, 4)))[1]
    assert sorted(row["k"] for batch in changes for row in batch.to_pylist()) == [1, 2]


# ── what is seen when ───────────────────────────────────────────────────────────────────────────


def test_rows_of_a_first_row_table_appear_when_they_are_compacted(make_table: MakeTable) -> None:
    table = make_table({"k": pa.int32(), "v": pa.string()}, primary_keys=["k"], options=FIRST_ROW)

    table.write({"k": [1, 1], "v": ["a", "b"]})
    assert table.rows() == []
    table.compact(full=False).write({"k": [1, 2], "v": ["c", "d"]})
    assert table.rows() == [(1, "a")]

    assert table.compact(full=False).rows() == [(1, "a"), (2, "d")]


def test_changes_of_a_first_row_table_are_those_that_compactions_let_appear(make_table: MakeTable) -> None:
    table = make_table({"k": pa.int32(), "v": pa.string()}, primary_keys=["k"], options=FIRST_ROW)
    table.write({"k": [1], "v": ["a"]}).compact().write({"k": [1, 2], "v": ["b", "c"]}).compact()

    def changes(mode: str, start: int) -> list[Any]:
        request = ReadRequest(incremental=(start, 4), options={"incremental-between-scan-mode": mode})
        return [tuple(row.values()) for batch in open_read(table.handle, request)[1] for row in batch.to_pylist()]

    assert changes("delta", 0) == []
    assert changes("diff", 2) == [(2, "c")]


def test_a_first_row_table_drops_deletes_only_by_option(make_table: MakeTable) -> None:
    rows = {"k": [1, 1], "v": ["a", None], "_KIND": ["+I", "-D"]}
    ignoring = make_table(
        {"k": pa.int32(), "v": pa.string()}, primary_keys=["k"], options={**FIRST_ROW, "ignore-delete": "true"}
    )
    strict = make_table({"k": pa.int32(), "v": pa.string()}, primary_keys=["k"], options=FIRST_ROW)

    assert ignoring.write(rows).compact().rows() == [(1, "a")]
    with pytest.raises(InvalidArgumentError, match="'ignore-delete'"):
        strict.write(rows)
    assert strict.data_paths() == []


def test_a_delete_of_a_partial_row_leaves_with_a_full_compaction(make_table: MakeTable) -> None:
    options = {**PARTIAL_UPDATE, "partial-update.remove-record-on-delete": "true"}
    table = make_table({"k": pa.int32(), "a": pa.int32(), "b": pa.int32()}, primary_keys=["k"], options=options)
    table.write({"k": [1, 2], "a": [1, 2], "b": [None, None]})

    table.write({"k": [1, 1], "a": [5, None], "b": [None, None], "_KIND": ["+U", "-D"]})

    assert [file.delete_row_count for file in table.files] == [0, 1]
    assert table.rows() == [(2, 2, None)]
    assert table.compact().rows() == [(2, 2, None)]
    assert table.write({"k": [1], "a": [None], "b": [7]}).rows() == [(1, None, 7), (2, 2, None)]


def test_filters_and_projections_see_merged_rows(make_table: MakeTable) -> None:
    options = {**PARTIAL_UPDATE, "fields.g.sequence-group": "a"}
    table = make_table(
        {"k": pa.int32(), "a": pa.int32(), "g": pa.int32(), "b": pa.int32()}, primary_keys=["k"], options=options
    )
    table.write({"k": [1, 2], "a": [1, 2], "g": [9, 1], "b": [1, 1]})
    table.write({"k": [1, 2], "a": [7, 8], "g": [3, 4], "b": [None, 5]})

    assert table.rows(columns=["a"]) == [(1,), (8,)]
    assert table.rows("a = 7") == []
    assert table.rows("a = 8", ["b"]) == [(5,)]


def test_a_failed_merge_leaves_no_file(make_table: MakeTable) -> None:
    options = {**AGGREGATION, "fields.v.aggregate-function": "sum"}
    table = make_table({"k": pa.int32(), "v": pa.decimal128(3, 0)}, primary_keys=["k"], options=options)

    with pytest.raises(InvalidArgumentError, match="'v'"):
        table.write({"k": [1, 1], "v": [999, 1]})

    assert table.data_paths() == []


# ── what is refused ─────────────────────────────────────────────────────────────────────────────


def create(options: Mapping[str, str]) -> Subject:
    env = Env(MemoryStorage())
    path = "memory://test/db.db/t"
    columns = pa.schema([("k", pa.int32()), ("v", pa.binary())])
    return Subject(create_table(env, EnvConfig(path), path, schema=columns, primary_keys=["k"], options=options))


def test_a_table_that_cannot_be_merged_is_not_created() -> None:
    with pytest.raises(InvalidArgumentError, match="'median' is not an aggregate function"):
        create({**AGGREGATION, "fields.v.aggregate-function": "median"})
    with pytest.raises(InvalidArgumentError, match="no column 'zz'"):
        create({"bucket": "1", "fields.zz.sequence-group": "v"})


def test_above_level_0_one_record_of_a_lookup_table_includes_the_older_ones(oracle: JavaPaimon, tmp_path: Path) -> None:
    path = str(tmp_path / "db.db" / "t")
    fields = [["k", "INT NOT NULL"], ["v", "INT"], ["pad", "STRING"]]
    options = {**AGGREGATION, "fields.v.aggregate-function": "sum", "changelog-producer": "lookup"}
    oracle.call("create_table", table=path, fields=fields, primary_keys=["k"], partition_keys=[], options=options)
    chance = random.Random(0)
    pads = ["".join(chance.choices("abcdefgh", k=200)) for _ in range(200)]
    for keys in (range(200), range(20), range(2)):
        oracle.call("write", table=path, rows=[[key, 1, pads[key]] for key in keys])
    table = Subject(load_table(path, EnvConfig(path)))

    assert len({file.level for file in table.files} - {0}) > 1, "the same key is in several levels"
    assert sorted(table.rows(columns=["k", "v"])) == [
        (key, 3 if key < 2 else 2 if key < 20 else 1) for key in range(200)
    ]
    assert_same_rows(table.read(), oracle.read(path))


def test_changelogs_of_aggregating_lookup_tables_are_merged_as_java_does(oracle: JavaPaimon, tmp_path: Path) -> None:
    path = str(tmp_path / "db.db" / "t")
    options = {**AGGREGATION, "fields.v.aggregate-function": "sum", "changelog-producer": "lookup"}
    fields = [["k", "INT NOT NULL"], ["v", "INT"]]
    oracle.call("create_table", table=path, fields=fields, primary_keys=["k"], partition_keys=[], options=options)
    for number in range(2):
        oracle.call("write", table=path, rows=[[1, number + 1]])
    table = load_table(path, EnvConfig(path))

    def changes(start: int, end: int) -> list[Any]:
        batches = open_read(table, ReadRequest(incremental=(start, end)))[1]
        return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]

    assert [changes(0, 2), changes(2, 4)] == [[(1, 1)], [(1, 3)]]
    assert_same_rows([list(row) for row in changes(0, 4)], oracle.read(path, incremental="0,4"))
    assert sorted(changes(0, 4)) == [(1, 1), (1, 3)]


def test_deletes_that_remove_rows_apply_to_older_files_and_are_dropped_in_full_compactions(
    make_table: MakeTable,
) -> None:
    columns = {"k": pa.int32(), "g": pa.int32(), "v": pa.int64()}
    grouped = {"fields.g.sequence-group": "v", "partial-update.remove-record-on-sequence-group": "g"}
    summed = {"fields.v.aggregate-function": "sum", "aggregation.remove-record-on-delete": "true"}
    for options, left in (
        ({**PARTIAL_UPDATE, **grouped}, [(1, 3, 1), (3, 5, 4)]),
        ({**AGGREGATION, **summed}, [(3, 5, 4)]),
    ):
        table = make_table(columns, primary_keys=["k"], options=options)
        table.write({"k": [1, 2, 3], "g": [3, 3, 3], "v": [1, 2, 3]})
        table.write({"_KIND": ["-D"] * 3, "k": [1, 2, 3], "g": [2, 4, 4], "v": [1, 2, 3]})
        table.write({"k": [3], "g": [5], "v": [4]})

        assert table.rows() == left
        assert table.compact().rows() == left
        assert sum(file.row_count for file in table.files) == len(left), "delete records are gone"
