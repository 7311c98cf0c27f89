"""A pruned read gives what an unpruned one gives when it is filtered afterwards, and opens no more than it must."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.orc as po
import pytest
from fsspec.implementations.memory import MemoryFile

from paimon_engine import open_table
from paimon_engine.action import Context
from paimon_engine.actions.compact import Compact, compact
from paimon_engine.executor import LocalExecutor
from paimon_engine.format import orc, parquet, parquet_bounds
from paimon_engine.format.layout import WriteOptions
from paimon_engine.meta.schema import TableSchema
from paimon_engine.predicate import Predicate, as_predicate, col, to_arrow_expression
from paimon_engine.table.read import file_matches
from paimon_engine.table.read.file_matches import value_ranges
from paimon_engine.table.read.open_read import open_read
from paimon_engine.table.read.read_request import ReadRequest
from paimon_engine.table.read.reader import RowSelection, check_rows, read_splits
from paimon_engine.table.read.scan import plan_splits
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.snapshots import latest_snapshot
from tests.support.canonical import assert_same_rows
from tests.support.corpus import case
from tests.support.counting import CountingStorage
from tests.table.conftest import KIND, MakeTable, Subject

DAY = date(2013, 1, 1)
GROUP_ROWS = 4
COLUMNS = {
    "day": pa.date32(),
    "k": pa.int64(),
    "v": pa.int32(),
    "x": pa.float64(),
    "s": pa.string(),
    "p": pa.decimal128(9, 2),
    "r": pa.struct([("a", pa.int64()), ("b", pa.string())]),
}


@pytest.fixture
def small_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of many row groups, so that there is something to leave out."""
    write = parquet.ParquetWriter.write

    def in_groups(self: parquet.ParquetWriter, batch: pa.RecordBatch) -> None:
        for begin in range(0, batch.num_rows, GROUP_ROWS):
            write(self, batch.slice(begin, GROUP_ROWS))
            self.close_row_group()

    monkeypatch.setattr(parquet.ParquetWriter, "write", in_groups)


@pytest.fixture
def left_out(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many row groups each read of a file left out."""
    found, matching = [], parquet_bounds.matching_groups

    def noting(file: Any, *rest: Any) -> list[tuple[int, bool]]:
        groups = matching(file, *rest)
        found.append(file.metadata.num_row_groups - len(groups))
        return groups

    monkeypatch.setattr(parquet, "matching_groups", noting)
    return found


def random_rows(chance: random.Random, count: int, *, with_kinds: bool) -> dict[str, Any]:
    def some(make: Any) -> Any:
        return None if chance.random() < 0.1 else make()

    rows: dict[str, Any] = {
        "day": [DAY + timedelta(chance.randrange(4)) for _ in range(count)],
        "k": [chance.randrange(60) for _ in range(count)],
        "v": [some(lambda: chance.randrange(-20, 20)) for _ in range(count)],
        "x": [some(lambda: chance.choice([0.0, -0.0, float("nan"), chance.uniform(-5, 5)])) for _ in range(count)],
        "s": [some(lambda: chance.choice("abc") * chance.randrange(4)) for _ in range(count)],
        "p": [some(lambda: chance.randrange(-500, 500)) for _ in range(count)],
        "r": [some(lambda: {"a": chance.randrange(9), "b": chance.choice([None, "x"])}) for _ in range(count)],
    }
    if with_kinds:
        rows[KIND] = [chance.choice(["+I", "+I", "+I", "-D"]) for _ in range(count)]
    return rows


def leaf(chance: random.Random) -> Predicate:
    number = chance.choice([chance.randrange(-25, 65), chance.uniform(-20, 20)])
    name = chance.choice(["k", "k", "v", "x", "p", "r.a"])
    column = col(name)
    options = [
        lambda: column == number,
        lambda: column != number,
        lambda: column < number,
        lambda: column <= number,
        lambda: column > number,
        lambda: column >= number,
        lambda: column.is_in([number, chance.randrange(60), chance.choice([None, 5])]),
        lambda: column.between(number, number + chance.randrange(10)),
        lambda: col(chance.choice(list(COLUMNS))).is_null(),
        lambda: col(chance.choice(list(COLUMNS))).is_not_null(),
        lambda: col("s").like(chance.choice(["a%", "%b", "_b%", "bb", "", "%"])),
        lambda: col("s").starts_with(chance.choice(["", "a", "cc"])),
        lambda: col("day") == DAY + timedelta(chance.randrange(5)),
        lambda: col("day").is_in([DAY, DAY + timedelta(chance.randrange(5))]),
        lambda: col("x") == chance.choice([0.0, -0.0, float("nan")]),
        lambda: (column == number) | (column == chance.randrange(60)),
    ]
    return chance.choice(options)()


def tree(chance: random.Random, depth: int = 0) -> Predicate:
    if depth == 3 or chance.random() < 0.4:
        return leaf(chance)
    a, b = tree(chance, depth + 1), tree(chance, depth + 1)
    return chance.choice([a & b, a & b, a | b, ~a])


def assert_pruning_changes_nothing(handle: TableHandle, where: Predicate, message: str) -> None:
    every, found = (
        pa.Table.from_batches(batches, schema)
        for schema, batches in (open_read(handle, ReadRequest()), open_read(handle, ReadRequest(where=where)))
    )
    expected = every.filter(to_arrow_expression(where, every.schema))
    assert_same_rows(found, expected, f"{message}: {where}")


TABLES: dict[str, dict[str, Any]] = {
    "append": {"options": {}},
    "append with buckets": {"options": {"bucket": "3", "bucket-key": "k"}},
    "append by day": {"options": {}, "partition_keys": ["day"]},
    "orc": {"options": {"file.format": "orc"}},
    "avro": {"options": {"bucket": "2", "file.format": "avro"}, "primary_keys": ["day", "k"]},
    **{
        engine: {
            "options": {"bucket": "2", "merge-engine": engine, **more},
            "primary_keys": ["day", "k"],
            "partition_keys": ["day"],
        }
        for engine, more in {
            "deduplicate": {},
            "partial-update": {"ignore-delete": "true"},
            "aggregation": {"fields.v.aggregate-function": "sum", "ignore-delete": "true"},
            "first-row": {"ignore-delete": "true"},
        }.items()
    },
}


@pytest.mark.usefixtures("small_row_groups")
@pytest.mark.parametrize("kind", TABLES)
def test_a_pruned_read_is_an_unpruned_one_filtered(make_table: MakeTable, kind: str, left_out: list[int]):
    chance = random.Random(f"{kind} 0")
    table = make_table(COLUMNS, **TABLES[kind])
    with_kinds = "primary_keys" in TABLES[kind]
    for _ in range(4):
        table.write(random_rows(chance, 120, with_kinds=with_kinds))
        if chance.random() < 0.4:
            table.compact(full=chance.random() < 0.5)

    if kind == "first-row":
        table.compact()
    for _ in range(15):
        assert_pruning_changes_nothing(table.handle, tree(chance), kind)
    assert any(left_out) or kind not in ("append", "append with buckets")


@pytest.mark.parametrize("name", ["dv_parquet", "dv_orc_partitioned", "append_dv", "dv_avro", "dv_partial_update"])
def test_rows_stay_deleted_where_row_groups_are_left_out(name: str):
    table = open_table(str(case(name).table))
    chance = random.Random(name)
    everything = table.to_arrow()
    keys = [field.name for field in everything.schema if pa.types.is_integer(field.type)]
    for _ in range(20):
        values = [value for value in everything[chance.choice(keys)].to_pylist() if value is not None]
        key, value = chance.choice(keys), chance.choice(values)
        where = chance.choice([col(key) == value, col(key) > value, col(key) <= value])
        expected = everything.filter(to_arrow_expression(where, everything.schema))
        assert_same_rows(table.to_arrow(where=where), expected, str(where))


@pytest.mark.usefixtures("small_row_groups")
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("changes", [{}, {"changelog-producer": "lookup"}, {"ignore-delete": "true"}], ids=str)
@pytest.mark.parametrize("keys", [["k"], ["s"], ["s", "k"], ["x"]], ids=str)
def test_rows_are_marked_where_row_groups_are_left_out(
    make_table: MakeTable, keys: list[str], changes: dict[str, str], file_format: str, left_out: list[int]
):
    """A compaction marks what newer rows replace; positions count the rows that it has passed over."""
    chance = random.Random(f"{keys} {changes} {file_format}")
    options = {"bucket": "1", "deletion-vectors.enabled": "true", "file.format": file_format, **changes}
    columns = {"s": pa.string(), "k": pa.int64(), "x": pa.float64(), "v": pa.int64()}
    table = make_table(columns, primary_keys=keys, options=options)

    def write(numbers: list[int], kinds: list[int], value: int) -> None:
        named = {"s": [f"s{number:03}" for number in numbers], "k": numbers, "x": numbers, "v": [value] * len(numbers)}
        table.write({**named, KIND: pa.array(kinds, pa.int8())})

    write(list(range(200)), [0] * 200, 0)
    table.compact()
    expected = dict.fromkeys(range(200), 0)
    for value in range(1, 7):
        begin = chance.randrange(200)
        numbers = chance.sample(range(begin, begin + 30), 8)
        kinds = [chance.choice([0, 2, 3]) for _ in numbers]
        write(numbers, kinds, value)
        gone = set() if "ignore-delete" in changes else {n for n, kind in zip(numbers, kinds, strict=True) if kind == 3}
        written = {n for n, kind in zip(numbers, kinds, strict=True) if kind != 3}
        expected = {n: v for n, v in expected.items() if n not in gone} | dict.fromkeys(written, value)
        table.compact(full=False)
        found = table.read(columns=["k", "v"]).to_pylist()
        assert {row["k"]: row["v"] for row in found} == expected
        assert len(found) == len(expected)
    assert any(left_out) == (file_format == "parquet" and keys != ["x"])


@pytest.mark.usefixtures("small_row_groups")
def test_rows_are_deleted_where_row_groups_are_left_out(make_table: MakeTable, left_out: list[int]):
    options = {"deletion-vectors.enabled": "true", "fields.v.default-value": "7"}
    table = make_table({"k": pa.int64(), "v": pa.int64()}, options=options, on_disk=True)
    table.write({"k": list(range(100)), "v": [k % 10 or None for k in range(100)]})
    opened = open_table(table.path)

    for where, left in (("k >= 90 AND v = 3", 99), ("k IN (93, 20, 21)", 97), ("v = 7", 78), ("k < 50", 39)):
        opened.delete(where)
        assert opened.to_arrow().num_rows == left, where
    assert left_out == [22, 23, 12]


@pytest.mark.usefixtures("small_row_groups")
def test_renamed_and_retyped_columns_are_pruned_by_what_they_are_now(make_table: MakeTable):
    table = make_table({"k": pa.int32(), "v": pa.int64()}).write({"k": list(range(100)), "v": list(range(100, 0, -1))})
    old: TableSchema = table.handle.schema
    table.handle.schema_of(old.id)
    k, v = old.row_type.fields
    swapped = replace(old, id=1, row_type=replace(old.row_type, fields=(replace(v, name="k"), replace(k, name="w"))))
    table.handle = replace(table.handle, schema=swapped)

    for where in (col("k") > 95, col("w") > 95, (col("k") == 3) | (col("w") == 3)):
        assert_pruning_changes_nothing(table.handle, where, "renamed")


# ── what is opened ──────────────────────────────────────────────────────────────────────────────


def counted(table: Subject) -> CountingStorage:
    storage = CountingStorage(table.handle.env.storage)
    table.handle = replace(table.handle, env=replace(table.handle.env, storage=storage))
    return storage


def test_files_of_partitions_that_match_are_not_compared_once_more(
    make_table: MakeTable, monkeypatch: pytest.MonkeyPatch
):
    table = make_table({"day": pa.date32(), "k": pa.int64()}, partition_keys=["day"])
    table.write({"day": [DAY, DAY + timedelta(1)], "k": [1, 2]})
    looked_at: list[str] = []

    def noting(handle: Any, file: Any, names: Any) -> Any:
        looked_at.append(file.name)
        return value_ranges(handle, file, names)

    monkeypatch.setattr(file_matches, "value_ranges", noting)

    assert table.rows(f"day = DATE '{DAY}'") == [(DAY, 1)]
    assert not looked_at
    assert table.rows(f"day = DATE '{DAY}' AND k = 2") == []
    assert len(looked_at) == 1


def test_manifests_of_other_partitions_are_not_read(make_table: MakeTable):
    table = make_table({"day": pa.date32(), "k": pa.int64()}, partition_keys=["day"])
    for day in range(5):
        table.write({"day": [day], "k": [day]})
    storage = counted(table)

    assert table.rows("day = DATE '1970-01-03'") == [(date(1970, 1, 3), 2)]
    calls = storage.take()
    assert sum(verb == "read" and "/manifest-" in path and "list" not in path for verb, path in calls) == 1
    assert sum(verb == "open" for verb, _ in calls) == 1

    assert table.rows("day > DATE '1971-01-01' AND k = 1") == []
    assert not [path for verb, path in storage.take() if verb == "open"]


@pytest.mark.parametrize("where", ["p = 1", "p < 2", "p IN (1, 3)", "p = 1 AND v = 1", "p = 1 OR p = 0"])
def test_files_of_other_partitions_may_be_removed_by_manifests_that_are_read(make_table: MakeTable, where: str):
    options = {"bucket": "1"}
    columns = {"p": pa.int32(), "k": pa.int64(), "v": pa.int64()}
    table = make_table(columns, primary_keys=["p", "k"], partition_keys=["p"], options=options)
    for number in range(4):
        table.write({"p": [number], "k": [7], "v": [0]})
    table.write({"p": [0, 1, 2, 3], "k": [7] * 4, "v": [1] * 4})
    table.compact(full=True)

    kept = {"p = 1": [1], "p < 2": [0, 1], "p IN (1, 3)": [1, 3], "p = 1 AND v = 1": [1], "p = 1 OR p = 0": [0, 1]}
    assert sorted(table.rows(where)) == [(number, 7, 1) for number in kept[where]]


def test_removals_of_other_partitions_do_not_matter(make_table: MakeTable):
    table = make_table({"day": pa.date32(), "k": pa.int64()}, partition_keys=["day"], primary_keys=["day", "k"])
    for day in (0, 1, 1, 0, 2):
        table.write({"day": [day], "k": [day]})
    # One manifest takes away files of two days, of which other manifests added those of one day each.
    table.compact()

    assert table.rows("day = DATE '1970-01-02'") == [(date(1970, 1, 2), 1)]
    assert table.rows("day > DATE '1970-01-01' AND k < 2") == [(date(1970, 1, 2), 1)]
    assert table.rows("day <> DATE '1970-01-02'") == [(date(1970, 1, 1), 0), (date(1970, 1, 3), 2)]
    compact(
        Context(table.handle, LocalExecutor(1, env=table.handle.env)),
        Compact(full=True, where="day = DATE '1970-01-01'"),
    )
    assert len(table.rows()) == 3


@pytest.mark.parametrize(
    ("where", "buckets"),
    [
        ("k = 7", 1),
        ("k IN (7, 8, 9)", 3),
        ("k = 7 OR k = 8", 2),
        ("k IN (7, 8) AND k IN (8)", 1),
        ("k = 7.5", 0),
        ("k = 7 OR v = 1", 8),
        ("k > 7", 8),
    ],
)
def test_buckets_are_chosen_by_equality_and_lists(make_table: MakeTable, where: str, buckets: int):
    table = make_table({"k": pa.int64(), "v": pa.int64()}, options={"bucket": "8", "bucket-key": "k"})
    table.write({"k": list(range(200)), "v": [0] * 200})

    predicate = as_predicate(where)
    found = {split.bucket for split in plan_splits(table.handle, table.snapshot, predicate)}
    assert len(found) <= buckets
    assert bool(found) == bool(buckets)
    assert table.rows(where) == [(k, 0) for k in range(200) if eval_where(where, k)]


def eval_where(where: str, k: int) -> bool:
    wanted = {"k = 7": {7}, "k IN (7, 8, 9)": {7, 8, 9}, "k = 7 OR k = 8": {7, 8}, "k IN (7, 8) AND k IN (8)": {8}}
    if where == "k > 7":
        return k > 7
    return k in wanted.get(where, {7} if "v" in where else set())


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_fractions_leave_out_files_but_for_nan(make_table: MakeTable, file_format: str):
    table = make_table({"x": pa.float64()}, options={"file.format": file_format})
    table.write({"x": [1.0, 2.0]}).write({"x": [5.0, 9.0]}).write({"x": [1.0, float("nan")]})

    def opened(where: Predicate) -> int:
        return sum(len(split.sections) for split in plan_splits(table.handle, table.snapshot, where))

    assert opened(col("x") < 1.5) == 2
    assert opened(col("x") > 4) == (3 if file_format == "orc" else 2)
    assert [str(row) for (row,) in table.rows("x > 4")] == ["5.0", "9.0", "nan"]


@pytest.mark.usefixtures("small_row_groups")
def test_nan_is_found_in_row_groups_that_do_not_count_it(make_table: MakeTable):
    table = make_table({"x": pa.float64(), "n": pa.int32()})
    table.write(pa.table({"x": [float(i) for i in range(40)], "n": pa.array(range(40), pa.int32())}))
    table.write({"x": [1.0, float("nan")], "n": [50, 51]})

    assert [n for _, n in table.rows("x > 37")] == [38, 39, 51]
    assert [n for _, n in table.rows("x = CAST('NaN' AS DOUBLE)")] == [51]
    assert [n for _, n in table.rows("x <> 1 AND n >= 38")] == [38, 39, 51]


class CountingFile:
    """A file that adds up what is read of it."""

    def __init__(self, data: bytes) -> None:
        self._file = MemoryFile(None, "x", data)
        self.read_bytes = 0

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.read_bytes += len(data)
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def parquet_file(tmp_path: Any) -> tuple[bytes, pa.Schema]:
    schema = pa.schema(
        [("k", pa.int64()), ("s", pa.string()), ("r", pa.struct([("a", pa.int64()), ("b", pa.string())]))]
    )
    count = 20_000
    chance = random.Random(0)
    rows = pa.table(
        {
            "k": list(range(count)),
            "s": [chance.randbytes(20).hex() for _ in range(count)],
            "r": [{"a": i, "b": chance.randbytes(20).hex()} for i in range(count)],
        },
        schema,
    )
    path = tmp_path / "rows.parquet"
    with path.open("wb") as sink:
        writer = parquet.ParquetWriter(sink, schema, WriteOptions())
        for batch in rows.to_batches(max_chunksize=1_000):
            writer.write(batch)
            writer.close_row_group()
        writer.close()
    return path.read_bytes(), schema


def test_only_row_groups_and_leaves_that_are_needed_are_read(tmp_path: Any):
    data, schema = parquet_file(tmp_path)

    def read(columns: pa.Schema, where: Predicate | None) -> tuple[int, int, list[int]]:
        source = CountingFile(data)
        if where is None:
            found = [(0, rows) for rows in parquet.read_batches(source, columns, path="x")]
        else:
            found = list(parquet.read_matching(source, columns, where, path="x"))
        return sum(rows.num_rows for _, rows in found), source.read_bytes, [first for first, _ in found]

    everything = read(schema, None)
    some = read(schema, (col("k") >= 7_500) & (col("k") < 8_500))
    assert everything[0] == 20_000
    assert (some[0], some[2]) == (2_000, [7_000, 8_000])
    assert some[1] < 0.3 * everything[1]
    assert read(schema, col("k") > 20_000)[0] == 0

    narrow = pa.schema([("r", pa.struct([("a", pa.int64())]))])
    assert read(narrow, None)[1] < 0.3 * everything[1]


@pytest.mark.parametrize("codec", ["zstd", "snappy", "zlib", "uncompressed", "lz4"])
def test_only_stripes_that_are_needed_are_read(codec: str):
    count = 40_000
    rows = pa.table(
        {
            "k": pa.array(range(count), pa.int64()),
            "r": [{"a": [i], "b": {"x": i}} for i in range(count)],
            "d": pa.array(range(-20_000, 20_000), pa.int32()).cast(pa.date32()),
            "p": pa.array(range(count)).cast(pa.decimal128(19, 0)),
            "s": [f"{i:05}" for i in range(count)],
            "x": pa.array([None, *range(1, count)], pa.float64()),
            "empty": pa.nulls(count, pa.int32()),
        }
    )
    sink = pa.BufferOutputStream()
    po.write_table(rows, sink, stripe_size=1 << 16, compression=codec, batch_size=1_000)
    data = sink.getvalue().to_pybytes()
    assert po.ORCFile(CountingFile(data)).nstripes > 1

    def read(where: Predicate) -> tuple[int, list[int]]:
        """Rows that match, and the first position of each batch."""
        found = list(orc.read_matching(CountingFile(data), rows.schema, where, path="x"))
        for first, batch in found:
            assert batch["k"].to_pylist() == list(range(first, first + batch.num_rows))
        table = pa.Table.from_batches([batch for _, batch in found], rows.schema) if found else rows.slice(0, 0)
        return table.filter(to_arrow_expression(where, rows.schema)).num_rows, [first for first, _ in found]

    for where in (
        col("k") == 39_000,
        col("k").is_in([39_000]),
        col("d") == rows["d"][39_000].as_py(),
        col("p") == 39_000,
        col("s") == "39000",
        col("s").like("39000%"),
        col("x") < 2,
    ):
        matching, firsts = read(where)
        assert matching == 1
        assert len(firsts) == 1
    assert read(col("x") > 50_000)[0] == 0
    assert len(read(col("x").is_null())[1]) == 1
    assert read(col("empty").is_not_null())[0] == 0
    assert read((col("r.b.x") == 39_000) & (col("k") >= 0))[0] == 1


def test_each_index_file_is_opened_once():
    table = open_table(str(case("dv_parquet").table))._handle
    storage = CountingStorage(table.env.storage)
    table = replace(table, env=replace(table.env, storage=storage))
    rows = RowSelection()
    check_rows(table, rows)
    splits = plan_splits(table, latest_snapshot(table))
    vectors = Counter(place.path for split in splits for place in split.vectors.values())
    storage.take()
    assert sum(batch.num_rows for batch in read_splits(table, splits, rows)) > 0

    assert vectors
    assert storage.taken("open", "/index/") == dict.fromkeys(vectors, 1)
