"""Deleting rows of append tables by deletion vectors: the right rows, once, without a rewrite; as Java reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, InvalidArgumentError, LocalExecutor, Table, UnsupportedError, col
from paimon_engine.executor import Executor
from paimon_engine.table.check.table_check import check_table
from tests.support.oracle import JavaPaimon

SCHEMA = pa.schema([("day", pa.string()), ("n", pa.int64()), ("x", pa.float64())])
VECTORS = {"deletion-vectors.enabled": "true"}


def make(warehouse: Path, executor: Executor | None = None, **options: str) -> Table:
    given = {**VECTORS, **{name.replace("_", "-"): value for name, value in options.items()}}
    table = Catalog(str(warehouse), executor=executor).create_table(
        "db.t", schema=SCHEMA, partition_keys=["day"], options=given, if_not_exists=True
    )
    for first in (0, 100):
        numbers = range(first, first + 100)
        days = ["a" if number % 2 else "b" for number in numbers]
        table.write(
            pa.table({"day": days, "n": numbers, "x": [None if n % 10 == 0 else n / 2 for n in numbers]}, SCHEMA)
        )
    return table


def numbers(table: Table) -> list[int]:
    return sorted(table.to_arrow(["n"])["n"].to_pylist())


@pytest.mark.parametrize(
    ("where", "gone"),
    [
        ("n = 7", {7}),
        ("day = 'a' AND n < 10", {1, 3, 5, 7, 9}),
        ("x IS NULL", set(range(0, 200, 10))),
        (col("n") >= 150, set(range(150, 200))),
        ("day = 'b'", set(range(0, 200, 2))),
    ],
)
def test_the_rows_that_match_are_deleted(tmp_path: Path, oracle: JavaPaimon, where: Any, gone: set[int]):
    table = make(tmp_path)
    files = sorted(table.files()["file_path"].to_pylist())

    result = table.delete(where)

    assert (result.status, result.rows) == ("committed", len(gone))
    assert numbers(table) == [number for number in range(200) if number not in gone]
    assert sorted(table.files()["file_path"].to_pylist()) == files, "no data file is rewritten"
    assert sorted(row[1] for row in oracle.read(table.path)) == numbers(table)
    oracle.assert_sound(table.path)
    assert check_table(table._handle) == []


def test_deletes_add_up_and_compaction_takes_the_rows_out(tmp_path: Path, oracle: JavaPaimon):
    table = make(tmp_path)
    assert table.delete("n < 50").rows == 50

    result = table.delete("n < 60")

    assert result.rows == 10, "rows that are gone already do not count"
    table.compact(full=True)
    assert sum(table.files()["record_count"].to_pylist()) == 140
    assert not list(Path(table.path, "index").glob("*")) or table.delete("n < 60").status == "noop"
    assert sorted(row[1] for row in oracle.read(table.path)) == list(range(60, 200))


def test_a_delete_is_repeated_without_harm(tmp_path: Path):
    table = make(tmp_path)
    first = table.delete("n < 5", commit_user="job")

    again = table.delete("n < 5", commit_user="job")

    assert (again.status, again.snapshot_id) == ("already_done", first.snapshot_id)


def test_nothing_to_delete_makes_no_snapshot(tmp_path: Path):
    table = make(tmp_path)
    before = table.latest_snapshot_id()

    assert table.delete("n = 1000").status == "noop"
    assert table.latest_snapshot_id() == before


class Interfering(LocalExecutor):
    """Compacts the table, or the partitions that `where` chooses, while the first delete is under way."""

    table: Table | None = None
    where: str | None = None

    def map(self, run: Any, tasks: Any, **others: Any) -> list[Any]:
        outcomes = super().map(run, tasks, **others)
        if self.table is not None and others.get("on_done") is None:
            table, self.table = self.table, None
            table.compact(full=True, where=self.where)
        return outcomes


def test_a_compaction_in_between_makes_the_bucket_be_done_again(tmp_path: Path, oracle: JavaPaimon):
    executor = Interfering()
    table = make(tmp_path, executor)
    table.delete("n = 1 OR n = 2")
    executor.table = Catalog(str(tmp_path)).table("db.t")

    result = table.delete("n < 10")

    assert result.conflicts > 0
    assert numbers(table) == list(range(10, 200))
    assert sorted(row[1] for row in oracle.read(table.path)) == list(range(10, 200))
    assert check_table(table._handle) == []


def test_a_delete_is_one_commit_although_one_partition_conflicts(tmp_path: Path):
    executor = Interfering()
    table = make(tmp_path, executor)
    executor.table, executor.where = Catalog(str(tmp_path)).table("db.t"), "day = 'a'"

    result = table.delete("n < 10", commit_user="job")

    users = table.snapshots()["commit_user"].to_pylist()
    assert (users.count("job"), result.rows, result.conflicts) == (1, 10, 1)
    assert numbers(table) == list(range(10, 200))


# ── what a compaction makes of it ───────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("threshold", "share", "rewritten"), [(None, 50, False), (None, 51, True), ("0.2", 30, True)])
@pytest.mark.parametrize("buckets", [{"bucket": "-1"}, {"bucket": "1", "bucket-key": "n"}])
def test_a_compaction_rewrites_files_of_which_a_large_share_is_deleted(
    tmp_path: Path, oracle: JavaPaimon, buckets: dict[str, str], threshold: str | None, share: int, *, rewritten: bool
):
    limit = {} if threshold is None else {"compaction.delete-ratio-threshold": threshold}
    options = {**VECTORS, **buckets, **limit}
    table = Catalog(str(tmp_path)).create_table("db.t", schema=pa.schema([("n", pa.int64())]), options=options)
    table.write(pa.table({"n": range(100)}))
    table.write(pa.table({"n": range(100, 200)}))
    before = table.files()["file_path"].to_pylist()
    table.delete(f"n < {share}")

    result = table.compact()

    after = table.files()
    assert result.status == ("committed" if rewritten else "noop")
    assert sorted(after["record_count"].to_pylist()) == ([100 - share, 100] if rewritten else [100, 100])
    assert before[1] in after["file_path"].to_pylist()
    assert numbers(table) == list(range(share, 200))
    assert sorted(row[0] for row in oracle.read(table.path)) == list(range(share, 200))
    oracle.assert_sound(table.path)
    assert check_table(table._handle) == []
    table.delete("n < 100")
    table.compact()
    assert table.files()["file_path"].to_pylist() == before[1:], "nothing is left of the first file"
    oracle.assert_sound(table.path)


@pytest.mark.parametrize(("share", "rewritten"), [(50, False), (51, True)])
def test_rows_that_java_deleted_count_although_it_did_not_say_how_many(
    tmp_path: Path, oracle: JavaPaimon, share: int, *, rewritten: bool
):
    table = Catalog(str(tmp_path)).create_table("db.t", schema=pa.schema([("n", pa.int64())]), options=VECTORS)
    table.write(pa.table({"n": range(100)}))
    (path,) = table.files()["file_path"].to_pylist()
    oracle.call("delete_positions", table=table.path, positions={path.rpartition("/")[2]: [*range(share)]})

    result = table.compact()

    assert result.status == ("committed" if rewritten else "noop")
    assert numbers(table) == list(range(share, 100))
    assert [row[0] for row in oracle.read(table.path)] == list(range(share, 100))
    oracle.assert_sound(table.path)


def test_tables_that_cannot_are_refused_with_a_remedy(tmp_path: Path):
    catalog = Catalog(str(tmp_path))
    plain = catalog.create_table("db.plain", schema=SCHEMA)
    keyed_schema = pa.schema([pa.field("k", pa.int64(), nullable=False)])
    keyed = catalog.create_table("db.keyed", schema=keyed_schema, primary_keys=["k"], options={"bucket": "1"})

    with pytest.raises(UnsupportedError, match="deletion-vectors.enabled"):
        plain.delete("n = 1")
    with pytest.raises(UnsupportedError, match="row_kinds"):
        keyed.delete("k = 1")
    with pytest.raises(InvalidArgumentError, match="nowhere"):
        make(tmp_path).delete("nowhere = 1")
