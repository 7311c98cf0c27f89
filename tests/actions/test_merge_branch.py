"""Merging a branch: both sides' changes are there afterwards, or an error names what both have changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import SetOption
from paimon_engine.errors import ConflictError, InvalidArgumentError, NotFoundError
from paimon_engine.format.bucket_hash import buckets
from paimon_engine.meta.snapshot import CommitKind
from paimon_engine.table.commit.commit import commit
from paimon_engine.table.state.snapshots import latest_snapshot
from paimon_engine.types import AtomicType, TypeRoot
from tests.support.branch_pair import SCHEMA, Pair
from tests.support.oracle import JavaPaimon


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


def test_changelogs_of_a_schema_that_the_table_lacks_are_refused(tmp_path: Path) -> None:
    """The data file that it belongs to was only moved to another level, and keeps its schema."""
    options = {"bucket": 1, "merge-engine": "first-row", "changelog-producer": "lookup"}
    pair = Pair(tmp_path, ("p", "k"), ("p",), **options)
    pair.write(3, to="dev", partition=7)
    pair.dev.alter([SetOption("snapshot.num-retained.max", "50")])
    pair.dev.compact(full=True)

    with pytest.raises(InvalidArgumentError, match="have schema 1"):
        pair.main.merge_branch("dev")

    pair.assert_sound()
