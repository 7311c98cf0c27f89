"""`data-file.path-directory`: partitions and buckets in a directory of their own, as later releases of Java have it."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_engine import Catalog, InvalidArgumentError, Table, open_table
from tests.support.canonical import assert_same_rows
from tests.support.newest import NewestPaimon

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("p", pa.string(), nullable=False)])
OPTIONS = {"bucket": "1", "snapshot.num-retained.min": "1", "data-file.path-directory": "data/files"}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Catalog(str(tmp_path)).create_table(
        "db.t", schema=SCHEMA, primary_keys=["k", "p"], partition_keys=["p"], options=OPTIONS
    )
    made.write(pa.table({"k": [1, 2], "p": ["a", "b"]}, SCHEMA))
    made.write(pa.table({"k": [3], "p": ["a"]}, SCHEMA))
    return made


def files(table: Table) -> set[str]:
    found = (
        os.path.relpath(os.path.join(where, name), table.path)
        for where, _, names in os.walk(table.path)
        for name in names
    )
    return {path for path in found if "bucket-" in path}


def test_data_files_are_written_and_found_below_that_directory(table: Table) -> None:
    assert {path.rpartition("/")[0] for path in files(table)} == {"data/files/p=a/bucket-0", "data/files/p=b/bucket-0"}
    assert sorted(table.to_arrow()["k"].to_pylist()) == [1, 2, 3]
    assert table.verify("rows").status == "sound"


def test_clean_up_knows_the_directory(table: Table) -> None:
    orphan = Path(table.path, "data/files/p=a/bucket-0/data-dead-0.parquet")
    orphan.write_bytes(b"dead")
    os.utime(orphan, (1, 1))

    assert [item.path for item in table.remove_orphan_files().deleted] == [str(orphan)]
    table.compact(full=True)
    table.drop_partition({"p": "b"})
    table.expire_snapshots(retain_max=1)

    assert len(files(table)) == 1
    assert table.verify("rows").status == "sound"
    assert table.to_arrow()["k"].to_pylist() == [1, 3]


def test_the_newest_java_reads_and_writes_the_same_files(table: Table, newest: NewestPaimon) -> None:
    assert_same_rows(newest.read(table.path), table.to_arrow())

    newest.write(table.path, rows_of=table.path, compact=True)

    assert_same_rows(open_table(table.path).to_arrow(), newest.read(table.path))
    assert table.verify("rows").status == "sound"


@pytest.mark.parametrize("where", ["../other", "/tmp", "a/../../b", "s3://bucket/x", "a\0b"])
def test_a_directory_elsewhere_is_refused(tmp_path: Path, where: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"data-file\.path-directory"):
        Catalog(str(tmp_path)).create_table("db.t", schema=SCHEMA, options={"data-file.path-directory": where})
