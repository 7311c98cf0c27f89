"""File indexes: every type of index over every type of column answers as a filter over the rows does."""

from __future__ import annotations

import hashlib
import io
import json
import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from paimon_engine.errors import CorruptTableError, InvalidArgumentError, UnsupportedError
from paimon_engine.format.file_index.container import encode_container, read_head, read_index
from paimon_engine.format.file_index.hashing import wang_hashes, xx_hashes
from paimon_engine.format.file_index.kinds import KINDS, IndexSpec, index_builder, index_specs, indexed_type, takes
from paimon_engine.format.file_index.lookup import FileIndexes
from paimon_engine.format.file_index.values import stored_values
from paimon_engine.predicate import And, Compare, In, IsNull, Not, Or, Predicate, bind, to_arrow_expression
from paimon_engine.types import MAX_LENGTH, ArrayType, AtomicType, MapType, TypeRoot, parse_atomic, to_arrow

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "file_indexes.json").read_text())
EPOCH = datetime(1970, 1, 1)


def _times(step: timedelta) -> st.SearchStrategy[datetime]:
    return st.integers(-3, 3).map(lambda count: EPOCH + count * step) | st.sampled_from(
        [datetime(1, 1, 1), datetime(1969, 12, 31, 23, 59, 59), datetime(2262, 1, 1)]
    )


def _integers(bits: int) -> st.SearchStrategy[int]:
    edge = 1 << (bits - 1)
    return st.integers(-3, 3) | st.sampled_from([-edge, 1 - edge, edge - 1, edge // 2]) | st.integers(-edge, edge - 1)


FLOATS = st.sampled_from([0.0, -0.0, 1.5, -1.5, 2.5, math.inf, -math.inf, math.nan])
TEXTS = st.sampled_from(["", "a", "b", "ab", "ü", "\U0001f600", "x" * 31, "x" * 32, "y" * 33, "z" * 90]) | st.text(
    max_size=5
)
SHORT_NANOS = st.sampled_from([datetime(1969, 12, 31, 23, 59, 59, 999_999), EPOCH, datetime(2013, 1, 1)])
COLUMNS: dict[str, tuple[AtomicType, st.SearchStrategy[Any]]] = {
    "boolean": (AtomicType(TypeRoot.BOOLEAN), st.booleans()),
    "tinyint": (AtomicType(TypeRoot.TINYINT), _integers(8)),
    "smallint": (AtomicType(TypeRoot.SMALLINT), _integers(16)),
    "int": (AtomicType(TypeRoot.INT), _integers(32)),
    "bigint": (AtomicType(TypeRoot.BIGINT), _integers(64)),
    "float": (AtomicType(TypeRoot.FLOAT), FLOATS),
    "double": (AtomicType(TypeRoot.DOUBLE), FLOATS),
    "date": (AtomicType(TypeRoot.DATE), st.dates(date(1969, 12, 28), date(1970, 1, 3))),
    "time": (AtomicType(TypeRoot.TIME), st.integers(0, 3).map(time)),
    "decimal(5, 2)": (
        AtomicType(TypeRoot.DECIMAL, precision=5, scale=2),
        st.integers(-99999, 99999).map(_cents := (lambda number: Decimal(number).scaleb(-2)))
        | st.integers(-2, 2).map(_cents),
    ),
    "decimal(18, 0)": (AtomicType(TypeRoot.DECIMAL, precision=18), st.integers(1 - 10**18, 10**18 - 1).map(Decimal)),
    "char": (AtomicType(TypeRoot.CHAR, length=100), TEXTS),
    "string": (AtomicType(TypeRoot.VARCHAR, length=MAX_LENGTH), TEXTS),
    "bytes": (AtomicType(TypeRoot.VARBINARY, length=MAX_LENGTH), TEXTS.map(lambda text: text.encode())),
    "timestamp(0)": (AtomicType(TypeRoot.TIMESTAMP, precision=0), _times(timedelta(seconds=1))),
    "timestamp(3)": (AtomicType(TypeRoot.TIMESTAMP, precision=3), _times(timedelta(milliseconds=1))),
    "timestamp(6)": (AtomicType(TypeRoot.TIMESTAMP, precision=6), _times(timedelta(microseconds=1))),
    "timestamp(9)": (AtomicType(TypeRoot.TIMESTAMP, precision=9), SHORT_NANOS),
    "timestamp_ltz(6)": (
        AtomicType(TypeRoot.TIMESTAMP_LTZ, precision=6),
        _times(timedelta(microseconds=1)).map(lambda moment: moment.replace(tzinfo=UTC)),
    ),
}
OPTIONS = {
    "bloom-filter": [{"items": "20"}, {"items": "100", "fpp": "0.01"}],
    "bitmap": [{}, {"version": "1"}, {"version": "2"}, {"version": "2", "index-block-size": "40 b"}],
    "bsi": [{}],
    "range-bitmap": [{}, {"chunk-size": "0 b"}, {"chunk-size": "20 b"}],
}
ALLOWED = [(kind, name) for kind in KINDS for name, (data_type, _) in COLUMNS.items() if takes(kind, data_type)]


def made(kind: str, data_type: AtomicType, options: dict[str, str], *chunks: pa.Array) -> bytes | None:
    builder = index_builder(IndexSpec(kind, "c", None, options), data_type)
    for chunk in chunks:
        builder.add(stored_values(chunk, data_type))
    return builder.finish()


def opened(indexes: dict[str, bytes | None], data_type: AtomicType, row_count: int) -> FileIndexes:
    stream = io.BytesIO(encode_container({"c": indexes}))
    return FileIndexes(stream, "a file", row_count=row_count, columns={"c": ("c", data_type)})


def ask(indexes: FileIndexes, predicate: Predicate, data_type: AtomicType) -> BitMap | None:
    return indexes.rows(bind(predicate, pa.schema({"c": to_arrow(data_type)})))


def matching(column: pa.Array, predicate: Predicate) -> set[int]:
    rows = pa.table({"c": column, "row": pa.array(range(len(column)), pa.int64())})
    return set(rows.filter(to_arrow_expression(predicate, rows.schema))["row"].to_pylist())


def predicates(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Predicate]:
    compares = st.builds(Compare, st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), st.just("c"), values)
    leaves = (
        compares
        | st.lists(values, max_size=3).map(lambda found: In("c", tuple(found)))
        | st.booleans().map(lambda negated: IsNull("c", negated))
    )
    return st.recursive(
        leaves,
        lambda inner: (
            inner.map(Not)
            | st.lists(inner, min_size=1, max_size=3).map(lambda parts: And(tuple(parts)))
            | st.lists(inner, min_size=1, max_size=3).map(lambda parts: Or(tuple(parts)))
        ),
        max_leaves=4,
    )


@pytest.mark.parametrize(("kind", "name"), ALLOWED)
@given(data=st.data())
@settings(max_examples=25)
def test_no_row_that_matches_is_left_out(kind: str, name: str, data: st.DataObject) -> None:
    data_type, values = COLUMNS[name]
    column = pa.array(data.draw(st.lists(st.none() | values, max_size=40)), to_arrow(data_type))
    cut = data.draw(st.integers(0, len(column)))
    options = data.draw(st.sampled_from(OPTIONS[kind]))
    predicate = data.draw(predicates(values))

    index = made(kind, data_type, options, column[:cut], column[cut:])

    if index is not None:
        found = ask(opened({kind: index}, data_type, len(column)), predicate, data_type)
        assert found is None or matching(column, predicate) <= set(found)


@pytest.mark.parametrize(("kind", "name"), [pair for pair in ALLOWED if pair[0] != "bloom-filter"])
@given(data=st.data())
@settings(max_examples=25)
def test_bitmaps_say_exactly_which_rows_match(kind: str, name: str, data: st.DataObject) -> None:
    data_type, values = COLUMNS[name]
    column = pa.array(data.draw(st.lists(st.none() | values, max_size=40)), to_arrow(data_type))
    literal = data.draw(values)
    exact: list[Predicate] = [Compare("=", "c", literal), In("c", (literal,)), IsNull("c"), IsNull("c", negated=True)]
    if data_type.precision <= 6 or data_type.root is TypeRoot.DECIMAL:
        exact += [Compare("!=", "c", literal), Not(In("c", (literal,)))]
        if kind != "bitmap":
            exact += [Compare(operator, "c", literal) for operator in ("<", "<=", ">", ">=")]

    index = made(kind, data_type, data.draw(st.sampled_from(OPTIONS[kind])), column)

    if index is not None:
        indexes = opened({kind: index}, data_type, len(column))
        for predicate in exact:
            assert matching(column, predicate) == set(ask(indexes, predicate, data_type) or ())


def test_a_bloom_filter_leaves_out_files_without_the_value() -> None:
    column = pa.array([f"w{number}" for number in range(100)])
    string = COLUMNS["string"][0]
    indexes = opened({"bloom-filter": made("bloom-filter", string, {"items": "100"}, column)}, string, 100)

    absent = [indexes.rows(Compare("=", "c", f"v{number}")) for number in range(300)]

    assert all(rows is None or not rows for rows in absent)
    assert sum(rows is not None for rows in absent) > 240
    assert indexes.rows(In("c", ("w5", "v1"))) is None


def test_answers_of_several_indexes_of_a_column_count_together() -> None:
    bigint = COLUMNS["bigint"][0]
    column = pa.array([1, 2, 3, 4])
    indexes = opened({kind: made(kind, bigint, {}, column) for kind in KINDS}, bigint, 4)

    assert indexes.rows(Or((Compare("=", "c", 2), Compare(">", "c", 3)))) == BitMap([1, 3])
    assert indexes.rows(Compare("<", "c", 1)) == BitMap()


def test_an_unknown_index_type_and_columns_without_index_keep_the_rows() -> None:
    bigint = COLUMNS["bigint"][0]
    indexes = opened({"of-tomorrow": b"?"}, bigint, 4)

    assert indexes.rows(Compare("=", "c", 2)) is None
    assert indexes.rows(Compare("=", "d", 2)) is None


def test_an_index_without_bytes_means_only_nulls() -> None:
    bigint = COLUMNS["bigint"][0]
    indexes = opened({"bitmap": None}, bigint, 4)

    assert indexes.rows(Compare("!=", "c", 2)) == BitMap()
    assert indexes.rows(IsNull("c")) is None


def test_a_smallest_bigint_has_no_bsi() -> None:
    assert made("bsi", COLUMNS["bigint"][0], {}, pa.array([-(2**63), 1])) is None


# ── bytes ───────────────────────────────────────────────────────────────────────────────────────


def test_hashes_are_those_of_their_specifications() -> None:
    texts = pa.array([b"", b"a", b"abc", b"Nobody inspects the spammish repetition"], pa.binary())

    assert [hex(value) for value in xx_hashes(texts)] == [
        "0xef46db3751d8e999",
        "0xd24ec4f1a98c6e5b",
        "0x44bc2cf5ad770999",
        "0xfbcea83c8a378bf1",
    ]
    assert hex(wang_hashes(pa.array([1]).to_numpy())[0]) == "0x5bca7c69b794f8ce"


def golden_column(values: Any, data_type: AtomicType) -> pa.Array:
    """Values of the golden file, in which dates, times, timestamps and decimals are numbers."""
    arrow_type = to_arrow(data_type)
    if isinstance(values, dict):
        values = [number * values["step"] % values["modulo"] for number in range(values["count"])]
        values = [f"w{value}" for value in values] if pa.types.is_string(arrow_type) else values
    if pa.types.is_floating(arrow_type):
        return pa.array([None if value is None else float(value) for value in values], arrow_type)
    if pa.types.is_binary(arrow_type):
        return pa.array([None if value is None else value.encode() for value in values], arrow_type)
    if pa.types.is_decimal(arrow_type):
        return pa.array([None if value is None else Decimal(value).scaleb(-data_type.scale) for value in values])
    if pa.types.is_timestamp(arrow_type):
        return pa.array(values, pa.timestamp("us", arrow_type.tz)).cast(arrow_type)
    return pa.array(values, arrow_type)


@pytest.mark.parametrize("case", GOLDEN["indexes"], ids=lambda case: f"{case['kind']} {case['type']}")
def test_bytes_are_those_of_java(case: dict[str, Any]) -> None:
    data_type = parse_atomic(case["type"])
    column = golden_column(case["values"], data_type)

    index = made(case["kind"], data_type, case["options"], column)

    assert index is not None
    assert case.get("bytes", index.hex()) == index.hex()
    assert case.get("sha256") in (None, hashlib.sha256(index).hexdigest())


@pytest.mark.parametrize("case", GOLDEN["containers"], ids=lambda case: case["columns"][0])
def test_containers_are_those_of_java(case: dict[str, Any]) -> None:
    parts = {"bloom-filter": b"\1\2", "bitmap": None, "bsi": b"\3", "range-bitmap": b"\4"}

    data = encode_container(dict.fromkeys(case["columns"], parts))

    assert case.get("bytes", data.hex()) == data.hex()
    assert case.get("sha256") in (None, hashlib.sha256(data).hexdigest())


def test_a_container_gives_back_what_it_was_made_of() -> None:
    stream = io.BytesIO(encode_container({"é\0\U0001f600": {"bitmap": b"xy"}, "b[k]": {"bitmap": None}}))

    positions = read_head(stream, "a file")

    assert positions["b[k]"] == {"bitmap": None}
    position = positions["é\0\U0001f600"]["bitmap"]
    assert position is not None
    assert read_index(stream, position, "a file") == b"xy"


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=25)
def test_damaged_indexes_are_reported_or_give_an_answer(kind: str, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([name for known, name in ALLOWED if known == kind]))
    data_type, values = COLUMNS[name]
    column = pa.array(data.draw(st.lists(st.none() | values, min_size=1, max_size=20)), to_arrow(data_type))
    options = data.draw(st.sampled_from(OPTIONS[kind]))
    index = made(kind, data_type, options, column)
    container = bytearray(encode_container({"c": {kind: index}}))
    for _ in range(data.draw(st.integers(1, 4))):
        container[data.draw(st.integers(0, len(container) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(container[: data.draw(st.integers(0, len(container)) | st.just(len(container)))])
    predicate = data.draw(predicates(values))

    try:
        stream = io.BytesIO(damaged)
        indexes = FileIndexes(stream, "a file", row_count=len(column), columns={"c": ("c", data_type)})
        ask(indexes, predicate, data_type)
    except CorruptTableError as error:
        assert "a file: " in str(error)


# ── options ─────────────────────────────────────────────────────────────────────────────────────


def test_options_name_columns_and_keys_of_maps() -> None:
    raw = {
        "file-index.bloom-filter.columns": "a, m[k]",
        "file-index.bloom-filter.a.items": "5",
        "file-index.bloom-filter.m.fpp": "0.2",
        "file-index.bloom-filter.m[k].items": "7",
        "file-index.bitmap.columns": "a",
        "file-index.in-manifest-threshold": "1 kb",
        "bucket": "1",
    }

    assert index_specs(raw) == [
        IndexSpec("bloom-filter", "a", None, {"items": "5"}),
        IndexSpec("bloom-filter", "m", "k", {"fpp": "0.2", "items": "7"}),
        IndexSpec("bitmap", "a"),
    ]


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"file-index.bitmap.columns": "a,,b"}, "empty column name"),
        ({"file-index.bitmap.columns": "a", "file-index.bitmap.b.version": "1"}, "does not name column 'b'"),
    ],
)
def test_wrong_options_are_named(raw: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        index_specs(raw)


def test_columns_that_cannot_be_indexed_are_named() -> None:
    text, number = COLUMNS["string"][0], COLUMNS["int"][0]

    assert indexed_type(IndexSpec("bitmap", "m", "k"), MapType(text, number)) == number
    with pytest.raises(UnsupportedError, match="'file-index.bsi.columns': no such index of 'c', which is STRING"):
        indexed_type(IndexSpec("bsi", "c"), text)
    with pytest.raises(UnsupportedError, match=r"'m\[k\]' is not a map with text as key"):
        indexed_type(IndexSpec("bitmap", "m", "k"), MapType(number, number))
    with pytest.raises(UnsupportedError, match="no such index of 'c'"):
        indexed_type(IndexSpec("bitmap", "c"), ArrayType(number))
