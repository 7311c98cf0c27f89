"""Tables from which files were lost: what can be read again afterwards, and what a repair refuses to guess."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, Table
from paimon_engine.errors import CorruptTableError, InvalidArgumentError, NotFoundError, StorageError, UnsupportedError
from paimon_engine.meta.snapshot import parse_snapshot
from paimon_engine.table.check.table_check import check_table
from paimon_engine.table.state.manifests import read_manifest_list
from tests.support.faulty_storage import DOWN, FaultyStorage
from tests.support.oracle import JavaPaimon
from tests.support.world import ROOT, World

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string())])


def made(tmp_path: Path, keys: list[str] | None = None, **options: Any) -> Table:
    """Three commits of two rows each, in two buckets."""
    found = {"bucket": 2, "bucket-key": "k", "manifest.merge-min-count": 100, "snapshot.num-retained.min": 1} | {
        name.replace("_", "-"): value for name, value in options.items()
    }
    if keys or found["bucket"] < 0:
        found.pop("bucket-key")
    table = Catalog(str(tmp_path / "lake")).create_table("db.t", schema=SCHEMA, primary_keys=keys or [], options=found)
    for begin in (1, 3, 5):
        table.write(pa.table({"k": [begin, begin + 1], "v": [f"v{begin}"] * 2}, SCHEMA))
    return table


def rows(table: Table, **how: Any) -> list[int]:
    return sorted(table.to_arrow(["k"], **how)["k"].to_pylist())


def data_files(table: Table) -> list[str]:
    return sorted(table.files()["file_path"].to_pylist())


def snapshot(table: Table, number: int) -> Any:
    path = table._handle.paths.snapshot(number)
    return parse_snapshot(Path(path).read_bytes(), path)


def manifests(table: Table, number: int, part: str = "delta") -> list[str]:
    found = read_manifest_list(table._handle, getattr(snapshot(table, number), f"{part}_manifest_list"))
    return [table._handle.paths.manifest(item.name) for item in found]


# ── data files ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("keys", [[], ["k"]])
def test_lost_files_leave_the_lists_and_the_rest_reads(tmp_path: Path, keys: list[str], oracle: JavaPaimon) -> None:
    table = made(tmp_path, keys)
    lost = data_files(table)[:2]
    files = len(data_files(table))
    for path in lost:
        os.remove(path)
    with pytest.raises(NotFoundError):
        rows(table)

    planned = table.remove_unexisting_files(dry_run=True)
    done = table.remove_unexisting_files()

    assert (planned.status, done.status) == ("dry_run", "committed")
    assert planned.removed == done.removed
    assert sorted(item.path for item in done.removed) == lost
    assert done.files_checked == files
    assert len(rows(table)) == 6 - done.rows
    assert sorted(row[0] for row in oracle.read(table.path)) == rows(table)
    assert table.remove_unexisting_files().status == "noop"


def test_a_lost_file_takes_its_deletion_vector_along(tmp_path: Path) -> None:
    table = made(tmp_path, bucket=-1, **{"deletion-vectors.enabled": "true"})
    table.delete("k = 1 OR k = 4")
    os.remove(data_files(table)[0])

    done = table.remove_unexisting_files()

    assert done.status == "committed"
    assert set(rows(table)) < {2, 3, 5, 6}
    assert check_table(table._handle, footers=False) == [] or all(
        "missing" in str(problem) or "is not there" in str(problem) for problem in check_table(table._handle)
    )


def test_a_repeated_job_removes_lost_files_once(tmp_path: Path) -> None:
    table = made(tmp_path)
    os.remove(data_files(table)[0])

    first = table.remove_unexisting_files(commit_user="me")

    assert table.remove_unexisting_files(commit_user="me").snapshot_id == first.snapshot_id
    assert table.remove_unexisting_files(commit_user="me").status == "already_done"


# ── manifests ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("part", ["a manifest of the base", "the manifest of the delta", "the delta list"])
def test_lost_manifests_leave_the_lists_and_the_rest_reads(tmp_path: Path, part: str, oracle: JavaPaimon) -> None:
    table = made(tmp_path)
    lost = {
        "a manifest of the base": lambda: manifests(table, 3, "base")[0],
        "the manifest of the delta": lambda: manifests(table, 3)[0],
        "the delta list": lambda: table._handle.paths.manifest(snapshot(table, 3).delta_manifest_list),
    }[part]()
    os.remove(lost)
    with pytest.raises(NotFoundError):
        rows(table)

    planned = table.remove_unexisting_manifests(dry_run=True)
    done = table.remove_unexisting_manifests()

    assert (planned.status, done.status) == ("dry_run", "committed")
    assert planned.removed == done.removed == (lost,)
    assert rows(table) == ([3, 4, 5, 6] if "base" in part else [1, 2, 3, 4])
    assert (done.rows_before, done.rows_after) == (6, 4)
    assert sorted(row[0] for row in oracle.read(table.path)) == rows(table)
    table.write(pa.table({"k": [9], "v": ["n"]}, SCHEMA))
    assert 9 in rows(table)
    assert table.remove_unexisting_manifests().status == "noop"


def test_a_lost_manifest_of_a_compaction_shows_the_older_files_again(tmp_path: Path) -> None:
    table = made(tmp_path, ["k"])
    table.compact(full=True)
    os.remove(manifests(table, table.snapshots()["snapshot_id"].to_pylist()[-1])[0])

    table.remove_unexisting_manifests()

    assert rows(table) == [1, 2, 3, 4, 5, 6]


def test_a_lost_index_manifest_is_refused(tmp_path: Path) -> None:
    table = made(tmp_path, bucket=-1, **{"deletion-vectors.enabled": "true"})
    table.delete("k = 1")
    newest = snapshot(table, 4)
    os.remove(table._handle.paths.manifest(newest.index_manifest))
    os.remove(manifests(table, 4, "base")[0])

    with pytest.raises(UnsupportedError, match="rows that were deleted would show again"):
        table.remove_unexisting_manifests()


# ── the row of snapshots ────────────────────────────────────────────────────────────────────────


def test_a_hint_that_points_to_nothing_is_written_anew(tmp_path: Path) -> None:
    table = made(tmp_path)
    hint = Path(table._handle.paths.earliest_hint)
    hint.write_text("7")

    planned = table.repair_earliest_snapshot(dry_run=True)
    assert (planned.status, hint.read_text()) == ("dry_run", "7")
    done = table.repair_earliest_snapshot()

    assert (done.status, done.previous_hint, done.earliest_snapshot_id, hint.read_text()) == ("repaired", 7, 1, "1")
    assert done.removed_snapshots == ()
    assert table.repair_earliest_snapshot().status == "noop"


@pytest.mark.parametrize("lost", ["its file", "its file is damaged", "its base list", "its index"])
def test_what_a_gap_cuts_off_is_deleted_and_clean_up_works_again(tmp_path: Path, lost: str, oracle: JavaPaimon) -> None:
    options = {"deletion-vectors.enabled": "true"} if lost == "its index" else {}
    table = made(tmp_path, bucket=-1, **options)
    if lost == "its index":
        table.delete("k = 1")
        table.delete("k = 3")
    else:
        table.compact(full=True)
        table.write(pa.table({"k": [7], "v": ["n"]}, SCHEMA))
    for number in (8, 9):
        table.write(pa.table({"k": [number], "v": ["n"]}, SCHEMA))
    table.create_tag("old", 1)
    broken = snapshot(table, 4)
    path = Path(table._handle.paths.snapshot(4))
    if lost == "its file":
        path.unlink()
    elif lost == "its file is damaged":
        path.write_text("{")
    elif lost == "its base list":
        os.remove(table._handle.paths.manifest(broken.base_manifest_list))
    else:
        os.remove(table._handle.paths.manifest(broken.index_manifest))
    before = rows(table)
    assert table.remove_orphan_files().status in ("stopped", "noop", "deleted")

    planned = table.repair_earliest_snapshot(dry_run=True)
    refused = table.repair_earliest_snapshot()
    done = table.repair_earliest_snapshot(5, quarantine=True)

    assert (refused.status, refused.removed_snapshots, refused.deleted) == ("stopped", (), ())
    assert refused.stopped[0] == planned.stopped[0]
    assert "snapshot=5 lets the table begin there" in refused.stopped[0]

    gone = (1, 2, 3) if lost == "its file" else (1, 2, 3, 4)
    assert (done.status, done.earliest_snapshot_id, done.removed_snapshots) == ("repaired", 5, gone)
    assert planned.deleted == done.deleted
    assert rows(table) == before
    assert rows(table, tag="old") == [1, 2]
    assert check_table(table._handle, footers=False) == []
    assert sorted(row[0] for row in oracle.read(table.path)) == before
    assert table.expire_snapshots(retain_max=1).status == "expired"
    assert done.quarantine is not None


def test_a_broken_latest_snapshot_is_not_repaired_away(tmp_path: Path) -> None:
    table = made(tmp_path)
    os.remove(table._handle.paths.manifest(snapshot(table, 3).delta_manifest_list))

    with pytest.raises(CorruptTableError, match="the latest one, cannot be read"):
        table.repair_earliest_snapshot()


def test_a_hint_to_an_older_snapshot_stays_until_somebody_gives_that_up(tmp_path: Path) -> None:
    table = made(tmp_path)
    hint = Path(table._handle.paths.earliest_hint)
    os.remove(table._handle.paths.snapshot(1))

    stopped = table.repair_earliest_snapshot()
    assert (stopped.status, hint.read_text()) == ("stopped", "1")
    assert "snapshot 1 is not there" in stopped.stopped[0]
    done = table.repair_earliest_snapshot(2)

    assert (done.status, done.removed_snapshots, hint.read_text()) == ("repaired", (), "2")
    assert table.repair_earliest_snapshot().status == "noop"


def test_nothing_is_given_up_while_newer_snapshots_are_out_of_sight(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.write(pa.table({"k": [7], "v": ["n"]}, SCHEMA))
    Path(table._handle.paths.snapshot(2)).unlink()
    newest = Path(table._handle.paths.snapshot(4))
    newest.rename(tmp_path / "not visible")

    done = table.repair_earliest_snapshot(3)

    assert (done.status, done.removed_snapshots) == ("stopped", ())
    assert "hint LATEST names snapshot 4" in done.stopped[0]
    assert Path(table._handle.paths.snapshot(1)).exists()


def test_a_store_that_fails_strands_no_snapshot() -> None:
    world = World()
    world.create(keys=("p", "k"), bucket=1)
    for number in range(4):
        world.write({number: number})
    before = {info.path for info in world.inner.walk(ROOT)}
    refused: list[str] = []

    def refuse(verb: str, path: str) -> None:
        if verb == "read" and path.endswith("/snapshot-2") and not refused:
            refused.append(path)
            raise StorageError(f"{path}: SlowDown")

    world.through(store := FaultyStorage(world.inner))
    store.arm(0, DOWN, refuse)

    with pytest.raises(StorageError, match="snapshot-2: SlowDown"):
        world.table().repair_earliest_snapshot(3)
    assert {info.path for info in world.inner.walk(ROOT)} == before


def test_complete_snapshots_are_left_to_expiry(tmp_path: Path) -> None:
    table = made(tmp_path)

    with pytest.raises(InvalidArgumentError, match="nothing to repair"):
        table.repair_earliest_snapshot(2)
    os.remove(table._handle.paths.snapshot(2))
    with pytest.raises(InvalidArgumentError, match="not in 3 to 3, the last ids"):
        table.repair_earliest_snapshot(1)
    assert table.repair_earliest_snapshot(3).removed_snapshots == (1,)


def test_nothing_is_deleted_while_a_tag_cannot_be_read(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.create_tag("bad", 1)
    Path(table._handle.paths.tag("bad")).write_text("{")
    os.remove(table._handle.paths.snapshot(2))

    done = table.repair_earliest_snapshot(3)

    assert (done.deleted, done.removed_snapshots) == ((), (1,))
    assert any("tag-bad" in reason for reason in done.stopped)
