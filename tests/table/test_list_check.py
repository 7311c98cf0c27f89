"""Manifest lists that are complete, but another snapshot's, are distinguished from those that belong together, of all engines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, open_table
from paimon_engine.actions.remove_unexisting_manifests import RemoveUnexistingManifests
from paimon_engine.actions.rollback_to_as_latest import RollbackToAsLatest
from paimon_engine.env import EnvConfig
from paimon_engine.table.reach.list_check import lists_of, mismatched
from paimon_engine.table.reach.reachability import RootFiles, all_roots, try_root_files
from paimon_engine.table.state.handle import TableHandle, load_table
from paimon_engine.table.state.manifests import read_manifest_list
from paimon_engine.table.state.side_by_side import in_threads
from paimon_engine.table.state.snapshots import read_snapshot
from tests.support.corpus import case, case_names
from tests.support.newest import NewestPaimon
from tests.support.pypaimon import PyPaimon
from tests.support.world.made_up import History


def mismatches(table: TableHandle) -> list[str]:
    """Why lists of the table would be taken for another snapshot's."""
    roots = [root for root in all_roots(table).checked() if not root.is_changelog]
    found = zip(roots, in_threads(table, try_root_files, roots), strict=True)
    lists = [lists_of(root, files) for root, files in found if isinstance(files, RootFiles)]
    assert lists, "the table has no snapshot"
    return list(mismatched(lists).values())


def of_java_0_9(history: History) -> History:
    """The history without what later releases write: sizes of manifest lists in snapshots."""
    for info in list(history.storage.walk(history.root)):
        if "/snapshot/snapshot-" in info.path or "/tag/tag-" in info.path:
            value = json.loads(history.storage.read(info.path))
            kept = {key: item for key, item in value.items() if not key.endswith("ManifestListSize")}
            history.storage.overwrite(info.path, json.dumps(kept).encode())
    return history


def exchange(history: History, number: int, other: int) -> set[str]:
    """Gives a snapshot the base manifest list of another one; the manifests that its own list named."""
    paths, table = history.handle.paths, history.handle
    true = read_manifest_list(table, read_snapshot(table, number).base_manifest_list)
    own, strange = (paths.manifest(read_snapshot(table, item).base_manifest_list) for item in (number, other))
    history.storage.overwrite(own, history.storage.read(strange))
    return {paths.manifest(manifest.name) for manifest in true}


def appended(commits: int, **options: str) -> History:
    """Nothing but files added: an expiry deletes metadata only."""
    history = History(options)
    for _ in range(commits):
        history.write()
    return of_java_0_9(history)


@pytest.mark.parametrize(("number", "other"), [(8, 2), (8, 7), (8, 1), (7, 8)])
def test_an_expiry_of_metadata_keeps_what_the_true_list_of_a_snapshot_names(number: int, other: int):
    history = appended(8)
    true = exchange(history, number, other)

    result = history.expire(retain_max=9 - number)

    assert true <= history.stored()
    assert any("may belong to another snapshot" in reason for reason in result.stopped)
    again = history.expire(retain_max=9 - number)
    history.remove_orphans()
    assert true <= history.stored()
    assert any("may belong to another snapshot" in reason for reason in again.stopped)


def test_an_exchanged_list_of_deleted_snapshots_hinders_nothing_later():
    history = appended(8)
    exchange(history, 4, 2)
    history.expire(retain_max=3)

    history.write().write()
    result = history.expire(retain_max=2)

    assert result.stopped == ()
    assert history.ids() == [9, 10]


def test_a_fast_forward_compares_no_snapshot_of_main_with_one_that_replaces_it():
    history = History().write("a")
    history.tag("base")
    history.branch("dev", "base")
    history.write("b").compact("c").write("x").write("y")
    history.write("d", branch="dev").write("e", branch="dev")

    result = history.fast_forward("dev")

    assert result is not None
    assert result.stopped == ()
    history.assert_exact()


def test_a_commit_that_drops_lost_manifests_is_no_mismatch():
    history = appended(3)
    lost = read_manifest_list(history.handle, read_snapshot(history.handle, 3).base_manifest_list)
    history.storage.delete([history.handle.paths.manifest(lost[0].name)])
    history.run(RemoveUnexistingManifests(), "one")

    assert mismatches(history.handle) == []


def test_no_history_of_ours_is_taken_for_exchanged():
    history = History({"manifest.merge-min-count": "2"})
    for _ in range(3):
        history.write().write("a", "b").compact().overwrite().overwrite("c")
    history.tag("t", 4)
    history.branch("dev", "t")
    history.write().write(branch="dev").compact(branch="dev")
    history.run(RollbackToAsLatest(snapshot=5), "one")
    history.write()
    assert mismatches(history.handle) == []
    history.rollback(snapshot=6)
    history.write().compact()
    assert mismatches(history.handle) == []
    history.fast_forward("dev")
    history.write().compact()
    assert mismatches(history.handle) == []


# ── other writers ───────────────────────────────────────────────────────────────────────────────


def stored(path: str | Path) -> TableHandle:
    return load_table(str(path), EnvConfig(str(path)))


@pytest.mark.skipif(not case_names(), reason="there is no corpus")
def test_no_table_of_the_corpus_is_taken_for_exchanged():
    found = {name: mismatches(stored(case(name).table)) for name in case_names()}

    assert len(found) > 20
    assert {name: why for name, why in found.items() if why} == {}


MERGED: Mapping[str, str] = {
    "bucket": "1",
    "manifest.merge-min-count": "2",
    "manifest.full-compaction-threshold-size": "1 b",
}


def test_no_history_of_java_0_9_is_taken_for_exchanged(oracle: Any, tmp_path: Path):
    oracle.call("open", warehouse=str(tmp_path))
    oracle.call("create_database", database="db")
    fields = [["k", "BIGINT"], ["v", "STRING"], ["p", "INT"]]
    keyed = {"primary_keys": ["p", "k"], "partition_keys": ["p"]}
    for name, kind in {"keyed": keyed, "appended": {"partition_keys": ["p"]}}.items():
        table = f"db.{name}"
        options = dict(MERGED) if kind is keyed else {**MERGED, "bucket": "-1"}
        oracle.call("create_table", table=table, fields=fields, options=options, **kind)
        for number in range(4):
            oracle.call("write", table=table, rows=[[number, "a", part] for part in range(3)])
            if number % 2 and kind is keyed:
                oracle.call("compact", table=table, full=number == 3)
            if number == 2:
                oracle.call("create_tag", table=table, tag="t")
                oracle.call("write", table=table, rows=[[9, "b", 1]], overwrite={"p": "1"})
                oracle.call("drop_partition", table=table, partitions=[{"p": "2"}])
        oracle.call("write", table=table, rows=[[7, "c", 0]], overwrite={})
        oracle.call("statistics", table=table)
        oracle.call("truncate", table=table)
        oracle.call("write", table=table, rows=[[8, "d", 0]])
        assert mismatches(stored(tmp_path / f"db.db/{name}")) == []
        oracle.call("rollback", table=table, tag="t")
        oracle.call("write", table=table, rows=[[8, "d", 0]])
        assert mismatches(stored(tmp_path / f"db.db/{name}")) == []


def test_no_history_of_the_newest_java_is_taken_for_exchanged(newest: NewestPaimon, tmp_path: Path):
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
    source = Catalog(str(tmp_path)).create_table("db.source", schema=schema)
    source.write(pa.table({"k": [1, 2], "v": ["a", "b"]}, schema=schema))
    for name, keys in {"keyed": ["k"], "appended": []}.items():
        path = tmp_path / "db.db" / name
        newest.create(path, like=source.path, primary_keys=keys, options={**MERGED, "bucket-key": "k"})
        for number in range(5):
            newest.write(path, rows_of=source.path, compact=number % 3 == 2)
            # The engines take turns.
            if number % 2:
                open_table(str(path)).write(pa.table({"k": [number], "v": ["c"]}, schema=schema))

        assert mismatches(stored(path)) == []


def test_no_history_of_pypaimon_is_taken_for_exchanged(pypaimon: PyPaimon, tmp_path: Path):
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
    for name, keys in {"keyed": ["k"], "appended": []}.items():
        path = tmp_path / "db.db" / name
        pypaimon.create(path, schema, primary_keys=keys, options=dict(MERGED) if keys else {})
        for number in range(5):
            rows = pa.table({"k": [number], "v": ["c"]}, schema=schema)
            pypaimon.append(path, rows, overwrite={} if number == 2 else None)
            if pypaimon.has_rust:
                pypaimon.append(path, rows, client="rust")

        assert mismatches(stored(path)) == []
