"""Merging a branch again: what is known of earlier merges, after renamings, deletions, rollbacks and fast-forwards."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog
from paimon_engine.errors import ConflictError, InvalidArgumentError, StorageError
from paimon_engine.meta.manifest import FileKind
from paimon_engine.table.branches_tags.merges import store_marker
from paimon_engine.table.check.table_check import check_table
from paimon_engine.table.commit.commit import commit
from paimon_engine.table.state.manifests import live_entries, read_manifest, snapshot_manifests
from paimon_engine.table.state.snapshots import latest_snapshot
from tests.support.branch_pair import SCHEMA, Pair


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
    test = pair.branch("test")
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
    test = pair.branch("test")
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
    test = pair.branch("test")
    pair.write(3, to="dev")
    test.merge_branch("dev")
    pair.main.merge_branch("test")
    pair.main.compact(full=True)
    pair.write(4, to="dev")

    assert pair.main.merge_branch("dev").rows_added == 1

    assert pair.keys() == [1, 2, 3, 4]


def test_a_branch_that_goes_on_comes_over_another_one_again(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    test = pair.branch("test")
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
    test = pair.branch("test")
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
    test = pair.branch("test")
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
    test = pair.branch("test")
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
