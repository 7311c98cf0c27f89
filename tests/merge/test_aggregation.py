"""aggregation against a model that walks row by row, and each function by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.merge.functions import check_storable
from tests.merge.engine_model import Record, aggregated
from tests.merge.engine_runs import (
    CUTS,
    FLAG,
    ITEM,
    ITEMS,
    KINDS,
    PAIRS,
    SMALL,
    TAGS,
    TEXT,
    Engine,
    assert_same_however_cut,
    canonical,
    cut,
    histories,
    modelled,
    records_of,
)

AGGREGATED: Mapping[str, tuple[str, pa.DataType, st.SearchStrategy[Any]]] = {
    "total": ("sum", pa.int64(), SMALL),
    "money": ("sum", pa.decimal128(22, 2), st.none() | st.decimals(-9, 9, places=2)),
    "factor": ("product", pa.int64(), SMALL),
    "high": ("max", pa.string(), TEXT),
    "low": ("min", pa.float64(), st.none() | st.floats(-2, 2, width=16).map(lambda value: value + 0.0)),
    "every": ("bool_and", pa.bool_(), FLAG),
    "some": ("bool_or", pa.bool_(), FLAG),
    "last": ("last_value", pa.string(), TEXT),
    "known": ("last_non_null_value", pa.list_(pa.int32()), st.none() | st.lists(st.integers(0, 2), max_size=2)),
    "first": ("first_non_null_value", pa.string(), TEXT),
    "text": ("listagg", pa.string(), TEXT),
    "tags": ("collect", pa.list_(pa.string()), TAGS),
    "pairs": ("merge_map", pa.map_(pa.string(), pa.int32()), PAIRS),
    "items": ("nested_update", pa.list_(ITEM), ITEMS),
}
FUNCTIONS = {name: function for name, (function, _, _) in AGGREGATED.items()}
AGGREGATION = Engine(
    {name: kind for name, (_, kind, _) in AGGREGATED.items()},
    {
        "merge-engine": "aggregation",
        "fields.items.nested-key": "id",
        **{f"fields.{name}.aggregate-function": function for name, function in FUNCTIONS.items() if name != "known"},
    },
)


@settings(max_examples=120, deadline=None)
@given(histories({name: values for name, (_, _, values) in AGGREGATED.items()}), CUTS)
def test_aggregation_is_a_fold_however_the_history_is_cut(history: list[Record], cuts: list[int]) -> None:
    expected = modelled(history, lambda records: aggregated(records, FUNCTIONS))

    assert_same_however_cut(AGGREGATION, history, cuts, expected, ["pairs", "items"])


TAKING_BACK = {"total": "sum", "last": "last_value", "known": "last_non_null_value", "pairs": "merge_map"}
RETRACTABLE = Engine(
    {"total": pa.int64(), "last": pa.string(), "known": pa.int32(), "pairs": pa.map_(pa.string(), pa.int32())},
    {"merge-engine": "aggregation", **{f"fields.{name}.aggregate-function": f for name, f in TAKING_BACK.items()}},
)
RETRACTED = histories({"total": SMALL, "last": TEXT, "known": SMALL, "pairs": PAIRS}, KINDS)


@settings(max_examples=120, deadline=None)
@given(RETRACTED)
def test_retracts_are_taken_back_in_the_order_of_their_arrival(history: list[Record]) -> None:
    expected = modelled(history, lambda records: aggregated(records, TAKING_BACK))

    merged = records_of(RETRACTABLE.flush(history))

    assert canonical(merged, ["pairs"]) == canonical(expected, ["pairs"])


@settings(max_examples=100, deadline=None)
@given(histories({"total": st.integers(-3, 3)}, KINDS), CUTS)
def test_a_sum_takes_back_what_another_run_has_added(history: list[Record], cuts: list[int]) -> None:
    engine = Engine({"total": pa.int64()}, {"merge-engine": "aggregation", "fields.total.aggregate-function": "sum"})
    base = [Record("+I", {"k": key, "total": 5}) for key in range(4)]
    everything = [*base, *history]
    expected = modelled(everything, lambda records: aggregated(records, {"total": "sum"}))

    runs = [engine.flush(base), *cut(engine, history, cuts)] if history else [engine.flush(base)]

    assert records_of(engine.join(runs)) == expected


REMOVING = Engine(
    {"total": pa.int64(), "tags": pa.list_(pa.string()), "last": pa.string()},
    {
        "merge-engine": "aggregation",
        "aggregation.remove-record-on-delete": "true",
        "fields.total.aggregate-function": "sum",
        "fields.tags.aggregate-function": "collect",
    },
)
REMOVED = {"total": "sum", "tags": "collect", "last": "last_non_null_value"}


@settings(max_examples=100, deadline=None)
@given(histories({"total": SMALL, "tags": TAGS, "last": TEXT}, ["+I", "-D"]))
def test_a_delete_removes_the_row_of_an_aggregation(history: list[Record]) -> None:
    expected = modelled(history, lambda records: aggregated(records, REMOVED, removes=True))

    assert records_of(REMOVING.flush(history)) == expected


@settings(max_examples=60, deadline=None)
@given(histories({"total": SMALL, "tags": TAGS, "last": TEXT}), st.sets(st.integers(0, 3)), CUTS)
def test_a_delete_removes_what_other_runs_have_added(history: list[Record], deleted: set[int], cuts: list[int]) -> None:
    everything = [*history, *(Record("-D", {"k": key, "total": 7, "tags": None, "last": "z"}) for key in deleted)]
    expected = modelled(everything, lambda records: aggregated(records, REMOVED, removes=True))

    assert_same_however_cut(REMOVING, everything, cuts, expected)


def merged_column(
    function: str, values: Sequence[Any], kind: pa.DataType, retracted: Sequence[Any] = (), **more: str
) -> Any:
    """The value of one key after adding the values and taking others back, in one merge."""
    options = {"merge-engine": "aggregation", "fields.v.aggregate-function": function}
    engine = Engine(
        {"v": kind}, {**options, **{f"fields.v.{key.replace('_', '-')}": text for key, text in more.items()}}
    )
    history = [Record("+I", {"k": 0, "v": value}) for value in values]
    history += [Record("-U", {"k": 0, "v": value}) for value in retracted]
    (record,) = records_of(engine.flush(history))
    return record.row["v"]


BIG = Decimal("9" * 18 + ".99")


@pytest.mark.parametrize(
    ("function", "kind", "values", "retracted", "expected"),
    [
        ("sum", pa.int8(), [100, 100], [], -56),
        ("sum", pa.int32(), [2**31 - 1, 2], [3], 2**31 - 2),
        ("sum", pa.int64(), [None, None], [], None),
        ("sum", pa.int64(), [None], [4], -4),
        ("sum", pa.float64(), [0.1, 0.2, 0.3], [], 0.1 + 0.2 + 0.3),
        ("sum", pa.float32(), [1e8, 1.0, -1e8], [], 0.0),
        ("sum", pa.decimal128(20, 2), [BIG, BIG, Decimal("0.01")], [], Decimal("0.01")),
        ("sum", pa.decimal128(20, 2), [BIG, Decimal(5)], [BIG], Decimal("-999999999999999999.99")),
        ("sum", pa.decimal128(4, 2), [Decimal(60), Decimal(60)], [], Decimal(120)),
        ("sum", pa.decimal128(38, 0), [Decimal(-(10**37)), Decimal(3)], [Decimal(10**37)], Decimal(3 - 2 * 10**37)),
        ("product", pa.int32(), [2**30, 6], [], -(2**31)),
        ("product", pa.int32(), [-7, 1], [2], -3),
        ("product", pa.decimal128(4, 2), [Decimal("1.55"), Decimal("1.55")], [], Decimal("2.40")),
        ("product", pa.decimal128(4, 2), [Decimal(60), Decimal(60), Decimal(2)], [], Decimal(2)),
        ("product", pa.decimal128(4, 2), [Decimal(6)], [Decimal("1.2")], Decimal(5)),
        ("product", pa.float32(), [0.1, 3.0], [], float(np.float32(0.1) * np.float32(3))),
        ("max", pa.float64(), [-0.0, 0.0, None], [], 0.0),
        ("min", pa.float32(), [float("nan"), float("inf")], [], float("inf")),
        ("max", pa.binary(), [b"\xff", b"\x01", b"\xff\x00"], [], b"\xff\x00"),
        ("first_value", pa.string(), [None, "a"], [], None),
        ("first_non_null_value", pa.string(), [None, "a", "b"], [], "a"),
        ("collect", pa.list_(pa.string()), [["a", "b", "a"], None], [["a", None]], ["b", "a"]),
        ("collect", pa.list_(ITEM), [[{"id": 1, "name": None}]], [[{"id": 1, "name": None}]], []),
        ("collect", pa.list_(pa.float64()), [[float("nan"), -0.0]], [[float("nan"), 0.0]], [-0.0]),
        ("collect", pa.list_(pa.list_(pa.int32())), [[[1], [2], None]], [[[2], None]], [[1]]),
        ("nested_update", pa.list_(ITEM), [[{"id": 1, "name": "a"}] * 2], [[{"id": 1, "name": "a"}]], []),
    ],
)  # fmt: skip
def test_functions_give_what_java_gives(
    function: str, kind: pa.DataType, values: list[Any], retracted: list[Any], expected: Any
) -> None:
    assert merged_column(function, [*values, None] if len(values) == 1 else values, kind, retracted) == expected


def test_distinct_elements_are_kept_once() -> None:
    kind = pa.list_(pa.int32())

    assert sorted(merged_column("collect", [[1, 1, 2], [2, 3]], kind, distinct="true")) == [1, 2, 3]
    assert merged_column("collect", [[1, 1, 2], None], kind, [[1]], distinct="true") == [2]


def test_rows_are_distinguished_by_several_fields() -> None:
    rows = [[{"id": 1, "name": "a"}, {"id": 1, "name": "b"}], [{"id": 1, "name": "a"}]]

    assert merged_column("nested_update", rows, pa.list_(ITEM), nested_key="id,name") == [rows[0][1], rows[0][0]]


def test_texts_are_joined_with_the_delimiter() -> None:
    assert merged_column("listagg", ["a", None, "", "b"], pa.string(), list_agg_delimiter="; ") == "a; ; b"


WORDS = st.none() | st.sampled_from(["", " ", "a", "b", "a,a", "c,,a", "b, ,d", ",a"])


@settings(max_examples=120, deadline=None)
@given(histories({"text": WORDS}), CUTS)
def test_distinct_texts_are_joined_once_however_the_history_is_cut(history: list[Record], cuts: list[int]) -> None:
    options = {"fields.text.aggregate-function": "listagg", "fields.text.distinct": "true"}
    engine = Engine({"text": pa.string()}, {"merge-engine": "aggregation", **options})
    expected = modelled(history, lambda records: aggregated(records, {"text": "listagg distinct"}))

    assert_same_however_cut(engine, history, cuts, expected)


@pytest.mark.parametrize(
    ("delimiter", "texts", "expected"),
    [
        (";", ["a;b", "b;c", "\u3000", "c;d"], "a;b;c;d"),
        ("", ["a b", "b c"], "a bc"),
        ("--", ["a--a", "a-b--a"], "a--a--a-b"),
    ],
)
def test_distinct_texts_are_distinguished_by_the_delimiter(delimiter: str, texts: list[str], expected: str) -> None:
    assert merged_column("listagg", texts, pa.string(), list_agg_delimiter=delimiter, distinct="true") == expected


def test_a_retract_can_be_ignored() -> None:
    assert merged_column("max", [3, 4], pa.int32(), [4], ignore_retract="true") == 4


def test_a_retract_that_cannot_be_taken_back_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"'max' of column 'v' .*'fields\.v\.ignore-retract'"):
        merged_column("max", [3, 4], pa.int32(), [4])
    with pytest.raises(InvalidArgumentError, match="divides its product by 0"):
        merged_column("product", [3, 4], pa.int32(), [0])
    with pytest.raises(InvalidArgumentError, match="divides its product by 3"):
        merged_column("product", [Decimal(1), Decimal(1)], pa.decimal128(5, 2), [Decimal(3)])


def test_decimals_are_taken_back_with_all_their_digits() -> None:
    kind = pa.decimal128(38, 18)
    large, small = Decimal("9" * 20 + "." + "9" * 18), Decimal("12345678901234567890.123456789012345678")

    assert merged_column("sum", [large, large], kind, [small]) == small.copy_negate()
    assert merged_column("sum", [large, small.copy_negate()], kind, [large]) == small.copy_negate()
    assert merged_column("product", [large, Decimal(1)], kind, [Decimal(1)]) == large


def test_long_histories_of_single_keys_are_added_in_order() -> None:
    numbers = [0.1 * index for index in range(1000)]

    assert merged_column("sum", numbers, pa.float64()) == sum_in_order(numbers)


def sum_in_order(numbers: Sequence[float]) -> float:
    total = numbers[0]
    for number in numbers[1:]:
        total += number
    return total


def test_a_number_that_outgrew_its_column_is_not_stored() -> None:
    options = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
    engine = Engine({"v": pa.decimal128(4, 2)}, options)
    merged = engine.flush([Record("+I", {"k": 0, "v": Decimal(60)})] * 2)

    with pytest.raises(InvalidArgumentError, match="'v'.*does not fit"):
        check_storable(engine.schema, merged)
