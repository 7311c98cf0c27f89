"""partial-update and first-row against a model that walks row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_engine.arrow_types import from_arrow_field
from paimon_engine.errors import InvalidArgumentError
from paimon_engine.merge.functions import merge_function, sequence_order
from paimon_engine.merge.window import sort_window
from paimon_engine.meta.schema import new_schema
from paimon_engine.types import RowType
from tests.merge.engine_model import Group, PartialUpdate, Record
from tests.merge.engine_runs import (
    CUTS,
    KINDS,
    SMALL,
    TEXT,
    Engine,
    assert_same_however_cut,
    batch_of,
    histories,
    modelled,
    records_of,
)

PLAIN = Engine({"a": pa.int32(), "b": pa.string()}, {"merge-engine": "partial-update"})
GROUPED = Engine(
    {"su": pa.int64(), "a": pa.string(), "g": pa.int32(), "h": pa.int32(), "b": pa.int32(), "i": pa.int32(),
     "ln": pa.string(), "free": pa.string()},
    {
        "merge-engine": "partial-update",
        "fields.g,h.sequence-group": "a,su",
        "fields.i.sequence-group": "b,ln",
        "fields.su.aggregate-function": "sum",
        "fields.ln.aggregate-function": "last_non_null_value",
    },
)  # fmt: skip
GROUPS = [Group(("g", "h"), {"a": None, "su": "sum"}), Group(("i",), {"b": None, "ln": "last_non_null_value"})]
GROUPED_COLUMNS = {"su": SMALL, "a": TEXT, "g": SMALL, "h": SMALL, "b": SMALL, "i": SMALL, "ln": TEXT, "free": TEXT}


@settings(max_examples=100, deadline=None)
@given(histories({"a": SMALL, "b": TEXT}), CUTS)
def test_partial_update_keeps_the_newest_values_however_the_history_is_cut(
    history: list[Record], cuts: list[int]
) -> None:
    expected = modelled(history, PartialUpdate([], ["a", "b"]).merged)

    assert_same_however_cut(PLAIN, history, cuts, expected)


@settings(max_examples=150, deadline=None)
@given(histories(GROUPED_COLUMNS, KINDS))
def test_sequence_groups_follow_their_own_order(history: list[Record]) -> None:
    expected = modelled(history, PartialUpdate(GROUPS, ["free"]).merged)

    assert records_of(GROUPED.flush(history)) == [
        Record(record.kind, {name: record.row[name] for name in GROUPED.schema.row_type.names}) for record in expected
    ]


@settings(max_examples=100, deadline=None)
@given(histories({**GROUPED_COLUMNS, "ln": st.none()}, ["+I", "+U"]), CUTS)
def test_sequence_groups_do_not_depend_on_how_the_history_is_cut(history: list[Record], cuts: list[int]) -> None:
    expected = modelled(history, PartialUpdate(GROUPS, ["free"]).merged)

    assert_same_however_cut(GROUPED, history, cuts, expected)


@pytest.mark.parametrize("columns", [["g"], ["g", "h"]])
@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int64(), [0, -(1 << 63), (1 << 63) - 1, (1 << 63) - 2]),
        (pa.int64(), [3, -(1 << 40), (1 << 40), (1 << 40)]),
        (pa.timestamp("us"), [0, -5, 1 << 50, 1 << 30]),
        (pa.string(), ["b", "a", "d", "c"]),
    ],
)
def test_sequence_groups_follow_numbers_however_far_apart_they_are(
    columns: list[str], kind: pa.DataType, values: list[Any]
) -> None:
    options = {"merge-engine": "partial-update", f"fields.{','.join(columns)}.sequence-group": "a"}
    engine = Engine({**dict.fromkeys(columns, kind), "a": pa.int32()}, options)
    stored = pa.array([*values, None], kind).to_pylist()
    history = [
        Record("+I", {"k": key, **dict.fromkeys(columns, stored[index]), "a": index})
        for key in range(3)
        for index in range(key, len(stored))
    ]

    merged = records_of(engine.flush(history))

    newest = [max(range(key, len(values)), key=lambda index: (values[index], index)) for key in range(3)]
    assert [record.row["a"] for record in merged] == newest


@settings(max_examples=100, deadline=None)
@given(histories({"a": SMALL, "b": TEXT}, KINDS))
def test_a_delete_removes_the_row_and_what_comes_then_begins_anew(history: list[Record]) -> None:
    removing = {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}
    engine = Engine({"a": pa.int32(), "b": pa.string()}, removing)
    expected = modelled(history, PartialUpdate([], ["a", "b"], removes=True).merged)

    assert records_of(engine.flush(history)) == expected


@settings(max_examples=60, deadline=None)
@given(histories({"a": SMALL, "b": TEXT}, ["+I", "-U"]), st.sets(st.integers(0, 3)), CUTS)
def test_a_delete_reaches_older_versions_in_other_runs(
    history: list[Record], deleted: set[int], cuts: list[int]
) -> None:
    removing = {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}
    engine = Engine({"a": pa.int32(), "b": pa.string()}, removing)
    everything = [*history, *(Record("-D", {"k": key, "a": None, "b": None}) for key in deleted)]
    expected = modelled(everything, PartialUpdate([], ["a", "b"], removes=True).merged)

    assert_same_however_cut(engine, everything, cuts, expected)


@pytest.mark.parametrize("removing", [(0,), (1,), (0, 1)])
@settings(max_examples=150, deadline=None)
@given(history=histories(GROUPED_COLUMNS, KINDS))
def test_a_delete_in_a_sequence_group_removes_the_row(removing: tuple[int, ...], history: list[Record]) -> None:
    columns = ",".join(GROUPS[number].by[0] for number in removing)
    options = {**GROUPED.schema.options, "partial-update.remove-record-on-sequence-group": columns}
    engine = Engine(GROUPED.types, options)
    expected = modelled(history, PartialUpdate(GROUPS, ["free"], removing=[GROUPS[i] for i in removing]).merged)

    assert records_of(engine.flush(history)) == [
        Record(record.kind, {name: record.row[name] for name in engine.schema.row_type.names}) for record in expected
    ]


@settings(max_examples=100, deadline=None)
@given(histories({"g": st.integers(0, 3), "a": TEXT}, ["+I", "+U", "-D"]), CUTS)
def test_a_removed_row_keeps_its_order_however_the_history_is_cut(history: list[Record], cuts: list[int]) -> None:
    options = {"fields.g.sequence-group": "a", "partial-update.remove-record-on-sequence-group": "g"}
    engine = Engine({"g": pa.int32(), "a": pa.string()}, {"merge-engine": "partial-update", **options})
    group = Group(("g",), {"a": None})
    expected = modelled(history, PartialUpdate([group], [], removing=[group]).merged)

    assert_same_however_cut(engine, history, cuts, expected)


def test_a_retract_needs_an_option_that_says_what_it_does() -> None:
    history = [Record("+I", {"k": 0, "a": 1, "b": "x"}), Record("-D", {"k": 0, "a": 1, "b": "x"})]

    with pytest.raises(InvalidArgumentError, match=r"'ignore-delete'.*remove-record-on-delete.*sequence-group"):
        PLAIN.flush(history)


def test_a_merge_does_not_leave_a_required_column_null() -> None:
    fields = pa.schema([pa.field("k", pa.int32()), pa.field("v", pa.int32(), nullable=False)])
    row_type = RowType(tuple(map(from_arrow_field, fields)))
    options = {"merge-engine": "aggregation"}
    schema = new_schema(row_type, primary_keys=["k"], partition_keys=[], options=options, comment=None, time_ms=0)
    rows = batch_of(schema, [Record("+I", {"k": 0, "v": 1}), Record("-U", {"k": 0, "v": 1})], 0, {"v": pa.int32()})

    with pytest.raises(InvalidArgumentError, match="'v' is NOT NULL"):
        merge_function(schema)(sort_window(rows, np.zeros(2, dtype=np.int64), sequence_order(schema.table_options)))


def test_an_older_first_value_replaces_the_first() -> None:
    engine = Engine(
        {"g": pa.int32(), "fv": pa.string(), "fn": pa.string(), "la": pa.string(), "lv": pa.string()},
        {
            "merge-engine": "partial-update",
            "fields.g.sequence-group": "fv,fn,la,lv",
            "fields.fv.aggregate-function": "first_value",
            "fields.fn.aggregate-function": "first_non_null_value",
            "fields.la.aggregate-function": "listagg",
            "fields.lv.aggregate-function": "last_value",
        },
    )
    texts = [(5, "a"), (3, "b"), (6, "c"), (1, "d")]

    (merged,) = records_of(
        engine.flush([Record("+I", {"k": 0, "g": g, "fv": t, "fn": t, "la": t, "lv": t}) for g, t in texts])
    )

    assert merged.row == {"k": 0, "g": 6, "fv": "d", "fn": "d", "la": "d,b,a,c", "lv": "c"}


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([(9, None), (3, "a"), (3, "b")], "a"),
        ([(9, None), (3, "a"), (3, "b"), (2, "c")], "c"),
        ([(9, None), (3, "a"), (9, "b")], "b"),
        ([(9, "a"), (3, None)], None),
        ([(9, None), (3, None), (3, None)], None),
    ],
)
def test_first_non_null_values_from_below_are_found_as_in_java(texts: list[tuple[int, Any]], expected: Any) -> None:
    options = {"merge-engine": "partial-update", "fields.g.sequence-group": "fn"}
    engine = Engine(
        {"g": pa.int32(), "fn": pa.string()}, {**options, "fields.fn.aggregate-function": "first_non_null_value"}
    )

    (merged,) = records_of(engine.flush([Record("+I", {"k": 0, "g": g, "fn": text}) for g, text in texts]))

    assert merged.row["fn"] == expected


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([("-D", 9, "x"), ("+I", 9, "a"), ("+I", 3, "b")], "b"),
        ([("-D", 9, "x"), ("+I", 3, "a")], None),
        ([("-D", 9, "x"), ("+I", 3, "a"), ("+I", 9, "b")], None),
        ([("-D", 9, "x"), ("+I", 3, "a"), ("+I", 9, "b"), ("+I", 3, "c")], "c"),
    ],
)
def test_first_values_below_a_retract_are_found_as_in_java(texts: list[tuple[str, int, str]], expected: Any) -> None:
    """An older first value, with only a retract above it, gives null."""
    own = {"fields.v.aggregate-function": "first_value", "fields.v.ignore-retract": "true"}
    options = {"merge-engine": "partial-update", "fields.g.sequence-group": "v", **own}
    engine = Engine({"g": pa.int32(), "v": pa.string()}, options)

    (merged,) = records_of(engine.flush([Record(kind, {"k": 0, "g": g, "v": text}) for kind, g, text in texts]))

    assert merged.row["v"] == expected


@pytest.mark.parametrize(("ignores", "expected"), [("false", ["a", "b", "c"]), ("true", ["c", "a", "b"])])
def test_elements_from_below_are_collected_as_in_java(ignores: str, expected: list[str]) -> None:
    """Behind the others, but where the column ignores retracts."""
    own = {"aggregate-function": "collect", "ignore-retract": ignores}
    options = {"merge-engine": "partial-update", "fields.g.sequence-group": "v"}
    engine = Engine(
        {"g": pa.int32(), "v": pa.list_(pa.string())}, {**options, **{f"fields.v.{key}": own[key] for key in own}}
    )
    history = [Record("+I", {"k": 0, "g": g, "v": [text]}) for g, text in [(5, "a"), (6, "b"), (3, "c")]]

    (merged,) = records_of(engine.flush(history))

    assert merged.row["v"] == expected


# ── first-row ───────────────────────────────────────────────────────────────────────────────────


@settings(max_examples=60, deadline=None)
@given(histories({"a": SMALL}), CUTS)
def test_the_first_row_stays_however_the_history_is_cut(history: list[Record], cuts: list[int]) -> None:
    engine = Engine({"a": pa.int32()}, {"merge-engine": "first-row"})
    expected = modelled(history, lambda records: (records[0].kind, records[0].row))

    assert_same_however_cut(engine, history, cuts, expected)


def test_first_row_takes_no_deletes() -> None:
    engine = Engine({"a": pa.int32()}, {"merge-engine": "first-row"})

    with pytest.raises(InvalidArgumentError, match="'ignore-delete'"):
        engine.flush([Record("-D", {"k": 0, "a": 1})])
