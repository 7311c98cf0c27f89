"""A user's rows as rows of the table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from paimon_engine import Catalog
from paimon_engine.errors import InvalidArgumentError, NotFoundError
from paimon_engine.table.write.row_input import RowInput
from tests.table.conftest import MakeTable

COUNT = 100_000
SLICE = 1_000


def _values(arrow_type: pa.DataType) -> pa.Array:
    """Values of 8 or 16 bytes."""
    numbers = pa.array(np.arange(COUNT, dtype=np.int64))
    offsets = pa.array(np.arange(COUNT + 1, dtype=np.int32))
    if pa.types.is_list(arrow_type):
        return pa.ListArray.from_arrays(offsets, numbers)
    if pa.types.is_map(arrow_type):
        return pa.MapArray.from_arrays(offsets, numbers, numbers)
    return pa.FixedSizeBinaryArray.from_buffers(arrow_type, COUNT, [None, numbers.buffers()[1]])


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (pa.list_(pa.int64()), pa.list_(pa.int32())),
        (pa.map_(pa.int64(), pa.int64()), pa.map_(pa.int64(), pa.int32())),
        (pa.binary(8), pa.binary()),
    ],
    ids=["list", "map", "fixed binary"],
)
def test_a_slice_takes_no_copy_of_the_values_around_it(
    given: pa.DataType, stored: pa.DataType, make_table: MakeTable
) -> None:
    table = make_table({"k": pa.int64(), "v": stored})
    values = _values(given)
    rows = pa.record_batch({"k": np.arange(COUNT), "v": values}).slice(SLICE, SLICE)

    read = RowInput(table.handle.schema).read(rows)

    assert read["v"].to_pylist() == values.cast(stored)[SLICE : 2 * SLICE].to_pylist()
    assert read["v"].get_total_buffer_size() < COUNT


def test_errors_of_what_a_reader_reads_keep_their_class(tmp_path: Path) -> None:
    catalog = Catalog(str(tmp_path))
    source = catalog.create_table("db.source", schema={"id": "BIGINT"})
    target = catalog.create_table("db.target", schema={"id": "BIGINT"})
    source.write(pa.table({"id": [1]}))
    rows = source.to_batches()
    next(Path(source.path).rglob("data-*")).unlink()

    with pytest.raises(NotFoundError):
        target.write(rows)

    def rows_of_a_database() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"id": [1]})
        raise TimeoutError("the database does not answer")

    with pytest.raises(TimeoutError, match="^the database does not answer$"):
        target.write(pa.RecordBatchReader.from_batches(pa.schema([("id", pa.int64())]), rows_of_a_database()))
    assert not list(Path(target.path).rglob("data-*"))


def test_an_index_of_pandas_is_named_with_a_way_out(tmp_path: Path) -> None:
    table = Catalog(str(tmp_path)).create_table("db.t", schema={"id": "BIGINT"})
    frame = pd.DataFrame({"id": [1, 2, 3]})
    some = frame[frame["id"] > 1]

    with pytest.raises(InvalidArgumentError, match=r"no column '__index_level_0__'.* frame\.reset_index\(drop=True\)"):
        table.write(some)
    table.write(some.reset_index(drop=True))
    assert table.to_arrow()["id"].to_pylist() == [2, 3]


@pytest.mark.parametrize("form", ["parquet", "orc", "avro"])
def test_counts_of_a_multiset_are_never_null(form: str, tmp_path: Path) -> None:
    kind = {"m": "MULTISET<STRING>", "l": "ARRAY<MULTISET<STRING>>"}
    table = Catalog(str(tmp_path)).create_table("db.t", schema=kind, options={"file.format": form})
    counts = pa.map_(pa.string(), pa.int32())
    fine = pa.table(
        {"m": pa.array([[("a", 1)], [], None], counts), "l": pa.array([[[("a", 2)]], [None], None], pa.list_(counts))}
    )

    table.write(fine)
    assert table.to_arrow().to_pylist() == fine.to_pylist()
    for name, value in (("m", [("a", None)]), ("l", [[("a", 1), ("b", None)]])):
        with pytest.raises(InvalidArgumentError, match=f"a part of column '{name}' that is NOT NULL has a null"):
            table.write(pa.table({name: pa.array([value], fine.schema.field(name).type)}))


@pytest.mark.parametrize("form", ["parquet", "orc", "avro"])
def test_seconds_that_have_no_milliseconds_are_refused(form: str, tmp_path: Path) -> None:
    kinds = {"t": "TIMESTAMP(0)", "r": "ROW<l ARRAY<TIMESTAMP(0)>, m MAP<STRING, TIMESTAMP(0)>>"}
    table = Catalog(str(tmp_path)).create_table("db.t", schema=kinds, options={"file.format": form})
    far, too_far = 10**13, 2**63 // 1000 + 1

    for moment in (far, -far, None):
        table.write(pa.table([[moment], [{"l": [moment], "m": [("a", moment)]}]], schema=table.arrow_schema))
    assert sorted(table.to_arrow(where="t is not null")["t"].cast(pa.int64()).to_pylist()) == [-far, far]
    for name, value in (("t", too_far), ("r", {"l": [-too_far], "m": []}), ("r", {"l": [], "m": [("a", too_far)]})):
        with pytest.raises(InvalidArgumentError, match=f"column '{name}' has a timestamp so far from 1970"):
            table.write(pa.table({name: pa.array([value], table.arrow_schema.field(name).type)}))


A_B = pa.struct([("a", pa.int32()), ("b", pa.int32())])


@pytest.mark.parametrize(
    ("stored", "given", "message"),
    [
        (A_B, pa.struct([("A", pa.int32()), ("b", pa.int32())]), r"'s': .* no field 'A'; its fields are a, b"),
        (A_B, pa.struct([("a", pa.int32()), ("a", pa.int32())]), r"'s': field 'a' is given more than once"),
        (pa.list_(A_B), pa.large_list(pa.struct([("a", pa.int32()), ("c", pa.int32())])), "no field 'c'"),
        (pa.map_(pa.string(), A_B), pa.map_(pa.string(), pa.struct([("c", pa.int32())])), "no field 'c'"),
        (pa.struct([("in", A_B)]), pa.struct([("in", pa.struct([("c", pa.int32())]))]), "no field 'in.c'"),
    ],
    ids=["case", "twice", "list", "map", "deeper"],
)
def test_a_field_that_the_table_lacks_is_refused(
    stored: pa.DataType, given: pa.DataType, message: str, make_table: MakeTable
) -> None:
    table = make_table({"k": pa.int64(), "s": stored})
    rows = pa.record_batch([pa.array([], pa.int64()), pa.array([], given)], names=["k", "s"])

    with pytest.raises(InvalidArgumentError, match=message):
        RowInput(table.handle.schema).read(rows)


def test_fields_are_matched_by_name(make_table: MakeTable) -> None:
    table = make_table({"k": pa.int64(), "s": A_B})
    given = pa.array([{"b": 2, "a": 1}], pa.struct([("b", pa.int64()), ("a", pa.int64())]))
    fewer = pa.array([{"b": 2}], pa.struct([("b", pa.int32())]))

    def read(column: pa.Array) -> list[dict[str, int]]:
        return RowInput(table.handle.schema).read(pa.record_batch({"k": [1], "s": column}))["s"].to_pylist()

    assert read(given) == [{"a": 1, "b": 2}]
    assert read(fewer) == [{"a": None, "b": 2}]


FLOATS = pa.float32()


@pytest.mark.parametrize(
    ("stored", "given"),
    [
        (FLOATS, pa.array([1.5, None, -1e300])),
        (FLOATS, pa.array([1.5, -1e300]).dictionary_encode()),
        (FLOATS, pa.array([10**70, None], pa.decimal256(76, 0))),
        (FLOATS, pa.array(["inf", "1e300"])),
        (pa.float64(), pa.array(["1e400"])),
        (pa.list_(FLOATS), pa.array([None, [0.5, 1e300]], pa.large_list(pa.float64()))),
        (pa.map_(pa.string(), FLOATS), pa.array([None, [("a", 1e300)]], pa.map_(pa.string(), pa.float64()))),
        (pa.struct([("a", pa.int32()), ("b", FLOATS)]), pa.array([None, {"b": 1e300, "a": 1}])),
        (pa.string(), pa.array([None, 10**9], pa.duration("us"))),
        (pa.list_(pa.string()), pa.array([[10**9]], pa.list_(pa.duration("us")))),
    ],
    ids=["double", "dictionary", "decimal", "text", "text of a double", "list", "map", "row", "interval", "intervals"],
)
def test_values_that_a_cast_would_change_are_refused(
    stored: pa.DataType, given: pa.Array, make_table: MakeTable
) -> None:
    table = make_table({"k": pa.int64(), "v": stored})
    rows = pa.record_batch([pa.array(range(len(given)), pa.int64()), given], names=["k", "v"])

    with pytest.raises(InvalidArgumentError, match=r"column 'v' of type .*(would become infinite|only a number would)"):
        RowInput(table.handle.schema).read(rows)


def test_infinite_values_and_those_within_the_range_are_written(make_table: MakeTable) -> None:
    table = make_table({"k": pa.int64(), "v": FLOATS, "t": pa.string()})
    infinite, largest = float("inf"), float(np.finfo(np.float32).max)
    values = [infinite, -infinite, largest, -0.0, None]
    rows = {"k": range(5), "v": values, "t": pa.nulls(5, pa.duration("us"))}

    read = RowInput(table.handle.schema).read(pa.record_batch(rows))

    assert read["v"].to_pylist() == values
    assert read["t"].null_count == 5
    texts = pa.record_batch({"k": [1, 2], "v": ["-Infinity", "inf"]})
    assert RowInput(table.handle.schema).read(texts)["v"].to_pylist() == [-infinite, infinite]
