"""INT96 as Java writes it, with negative nanoseconds of the day before 1970, and beyond what nanoseconds can count."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_engine import Catalog, UnsupportedError
from paimon_engine.format.parquet import read_batches
from paimon_engine.format.thrift_compact import I32, STRUCT, changed, elements, fields_of, integer, listed, structure
from tests.support.canonical import assert_same_rows, rows_of
from tests.support.oracle import JavaPaimon

EPOCH_DAY = 2_440_588
DAY_NANOS = 86_400_000_000_000
INT96, BYTES = integer(3), integer(7)


def int96(day: int, nanos: int) -> bytes:
    return struct.pack("<qi", nanos, EPOCH_DAY + day)


def file_of(values: list[bytes | None], **options: object) -> io.BytesIO:
    """A file with these values in the column `t`; Arrow writes 12 bytes alike, and only calls them another name."""

    def element(data: bytes) -> bytes:
        fields = fields_of(data)
        if (1, I32, BYTES) not in fields:
            return structure(fields)
        return structure([(1, I32, INT96), *(field for field in fields if field[0] > 2)])

    def group(data: bytes) -> bytes:
        chunks = {1: lambda data: listed(STRUCT, [changed(one, {3: chunk}) for one in elements(data)])}
        return changed(data, chunks)

    def chunk(data: bytes) -> bytes:
        return changed(data, {1: lambda _: INT96})

    sink = io.BytesIO()
    table = pa.table({"t": pa.array(values, pa.binary(12))})
    pq.write_table(table, sink, write_statistics=False, store_schema=False, **options)
    data = sink.getvalue()
    size = int.from_bytes(data[-8:-4], "little")
    footer = changed(
        data[-8 - size : -8],
        {
            2: lambda schema: listed(STRUCT, [element(one) for one in elements(schema)]),
            4: lambda groups: listed(STRUCT, [group(one) for one in elements(groups)]),
        },
    )
    return io.BytesIO(data[: -8 - size] + footer + len(footer).to_bytes(4, "little") + b"PAR1")


def nanos_of(values: list[bytes | None], **options: object) -> list[int | None]:
    wanted = pa.schema([("t", pa.timestamp("ns"))])
    batches = read_batches(file_of(values, **options), wanted, path="f.parquet")
    return pa.Table.from_batches(batches)["t"].cast(pa.int64()).to_pylist()


@pytest.mark.parametrize("dictionary", [True, False])
def test_negative_nanoseconds_of_the_day_count_back(dictionary: bool) -> None:
    stored = [(0, -1), (-1, 5), (-10, -DAY_NANOS + 1), (-90_000, -7), (19_000, 11)]

    found = nanos_of([None, *(int96(*one) for one in stored), None], use_dictionary=dictionary)

    assert found == [None, *(day * DAY_NANOS + nanos for day, nanos in stored), None]


def test_row_groups_and_batches_are_read_in_step() -> None:
    values = [int96(day, -3) for day in range(-5_000, 5_000)]

    assert nanos_of(values, row_group_size=999) == [day * DAY_NANOS - 3 for day in range(-5_000, 5_000)]


@pytest.mark.parametrize(
    ("day", "nanos"),
    [
        (-719_162, 1),  # the year 1
        (-250_000, -5),  # 1285: in a coarser unit, the negative number looks like a time that 64 bits can hold
        (213_504, 84_873_709_551_616),  # 2554: 2**64 nanoseconds after 1970
        (2_932_896, 0),  # 9999
        (2**31 - 1 - EPOCH_DAY, 0),
    ],
)
def test_what_nanoseconds_cannot_count_is_refused(day: int, nanos: int) -> None:
    with pytest.raises(UnsupportedError, match="'t' has timestamps outside 1677 to 2262"):
        nanos_of([int96(0, 0), int96(day, nanos)])


BEFORE_1970 = [
    "1969-12-31T23:59:59.999999999",
    "1969-12-31T00:00:00.000000000",
    "1969-12-30T23:59:59.000000001",
    "1900-02-28T12:34:56.123456789",
    "1700-01-01T00:00:00.000000001",
    "2024-02-29T13:05:09.123456789",
]


@pytest.mark.parametrize("keyed", [True, False])
def test_nanoseconds_before_1970_of_java_are_read_and_compacted(
    tmp_path: Path, oracle: JavaPaimon, keyed: bool
) -> None:
    path = tmp_path / "db.db" / "t"
    fields = [
        ["k", "TIMESTAMP(9) NOT NULL"],
        ["t", "TIMESTAMP(9)"],
        ["z", "TIMESTAMP_LTZ(9)"],
        ["a", "ARRAY<TIMESTAMP(9)>"],
    ]
    options = {"bucket": "1"} if keyed else {}
    keys = ["k"] if keyed else []
    oracle.call("create_table", table=str(path), fields=fields, primary_keys=keys, partition_keys=[], options=options)
    rows = [[text, text, f"{text}Z", [text]] for text in BEFORE_1970]
    oracle.call("write", table=str(path), rows=rows)
    oracle.call("write", table=str(path), rows=rows[:1])
    table = Catalog(str(tmp_path)).table("db.t")
    expected = rows if keyed else [*rows, rows[0]]

    assert_same_rows(rows_of(table.to_arrow()), expected)
    table.compact(full=True)
    assert_same_rows(rows_of(table.to_arrow()), expected)
    assert table.verify("rows").status == "sound"
    if keyed:
        # Java 0.9 cannot read what it has written itself; what we write has no negative numbers.
        assert_same_rows(expected, oracle.read(path))
