"""Dynamic buckets with several writers: the rows of a dict, and every key in one bucket of its partition.

A writer is interrupted between reading the index and committing: its rows come from a generator that lets other
writers begin and end before it continues. So the order of all steps is fixed, and every race happens on purpose.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, ConflictError, Table
from paimon_engine.actions.write import write_arrow, write_frame
from paimon_engine.executor import LocalExecutor
from paimon_engine.meta.snapshot import CommitKind
from paimon_engine.table.commit.commit import CommitRequest, Committed, Conflict, commit
from paimon_engine.table.state.handle import load_table
from paimon_engine.table.state.manifests import live_index_files
from paimon_engine.table.state.snapshots import latest_snapshot
from paimon_engine.table.write.writer import write_batches, write_state
from tests.support.key_places import assert_each_key_in_one_bucket, handle_of, stored_keys

SCHEMA = pa.schema(
    [pa.field("p", pa.int32(), nullable=False), pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64())]
)


def new_table(**options: Any) -> Table:
    texts = {"bucket": "-1", "dynamic-bucket.target-row-num": "2", **options}
    catalog = Catalog(f"memory://dynamic/{uuid.uuid4()}", executor=LocalExecutor(1))
    return catalog.create_table("db.t", schema=SCHEMA, primary_keys=["p", "k"], partition_keys=["p"], options=texts)


def batch(*rows: tuple[int, int, int]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    return pa.record_batch([list(column) for column in columns], schema=SCHEMA)


def put(table: Table, *rows: tuple[int, int, int], during: Callable[[], object] = lambda: None, **how: Any) -> Any:
    """Writes rows; `during` runs when the index has been read, before anything is committed."""

    def batches() -> Iterator[pa.RecordBatch]:
        yield batch(*rows)
        during()

    options = how.pop("options", {})
    return write_arrow(load_table(table.path, handle_of(table).config, options=options), batches(), **how)


def rows_of(table: Table) -> list[tuple[int, int, int]]:
    return sorted(tuple(row.values()) for row in table.to_arrow().to_pylist())


def bucket_of(table: Table, p: int, k: int) -> int:
    found = {
        bucket
        for partition, bucket, keys in stored_keys(handle_of(table))
        if partition[-8:-4] == p.to_bytes(4, "little") and k in keys["k"].to_pylist()
    }
    (bucket,) = found
    return bucket


# ── one writer ──────────────────────────────────────────────────────────────────────────────────


def test_buckets_fill_up_one_after_another_and_keys_stay_where_they_are():
    table = new_table()
    put(table, (1, 10, 0), (1, 11, 0), (1, 12, 0), (2, 10, 0))
    put(table, (1, 12, 1), (1, 13, 1), (1, 14, 1), (1, 10, 1))

    assert [bucket_of(table, 1, k) for k in (10, 11, 12, 13, 14)] == [0, 0, 1, 1, 2]
    assert rows_of(table) == [(1, 10, 1), (1, 11, 0), (1, 12, 1), (1, 13, 1), (1, 14, 1), (2, 10, 0)]
    assert_each_key_in_one_bucket(table)


def test_a_write_without_new_keys_leaves_the_index_manifest():
    table = new_table()
    put(table, (1, 10, 0), (1, 11, 0))
    before = latest_snapshot(handle_of(table)).index_manifest

    put(table, (1, 11, 1))

    assert latest_snapshot(handle_of(table)).index_manifest == before


def test_compaction_keeps_the_index_and_a_deleted_key_returns_to_its_bucket():
    table = new_table()
    put(table, (1, 10, 0), (1, 11, 0), (1, 12, 0))
    bucket = bucket_of(table, 1, 12)
    table.write(pa.Table.from_batches([batch((1, 12, 1))]), row_kinds=["-D"])
    table.compact(full=True)
    assert rows_of(table) == [(1, 10, 0), (1, 11, 0)]

    put(table, (1, 13, 2), (1, 12, 2))

    assert bucket_of(table, 1, 12) == bucket
    assert_each_key_in_one_bucket(table)


def test_an_overwrite_begins_the_index_of_its_partitions_anew():
    table = new_table()
    put(table, (1, 10, 0), (1, 11, 0), (1, 12, 0), (2, 20, 0), (2, 21, 0))
    put(table, (1, 12, 1), overwrite={})

    assert bucket_of(table, 1, 12) == 0
    assert rows_of(table) == [(1, 12, 1), (2, 20, 0), (2, 21, 0)]
    assert sum(file.row_count for file in live_index_files(handle_of(table), latest_snapshot(handle_of(table)))) == 3
    assert_each_key_in_one_bucket(table)


def test_there_are_no_more_buckets_than_allowed():
    table = new_table(**{"dynamic-bucket.max-buckets": "2"})
    put(table, *((1, k, 0) for k in range(20)))

    assert {bucket for _, bucket, _ in stored_keys(handle_of(table))} == {0, 1}
    assert_each_key_in_one_bucket(table)


def test_expiry_deletes_the_index_files_that_were_replaced():
    table = new_table()
    for k in range(4):
        put(table, (1, k, k))
    table.expire_snapshots(retain_max=1, retain_min=1)

    handle = handle_of(table)
    live = {file.name for file in live_index_files(handle, latest_snapshot(handle))}
    stored = {info.path.rpartition("/")[2] for info in handle.env.storage.list(f"{handle.paths.root}/index")}
    assert stored == live
    assert_each_key_in_one_bucket(table)


# ── several writers ─────────────────────────────────────────────────────────────────────────────


def test_keys_that_come_in_at_the_same_time_share_a_bucket_when_they_do_not_differ_about_one():
    table = new_table()
    put(table, (1, 10, 0), during=lambda: put(table, (1, 11, 1), (1, 12, 1)))

    assert rows_of(table) == [(1, 10, 0), (1, 11, 1), (1, 12, 1)]
    # Both began bucket 0: it holds one key more than its target, and the file of one writer is merged away.
    assert [bucket_of(table, 1, k) for k in (10, 11, 12)] == [0, 0, 0]
    handle = handle_of(table)
    assert len(list(handle.env.storage.list(f"{handle.paths.root}/index"))) == 2
    assert_each_key_in_one_bucket(table)


def test_a_key_that_others_have_put_elsewhere_follows_them():
    table = new_table(**{"dynamic-bucket.target-row-num": "1"})
    put(table, (1, 12, 0), (1, 10, 0), (2, 5, 0), during=lambda: put(table, (1, 10, 1), (1, 11, 1), (1, 12, 1)))

    assert [bucket_of(table, 1, k) for k in (10, 11, 12)] == [0, 1, 2]
    assert bucket_of(table, 2, 5) == 0
    assert rows_of(table) == [(1, 10, 0), (1, 11, 1), (1, 12, 0), (2, 5, 0)]
    assert_each_key_in_one_bucket(table)


def test_rows_that_are_placed_anew_keep_their_changelog():
    table = new_table(**{"dynamic-bucket.target-row-num": "1", "changelog-producer": "input"})
    rows = [(1, 12, 0), (1, 10, 0), (1, 12, 5)]
    put(table, *rows, during=lambda: put(table, (1, 10, 1), (1, 12, 1)))

    changes = table.to_arrow(incremental=(1, 2), options={"incremental-between-scan-mode": "changelog"})
    assert [bucket_of(table, 1, k) for k in (10, 12)] == [0, 1]
    assert sorted(tuple(row.values()) for row in changes.to_pylist()) == sorted(rows)
    assert_each_key_in_one_bucket(table)


def test_known_keys_follow_an_overwrite_that_moved_them():
    table = new_table(**{"dynamic-bucket.target-row-num": "1"})
    put(table, (1, 10, 0), (1, 11, 0))
    # The interrupted write has no new key at all.
    put(table, (1, 10, 2), during=lambda: put(table, (1, 11, 1), (1, 10, 1), overwrite={}))

    assert [bucket_of(table, 1, k) for k in (10, 11)] == [1, 0]
    assert rows_of(table) == [(1, 10, 2), (1, 11, 1)]
    assert_each_key_in_one_bucket(table)


def test_an_index_file_that_expired_meanwhile_is_a_conflict_that_solves_itself():
    table = new_table()
    put(table, (1, 10, 0))

    def others() -> None:
        put(table, (1, 11, 1))
        put(table, (1, 12, 1))
        table.expire_snapshots(retain_max=1, retain_min=1)

    put(table, (1, 13, 2), during=others)

    assert rows_of(table) == [(1, 10, 0), (1, 11, 1), (1, 12, 1), (1, 13, 2)]
    assert_each_key_in_one_bucket(table)


def test_a_write_that_always_fails_says_so_and_leaves_no_file():
    table = new_table(**{"dynamic-bucket.target-row-num": "1", "commit.max-retries": "0"})
    free = {"commit.max-retries": "10"}
    with pytest.raises(ConflictError, match="another bucket"):
        put(table, (1, 12, 0), (1, 10, 0), during=lambda: put(table, (1, 10, 1), (1, 12, 1), options=free))

    handle = handle_of(table)
    live = {file.name for file in live_index_files(handle, latest_snapshot(handle))}
    assert {info.path.rpartition("/")[2] for info in handle.env.storage.list(f"{handle.paths.root}/index")} == live
    assert rows_of(table) == [(1, 10, 1), (1, 12, 1)]


def test_messages_that_were_prepared_elsewhere_conflict_over_the_index_files_that_they_replace():
    table = new_table()
    handle = handle_of(table)
    stale = write_batches(handle, write_state(handle), [batch((1, 10, 0))])
    put(table, (1, 11, 1))

    outcome = commit(handle, CommitRequest(stale, CommitKind.APPEND, "elsewhere"))

    assert isinstance(outcome, Conflict)
    fresh = write_batches(handle, write_state(handle), [batch((1, 10, 0))])
    assert all(type(message).from_json(message.to_json()) == message for message in fresh)
    assert isinstance(commit(handle, CommitRequest(fresh, CommitKind.APPEND, "elsewhere")), Committed)
    assert_each_key_in_one_bucket(table)


@dataclass
class Step:
    """A write, and the steps that others take while it runs."""

    rows: list[tuple[int, int, int]]
    overwrite: bool
    target: int
    compacts: bool
    during: list[Step] = field(default_factory=list)


def random_step(random: Random, depth: int) -> Step:
    rows = [(random.randrange(2), k, random.randrange(10**6)) for k in random.sample(range(12), random.randint(1, 6))]
    during = [random_step(random, depth - 1) for _ in range(random.randint(1, 2) if depth else 0)]
    return Step(rows, random.random() < 0.1, random.randint(1, 3), random.random() < 0.2, during)


Values = dict[tuple[int, int], set[int]]


def take(table: Table, step: Step, model: Values) -> set[tuple[int, int]]:
    """Takes a step; the keys that it and the steps in it have written. `model` holds what each key may be."""
    meanwhile: set[tuple[int, int]] = set()

    def others() -> None:
        for inner in step.during:
            meanwhile.update(take(table, inner, model))

    overwrite = {} if step.overwrite else None
    options = {"dynamic-bucket.target-row-num": str(step.target)}
    put(table, *step.rows, during=others, overwrite=overwrite, options=options)
    if step.overwrite:
        gone = {p for p, _, _ in step.rows}
        for key in [key for key in model if key[0] in gone]:
            del model[key]
    ours = {(p, k): v for p, k, v in step.rows}
    for key, v in ours.items():
        # Sequence numbers of concurrent writers overlap: either may be the newer one.
        model[key] = {v} | (model.get(key, set()) if key in meanwhile else set())
    if step.compacts:
        table.compact(full=True)
    return meanwhile | ours.keys()


@pytest.mark.parametrize("seed", range(12))
def test_random_concurrent_writers_leave_the_rows_of_a_dict(seed: int):
    random = Random(seed)
    table, model = new_table(**random.choice([{}, {"dynamic-bucket.max-buckets": "3"}])), {}
    for _ in range(2):
        take(table, random_step(random, 2), model)

        assert_each_key_in_one_bucket(table)
        found = {(p, k): v for p, k, v in rows_of(table)}
        assert found.keys() == model.keys()
        assert all(v in model[key] for key, v in found.items())


# ── tasks ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("initial", [None, "1", "3"])
def test_shuffled_rows_of_a_key_reach_one_assigner(initial: str | None, tmp_path: Any):
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "10"}
    if initial is not None:
        options["dynamic-bucket.initial-buckets"] = initial
    executor = LocalExecutor(4)
    catalog = Catalog(str(tmp_path), executor=executor)
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["p", "k"], partition_keys=["p"], options=options)
    expected = {}
    for number in range(3):
        rows = [(k % 3, k // 2, number) for k in range(number * 40, number * 40 + 120)]
        expected |= {(p, k): (p, k, v) for p, k, v in rows}
        write_frame(handle_of(table), pa.Table.from_batches([batch(*rows)]), executor)

    assert rows_of(table) == sorted(expected.values())
    assert_each_key_in_one_bucket(table)
