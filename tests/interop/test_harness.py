"""The readers that other tests compare with agree among themselves, on tables that Java wrote."""

from __future__ import annotations

import hashlib
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_engine.types import RowType, parse_field, to_arrow_schema
from tests.support.canonical import assert_same_rows, difference, rows_of, table_of, text_of
from tests.support.corpus import Case, case, corpus_cases
from tests.support.golden import ARCHIVE, golden_folder
from tests.support.oracle import JavaPaimon
from tests.support.pypaimon import PyPaimon
from tests.support.reference import reference_folder

RUST_READS = ["types_parquet_append", "dedup_kinds", "part_many_types", "tags_basic"]

ALL_TYPES = pa.schema(
    [
        ("c_bool", pa.bool_()),
        ("c_tiny", pa.int8()),
        ("c_big", pa.int64()),
        ("c_float", pa.float32()),
        ("c_double", pa.float64()),
        ("c_dec", pa.decimal128(10, 2)),
        ("c_string", pa.string()),
        ("c_bytes", pa.binary()),
        ("c_date", pa.date32()),
        ("c_time", pa.time32("ms")),
        ("c_ts0", pa.timestamp("s")),
        ("c_ts9", pa.timestamp("ns")),
        ("c_ltz3", pa.timestamp("ms", tz="UTC")),
        ("c_list", pa.list_(pa.float32())),
        ("c_map", pa.map_(pa.string(), pa.decimal128(4, 1))),
        ("c_row", pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))])),
    ]
)
ROWS = [
    [
        True,
        -128,
        9223372036854775807,
        0.1,
        1e300,
        "-12.50",
        "a\u00fc\U0001f600",
        "0x00ff",
        "2024-02-29",
        "13:05:09.123",
        "1969-12-31T23:59:59.000000000",
        "2024-02-29T13:05:09.123456789",
        "1969-12-31T23:59:59.999000000Z",
        [0.1, None, "NaN"],
        [["a", "1.0"], ["b", None]],
        [1, ["p", None]],
    ],
    [None] * len(ALL_TYPES),
    [
        False,
        0,
        0,
        "-Infinity",
        -0.0,
        "0.00",
        "",
        "0x",
        "0001-01-01",
        "00:00:00.000",
        "9999-12-31T23:59:59.000000000",
        "1970-01-01T00:00:00.000000000",
        "1970-01-01T00:00:00.000000000Z",
        [],
        [],
        [None, None],
    ],
]


def test_canonical_rows_survive_arrow():
    table = table_of(ROWS, ALL_TYPES)

    assert rows_of(table) == ROWS
    assert rows_of(table.slice(1)) == ROWS[1:]
    assert rows_of(pa.concat_tables([table, table.slice(2)])) == [*ROWS, ROWS[2]]


def test_a_float_is_compared_as_a_float_however_many_digits_are_printed():
    table = pa.table({"f": pa.array([1.17549435e-38], pa.float32()), "d": [1.17549435e-38]})

    assert_same_rows(table, [[1.17549435e-38, 1.17549435e-38]])
    assert_same_rows([[1.1754944e-38, 1.17549435e-38]], table)


def test_rows_that_differ_are_named_by_their_columns():
    assert difference([[1, "a", None], [2, "b", 0]], [[2, "b", 0], [1, "a", None]]) == ""
    assert difference([[1]], [[1], [1]]) == "0 of our 1 rows and 1 of their 2 rows differ\n  only theirs [1]"
    assert difference([[1, "a", 0]], [[1, "a", 5], [7, "z", 9]], ["id", "s", "v"]) == (
        '1 of our 1 rows and 2 of their 2 rows differ\n  changed 1…: v ours 0 theirs 5\n  only theirs [7,"z",9]'
    )


@pytest.mark.parametrize("name", ["types_parquet_append", "append_unaware", "types_parquet_deep"])
def test_parquet_files_of_the_corpus_contain_what_java_reads(name):
    """Only append tables without deletion vectors: their files hold just the rows."""
    found = case(name)
    read = found.read()

    files = sorted(found.table.glob("**/bucket-*/*.parquet"))
    table = pa.concat_tables([pq.read_table(file, columns=list(read.names)) for file in files])

    # Files leave out time zones, so the types are those of the table.
    assert_same_rows(table.cast(_schema_of(found)), read.rows)


@pytest.mark.parametrize("case", corpus_cases())
def test_corpus_rows_have_the_digest_that_the_corpus_gives(case):
    for read in case.reads():
        rows = read.rows

        assert len(rows) == read.row_count
        if not case.unordered:
            text = "".join(f"{line}\n" for line in sorted(map(text_of, rows)))
            assert hashlib.sha256(text.encode()).hexdigest() == read.sha256


def test_java_reads_the_corpus_as_expected(oracle: JavaPaimon, tmp_path):
    found = case("tags_basic")
    path = found.copy_to(tmp_path)

    for read in found.reads():
        assert_same_rows(oracle.read(path, **read.at), read.rows, str(read.at))
    oracle.assert_sound(path)


def test_java_writes_and_continues_after_an_error(oracle: JavaPaimon, tmp_path):
    path = tmp_path / "db.db" / "t"
    create = {"op": "create_table", "fields": [["k", "INT NOT NULL"], ["v", "STRING"]], "primary_keys": ["k"]}

    oracle.run(path, [create | {"options": {"bucket": "1"}}, {"op": "write", "rows": [[1, "a"], [1, "b"], [2, None]]}])
    with pytest.raises(RuntimeError):
        oracle.read(tmp_path / "nothing")

    assert_same_rows(oracle.read(path), [[1, "b"], [2, None]])


@pytest.mark.parametrize("name", RUST_READS)
def test_the_rust_client_reads_the_corpus(pypaimon: PyPaimon, tmp_path, name):
    """The Python client does not: its manifest reader wants a field that Java 0.9 does not write."""
    found = case(name)
    path = found.copy_to(tmp_path)

    for read in found.reads():
        if set(read.at) <= {"snapshot", "tag"}:
            assert_same_rows(pypaimon.read(path, **read.at, client="rust"), read.rows, f"{name} {read.at}")


@pytest.mark.parametrize("primary_keys", [[], ["id"]], ids=["append", "primary key"])
def test_java_reads_what_pypaimon_writes(pypaimon: PyPaimon, oracle: JavaPaimon, tmp_path, primary_keys):
    path = tmp_path / "db.db" / "t"
    schema = pa.schema(
        [pa.field("id", pa.int32(), nullable=not primary_keys), ("day", pa.string()), ("v", pa.float32())]
    )
    first = pa.Table.from_pylist([{"id": i, "day": "a", "v": 0.1 * i} for i in range(5)], schema)
    second = pa.Table.from_pylist([{"id": i, "day": "b", "v": None} for i in range(3, 7)], schema)

    pypaimon.write(path, [first, second], primary_keys=primary_keys, options={"bucket": "1"} if primary_keys else {})

    rows = oracle.read(path)
    assert len(rows) == (7 if primary_keys else 9)
    assert_same_rows(pypaimon.read(path), rows)
    assert_same_rows(pypaimon.read(path, client="rust"), rows)
    assert_same_rows(pypaimon.read(path, snapshot=1), first)
    assert_same_rows(oracle.read(path, snapshot=1), first)


def test_pypaimon_reports_the_error_of_the_client(pypaimon: PyPaimon, tmp_path):
    with pytest.raises(RuntimeError, match=r"TableNotExist|DatabaseNotExist"):
        pypaimon.read(tmp_path / "db.db" / "absent")


def _schema_of(found: Case) -> pa.Schema:
    return to_arrow_schema(RowType(tuple(parse_field(field) for field in found.schema()["fields"])))


def test_table_schema_files_of_the_corpus_are_read():
    found = case("evolve_columns_pk")

    assert found.schema(0)["id"] == 0
    assert json.dumps(found.schema()) != json.dumps(found.schema(0))


def test_the_golden_tables_are_of_the_corpus():
    folder = golden_folder()
    corpus = reference_folder("corpus")

    golden = {line["case"] for line in json.loads((folder / "index.json").read_text())["cases"]}
    all_cases = {line["case"] for line in json.loads((corpus / "index.json").read_text())["cases"]}

    assert golden <= all_cases
    assert len(golden) > 100
    assert ARCHIVE.stat().st_size < 8 << 20
