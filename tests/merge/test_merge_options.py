"""Options that choose and shape the merge function, and those that are refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.merge.columns import merge_columns
from paimon_engine.merge.deduplicate import deduplicate
from paimon_engine.merge.functions import merge_function
from paimon_engine.options import TableOptions
from tests.merge.engine_model import Record
from tests.merge.engine_runs import ITEM, Engine, records_of, schema_of

COLUMNS = {"a": pa.int32(), "b": pa.string(), "g": pa.int32(), "h": pa.int32(), "items": pa.list_(ITEM)}
PU, AGG = {"merge-engine": "partial-update"}, {"merge-engine": "aggregation"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({**PU, "fields.a.aggregate-function": "sum"}, "need a sequence group"),
        ({**PU, "fields.default-aggregate-function": "sum"}, "need a sequence group"),
        ({**PU, "fields.g.sequence-group": "a", "fields.g.aggregate-function": "max"}, "'g' orders a sequence group"),
        ({**PU, "fields.g.sequence-group": "zz"}, "no column 'zz'"),
        ({**PU, "fields.zz.sequence-group": "a"}, "no column 'zz'"),
        ({**PU, "fields.g.sequence-group": "a", "fields.h.sequence-group": "a"}, "'a' is in two sequence groups"),
        ({**PU, "fields.g.sequence-group": "a,h", "fields.h.sequence-group": "b"}, "'h' is in two sequence groups"),
        (
            {**PU, "fields.g.sequence-group": "a", "partial-update.remove-record-on-delete": "true"},
            "not go together with a sequence group",
        ),
        (
            {**PU, "ignore-delete": "true", "partial-update.remove-record-on-delete": "true"},
            "not go together with 'ignore-delete'",
        ),
        (
            {**PU, "fields.g.sequence-group": "a", "partial-update.remove-record-on-sequence-group": "a"},
            "'a' orders no sequence group; columns that do are g",
        ),
        ({**PU, "partial-update.remove-record-on-sequence-group": "a"}, "the table has none"),
        (
            {
                **PU,
                "fields.g.sequence-group": "a",
                "partial-update.remove-record-on-sequence-group": "g",
                "ignore-delete": "true",
            },
            "not go together with 'ignore-delete'",
        ),
        (
            {**AGG, "fields.a.aggregate-function": "median"},
            "'median' is not an aggregate function; there are sum, count",
        ),
        ({**AGG, "fields.b.aggregate-function": "count"}, "'count' takes INT or BIGINT"),
        ({**AGG, "fields.b.aggregate-function": "sum"}, "'sum' takes numbers"),
        ({**AGG, "fields.a.aggregate-function": "listagg"}, "'listagg' takes STRING"),
        ({**AGG, "fields.a.aggregate-function": "bool_or"}, "takes BOOLEAN"),
        ({**AGG, "fields.a.aggregate-function": "collect"}, "takes ARRAY"),
        ({**AGG, "fields.a.aggregate-function": "merge_map"}, "takes MAP"),
        ({**AGG, "fields.a.aggregate-function": "nested_update"}, "takes ARRAY of ROW"),
        (
            {**AGG, "fields.items.aggregate-function": "nested_update", "fields.items.nested-key": "zz"},
            "have no field 'zz'; they have id, name",
        ),
        ({**AGG, "fields.items.aggregate-function": "max"}, "'max' takes"),
        ({**AGG, "fields.zz.aggregate-function": "max"}, "no column 'zz'"),
        ({**AGG, "fields.a.aggregate-function": "max", "sequence.field": "a"}, "'a' orders versions"),
        ({**AGG, "fields.default-aggregate-function": "sum"}, "set 'fields.b.aggregate-function'"),
        (
            {**AGG, "aggregation.remove-record-on-delete": "true", "fields.b.ignore-retract": "true"},
            "does not go together with 'fields.b.ignore-retract'",
        ),
        ({"merge-engine": "first-row", "sequence.field": "a"}, "'sequence.field' cannot"),
        ({"merge-engine": "first-row", "changelog-producer": "input"}, "not with 'input'"),
        ({"merge-engine": "first-row", "deletion-vectors.enabled": "true"}, "'deletion-vectors.enabled'"),
    ],
)
def test_options_that_no_merge_can_follow_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        merge_function(schema_of(COLUMNS, options))


def test_a_group_may_be_ordered_by_a_key_column_which_orders_nothing() -> None:
    engine = Engine(COLUMNS, {**PU, "fields.k.sequence-group": "a", "fields.k,g.sequence-group": "b"})
    rows = [{"k": 0, "a": a, "b": b, "g": g, "h": None, "items": None} for a, b, g in [(3, "x", 2), (None, "y", 1)]]

    (merged,) = records_of(engine.flush([Record("+I", row) for row in rows]))

    assert (merged.row["a"], merged.row["b"], merged.row["g"]) == (None, "x", 2)


@pytest.mark.parametrize("engine", ["first-row", "deduplicate", "partial-update"])
def test_an_older_name_of_ignore_delete_counts_where_the_name_of_today_is_missing(engine: str) -> None:
    older = f"{engine}.ignore-delete"

    assert TableOptions({older: "true"}).ignore_delete
    assert not TableOptions({"ignore-delete": "false", older: "true"}).ignore_delete
    assert TableOptions({"ignore-delete": "true", older: "false"}).ignore_delete


def test_deduplicate_is_the_merge_function_by_default() -> None:
    assert merge_function(schema_of(COLUMNS, {})) is deduplicate


def test_a_projection_brings_the_columns_that_order_its_groups() -> None:
    schema = schema_of(COLUMNS, {**PU, "fields.g,h.sequence-group": "a"})

    assert merge_columns(schema, ["a"]) == ("k", "a", "g", "h")
    assert merge_columns(schema, ["b"]) == ("k", "b")


def test_a_projection_brings_the_columns_by_which_rows_are_removed() -> None:
    removing = {"fields.g.sequence-group": "a", "partial-update.remove-record-on-sequence-group": "g"}
    schema = schema_of(COLUMNS, {**PU, "fields.h.sequence-group": "b", **removing})

    assert merge_columns(schema, ["items"]) == ("k", "g", "items")


def test_the_newest_sequence_value_stays_in_an_aggregation() -> None:
    options = {**AGG, "sequence.field": "g", "fields.default-aggregate-function": "sum"}
    engine = Engine({"a": pa.int32(), "g": pa.int32()}, options)

    (merged,) = records_of(engine.flush([Record("+I", {"k": 0, "a": 1, "g": g}) for g in (3, 5, 4)]))

    assert merged.row == {"k": 0, "a": 3, "g": 5}
