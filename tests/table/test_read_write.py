"""What is written is what is read: primary-key and append tables, before and after compaction."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paimon_engine.env import EnvConfig
from paimon_engine.errors import InvalidArgumentError, UnsupportedError
from paimon_engine.format.binary_row import EMPTY_ROW, decode_row
from paimon_engine.meta.manifest import FileSource
from paimon_engine.table.read.open_read import open_read
from paimon_engine.table.read.read_request import ReadRequest
from paimon_engine.table.state.handle import load_table
from paimon_engine.table.write.writer import write_batches, write_state
from tests.support.canonical import Row, assert_same_rows, rows_of
from tests.support.corpus import Case, corpus_cases, writable
from tests.support.oracle import JavaPaimon
from tests.table.conftest import MakeTable, Subject

KV = {"k": pa.int64(), "v": pa.string()}


# ── tables that Java wrote ──────────────────────────────────────────────────────────────────────


# ── primary-key tables ──────────────────────────────────────────────────────────────────────────


def test_the_last_row_of_a_key_counts(make_table: MakeTable):
    table = make_table(KV, primary_keys=["k"])

    table.write({"k": [2, 1, 2], "v": ["a", "b", "c"]}).write({"k": [1, 3], "v": ["d", "e"]})

    assert table.rows() == [(1, "d"), (2, "c"), (3, "e")]
    assert table.compact().rows() == [(1, "d"), (2, "c"), (3, "e")]


def test_a_flush_keeps_one_row_per_key_with_the_number_of_its_arrival(make_table: MakeTable):
    table = make_table(KV, primary_keys=["k"]).write({"k": [2, 1, 2], "v": ["a", "b", "c"]})

    (file,) = table.files

    assert (file.row_count, file.min_sequence_number, file.max_sequence_number) == (2, 1, 2)
    assert (file.level, file.file_source, file.delete_row_count) == (0, FileSource.APPEND, 0)


def test_sequence_numbers_continue_where_the_bucket_ended(make_table: MakeTable):
    table = make_table(KV, primary_keys=["k"]).write({"k": [1, 2], "v": ["a", "b"]}).write({"k": [3], "v": ["c"]})

    ranges = sorted((file.min_sequence_number, file.max_sequence_number) for file in table.files)

    assert ranges == [(0, 1), (2, 2)]


def test_deletes_hide_rows_and_leave_with_a_full_compaction(make_table: MakeTable):
    table = make_table(KV, primary_keys=["k"]).write({"k": [1, 2], "v": ["a", "b"]})

    table.write({"k": [1], "v": [None], "_KIND": ["-D"]})

    assert [file.delete_row_count for file in table.files] == [0, 1]
    assert table.rows() == [(2, "b")]
    assert table.compact().rows() == [(2, "b")]
    assert [(file.row_count, file.delete_row_count, file.level) for file in table.files] == [(1, 0, 5)]


def test_the_sequence_field_decides_over_arrival(make_table: MakeTable):
    options = {"bucket": "1", "sequence.field": "ts"}
    table = make_table({"k": pa.int64(), "ts": pa.int32()}, primary_keys=["k"], options=options)

    table.write({"k": [1, 1, 2], "ts": [5, 3, None]}).write({"k": [1, 2], "ts": [4, 1]})

    assert table.rows() == [(1, 5), (2, 1)]
    assert table.compact().rows() == [(1, 5), (2, 1)]


def test_kinds_may_come_from_a_table_column(make_table: MakeTable):
    options = {"bucket": "1", "rowkind.field": "op"}
    table = make_table({"k": pa.int64(), "op": pa.string()}, primary_keys=["k"], options=options)

    table.write({"k": [1, 2, 1], "op": ["+I", "+i", "-d"]})

    assert table.rows() == [(2, "+i")]


@pytest.mark.parametrize("option", ["ignore-delete", "ignore-update-before"])
def test_ignored_kinds_are_never_stored(make_table: MakeTable, option: str):
    table = make_table(KV, primary_keys=["k"], options={"bucket": "1", option: "true"}).write({"k": [1], "v": ["a"]})

    table.write({"k": [1, 2], "v": ["b", "c"], "_KIND": ["-U", "+I"]})

    assert table.rows() == [(1, "a"), (2, "c")]


def test_ignore_delete_also_hides_deletes_from_before(make_table: MakeTable):
    table = make_table(KV, primary_keys=["k"]).write({"k": [1], "v": ["a"]})
    table.write({"k": [1], "v": [None], "_KIND": ["-D"]})

    table.handle = replace(table.handle, schema=table.handle.schema.with_options({"ignore-delete": "true"}))

    assert table.rows() == [(1, "a")]


def test_partitions_and_buckets_have_directories_and_statistics(make_table: MakeTable):
    columns = {"day": pa.date32(), "k": pa.int64(), "v": pa.string()}
    options = {"bucket": "2"}
    table = make_table(columns, primary_keys=["day", "k"], partition_keys=["day"], options=options)

    table.write({"day": [0, 1, 0, 1], "k": [1, 2, 3, 4], "v": ["a", "b", None, "d"]})

    directories = {re.sub(r".*/db.db/t1/(.*)/data-.*", r"\1", path) for path in table.data_paths()}
    assert directories <= {f"day={day}/bucket-{bucket}" for day in (0, 1) for bucket in (0, 1)}
    assert sum(file.value_stats.null_counts[2] or 0 for file in table.files) == 1
    assert len(table.read()) == 4


def test_keys_of_a_file_are_its_first_and_last(make_table: MakeTable):
    table = make_table(KV, primary_keys=["k"]).write({"k": [5, -3, 9], "v": ["a", "b", "c"]})

    (file,) = table.files

    types = [field.type for field in table.handle.schema.key_type]
    assert (decode_row(types, file.min_key), decode_row(types, file.max_key)) == ((-3,), (9,))


def test_big_buckets_are_rolled_into_disjoint_files(make_table: MakeTable):
    options = {"bucket": "1", "target-file-size": "64 kb"}
    table = make_table(KV, primary_keys=["k"], options=options)
    rows = 40_000

    table.write({"k": list(range(rows)), "v": [f"{value * 7919 % rows:08d}" for value in range(rows)]})
    table.write({"k": list(range(0, rows, 2)), "v": ["x"] * (rows // 2)}).compact()

    assert len(table.files) > 2
    assert max(file.size_bytes for file in table.files) < 2 * 65_536
    types = [field.type for field in table.handle.schema.key_type]
    bounds = sorted((decode_row(types, file.min_key), decode_row(types, file.max_key)) for file in table.files)
    assert all(left[1] < right[0] for left, right in pairwise(bounds))
    assert table.read().num_rows == rows


def test_a_full_buffer_is_flushed_largest_bucket_first(make_table: MakeTable):
    columns = {"p": pa.string(), **KV}
    options = {"bucket": "1", "write-buffer-size": "20 kb"}
    table = make_table(columns, primary_keys=["p", "k"], partition_keys=["p"], options=options)
    batches = [
        pa.record_batch({"p": ["big"] * 400 + ["small"], "k": list(range(401)), "v": [f"{number}"] * 401})
        for number in range(4)
    ]

    messages = write_batches(table.handle, write_state(table.handle), batches)

    assert [len(message.new_files) for message in messages] == [2, 1]


# ── append tables ───────────────────────────────────────────────────────────────────────────────


def test_append_tables_keep_all_rows_in_order(make_table: MakeTable):
    table = make_table(KV).write({"k": [2, 1, 2], "v": ["a", "b", "a"]})

    schema, batches = open_read(table.handle, ReadRequest())

    assert pa.Table.from_batches(batches, schema)["k"].to_pylist() == [2, 1, 2]
    (file,) = table.files
    assert (file.min_key, file.max_sequence_number, file.delete_row_count) == (EMPTY_ROW, 2, 0)


def test_small_files_of_append_tables_are_joined_in_order(make_table: MakeTable):
    options = {"bucket": "1", "bucket-key": "k"}
    table = make_table(KV, options=options)
    for number in range(3):
        table.write({"k": [number, -number], "v": ["a", "b"]})
    before = table.rows()

    table.compact()

    (file,) = table.files
    assert (file.row_count, file.min_sequence_number, file.max_sequence_number) == (6, 0, 5)
    assert file.file_source == FileSource.COMPACT
    assert table.rows() == before


def test_an_append_table_takes_inserts_only(make_table: MakeTable):
    with pytest.raises(InvalidArgumentError, match="no primary key"):
        make_table(KV).write({"k": [1], "v": ["a"], "_KIND": ["-D"]})


# ── what does not fit ───────────────────────────────────────────────────────────────────────────

NOT_NULL = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string())])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"k": [1], "w": ["a"]}, "no column 'w'"),
        ({"v": ["a"]}, "'k' is NOT NULL, but it is missing"),
        ({"k": [None], "v": ["a"]}, "'k' is NOT NULL, but it has a null"),
        ({"k": [1], "v": ["a"], "_KIND": ["insert"]}, "must be one of"),
        ({"k": [1], "v": ["a"], "_KIND": [None]}, "must be one of"),
    ],
)
def test_rows_that_do_not_fit_are_refused_by_name(make_table: MakeTable, rows: dict[str, list[Any]], message: str):
    table = make_table(NOT_NULL, primary_keys=["k"])

    with pytest.raises(InvalidArgumentError, match=message):
        table.write(rows)

    assert table.data_paths() == []


def test_numbers_that_do_not_fit_their_column_are_refused(make_table: MakeTable):
    table = make_table({"k": pa.int32()})

    with pytest.raises(InvalidArgumentError, match="'k' of type int64"):
        table.write(pa.table({"k": pa.array([1 << 40])}))


NUMBER = pa.field("n", pa.int32(), nullable=False)


@pytest.mark.parametrize(
    ("arrow_type", "bad"),
    [
        (pa.list_(NUMBER), [1, None]),
        (pa.map_(pa.string(), NUMBER), [("a", None)]),
        (pa.list_(pa.struct([("l", pa.list_(NUMBER))])), [None, {"l": [None]}]),
    ],
)
def test_nulls_inside_of_values_are_found(make_table: MakeTable, arrow_type: pa.DataType, bad: Any):
    table = make_table({"k": arrow_type})
    nullable = pa.list_(pa.int32()) if arrow_type == pa.list_(NUMBER) else None

    table.write(pa.table({"k": pa.array([None, bad[:0]], arrow_type)}))
    with pytest.raises(InvalidArgumentError, match="'k'"):
        table.write(pa.table({"k": pa.array([[], bad], nullable or arrow_type).slice(1)}))


def test_kinds_come_from_one_column_only(make_table: MakeTable):
    table = make_table(
        {"k": pa.int64(), "op": pa.string()}, primary_keys=["k"], options={"rowkind.field": "op", "bucket": "1"}
    )

    with pytest.raises(InvalidArgumentError, match="'op'"):
        table.write({"k": [1], "op": ["+I"], "_KIND": ["+I"]})


def test_missing_columns_are_null_or_have_their_default(make_table: MakeTable):
    table = make_table({"k": pa.int64(), "v": pa.string(), "n": pa.int32()}, primary_keys=["k"])
    schema = table.handle.schema
    fields = (*schema.row_type.fields[:2], replace(schema.row_type.fields[2], default_value="7"))
    table.handle = replace(table.handle, schema=replace(schema, row_type=replace(schema.row_type, fields=fields)))

    table.write({"k": [1]})

    assert table.rows() == [(1, None, 7)]


def test_a_partition_with_another_number_of_buckets_is_refused(make_table: MakeTable):
    table = make_table(KV, primary_keys=["k"]).write({"k": [1], "v": ["a"]})
    table.handle = replace(table.handle, schema=table.handle.schema.with_options({"bucket": "3"}))

    with pytest.raises(InvalidArgumentError, match="has 1 buckets, but 'bucket' = '3'"):
        table.write({"k": [2], "v": ["b"]})

    assert [message.total_buckets for message in table.messages({"k": [2], "v": ["b"]}, replacing=True)] == [3]


def test_a_failed_write_leaves_no_file(make_table: MakeTable):
    table = make_table(NOT_NULL, primary_keys=["k"], options={"bucket": "1", "write-buffer-size": "1 b"})
    good, bad = pa.record_batch({"k": [1], "v": ["a"]}), pa.record_batch({"k": pa.nulls(1, pa.int64())})

    with pytest.raises(InvalidArgumentError, match="NOT NULL"):
        write_batches(table.handle, write_state(table.handle), [good, bad])

    assert table.data_paths() == []


# ── properties ──────────────────────────────────────────────────────────────────────────────────

CHANGES = st.lists(
    st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 9), st.sampled_from(["+I", "-D"])), max_size=6), max_size=6
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(commits=CHANGES, compact_after=st.sets(st.integers(0, 5)), full=st.booleans())
def test_any_history_reads_as_a_dictionary(
    make_table: Callable[..., Subject], commits: list[Any], compact_after: set[int], full: bool
):
    table = make_table({"k": pa.int64(), "v": pa.int64()}, primary_keys=["k"], options={"bucket": "2"})
    expected: dict[int, int] = {}

    for number, changes in enumerate(commits):
        keys, values, kinds = ([change[part] for change in changes] for part in range(3))
        table.write({"k": keys, "v": values, "_KIND": kinds})
        for key, value, kind in changes:
            if kind == "+I":
                expected[key] = value
            else:
                expected.pop(key, None)
        if number in compact_after:
            table.compact(full=full)

    assert dict(table.rows()) == expected


# ── tables that Java reads ──────────────────────────────────────────────────────────────────────

ALL_TYPES = pa.schema(
    [
        pa.field("p", pa.string()),
        pa.field("k", pa.int64(), nullable=False),
        pa.field("d", pa.decimal128(22, 3), nullable=False),
        ("b", pa.bool_()),
        ("tiny", pa.int8()),
        ("f", pa.float32()),
        ("dec", pa.decimal128(9, 2)),
        ("bytes", pa.binary()),
        ("date", pa.date32()),
        ("time", pa.time32("ms")),
        ("t0", pa.timestamp("s")),
        ("t6", pa.timestamp("us")),
        ("l3", pa.timestamp("ms", "UTC")),
        ("list", pa.list_(pa.string())),
        ("map", pa.map_(pa.string(), pa.int32())),
        ("row", pa.struct([("x", pa.int32()), ("y", pa.string())])),
    ]
)


def all_types(keys: range, *, text: str) -> pa.Table:
    """Rows of every type, with nulls among them."""

    def values(field: pa.Field) -> list[Any]:
        match field.name:
            case "p":
                return ["a=b/c" if key % 3 else "ü" for key in keys]
            case "k" | "t0" | "t6" | "l3" | "date":
                return [key * 86_400 if field.name != "k" else key for key in keys]
            case "d" | "dec":
                return list(keys)
            case "b":
                return [None if key % 5 == 0 else key % 2 == 0 for key in keys]
            case "bytes":
                return [text.encode() * (key % 4) for key in keys]
            case "list":
                return [None if key % 4 == 0 else [text] * (key % 3) for key in keys]
            case "map":
                return [[(f"{text}{key}", key)] for key in keys]
            case "row":
                return [{"x": key, "y": text} for key in keys]
            case _:
                return [None if key % 7 == 0 else key % 100 for key in keys]

    def array(field: pa.Field) -> pa.Array:
        if field.name in ("date", "tiny", "time", "t0", "t6", "l3"):
            bits = {"date": pa.int32(), "time": pa.int32(), "tiny": pa.int8()}.get(field.name, pa.int64())
            return pa.array([None if v is None else v % 20_000 for v in values(field)], bits).cast(field.type)
        return pa.array(values(field), field.type)

    return pa.table([array(field) for field in ALL_TYPES], schema=ALL_TYPES)


FORMATS = [
    {},
    {"file.format": "orc"},
    {"file.format": "orc", "file.compression": "lz4"},
    {"file.format": "avro"},
    {"file.format": "avro", "file.compression": "snappy"},
    {"file.format.per.level": "0:avro,5:orc", "file.compression.per.level": "0:none,5:zlib"},
]


@pytest.mark.parametrize("formats", FORMATS, ids=lambda formats: ",".join(formats.values()) or "parquet")
@pytest.mark.parametrize("primary_keys", [["p", "k", "d"], []], ids=["primary key", "append"])
def test_java_reads_what_was_written_and_compacted(
    make_table: MakeTable, oracle: JavaPaimon, primary_keys: list[str], formats: dict[str, str]
):
    more = {} if primary_keys else {"bucket-key": "k,d"}
    options = {"bucket": "2", "target-file-size": "16 kb", **formats, **more}
    table = make_table(ALL_TYPES, primary_keys=primary_keys, partition_keys=["p"], options=options, on_disk=True)

    table.write(all_types(range(3000), text="x")).write(all_types(range(-50, 900), text="y"))
    assert_same_rows(ours(table), oracle.read(table.path), "written")
    table.compact()

    assert_same_rows(ours(table), oracle.read(table.path), "compacted")
    assert oracle.problems(table.path) == []


WRITABLE = [
    param
    for param in corpus_cases("format:parquet")
    + corpus_cases("format:orc")
    + corpus_cases("format:avro")
    + corpus_cases("deduplicate")
    + corpus_cases("append-only")
    + corpus_cases("primary key types")
    if param.marks or writable(param.values[0])
]


@pytest.mark.parametrize("case", {param.id: param for param in WRITABLE}.values())
def test_a_table_of_java_keeps_its_rows_when_compacted_here(case: Case, oracle: JavaPaimon, tmp_path: Path):
    path = str(case.copy_to(tmp_path))
    table = Subject(load_table(path, EnvConfig(path)))
    expected = case.read().rows

    table.compact()

    assert_same_rows(ours(table), expected, "ours")
    assert_same_rows(oracle.read(path), expected, "Java")
    assert oracle.problems(path) == []


def test_java_writes_on_where_we_stopped(make_table: MakeTable, oracle: JavaPaimon):
    table = make_table(KV, primary_keys=["k"], on_disk=True).write({"k": [1, 2], "v": ["a", "b"]}).compact()

    oracle.call("write", table=table.path, rows=[[2, "java"], [3, "java"]])
    table.write({"k": [3, 4], "v": ["c", "d"]})
    oracle.call("compact", table=table.path)

    assert table.rows() == [(1, "a"), (2, "java"), (3, "c"), (4, "d")]
    assert oracle.problems(table.path) == []


def ours(table: Subject) -> list[Row]:
    return rows_of(table.read())


def test_files_carry_field_ids_and_required_columns(make_table: MakeTable):
    table = make_table(NOT_NULL, primary_keys=["k"], on_disk=True).write({"k": [1], "v": ["a"]})

    schema = pq.read_schema(table.data_paths()[0])

    ids = [int(field.metadata[b"PARQUET:field_id"]) for field in schema]
    assert schema.names == ["_KEY_k", "_SEQUENCE_NUMBER", "_VALUE_KIND", "k", "v"]
    assert ids == [1_073_741_823, 2_147_483_646, 2_147_483_645, 0, 1]
    assert [field.nullable for field in schema] == [False, False, False, False, True]


def test_tables_with_unknown_manifests_are_not_written_to(make_table: MakeTable):
    table = make_table(KV, primary_keys=["k"], options={"bucket": "1", "manifest.format": "lance"})

    with pytest.raises(UnsupportedError, match=r"'manifest\.format' = 'lance'"):
        table.write({"k": [1], "v": ["a"]})
