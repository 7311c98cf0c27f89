"""What ALTER makes of a schema, and what it refuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import (
    AddColumn,
    DropColumn,
    InvalidArgumentError,
    MoveColumn,
    PaimonError,
    RemoveOption,
    RenameColumn,
    SetOption,
    UnsupportedError,
    UpdateColumnComment,
    UpdateColumnDefault,
    UpdateColumnNullability,
    UpdateColumnType,
    UpdateComment,
)
from paimon_engine.meta.alteration import altered
from paimon_engine.meta.fixed_options import FIXED_OPTIONS
from paimon_engine.meta.schema import TableSchema, new_schema
from paimon_engine.meta.schema_change import CHANGES, SchemaChange, change_from_json, change_to_json
from paimon_engine.meta.type_text import parse_type_text
from paimon_engine.types import DataField, RowType, field_to_json

COLUMNS = {
    "k": "INT NOT NULL",
    "p": "STRING NOT NULL",
    "a": "INT",
    "b": "DECIMAL(10, 2)",
    "r": "ROW<x INT, y ROW<z STRING>>",
    "l": "ARRAY<ROW<x INT, y INT>>",
    "m": "MAP<STRING, ARRAY<INT>>",
}


def schema_of(
    columns: Mapping[str, str] = COLUMNS,
    primary_keys: Sequence[str] = ("p", "k"),
    partition_keys: Sequence[str] = ("p",),
    **options: str,
) -> TableSchema:
    fields = tuple(DataField(-1, name, parse_type_text(text)) for name, text in columns.items())
    return new_schema(
        RowType(fields, nullable=False),
        primary_keys=primary_keys,
        partition_keys=partition_keys,
        options={"bucket": "2", **{name.replace("__", "."): text for name, text in options.items()}},
        comment=None,
        time_ms=1,
    )


def after(schema: TableSchema, *changes: SchemaChange, has_snapshots: bool = True) -> TableSchema:
    return altered(schema, changes, has_snapshots=has_snapshots, time_ms=2)


def column(schema: TableSchema, name: str) -> Any:
    """JSON of a column."""
    return field_to_json(schema.row_type.field(name))


def test_the_next_schema_has_the_next_id_and_its_own_time():
    before = schema_of()

    made = after(before, UpdateComment("rows"))

    assert (made.id, made.time_ms, made.comment) == (1, 2, "rows")
    assert made.row_type == before.row_type


def test_changes_that_change_nothing_make_no_schema():
    before = schema_of()

    assert (
        after(before, SetOption("bucket", "2"), MoveColumn("a", after="p"), RemoveOption("write-buffer-size")) is before
    )


def test_a_new_column_takes_the_next_id_and_its_fields_the_ids_after_it():
    before = schema_of()

    made = after(before, AddColumn("n", "ROW<u ROW<v INT, w INT>, t INT>"), DropColumn("n"), AddColumn("o", "INT"))
    fields = column(after(before, AddColumn("n", "ROW<u ROW<v INT, w INT>, t INT>")), "n")["type"]["fields"]

    first = before.highest_field_id + 1
    assert [(field["name"], field["id"]) for field in fields] == [("u", first + 3), ("t", first + 4)]
    assert [field["id"] for field in fields[0]["type"]["fields"]] == [first + 1, first + 2]
    assert (made.row_type.field("o").id, made.highest_field_id) == (first + 5, first + 5)


@pytest.mark.parametrize(
    ("place", "names"),
    [
        ({}, "k p a b r l m n"),
        ({"first": True}, "n k p a b r l m"),
        ({"after": "k"}, "k n p a b r l m"),
        ({"before": "k"}, "n k p a b r l m"),
        ({"after": "m"}, "k p a b r l m n"),
    ],
)
def test_a_new_column_is_put_at_the_requested_position(place: dict[str, Any], names: str):
    assert " ".join(after(schema_of(), AddColumn("n", "INT", **place)).row_type.names) == names


@pytest.mark.parametrize(
    ("place", "names"),
    [
        ({"first": True}, "b k p a r l m"),
        ({"last": True}, "k p a r l m b"),
        ({"after": "r"}, "k p a r b l m"),
        ({"before": "k"}, "b k p a r l m"),
        ({"after": "k"}, "k b p a r l m"),
    ],
)
def test_a_column_moves(place: dict[str, Any], names: str):
    assert " ".join(after(schema_of(), MoveColumn("b", **place)).row_type.names) == names


def test_a_new_column_can_be_put_before_the_partition_keys_by_option():
    before = schema_of(**{"add-column-before-partition": "true"})

    assert after(before, AddColumn("n", "INT")).row_type.names[:2] == ("k", "n")
    assert after(before, AddColumn("r.n", "INT")).row_type.names == before.row_type.names


def test_fields_inside_columns_change_by_their_paths():
    made = after(
        schema_of(),
        AddColumn("r.y.n", pa.int64(), comment="new", before="z"),
        RenameColumn("l.element.x", "renamed"),
        DropColumn("l.element.y"),
        UpdateColumnType("m.value.element", "BIGINT"),
        UpdateColumnComment("r.x", "first"),
        UpdateColumnNullability("r.y", nullable=True),
        MoveColumn("r", first=True),
    )

    assert made.row_type.names[0] == "r"
    assert [field["name"] for field in column(made, "r")["type"]["fields"][1]["type"]["fields"]] == ["n", "z"]
    assert column(made, "r")["type"]["fields"][0]["description"] == "first"
    assert [field["name"] for field in column(made, "l")["type"]["element"]["fields"]] == ["renamed"]
    assert column(made, "m")["type"]["value"]["element"] == "BIGINT"


def test_a_renamed_column_is_renamed_in_keys_and_options():
    before = schema_of(
        **{
            "bucket-key": "k",
            "sequence.field": "a,b",
            "fields.a.default-value": "1",
            "fields.a,b.stats-mode": "none",
            "fields.b.sequence-group": "a,b",
            "fields.l.nested-key": "a",
            "file-index.bloom-filter.columns": "a,b",
            "file-index.bloom-filter.a.items": "10",
        }
    )
    before = altered(before, [], has_snapshots=True, time_ms=1)

    # Not all of these fit together in one table; only how names are carried over matters here.
    from paimon_engine.meta.option_names import rename_in_options

    options = rename_in_options(rename_in_options(before.options, "a", "aa"), "k", "kk")
    assert options == {
        "bucket": "2",
        "bucket-key": "kk",
        "sequence.field": "aa,b",
        "fields.aa.default-value": "1",
        "fields.aa,b.stats-mode": "none",
        "fields.b.sequence-group": "aa,b",
        "fields.l.nested-key": "a",
        "file-index.bloom-filter.columns": "aa,b",
        "file-index.bloom-filter.aa.items": "10",
    }
    others = {
        "clustering.columns": "a,b",
        "changelog-producer.row-deduplicate-ignore-fields": "b,a",
        "partial-update.remove-record-on-sequence-group": "a",
        "file-index.bitmap.columns": "b, a[x], a[y.z]",
        "file-index.bitmap.a[x].version": "1",
        "file-index.bitmap.a.version": "2",
    }
    assert rename_in_options(others, "a", "aa") == {
        "clustering.columns": "aa,b",
        "changelog-producer.row-deduplicate-ignore-fields": "b,aa",
        "partial-update.remove-record-on-sequence-group": "aa",
        "file-index.bitmap.columns": "b,aa[x],aa[y.z]",
        "file-index.bitmap.aa[x].version": "1",
        "file-index.bitmap.aa.version": "2",
    }
    made = after(
        schema_of(**{"bucket-key": "k", "sequence.field": "a"}), RenameColumn("k", "kk"), RenameColumn("a", "aa")
    )
    assert (made.primary_keys, made.bucket_keys, made.table_options.sequence_fields) == (("p", "kk"), ("kk",), ("aa",))


def test_a_new_type_keeps_not_null():
    made = after(schema_of({"k": "INT NOT NULL", "a": "INT NOT NULL"}, ["k"], []), UpdateColumnType("a", "BIGINT"))

    assert column(made, "a")["type"] == "BIGINT NOT NULL"


def test_a_column_becomes_not_null_by_option_only():
    change = UpdateColumnNullability("a", nullable=False)
    allowed = SetOption("alter-column-null-to-not-null.disabled", "false")

    with pytest.raises(InvalidArgumentError, match=r"'alter-column-null-to-not-null.disabled' = 'false' first"):
        after(schema_of(), change)
    assert column(after(schema_of(), allowed, change), "a")["type"] == "INT NOT NULL"


def test_old_schemas_are_written_in_the_form_of_today():
    before = altered(schema_of(), [UpdateComment("x")], has_snapshots=False, time_ms=1)
    from dataclasses import replace

    assert after(replace(before, version=1), UpdateComment("y")).version == 3


REFUSED: list[tuple[Sequence[SchemaChange], type[PaimonError], str]] = [
    ([AddColumn("a", "INT")], InvalidArgumentError, "a column 'a' already"),
    ([AddColumn("n", "INT NOT NULL")], InvalidArgumentError, "'n' cannot be NOT NULL"),
    ([AddColumn("n", "INT", after="z")], InvalidArgumentError, "no column 'z'"),
    ([AddColumn("n", "INT", first=True, after="a")], InvalidArgumentError, "give one position"),
    ([AddColumn("n", "WIDE INT")], InvalidArgumentError, "not a Paimon type"),
    ([AddColumn("_KEY_n", "INT")], InvalidArgumentError, "reserved"),
    ([AddColumn("n", "DECIMAL(39, 0)")], InvalidArgumentError, "out of bounds"),
    ([AddColumn("r.x", "INT")], InvalidArgumentError, "a column 'r.x' already"),
    ([AddColumn("q.x", "INT")], InvalidArgumentError, "no column 'q'"),
    ([AddColumn("l.x.z", "INT")], InvalidArgumentError, "write element"),
    ([AddColumn("a.x", "INT")], InvalidArgumentError, "'a' of type INT has no such"),
    ([RenameColumn("z", "y")], InvalidArgumentError, "no column 'z'"),
    ([RenameColumn("a", "b")], InvalidArgumentError, "a column 'b' already"),
    ([RenameColumn("p", "q")], InvalidArgumentError, "'p' is a partition key, so it cannot be renamed"),
    ([RenameColumn("a", "rowkind")], InvalidArgumentError, "reserved"),
    ([DropColumn("z")], InvalidArgumentError, "no column 'z'"),
    ([DropColumn("k")], InvalidArgumentError, "'k' is part of the primary key, so it cannot be dropped"),
    ([DropColumn("p")], InvalidArgumentError, "'p' is a partition key, so it cannot be dropped"),
    ([DropColumn("r.y.z")], InvalidArgumentError, "the only field"),
    (
        [SetOption("fields.a.stats-mode", "none"), DropColumn("a")],
        InvalidArgumentError,
        "'fields.a.stats-mode': no column",
    ),
    (
        [SetOption("file-index.bitmap.columns", "k,a"), DropColumn("a")],
        InvalidArgumentError,
        "'file-index.bitmap.columns': no column 'a'",
    ),
    ([SetOption("file-index.bitmap.columns", "z")], InvalidArgumentError, "no column 'z'"),
    ([SetOption("file-index.bitmap.columns", "a[x]")], UnsupportedError, r"'a\[x\]' is not a map"),
    (
        [SetOption("file-index.bsi.columns", "a"), UpdateColumnType("a", "STRING")],
        UnsupportedError,
        "no such index of 'a', which is STRING",
    ),
    ([UpdateColumnType("k", "BIGINT")], InvalidArgumentError, "'k' is part of the primary key"),
    ([UpdateColumnType("p", "CHAR(1)")], InvalidArgumentError, "'p' is a partition key"),
    ([UpdateColumnType("a", "DATE")], InvalidArgumentError, "'a' cannot change from INT to DATE"),
    ([UpdateColumnType("r", "ROW<x INT>")], InvalidArgumentError, "by their paths"),
    ([UpdateColumnType("m.key", "INT")], InvalidArgumentError, "'m.key'"),
    (
        [SetOption("disable-explicit-type-casting", "true"), UpdateColumnType("a", "STRING")],
        InvalidArgumentError,
        "forbids",
    ),
    ([UpdateColumnNullability("k", nullable=True)], InvalidArgumentError, "'k' is part of the primary key"),
    ([UpdateColumnDefault("a", "many")], InvalidArgumentError, "the default value of column 'a'"),
    ([UpdateColumnDefault("a", "7"), UpdateColumnType("a", "BOOLEAN")], InvalidArgumentError, "default value"),
    ([UpdateColumnDefault("l", "[]")], UnsupportedError, "default values of nested columns"),
    ([MoveColumn("a", after="a")], InvalidArgumentError, "next to itself"),
    ([MoveColumn("a")], InvalidArgumentError, "say where to"),
    ([MoveColumn("z", first=True)], InvalidArgumentError, "no column 'z'"),
    ([SetOption("bucket", "-1")], InvalidArgumentError, "'bucket' cannot change from '2' to '-1'"),
    ([RemoveOption("bucket")], InvalidArgumentError, "'bucket' cannot be removed"),
    ([SetOption("deletion-vectors.enabled", "true")], UnsupportedError, "'deletion-vectors.modifiable' = 'true'"),
    ([SetOption("sequence.field", "z")], InvalidArgumentError, "cannot change once there is a snapshot"),
    ([SetOption("primary-key", "k")], InvalidArgumentError, "cannot change once there is a snapshot"),
    ([SetOption("snapshot.num-retained.min", "0")], InvalidArgumentError, "keep at least 1"),
]


@pytest.mark.parametrize(("changes", "kind", "message"), REFUSED)
def test_changes_that_are_refused_name_a_remedy(changes: Sequence[SchemaChange], kind: type[PaimonError], message: str):
    with pytest.raises(kind, match=message):
        after(schema_of(), *changes)


@pytest.mark.parametrize("key", sorted(FIXED_OPTIONS - {"primary-key", "partition", "path"}))
def test_options_of_stored_files_are_fixed_from_the_first_snapshot_on(key: str):
    # Of these, the columns of a new table depend on one alone.
    before = schema_of(**{key: "true" if key == "primary-key.nullable" else "k"})

    with pytest.raises(InvalidArgumentError, match=f"'{key}' says what the stored files mean"):
        after(before, SetOption(key, "b"))
    with pytest.raises(InvalidArgumentError, match=f"'{key}' says what the stored files mean"):
        after(before, RemoveOption(key))


def test_before_the_first_snapshot_keys_can_still_come_by_option():
    before = schema_of({"k": "INT", "v": "INT"}, [], [], **{"bucket-key": "k"})

    made = after(before, SetOption("primary-key", "k"), has_snapshots=False)

    assert (made.primary_keys, made.options, column(made, "k")["type"]) == (
        ("k",),
        {"bucket": "2", "bucket-key": "k"},
        "INT NOT NULL",
    )


def test_before_the_first_snapshot_keys_become_nullable_by_option_and_back():
    before = schema_of()
    made = after(before, SetOption("primary-key.nullable", "true"), has_snapshots=False)
    back = after(made, SetOption("primary-key.nullable", "false"), has_snapshots=False)

    kinds = [[one.row_type.field(name).type.nullable for name in one.primary_keys] for one in (before, made, back)]
    assert kinds == [[answer] * len(before.primary_keys) for answer in (False, True, False)]


@pytest.mark.parametrize(
    "change",
    [
        AddColumn("a", "INT"),
        AddColumn(("a.b", "c"), {"type": "ARRAY", "element": "INT"}, comment="x", before="b"),
        RenameColumn("a", "b"),
        DropColumn("a"),
        UpdateColumnType("a", "ARRAY<INT>"),
        UpdateColumnNullability("a", nullable=True),
        UpdateColumnComment("a", None),
        UpdateColumnDefault("a", "7"),
        MoveColumn("a", last=True),
        SetOption("a", "b"),
        RemoveOption("a"),
        UpdateComment("a"),
    ],
)
def test_a_change_survives_json(change: SchemaChange):
    assert change_from_json(change_to_json(change)) == change


def test_an_arrow_type_becomes_text_in_json():
    value = {"change": "add_column", "name": "a", "type": "DECIMAL(5, 2)"}

    assert change_to_json(AddColumn("a", pa.decimal128(5, 2))) == value


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"change": "add"},
        {"change": "add_column", "name": "a"},
        {"change": "drop_column", "name": "a", "if": 1},
        "a",
    ],
)
def test_json_that_is_no_change_says_what_there_is(value: Any):
    with pytest.raises(InvalidArgumentError, match="drop_column|takes name"):
        change_from_json(value)
    assert len(CHANGES) == 11


SWITCHES: Mapping[str, tuple[str, SchemaChange]] = {
    "disable-explicit-type-casting": ("TRUE", UpdateColumnType("a", "SMALLINT")),
    "alter-column-null-to-not-null.disabled": ("True", UpdateColumnNullability("a", nullable=False)),
}


@pytest.mark.parametrize("option", SWITCHES)
def test_switches_are_read_without_regard_to_capitals(option: str):
    on, change = SWITCHES[option]

    with pytest.raises(InvalidArgumentError, match=f"'{option}'"):
        after(schema_of(**{option: on}), change)
    after(schema_of(**{option: "False"}), change)


def test_the_place_of_a_new_column_is_read_without_regard_to_capitals():
    changed = after(schema_of(**{"add-column-before-partition": "TRUE"}), AddColumn("n", "INT"))

    assert changed.row_type.names[:3] == ("k", "n", "p")


def test_a_switch_with_another_text_is_refused_where_it_would_be_read():
    for option, change in (
        ("disable-explicit-type-casting", UpdateColumnType("a", "SMALLINT")),
        ("add-column-before-partition", AddColumn("n", "INT")),
    ):
        with pytest.raises(InvalidArgumentError, match=f"option '{option}' = 'maybe' is neither true nor false"):
            after(schema_of(**{option: "maybe"}), change)
