"""Clustering: the same rows, in files of which filters need few, and nothing lost that others do meanwhile."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from paimon_engine import Catalog, ConflictError, InvalidArgumentError, Table, UnsupportedError, open_table
from paimon_engine.action import Context
from paimon_engine.actions.cluster import ROUNDS_MAX, Cluster, ClusterResult, cluster
from paimon_engine.env import EnvConfig
from paimon_engine.executor import LocalExecutor
from paimon_engine.meta.snapshot import CommitKind
from paimon_engine.predicate import parse_where
from paimon_engine.table.check.table_check import check_table
from paimon_engine.table.files.sorting import sort_rows
from paimon_engine.table.read.scan import plan_splits
from paimon_engine.table.state.handle import load_table
from paimon_engine.table.state.manifests import live_entries, live_index_files
from paimon_engine.table.state.snapshots import latest_snapshot
from tests.support.oracle import JavaPaimon

ORDERS = ("order", "zorder", "hilbert")
SCHEMA = pa.schema(
    [
        pa.field("day", pa.string()),
        pa.field("a", pa.int32()),
        pa.field("b", pa.float64()),
        pa.field("s", pa.string()),
        pa.field("n", pa.int64(), nullable=False),
    ]
)
SMALL = {"target-file-size": "20 kb"}


def rows(seed: int, count: int = 4_000, days: str = "xy") -> pa.Table:
    chance = np.random.default_rng(seed)
    columns = {
        "day": chance.choice(list(days), count),
        "a": pa.array(chance.integers(0, 1000, count), pa.int32(), mask=chance.random(count) < 0.05),
        "b": pa.array(chance.normal(0, 100, count), mask=chance.random(count) < 0.05),
        "s": [f"https://one.example/{number:05}" for number in chance.integers(0, 99_999, count)],
        "n": chance.integers(0, 2**40, count),
    }
    return pa.table(columns, SCHEMA)


def make(warehouse: Path | str, writes: int = 3, **options: str) -> Table:
    table = Catalog(str(warehouse)).create_table(
        "db.t", schema=SCHEMA, partition_keys=["day"], options={"bucket": "-1", **SMALL, **options}
    )
    for seed in range(writes):
        table.write(rows(seed))
    return table


@pytest.fixture
def table() -> Table:
    return make(f"memory://{uuid.uuid4()}/lake")


def in_order(table: Table) -> list[str]:
    return sorted(map(repr, table.to_arrow().to_pylist()))


def files_read(table: Table, where: str) -> int:
    handle = handle_of(table)
    splits = plan_splits(handle, latest_snapshot(handle), parse_where(where))
    return sum(len(run) for split in splits for section in split.sections for run in section)


def handle_of(table: Table) -> Any:
    return load_table(table.path, EnvConfig(table.path))


def sound(table: Table) -> bool:
    return check_table(handle_of(table)) == []


class Meanwhile(LocalExecutor):
    """Lets others do something after the rows of a round were rewritten, and before they are committed."""

    def __init__(self, *others: Callable[[], Any]) -> None:
        super().__init__()
        self._others = list(others)

    def shuffle(self, *arguments: Any, **more: Any) -> Any:
        outcomes = super().shuffle(*arguments, **more)
        if self._others:
            self._others.pop(0)()
        return outcomes


def clustered(
    table: Table, executor: LocalExecutor, columns: tuple[str, ...] = ("a", "b"), **more: Any
) -> ClusterResult:
    user = more.pop("commit_user", None)
    return cluster(Context(handle_of(table), executor, commit_user=user), Cluster(columns, **more))


# ── what readers gain ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("order", ORDERS)
def test_filters_read_fewer_files_of_the_same_rows(tmp_path: Path, oracle: JavaPaimon, order: str):
    table = make(tmp_path, writes=2)
    table.write(rows(9, 24_000))
    before, in_java = in_order(table), sorted(oracle.read(table.path), key=repr)
    files = len(table.files())
    wanted = {"a = 700": 0.5, "a BETWEEN 100 AND 150 AND b BETWEEN 0 AND 20": 0.35}
    wanted |= {} if order == "order" else {"b > 200": 0.5}
    assert all(files_read(table, where) > 0.7 * files for where in wanted)

    result = table.cluster(["a", "b"], order=order, target_file_bytes=5_000, task_bytes=100_000)

    assert (result.status, result.order, result.columns) == ("committed", order, ("a", "b"))
    assert (result.rows_before, result.rows_after, len(result.partitions)) == (32_000, 32_000, 2)
    assert all(report.tasks > 1 for report in result.partitions)
    assert result.files_after == len(table.files())
    for where, share in wanted.items():
        assert files_read(table, where) < share * result.files_after, where
    assert in_order(table) == before
    assert sound(table)
    oracle.assert_sound(table.path)
    assert sorted(oracle.read(table.path), key=repr) == in_java


@pytest.mark.parametrize("order", ORDERS)
def test_rows_of_a_file_are_neighbours_on_the_curve(table: Table, order: str):
    table.cluster(["s"], order=order, task_bytes=100_000)

    values = table.to_arrow(where="day = 'x'")["s"].to_pylist()
    assert values == sorted(values)


def test_nulls_come_first(table: Table):
    table.cluster(["a"])

    values = table.to_arrow(where="day = 'x'")["a"].to_pylist()
    nulls = values.count(None)
    assert nulls
    assert values[:nulls] == [None] * nulls
    assert values[nulls:] == sorted(values[nulls:])


def test_columns_and_order_may_come_from_the_options_of_the_table():
    table = make(f"memory://{uuid.uuid4()}/lake", **{"clustering.columns": "a, b", "clustering.strategy": "hilbert"})

    result = table.cluster()

    assert (result.columns, result.order) == (("a", "b"), "hilbert")


@pytest.mark.parametrize(
    ("columns", "order"), [(("a",), "order"), (("a", "b"), "zorder"), (("a", "b", "s", "n"), "zorder")]
)
def test_the_default_order_depends_on_the_number_of_columns(table: Table, columns: tuple[str, ...], order: str):
    assert table.cluster(columns, dry_run=True).order == order


def test_new_files_have_the_requested_size(table: Table):
    small = table.cluster(["a"], target_file_bytes=10_000).files_after
    large = table.cluster(["a"], target_file_bytes=10_000_000).files_after

    assert small > 10
    assert large == 2
    assert "target-file-size" not in str(table.snapshots().to_pylist())
    assert open_table(table.path).schema.options["target-file-size"] == "20 kb"


# ── plans and limits ────────────────────────────────────────────────────────────────────────────


def test_a_dry_run_says_what_the_real_one_does_and_writes_nothing(table: Table):
    snapshots = len(table.snapshots())

    planned = table.cluster(["a"], dry_run=True, task_bytes=100_000)

    assert (planned.status, planned.snapshot_id) == ("dry_run", None)
    assert len(table.snapshots()) == snapshots
    done = table.cluster(["a"], task_bytes=100_000)
    for before, after in zip(planned.partitions, done.partitions, strict=True):
        assert (before.partition, before.files_before, before.bytes_before, before.tasks) == (
            (after.partition, after.files_before, after.bytes_before, after.tasks)
        )
        assert before.files_after == pytest.approx(after.files_after, rel=0.5)
    assert planned.files_after == sum(report.files_after or 0 for report in planned.partitions)


def test_partitions_that_a_limit_leaves_are_reported(table: Table):
    sizes = [report.bytes_before for report in table.cluster(["a"], dry_run=True).partitions]

    result = table.cluster(["a"], max_bytes=max(sizes))

    assert result.partitions_left == 1
    assert [report.is_left for report in result.partitions].count(True) == 1
    left = next(report for report in result.partitions if report.is_left)
    assert left.files_after is None
    assert "max_bytes" in (left.skipped or "")


def test_only_the_requested_partitions_change(table: Table):
    before = {file["file_path"] for file in table.files().to_pylist() if "y" in file["partition"]}

    result = table.cluster(["a"], where="day = 'x'")

    assert [report.partition for report in result.partitions] == [{"day": "x"}]
    assert before <= {file["file_path"] for file in table.files().to_pylist()}
    assert table.cluster(["a"], partition_idle_time="1 d").status == "noop"


def test_what_is_done_stays_done_and_a_repeated_job_continues_where_it_stopped(table: Table):
    done = clustered(table, LocalExecutor(), commit_user="job", round_bytes=1)
    again = clustered(table, LocalExecutor(), commit_user="job", round_bytes=1)

    assert (done.rounds, done.status, again.status) == (2, "committed", "already_done")
    assert again.snapshot_id == done.snapshot_id


def test_an_earlier_attempt_of_the_job_is_not_done_again(table: Table):
    class Stopped(Exception):
        pass

    def stop() -> None:
        raise Stopped

    with pytest.raises(Stopped):
        clustered(table, Meanwhile(lambda: None, stop), commit_user="job", round_bytes=1)

    result = clustered(table, LocalExecutor(), commit_user="job", round_bytes=1)

    assert sorted(report.skipped or "" for report in result.partitions) == [
        "",
        "an earlier attempt of the same job has clustered it",
    ]
    assert clustered(table, LocalExecutor(), commit_user="job").status == "already_done"


def test_a_partition_that_cannot_be_read_does_not_stop_the_others(tmp_path: Path):
    table = make(tmp_path)
    broken = next((Path(table.path) / "day=x" / "bucket-0").iterdir())
    broken.write_bytes(b"")

    result = table.cluster(["a"])

    assert result.status == "committed"
    assert len(result.failed) == 1
    assert [report.files_after is None for report in result.partitions] == [
        report.partition == {"day": "x"} for report in result.partitions
    ]
    broken.unlink()
    with pytest.raises(Exception, match=broken.name):
        table.cluster(["a"], where="day = 'x'")


# ── what others do meanwhile ────────────────────────────────────────────────────────────────────


def test_rows_that_others_insert_meanwhile_stay(table: Table):
    before = in_order(table)
    more = rows(99, 50)

    result = clustered(table, Meanwhile(lambda: open_table(table.path).write(more)))

    assert (result.status, result.conflicts, result.rounds) == ("committed", 0, 1)
    assert in_order(table) == sorted([*before, *map(repr, more.to_pylist())])
    assert sound(table)


def test_only_the_partition_whose_files_others_replaced_is_planned_again(table: Table):
    before = in_order(table)

    def others() -> None:
        open_table(table.path).cluster(["s"], where="day = 'x'")

    result = clustered(table, Meanwhile(others))

    assert (result.status, result.conflicts, result.rounds) == ("committed", 1, 2)
    assert all(report.files_after is not None for report in result.partitions)
    assert in_order(table) == before
    assert sound(table)


def test_writers_that_always_come_first_are_named(table: Table):
    def others() -> None:
        open_table(table.path).cluster(["s"])

    with pytest.raises(ConflictError, match=f"in {ROUNDS_MAX} rounds"):
        clustered(table, Meanwhile(*[others] * ROUNDS_MAX))
    assert sound(table)


@pytest.mark.parametrize("first", ["", "n < 1000000000"])
def test_rows_that_others_delete_meanwhile_stay_deleted(first: str):
    table = make(f"memory://{uuid.uuid4()}/lake", **{"deletion-vectors.enabled": "true"})
    if first:
        table.delete(first)

    def others() -> None:
        open_table(table.path).delete("a = 7 AND day = 'x'")

    result = clustered(table, Meanwhile(others))

    assert (result.status, result.conflicts) == ("committed", 1)
    assert table.to_arrow(where="a = 7 AND day = 'x'").num_rows == 0
    assert table.to_arrow(where="a = 7 AND day = 'y'").num_rows
    assert sound(table)


def test_deleted_rows_are_removed_with_their_vectors_in_the_same_commit(tmp_path: Path, oracle: JavaPaimon):
    table = make(tmp_path, **{"deletion-vectors.enabled": "true"})
    table.delete("a < 300")
    before = in_order(table)
    handle = handle_of(table)
    assert len(live_index_files(handle, latest_snapshot(handle))) == 2

    result = table.cluster(["a", "b"], where="day = 'x'")

    snapshot = latest_snapshot(handle)
    assert snapshot is not None
    assert snapshot.commit_kind is CommitKind.COMPACT
    assert result.rows_before > (result.rows_after or 0)
    assert [file.partition for file in live_index_files(handle, snapshot)] == [
        partition for partition in {entry.partition for entry in live_entries(handle, snapshot)} if b"y" in partition
    ]
    assert in_order(table) == before
    assert sound(table)
    oracle.assert_sound(table.path)
    assert len(oracle.read(table.path)) == len(before)
    table.delete("a > 0 OR a IS NULL OR a = 0")
    assert table.cluster(["a"]).rows_after == 0
    oracle.assert_sound(table.path)
    assert oracle.read(table.path) == []


# ── buckets ─────────────────────────────────────────────────────────────────────────────────────


def test_buckets_without_an_order_are_clustered_separately(tmp_path: Path, oracle: JavaPaimon):
    table = make(tmp_path, **{"bucket": "2", "bucket-key": "n", "bucket-append-ordered": "false"})
    before = in_order(table)
    wanted = "a BETWEEN 100 AND 130"
    files_before = files_read(table, wanted)

    result = table.cluster(["a"])

    assert [(report.partition["day"], report.bucket) for report in result.partitions].count(("x", 1)) == 1
    assert len(result.partitions) == 4
    assert files_read(table, wanted) < 0.6 * files_before
    assert in_order(table) == before
    assert sound(table)
    oracle.assert_sound(table.path)
    assert len(oracle.read(table.path)) == len(before)
    table.write(rows(5))
    oracle.assert_sound(table.path)


# ── what is refused ─────────────────────────────────────────────────────────────────────────────


def test_tables_whose_rows_have_an_order_are_refused_with_the_reason(tmp_path: Path):
    catalog = Catalog(str(tmp_path))
    keyed = catalog.create_table("db.k", schema=SCHEMA, primary_keys=["n"], options={"bucket": "1"})
    ordered = catalog.create_table("db.o", schema=SCHEMA, options={"bucket": "1", "bucket-key": "n"})

    with pytest.raises(UnsupportedError, match="sorted by that key"):
        keyed.cluster(["a"])
    with pytest.raises(UnsupportedError, match="'bucket-append-ordered' = 'false'"):
        ordered.cluster(["a"])


@pytest.mark.parametrize(
    ("columns", "more", "reason"),
    [
        ((), {}, "clustering.columns"),
        (("nowhere",), {}, "nowhere"),
        (("a", "a"), {}, "once"),
        (("day",), {}, "same in all rows of a partition"),
        (("a",), {"order": "spiral"}, "order, zorder, hilbert"),
        (("a",), {"max_bytes": 0}, "max_bytes=0"),
        (("a",), {"where": "a = 1"}, "partition columns only"),
    ],
)
def test_wrong_calls_are_refused(table: Table, columns: tuple[str, ...], more: dict[str, Any], reason: str):
    with pytest.raises(InvalidArgumentError, match=reason):
        table.cluster(columns, **more)


def test_columns_without_an_order_are_refused():
    schema = pa.schema([("a", pa.int64()), ("l", pa.list_(pa.int64()))])
    catalog = Catalog(f"memory://{uuid.uuid4()}/lake")
    table = catalog.create_table("db.t", schema=schema, options={"bucket": "-1"})

    with pytest.raises(UnsupportedError, match="'l'.*no order"):
        table.cluster(["l"])
    assert table.cluster(["a"]).status == "noop"


# ── sorting in bounded memory ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("memory_bytes", [1, 1_000, 30_000, 1 << 20])
@pytest.mark.parametrize("kind", ["int64", "binary"])
def test_rows_are_sorted_in_any_amount_of_memory(kind: str, memory_bytes: int):
    chance = random.Random(memory_bytes)
    values = [chance.choice([0, 7, chance.randint(-99, 99), chance.randint(-(2**40), 2**40)]) for _ in range(500)]
    places = pa.array(values) if kind == "int64" else pa.array([str(value).encode() for value in values])
    given = pa.table({"place": places, "row": range(500)})

    found = pa.Table.from_batches(sort_rows(given.to_batches(max_chunksize=40), "place", memory_bytes), given.schema)

    assert found["place"].to_pylist() == sorted(places.to_pylist())
    assert sorted(found["row"].to_pylist()) == [*range(500)]
    assert all(places[row] == place for row, place in zip(found["row"].to_pylist(), found["place"], strict=True))


def test_no_rows_are_sorted_too():
    assert list(sort_rows([], "place", 1)) == []
