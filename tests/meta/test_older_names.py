"""Older names of options: each means what its newest name means, wherever options are given."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from paimon_engine import (
    Catalog,
    InvalidArgumentError,
    RemoveOption,
    RenameColumn,
    SetOption,
    Table,
    UnsupportedError,
)
from paimon_engine.meta.schema_difference import differences
from paimon_engine.options import TableOptions
from paimon_engine.options.known import KNOWN_OPTIONS
from paimon_engine.options.names import is_known
from paimon_engine.options.older_names import OLDER_NAMES, with_newest_names

SCHEMA = pa.schema([pa.field("k", pa.int32(), nullable=False), pa.field("v", pa.int32())])
IGNORE_DELETE = [name for name, newest in OLDER_NAMES.items() if newest == "ignore-delete"]


def with_options(folder: Path, options: dict[str, str]) -> Table:
    return Catalog(str(folder)).create_table(
        "db.t", schema=SCHEMA, primary_keys=["k"], options={"bucket": "1", **options}
    )


def write(table: Table, v: int, kind: str = "+I") -> None:
    table.write(pa.table({"k": [1], "v": [v]}, schema=SCHEMA), row_kinds=[kind])


def opened(folder: Path, options: dict[str, str]) -> Table:
    return Catalog(str(folder)).table("db.t", options)


def test_each_older_name_is_known_and_its_newest_name_is_an_option():
    assert [name for name in OLDER_NAMES if not is_known(name)] == []
    assert set(OLDER_NAMES.values()) <= KNOWN_OPTIONS
    assert not OLDER_NAMES.keys() & OLDER_NAMES.values()


def test_the_newest_name_wins_and_then_the_first_of_the_older_ones():
    first, second, third = IGNORE_DELETE

    assert with_newest_names({third: "c", second: "b", first: "a"}) == {"ignore-delete": "a"}
    assert with_newest_names({third: "c", "ignore-delete": "own", "x": "y"}) == {"ignore-delete": "own", "x": "y"}
    assert TableOptions({"write.compaction-skip": "true"}).raw == {"write-only": "true"}


def test_time_travel_by_older_names_reads_the_rows_of_then(tmp_path: Path):
    table = with_options(tmp_path, {})
    write(table, 1)
    first = table.snapshots()["commit_time"].to_pylist()[0]
    write(table, 2)
    then = {"log.scan.timestamp-millis": str(int(first.timestamp() * 1000))}

    assert opened(tmp_path, then).to_arrow()["v"].to_pylist() == [1]
    assert table.to_arrow(options=then)["v"].to_pylist() == [1]
    assert opened(tmp_path, {"log.scan": "from-snapshot", "scan.snapshot-id": "1"}).to_arrow()["v"].to_pylist() == [1]
    for options in ({"log.scan": "nonsense"}, {"log.scan": "from-timestamp"}):
        with pytest.raises(InvalidArgumentError, match=r"'scan\.mode'"):
            opened(tmp_path, options).to_arrow()
        with pytest.raises(InvalidArgumentError, match=r"'scan\.mode'"):
            table.to_arrow(options=options)


@pytest.mark.parametrize("name", IGNORE_DELETE)
def test_what_files_mean_cannot_be_changed_by_an_older_name(tmp_path: Path, name: str):
    table = with_options(tmp_path, {})
    write(table, 1)

    with pytest.raises(InvalidArgumentError, match=f"'{name}', an older name of 'ignore-delete', = 'true' cannot be"):
        opened(tmp_path, {name: "true"})
    with pytest.raises(InvalidArgumentError, match=f"'{name}', an older name of 'ignore-delete', says what the stored"):
        table.alter([SetOption(name, "true")])
    write(opened(tmp_path, {}), 1, "-D")
    assert table.to_arrow().num_rows == 0


@pytest.mark.parametrize("name", IGNORE_DELETE)
def test_what_an_older_name_says_can_be_said_by_the_newest_one(tmp_path: Path, name: str):
    table = with_options(tmp_path, {name: "true"})
    write(table, 1)
    write(opened(tmp_path, {"ignore-delete": "true"}), 1, "-D")

    assert table.to_arrow().num_rows == 1
    with pytest.raises(InvalidArgumentError, match="says what the stored files mean"):
        table.alter([RemoveOption(name)])
    table.alter([SetOption("ignore-delete", "true"), RemoveOption(name)])
    write(opened(tmp_path, {}), 1, "-D")
    assert table.to_arrow().num_rows == 1


def test_an_older_name_that_the_newest_one_overrules_is_refused(tmp_path: Path):
    both = {"write.compaction-skip": "true", "write-only": "false"}
    with pytest.raises(
        InvalidArgumentError, match=r"'write\.compaction-skip' = 'true' is an older name of 'write-only'"
    ):
        with_options(tmp_path, both)
    table = with_options(tmp_path, {"write-only": "false", "write.compaction-skip": "false"})
    with pytest.raises(InvalidArgumentError, match="set 'write-only' alone"):
        table.alter([SetOption("write.compaction-skip", "true")])


def test_empty_directories_are_removed_by_the_older_name_too(tmp_path: Path):
    schema = {"p": "STRING NOT NULL", "k": "INT NOT NULL"}
    table = Catalog(str(tmp_path)).create_table(
        "db.p",
        schema=schema,
        partition_keys=["p"],
        options={"snapshot.expire.clean-empty-directories": "true"},
    )
    for partition in ("a", "b"):
        table.write(pa.table({"p": [partition], "k": pa.array([1], pa.int32())}))
    table.drop_partition({"p": "a"})
    table.expire_snapshots(retain_max=1)

    assert sorted(path.name for path in (tmp_path / "db.db" / "p").glob("p=*")) == ["p=b"]


def test_clustering_by_older_names(tmp_path: Path):
    catalog = Catalog(str(tmp_path))
    given = {"sink.clustering.by-columns": "v"}
    table = catalog.create_table("db.c", schema=SCHEMA, options=given)
    table.write(pa.table({"k": [1, 2, 3], "v": [3, 2, 1]}, schema=SCHEMA))

    assert table.cluster().status == "committed"
    assert table.to_arrow()["v"].to_pylist() == [1, 2, 3]
    table.alter([RenameColumn("v", "w")])
    assert table.cluster(order="order").status == "committed"
    with pytest.raises(InvalidArgumentError, match=r"'clustering\.strategy' = 'nonsense'; choose one of"):
        catalog.create_table("db.d", schema=SCHEMA, options={**given, "sink.clustering.strategy": "nonsense"})
    ordered = {**given, "bucket": "1", "pk-clustering-override": "true", "deletion-vectors.enabled": "true"}
    catalog.create_table("db.e", schema=SCHEMA, primary_keys=["k"], options=ordered)


def test_columns_with_descriptors_are_refused_by_either_name(tmp_path: Path):
    options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    for name in ("blob-descriptor-field", "blob.stored-descriptor-fields"):
        with pytest.raises(UnsupportedError, match="'blob-descriptor-field'"):
            Catalog(str(tmp_path)).create_table(
                "db.b", schema={"k": "INT", "b": "BLOB"}, options={**options, name: "b"}
            )


def test_a_table_is_the_wanted_one_if_its_options_mean_the_same(tmp_path: Path):
    found = with_options(tmp_path, {"deduplicate.ignore-delete": "true"}).schema
    wanted = with_options(tmp_path / "other", {"ignore-delete": "true"}).schema

    assert differences(wanted, found) == []
    other = with_options(tmp_path / "third", {"first-row.ignore-delete": "false"}).schema
    assert differences(other, found) == ["option ignore-delete is true, not false"]
