"""Merging a branch: both sides' changes are there afterwards, or an error names what both have changed."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, SetOption, Table
from paimon_engine.errors import ConflictError, InvalidArgumentError, NotFoundError, StorageError
from paimon_engine.format.bucket_hash import buckets
from paimon_engine.meta.manifest import FileKind
from paimon_engine.meta.snapshot import CommitKind
from paimon_engine.table.branches_tags.merges import store_marker
from paimon_engine.table.check.table_check import check_table
from paimon_engine.table.commit.commit import commit
from paimon_engine.table.state.manifests import live_entries, read_manifest, snapshot_manifests
from paimon_engine.table.state.snapshots import latest_snapshot
from paimon_engine.types import AtomicType, TypeRoot
from tests.support.oracle import JavaPaimon

SCHEMA = pa.schema(
    [
        pa.field("p", pa.int32(), nullable=False),
        pa.field("k", pa.int64(), nullable=False),
        pa.field("v", pa.string()),
    ]
)


class Pair:
    """A table and a branch of it, made from its tag `fork` after one commit of the keys 1 and 2."""

    def __init__(self, root: Path, keys: tuple[str, ...] = (), partitions: tuple[str, ...] = (), **options: Any):
        found = {"bucket": -1, **options}
        self.catalog = Catalog(str(root / "lake"))
        self.main = self.catalog.create_table(
            "db.t", schema=SCHEMA, primary_keys=list(keys), partition_keys=list(partitions), options=found
        )
        self.write(1, 2)
        self.main.create_tag("fork")
        self.main.create_branch("dev", tag="fork")

    @property
    def dev(self) -> Table:
        return self.catalog.table("db.t$branch_dev")

    def write(self, *keys: int, to: str = "main", value: str = "old", partition: int = 0) -> None:
        rows = pa.table({"p": [partition] * len(keys), "k": list(keys), "v": [value] * len(keys)}, SCHEMA)
        (self.dev if to == "dev" else self.main).write(rows)

    def keys(self, table: Table | None = None) -> list[int]:
        return sorted((table or self.main).to_arrow(["k"])["k"].to_pylist())

    def values(self) -> dict[int, str]:
        return {row["k"]: row["v"] for row in self.main.to_arrow().to_pylist()}

    def assert_sound(self) -> None:
        assert check_table(self.main._handle, footers=False) == []


def test_appends_of_both_sides_come_together_and_once(tmp_path: Path, oracle: JavaPaimon) -> None:
    pair = Pair(tmp_path)
    pair.write(3, to="dev")
    pair.write(4, to="dev")
    pair.write(5)

    planned = pair.main.merge_branch("dev", dry_run=True)
    assert pair.keys() == [1, 2, 5]
    done = pair.main.merge_branch("dev")

    assert (planned.status, done.status) == ("dry_run", "committed")
    assert (planned.files_added, planned.conflicts) == (done.files_added, ()) == (2, ())
    assert (done.base_snapshot, done.merged_snapshot, done.rows_added) == (1, 3, 2)
    assert pair.keys() == [1, 2, 3, 4, 5]
    assert pair.main.merge_branch("dev").status == "noop"
    latest = latest_snapshot(pair.main._handle)
    assert latest is not None
    assert latest.commit_kind is CommitKind.APPEND
    pair.assert_sound()
    assert sorted(row[1] for row in oracle.read(pair.main.path)) == [1, 2, 3, 4, 5]
    oracle.assert_sound(pair.main.path)


def test_a_branch_that_continues_is_merged_again_from_where_it_was(tmp_path: Path) -> None:
    pair = Pair(tmp_path, **{"snapshot.num-retained.min": 1})
    pair.write(3, to="dev")
    pair.main.merge_branch("dev")
    pair.main.compact(full=True)  # the files that were merged are others by now
    pair.write(4, to="dev")
    pair.main.expire_snapshots(retain_max=1)

    done = pair.main.merge_branch("dev")

    assert (done.base_snapshot, done.rows_added) == (2, 1)
    assert pair.keys() == [1, 2, 3, 4]
    pair.assert_sound()


def test_a_lost_marker_does_not_merge_twice(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.write(3, to="dev")
    pair.main.merge_branch("dev")
    Path(pair.main.path, "MERGED-dev").unlink()
    pair.main.compact(full=True)

    assert pair.main.merge_branch("dev").status == "noop"
    assert pair.keys() == [1, 2, 3]


@pytest.mark.parametrize("compacts", [False, True])
def test_a_keyed_table_takes_over_buckets_that_only_the_branch_changed(
    tmp_path: Path, compacts: bool, oracle: JavaPaimon
) -> None:
    pair = Pair(tmp_path, ("p", "k"), ("p",), bucket=1)
    pair.write(2, 3, to="dev", value="new")
    pair.write(1, value="elsewhere", partition=7)
    if compacts:
        pair.dev.compact(full=True)

    done = pair.main.merge_branch("dev")

    assert done.files_removed == (1 if compacts else 0)
    assert sorted((row[0], row[1], row[2]) for row in oracle.read(pair.main.path)) == [
        (0, 1, "old"),
        (0, 2, "new"),
        (0, 3, "new"),
        (7, 1, "elsewhere"),
    ]
    assert pair.main.to_arrow().num_rows == 4
    pair.assert_sound()
    pair.write(3, value="newest")
    assert pair.main.to_arrow(where="p = 0 AND k = 3")["v"].to_pylist() == ["newest"]


def test_a_bucket_that_both_changed_is_named_and_nothing_happens(tmp_path: Path) -> None:
    pair = Pair(tmp_path, ("k",), bucket=1)
    pair.write(2, to="dev", value="theirs")
    pair.write(2, value="ours")

    planned = pair.main.merge_branch("dev", dry_run=True)
    with pytest.raises(ConflictError, match="both have changed bucket 0 since snapshot 1 of the branch"):
        pair.main.merge_branch("dev")

    assert planned.conflicts == ("both have changed bucket 0 since snapshot 1 of the branch",)
    assert pair.values() == {1: "old", 2: "ours"}


@pytest.mark.parametrize("keys", [("k",), ()], ids=["keyed", "append"])
def test_files_with_another_number_of_buckets_are_a_conflict_until_they_have_the_same(
    keys: tuple[str, ...], tmp_path: Path
) -> None:
    pair = Pair(tmp_path, keys, bucket=4, **({} if keys else {"bucket-key": "k"}))
    filled = {0, *pair.main.files()["bucket"].to_pylist()}
    free = next(key for key in range(3, 99) if bucket_of_key(key, 4) not in filled)
    pair.write(free, to="dev", value="theirs")
    pair.main.alter([SetOption("bucket", "1")])
    pair.main.rescale()

    with pytest.raises(ConflictError, match="rows have 1 buckets in 'main', and 4 in the branch; rescale 'main' to 4"):
        pair.main.merge_branch("dev")
    assert pair.keys() == [1, 2]
    pair.assert_sound()

    pair.main.alter([SetOption("bucket", "4")])
    pair.main.rescale()
    pair.main.merge_branch("dev")
    assert pair.keys() == [1, 2, free]
    pair.assert_sound()


def test_files_that_came_by_a_fast_forward_are_not_added_again(tmp_path: Path) -> None:
    catalog = Catalog(str(tmp_path / "lake"))
    main = catalog.create_table("db.t", schema=SCHEMA, options={"bucket": -1})
    main.create_branch("dev")
    dev = catalog.table("db.t$branch_dev")
    dev.write(pa.table({"p": [0], "k": [1], "v": ["a"]}, SCHEMA))
    dev.analyze()
    main.merge_branch("dev")
    main.create_branch("other", snapshot=1)
    main.fast_forward("dev")

    with pytest.raises(ConflictError, match="is in 'main' already, although no snapshot in common has it"):
        main.merge_branch("other")

    assert main.to_arrow().num_rows == 1
    assert check_table(main._handle, footers=False) == []


def bucket_of_key(key: int, count: int) -> int:
    return int(buckets([pa.array([key], pa.int64())], [AtomicType(TypeRoot.BIGINT)], count)[0])


def test_dynamic_buckets_conflict_by_partition(tmp_path: Path) -> None:
    pair = Pair(tmp_path, ("p", "k"), ("p",), bucket=-1)
    pair.write(3, to="dev", partition=1)
    pair.write(9)
    assert pair.main.merge_branch("dev").rows_added == 1
    pair.write(3, value="again", partition=1)
    assert pair.main.to_arrow(where="p = 1")["v"].to_pylist() == ["again"]

    pair.write(4, to="dev", partition=1)
    with pytest.raises(ConflictError, match=r"all buckets of partition \{'p': 1\}"):
        pair.main.merge_branch("dev")


def test_keys_that_are_unique_over_partitions_conflict_anywhere(tmp_path: Path) -> None:
    pair = Pair(tmp_path, ("k",), ("p",), bucket=-1)
    pair.write(3, to="dev", partition=1)
    pair.write(9, partition=2)

    with pytest.raises(ConflictError, match="unique over all partitions"):
        pair.main.merge_branch("dev")


def test_deletions_of_the_branch_come_along(tmp_path: Path, oracle: JavaPaimon) -> None:
    pair = Pair(tmp_path, **{"deletion-vectors.enabled": "true"})
    pair.dev.delete("k = 1")

    pair.main.merge_branch("dev")

    assert pair.keys() == [2]
    assert [row[1] for row in oracle.read(pair.main.path)] == [2]
    pair.assert_sound()


def test_an_overwrite_and_a_compaction_of_the_same_files_conflict(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.write(3)
    pair.dev.write(pa.table({"p": [0], "k": [7], "v": ["x"]}, SCHEMA), overwrite={})
    with pytest.raises(ConflictError, match="both have changed"):
        pair.main.merge_branch("dev")

    other = Pair(tmp_path / "other")
    other.dev.write(pa.table({"p": [0], "k": [7], "v": ["x"]}, SCHEMA), overwrite={})
    other.main.merge_branch("dev")
    assert other.keys() == [7]


def test_changelogs_of_the_branch_are_read_from_the_table(tmp_path: Path) -> None:
    pair = Pair(tmp_path, ("k",), bucket=1, **{"changelog-producer": "input"})
    pair.write(2, to="dev", value="a")
    pair.write(2, to="dev", value="b")

    done = pair.main.merge_branch("dev")

    assert done.snapshot_id is not None
    changes = pair.main.to_arrow(incremental=(done.snapshot_id - 1, done.snapshot_id))
    assert "b" in changes["v"].to_pylist()
    pair.assert_sound()


def test_a_writer_in_between_makes_the_merge_plan_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from paimon_engine.actions import merge_branch as module

    pair = Pair(tmp_path, ("k",), bucket=1)
    pair.write(2, to="dev", value="theirs")
    waiting = [lambda: pair.write(2, value="ours")]

    def with_a_writer_before(*arguments: Any) -> Any:
        while waiting:
            waiting.pop()()
        return commit(*arguments)

    monkeypatch.setattr(module, "commit", with_a_writer_before)

    with pytest.raises(ConflictError, match="both have changed bucket 0"):
        pair.main.merge_branch("dev")
    assert pair.values()[2] == "ours"


def test_a_repeated_job_merges_once(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.write(3, to="dev")
    first = pair.main.merge_branch("dev", commit_user="me")
    pair.write(4, to="dev")

    again = pair.main.merge_branch("dev", commit_user="me")

    assert (again.status, again.snapshot_id) == ("already_done", first.snapshot_id)
    assert pair.keys() == [1, 2, 3]


def test_an_empty_branch_with_a_history_of_its_own_is_merged_completely(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.main.create_branch("own")
    own = pair.catalog.table("db.t$branch_own")
    assert pair.main.merge_branch("own").status == "noop"
    own.write(pa.table({"p": [0], "k": [7], "v": ["x"]}, SCHEMA))

    done = pair.main.merge_branch("own")

    assert (done.base_snapshot, done.rows_added) == (None, 1)
    assert pair.keys() == [1, 2, 7]


def test_main_can_be_merged_into_a_branch(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.write(3, to="dev")
    pair.write(4)

    pair.dev.merge_branch("main")

    assert pair.keys(pair.dev) == [1, 2, 3, 4]
    assert pair.keys() == [1, 2, 4]


def test_the_common_past_is_not_guessed(tmp_path: Path) -> None:
    pair = Pair(tmp_path, **{"snapshot.num-retained.min": 1})
    pair.write(3, to="dev")
    pair.write(4)
    pair.main.expire_snapshots(retain_max=1)
    Path(pair.main.path, "tag", "tag-fork").unlink()

    with pytest.raises(InvalidArgumentError, match="no snapshot or tag in common"):
        pair.main.merge_branch("dev")


def test_schemas_that_changed_in_different_ways_are_refused(tmp_path: Path) -> None:
    from paimon_engine import AddColumn

    pair = Pair(tmp_path)
    pair.dev.alter([AddColumn("extra", "INT")])
    pair.write(3)

    with pytest.raises(InvalidArgumentError, match="other columns"):
        pair.main.merge_branch("dev")
    with pytest.raises(InvalidArgumentError, match="into itself"):
        pair.main.merge_branch("main")
    with pytest.raises(NotFoundError, match="no branch 'other'"):
        pair.main.merge_branch("other")


@pytest.mark.parametrize("compacted", ["main", "dev"])
def test_what_both_have_merged_does_not_come_twice(compacted: str, tmp_path: Path) -> None:
    """The rows of main are in a compacted file of one of both, which nothing tells from others."""
    pair = Pair(tmp_path)
    pair.write(3)
    assert pair.dev.merge_branch("main").status == "committed"
    pair.write(4, to="dev")
    pair.write(5)
    (pair.main if compacted == "main" else pair.dev).compact(full=True)

    with pytest.raises(ConflictError, match="'main' was merged into branch 'dev' since"):
        pair.main.merge_branch("dev")

    assert pair.keys() == [1, 2, 3, 5]
    assert pair.keys(pair.dev) == [1, 2, 3, 4]


def test_what_came_over_a_third_branch_does_not_come_twice(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.main.create_branch("test", tag="fork")
    test = pair.catalog.table("db.t$branch_test")
    pair.write(3, to="dev")
    test.merge_branch("dev")
    pair.main.merge_branch("dev")
    pair.main.compact(full=True)

    with pytest.raises(ConflictError, match="'dev' was merged into branch 'test' since"):
        pair.main.merge_branch("test")

    assert pair.keys() == [1, 2, 3]


def test_a_branch_that_only_the_other_one_has_merged_comes_along(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.main.create_branch("test", tag="fork")
    pair.write(3, to="dev")
    pair.catalog.table("db.t$branch_test").merge_branch("dev")

    assert pair.main.merge_branch("test").status == "committed"

    assert pair.keys() == [1, 2, 3]


def test_a_branch_that_was_merged_and_deleted_comes_along(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.main.create_branch("test", tag="fork")
    test = pair.catalog.table("db.t$branch_test")
    pair.write(3, to="dev")
    test.merge_branch("dev")
    pair.main.delete_branch("dev")

    assert pair.main.merge_branch("test").status == "committed"

    assert pair.keys() == [1, 2, 3]


@pytest.mark.parametrize("between", [False, True])
@pytest.mark.parametrize("expired", [False, True])
def test_what_came_from_a_branch_that_is_gone_does_not_come_twice(between: bool, expired: bool, tmp_path: Path) -> None:
    """Also if it came to one of both over another branch, which is gone, too."""
    pair = Pair(tmp_path)
    for name in ("test", "third"):
        pair.main.create_branch(name, tag="fork")
    test, third = (pair.catalog.table(f"db.t$branch_{name}") for name in ("test", "third"))
    pair.write(3, to="dev")
    pair.main.merge_branch("dev")
    if between:
        third.merge_branch("dev")
    pair.main.delete_branch("dev")
    if between:
        test.merge_branch("third")
        pair.main.delete_branch("third")
    else:
        pair.main.create_branch("dev", tag="fork")
    pair.write(4)
    for table in (pair.main, test):
        table.compact(full=True)
        if expired:
            table.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
    expected = "'dev' was merged into branch 'test' since" if between else None

    if expected is None:
        assert pair.main.merge_branch("test").status == "noop"
    else:
        with pytest.raises(ConflictError, match=expected):
            pair.main.merge_branch("test")

    assert pair.keys() == [1, 2, 3, 4]


@pytest.mark.parametrize("by_test", [False, True])
def test_a_branch_with_another_name_is_not_merged_twice(by_test: bool, tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.main.create_branch("test", tag="fork")
    pair.write(3, to="dev")
    pair.main.merge_branch("dev")
    pair.main.compact(full=True)
    pair.main.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
    pair.main.rename_branch("dev", "new")
    pair.catalog.table("db.t$branch_new").write(pa.table({"p": [0], "k": [4], "v": ["a"]}, SCHEMA))

    if by_test:
        pair.catalog.table("db.t$branch_test").merge_branch("new")
        with pytest.raises(ConflictError, match="'new' was merged into branch 'test' since"):
            pair.main.merge_branch("test")
        assert pair.keys() == [1, 2, 3]
    else:
        assert pair.main.merge_branch("new").rows_added == 1
        assert pair.keys() == [1, 2, 3, 4]


def test_what_came_over_another_branch_is_not_merged_again(tmp_path: Path) -> None:
    """Only what the branch has changed since comes, though it was never merged by itself."""
    pair = Pair(tmp_path)
    pair.main.create_branch("test", tag="fork")
    test = pair.catalog.table("db.t$branch_test")
    pair.write(3, to="dev")
    test.merge_branch("dev")
    pair.main.merge_branch("test")
    pair.main.compact(full=True)
    pair.write(4, to="dev")

    assert pair.main.merge_branch("dev").rows_added == 1

    assert pair.keys() == [1, 2, 3, 4]


def test_a_branch_that_goes_on_comes_over_another_one_again(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.main.create_branch("test", tag="fork")
    test = pair.catalog.table("db.t$branch_test")
    for key in (3, 4):
        pair.write(key, to="dev")
        test.merge_branch("dev")
        pair.main.merge_branch("test")
        pair.main.compact(full=True)

    assert pair.keys() == [1, 2, 3, 4]


def test_what_is_merged_during_a_merge_does_not_count_as_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = Pair(tmp_path)
    pair.main.create_branch("test", tag="fork")
    test = pair.catalog.table("db.t$branch_test")
    pair.write(3, to="dev")
    test.write(pa.table({"p": [0], "k": [4], "v": ["a"]}, SCHEMA))
    module = import_module("paimon_engine.actions.merge_branch")

    def dev_first(*arguments: Any, **more: Any) -> Any:
        monkeypatch.undo()
        test.merge_branch("dev")
        return commit(*arguments, **more)

    monkeypatch.setattr(module, "commit", dev_first)
    pair.main.merge_branch("test")
    assert pair.keys() == [1, 2, 4]

    pair.main.merge_branch("dev")

    assert pair.keys() == [1, 2, 3, 4]


def test_a_fast_forward_brings_what_was_merged_into_the_branch(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.main.create_branch("test", tag="fork")
    test = pair.catalog.table("db.t$branch_test")
    pair.write(3, to="dev")
    test.merge_branch("dev")
    test.compact(full=True)
    pair.main.fast_forward("test")
    main = pair.catalog.table("db.t")
    main.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")

    assert main.merge_branch("dev").status == "noop"

    assert pair.keys(main) == [1, 2, 3]


def test_a_repeated_job_notes_what_it_has_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It died behind its commit, whose property goes with the snapshot."""
    pair = Pair(tmp_path)
    pair.write(3, to="dev")
    module = import_module("paimon_engine.actions.merge_branch")

    def died(*arguments: Any, **more: Any) -> None:
        raise StorageError("no connection")

    with monkeypatch.context() as patch, pytest.raises(StorageError):
        patch.setattr(module, "store_marker", died)
        pair.main.merge_branch("dev", commit_user="job")
    assert pair.keys() == [1, 2, 3]
    pair.write(4, to="dev")

    assert pair.main.merge_branch("dev", commit_user="job").status == "already_done"

    pair.main.compact(full=True)
    pair.main.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
    assert pair.main.merge_branch("dev").rows_added == 1
    assert pair.keys() == [1, 2, 3, 4]


def test_what_is_written_after_a_rollback_during_a_merge_does_not_count_as_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = Pair(tmp_path)
    for key in (3, 4):
        pair.write(key, to="dev")
    module = import_module("paimon_engine.actions.merge_branch")

    def rolled_back_first(*arguments: Any, **more: Any) -> None:
        pair.dev.rollback(snapshot=1)
        pair.write(5, to="dev")
        store_marker(*arguments, **more)

    with monkeypatch.context() as patch:
        patch.setattr(module, "store_marker", rolled_back_first)
        pair.main.merge_branch("dev")
    assert pair.keys() == [1, 2, 3, 4]

    pair.main.merge_branch("dev")

    assert pair.keys() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("into", ["main", "dev"])
def test_what_a_fast_forward_left_behind_is_not_taken_for_merged(into: str, tmp_path: Path) -> None:
    """Main keeps a snapshot from which the one of the branch was not made, as that branch's own had expired."""
    pair = Pair(tmp_path)
    pair.write(3)
    pair.main.create_tag("second")
    pair.main.create_branch("test", tag="second")
    pair.write(4, to="dev")
    pair.write(5, to="dev")
    pair.dev.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
    pair.main.fast_forward("dev")
    table = pair.catalog.table("db.t") if into == "main" else pair.dev
    assert pair.keys(pair.catalog.table("db.t")) == [1, 2, 4, 5]
    assert pair.catalog.table("db.t").snapshots()["snapshot_id"].to_pylist() == [1, 2, 3]

    with pytest.raises(InvalidArgumentError, match="no snapshot or tag in common"):
        table.merge_branch("test")

    assert pair.keys(table) == [1, 2, 4, 5]


def test_a_merge_of_a_deleted_branch_stands_in_the_way_of_none(tmp_path: Path) -> None:
    """A branch of the same name is another one, whose merge begins where it does."""
    pair = Pair(tmp_path)
    pair.write(3, to="dev")
    pair.main.merge_branch("dev")
    pair.main.delete_branch("dev")
    pair.main.create_branch("dev", tag="fork")
    pair.write(4, to="dev")

    assert pair.main.merge_branch("dev").status == "committed"

    assert pair.keys() == [1, 2, 3, 4]


def test_a_merge_that_was_rolled_back_is_made_again(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.write(3, to="dev")
    pair.main.merge_branch("dev")
    pair.main.rollback(tag="fork")
    assert pair.keys() == [1, 2]
    pair.write(4)

    assert pair.main.merge_branch("dev").status == "committed"

    assert pair.keys() == [1, 2, 3, 4]
    pair.assert_sound()


def test_a_merge_that_was_rolled_back_is_made_again_though_its_number_has_expired(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.write(3, to="dev")
    pair.main.merge_branch("dev")
    pair.main.rollback(tag="fork")
    for key in (4, 5):
        pair.write(key)
    pair.main.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")

    assert pair.main.merge_branch("dev").status == "committed"

    assert pair.keys() == [1, 2, 3, 4, 5]


def test_of_two_merges_only_the_one_that_was_rolled_back_is_made_again(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.write(3, to="dev")
    pair.main.merge_branch("dev")
    pair.main.compact(full=True)
    pair.main.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
    pair.main.create_tag("first")
    pair.write(4, to="dev")
    pair.main.merge_branch("dev")
    pair.main.rollback(tag="first")
    assert pair.keys() == [1, 2, 3]

    assert pair.main.merge_branch("dev").rows_added == 1

    assert pair.keys() == [1, 2, 3, 4]


def test_a_merge_that_a_fast_forward_removed_is_made_again(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.main.create_branch("test", tag="fork")
    pair.write(3, to="dev")
    pair.main.merge_branch("dev")
    pair.write(6)
    pair.main.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
    for key in (4, 5):
        pair.catalog.table("db.t$branch_test").write(pa.table({"p": [0], "k": [key], "v": ["a"]}, SCHEMA))
    pair.main.fast_forward("test")
    main = pair.catalog.table("db.t")
    main.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
    assert pair.keys(main) == [1, 2, 4, 5]

    assert main.merge_branch("dev").rows_added == 1

    assert pair.keys(main) == [1, 2, 3, 4, 5]


def test_a_merge_that_a_fast_forward_left_behind_is_made_again_and_noted_once(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.main.create_branch("test", tag="fork")
    test = pair.catalog.table("db.t$branch_test")
    pair.write(3, to="dev")
    pair.main.merge_branch("dev")
    for key in (4, 5):
        test.write(pa.table({"p": [0], "k": [key], "v": ["a"]}, SCHEMA))
    test.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
    pair.main.fast_forward("test")
    main = pair.catalog.table("db.t")
    assert main.snapshots()["snapshot_id"].to_pylist() == [1, 2, 3]

    assert main.merge_branch("dev").rows_added == 1

    assert pair.keys(main) == [1, 2, 3, 4, 5]
    records = json.loads(Path(main.path, "MERGED-dev").read_text())["records"]
    assert [record["into"]["snapshot"] for record in records] == [4]


def test_what_a_fast_forward_left_behind_is_known_until_it_is_rolled_back(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.write(3)
    pair.main.create_tag("second")
    pair.main.create_branch("test", tag="second")
    for key in (4, 5):
        pair.write(key, to="dev")
    pair.dev.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
    pair.main.fast_forward("dev")
    main = pair.catalog.table("db.t")
    main.rollback(tag="second")
    assert pair.keys(main) == [1, 2, 3]
    pair.catalog.table("db.t$branch_test").write(pa.table({"p": [0], "k": [6], "v": ["a"]}, SCHEMA))
    for key in (7, 8):
        pair.write(key)

    assert main.merge_branch("test").rows_added == 1

    assert pair.keys(main) == [1, 2, 3, 6, 7, 8]


def test_files_of_a_branch_that_went_back_are_removed_by_no_manifest(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.write(3, to="dev")
    pair.dev.create_tag("full")
    pair.dev.write(pa.table({"p": [0], "k": [4], "v": ["new"]}, SCHEMA), overwrite={})
    pair.main.fast_forward("dev")
    pair.dev.rollback_to_as_latest(tag="full")

    assert pair.catalog.table("db.t").merge_branch("dev").status == "committed"

    handle = pair.catalog.table("db.t")._handle
    latest = latest_snapshot(handle)
    assert latest is not None
    entries = [entry for item in snapshot_manifests(handle, latest) for entry in read_manifest(handle, item.name)]
    removed = {entry.identity for entry in entries if entry.kind is FileKind.DELETE}
    assert removed.isdisjoint(entry.identity for entry in live_entries(handle, latest))
    assert pair.keys(pair.catalog.table("db.t")) == [1, 2, 3]
