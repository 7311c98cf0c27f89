"""Options given as Python values, and numbers that are too low: refused by name when stored, harmless where stored."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from paimon_engine import (
    AddColumn,
    Catalog,
    DropColumn,
    InvalidArgumentError,
    PaimonError,
    SetOption,
    Table,
    UnsupportedError,
    open_table,
)
from paimon_engine.errors import PaimonWarning
from tests.support.stored_options import with_stored_options

SCHEMA = pa.schema([pa.field("k", pa.int32(), nullable=False), pa.field("v", pa.int32())])


def created(folder: Path, options: dict[Any, Any], name: str = "db.t", *, keyed: bool = True) -> Table:
    given = {"bucket": "1", **options} if keyed else options
    return Catalog(str(folder)).create_table(name, schema=SCHEMA, primary_keys=["k"] if keyed else None, options=given)


def write(table: Table, k: int = 1) -> None:
    table.write(pa.table({"k": [k], "v": [1]}, schema=SCHEMA))


def test_values_with_a_text_of_their_own_are_stored(tmp_path: Path):
    options = {"num-levels": 3, "ignore-delete": True, "compaction.small-file-ratio": 0.5}
    as_numpy = {"num-levels": np.int32(3), "ignore-delete": np.True_, "compaction.small-file-ratio": Decimal("0.5")}
    expected = {"bucket": "1", "num-levels": "3", "ignore-delete": "true", "compaction.small-file-ratio": "0.5"}

    assert created(tmp_path, options).schema.options == expected
    table = created(tmp_path, as_numpy, "db.u")
    assert table.schema.options == expected
    write(table)
    assert table.to_arrow(options={"scan.snapshot-id": np.int64(1)}).num_rows == 1
    assert table.to_arrow(options={"scan.timestamp": datetime(2999, 1, 1)}).num_rows == 1


@pytest.mark.parametrize(
    "options",
    [
        {"partition.timestamp-formatter": "yyyyMMdd[HH]"},
        {"partition.expiration-strategy": "custom"},
        {"tag.automatic-creation": "process-time", "tag.creation-period": "hourly", "tag.creation-delay": "2 h"},
        {"sink.watermark-time-zone": "CST"},
        {"metadata.stats-mode.per.level": "0:foo"},
        {"file-index.bloom-filter.columns": "v", "file-index.bloom-filter.v.items": "-1"},
    ],
    ids=str,
)
def test_odd_options_of_other_engines_do_not_keep_a_table_from_changing(tmp_path: Path, options: dict[str, str]):
    table = with_stored_options(created(tmp_path, {}), options)

    table.alter([AddColumn("c", "INT")])

    assert open_table(table.path).schema.options.items() >= options.items()
    with pytest.raises((InvalidArgumentError, UnsupportedError)):
        created(tmp_path, options, "db.new")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({5: "x"}, "5 is not the name of an option"),
        ({" ": "x"}, "' ' is not the name of an option"),
        ({"file.compression": None}, "'file.compression' = None: leave it out for its default"),
        ({"file.compression": ["zstd"]}, r"'file.compression' = \['zstd'\]: write a text, a number or a boolean"),
        ({"file.compression": b"zstd"}, "write a text, a number or a boolean"),
    ],
    ids=str,
)
def test_other_values_are_refused_wherever_options_are_given(tmp_path: Path, options: dict[Any, Any], message: str):
    with pytest.raises(InvalidArgumentError, match=message):
        created(tmp_path, options)
    table = created(tmp_path, {})
    for opened in (
        lambda: Catalog(str(tmp_path)).table("db.t", options),
        lambda: open_table(table.path, options=options),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            opened()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("target-file-size", "0"),
        ("snapshot.expire.limit", "0"),
        ("snapshot.expire.limit", "-1"),
        ("tag.num-retained-max", "0"),
        ("tag.num-retained-max", "-1"),
    ],
)
def test_a_number_that_is_too_low_is_not_stored(tmp_path: Path, name: str, text: str):
    message = f"option '{name}' = '{text}': it must be at least 1"
    with pytest.raises(InvalidArgumentError, match=message):
        created(tmp_path, {name: text})
    table = created(tmp_path, {})
    with pytest.raises(InvalidArgumentError, match=message):
        table.alter([SetOption(name, text)])


def test_a_target_size_of_nothing_does_not_stop_writes_and_compactions(tmp_path: Path):
    for keyed in (True, False):
        table = with_stored_options(created(tmp_path, {}, f"db.t{keyed}", keyed=keyed), {"target-file-size": "0 b"})
        for number in range(3):
            write(table, number)
        table.compact(full=True)

        assert table.to_arrow().num_rows == 3


@pytest.mark.parametrize("limit", ["0", "-1"])
def test_an_expiry_says_that_its_limit_lets_nothing_expire(tmp_path: Path, limit: str):
    options = {"snapshot.time-retained": "0 ms", "snapshot.num-retained.min": "1"}
    table = with_stored_options(created(tmp_path, options), {"snapshot.expire.limit": limit})
    for _ in range(3):
        write(table)

    done = table.expire_snapshots()

    assert (done.status, table.snapshots().num_rows) == ("noop", 3)
    assert done.stopped == (
        f"'snapshot.expire.limit' = '{limit}' lets no snapshot expire; set a positive number, or give 'limit'",
    )
    assert table.expire_snapshots(limit=1).status == "expired"


@pytest.mark.parametrize("most", ["0", "-1"])
def test_automatic_tags_stay_where_the_table_says_to_keep_none(tmp_path: Path, most: str):
    options = {"tag.automatic-creation": "process-time", "sink.process-time-zone": "UTC"}
    table = with_stored_options(created(tmp_path, options), {"tag.num-retained-max": most})
    write(table)

    done = table.create_due_tags()

    assert (len(done.created), done.deleted_tags) == (1, ())
    what = f"'tag.num-retained-max' = '{most}' would delete every automatic tag"
    assert done.skipped == (f"no tag is deleted: {what}; set a positive number, or remove the option",)
    assert table.tags().num_rows == 1


def test_a_compaction_without_a_level_for_its_files_is_refused(tmp_path: Path):
    table = created(tmp_path, {})
    write(table, 1)
    write(table, 2)
    opened = open_table(table.path, options={"num-levels": "1"})

    assert opened.to_arrow().num_rows == 2
    for full in (True, False):
        with pytest.raises(InvalidArgumentError, match="'num-levels' = '1' leaves no level for compacted files"):
            opened.compact(full=full)


def test_a_partition_is_not_marked_in_no_way_at_all(tmp_path: Path):
    table = Catalog(str(tmp_path)).create_table(
        "db.p",
        schema={"k": "INT", "p": "STRING"},
        partition_keys=["p"],
        options={"partition.mark-done-action": " ,"},
    )
    with pytest.raises(InvalidArgumentError, match="'partition.mark-done-action' = ' ,' names no way to mark"):
        table.mark_partition_done({"p": "a"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"file.compression": "foo"}, "^'file.compression' = 'foo': parquet files take"),
        ({"parquet.compression": "foo"}, "^'parquet.compression' = 'foo': parquet files take"),
        ({"file.format": "orc", "orc.compress": "foo"}, "^'orc.compress' = 'foo': orc files take"),
        ({"file.format": "avro", "avro.codec": "foo"}, "^'avro.codec' = 'foo': avro files take"),
        ({"file.compression.per.level": "0:lz4,5:foo"}, "^'file.compression.per.level' = 'foo': parquet files take"),
        ({"changelog-file.compression": "foo"}, "^'changelog-file.compression' = 'foo': parquet files take"),
        ({"file.format": "csv"}, "^writing this table is not supported yet: 'file.format' = 'csv'$"),
        ({"file.format.per.level": "5:csv"}, "^writing .*: 'file.format.per.level' = '5:csv'$"),
        ({"changelog-file.format": "csv"}, "^writing .*: 'changelog-file.format' = 'csv'$"),
        ({"type": "foo"}, "^writing this table is not supported yet: 'type' = 'foo'$"),
        ({"blob-descriptor-field": "v"}, "^writing this table is not supported yet: 'blob-descriptor-field'$"),
    ],
    ids=str,
)
def test_an_error_names_the_option_that_is_wrong(tmp_path: Path, options: dict[str, str], message: str):
    with pytest.raises(PaimonError, match=message):
        created(tmp_path, options)


def test_indexes_without_a_kind_are_a_misspelt_name(tmp_path: Path):
    with pytest.warns(PaimonWarning, match="option 'file-index.columns' is unknown, so it has no effect"):
        write(created(tmp_path, {"file-index.columns": "v"}))


@pytest.mark.parametrize("options", [{"sequence.field": "v"}, {"fields.v.stats-mode": "none"}])
def test_dropping_a_column_that_an_option_names_says_what_to_do(tmp_path: Path, options: dict[str, str]):
    schema = {"k": "INT NOT NULL", "v": "INT"}
    table = Catalog(str(tmp_path)).create_table(
        "db.t", schema=schema, primary_keys=["k"], options={"bucket": "1", **options}
    )
    with pytest.raises(InvalidArgumentError, match="no column 'v'; .*name one of them in the option, or remove the"):
        table.alter([DropColumn("v")])
