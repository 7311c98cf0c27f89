"""Changelogs that are kept longer than their snapshots, compared with Java: the same files are deleted and kept, and both read the same changes."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, SetOption, Table, open_table
from tests.support.clock import next_ms
from tests.support.newest import NewestPaimon
from tests.support.oracle import JavaPaimon

COLUMNS = [["k", "INT NOT NULL"], ["v", "INT"]]
KINDS = {
    "none": {"bucket": "2"},
    "input": {"bucket": "1", "changelog-producer": "input"},
    "lookup": {"bucket": "2", "changelog-producer": "lookup"},
    "full-compaction": {"bucket": "1", "changelog-producer": "full-compaction"},
    "append": {"bucket": "1", "bucket-key": "k"},
}
LONG = {"changelog.num-retained.max": "1000", "changelog.num-retained.min": "999"}


NUMBERS = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())])


def table_with_an_early_tag(folder: Path) -> Table:
    """Six snapshots with input changelogs; tag `second` keeps snapshot 2."""
    table = Catalog(str(folder)).create_table("db.t", schema=NUMBERS, primary_keys=["k"], options=KINDS["input"])
    for number in range(6):
        table.write(pa.table({"k": [number], "v": [number]}, schema=NUMBERS))
    table.create_tag("second", snapshot=2)
    return table


def files(path: Path) -> dict[str, bytes]:
    """Every file of a table by its path, with what is written in changelogs, snapshots and hints."""
    found = {}
    for file in path.rglob("*"):
        if file.is_file() and not file.name.endswith(".crc"):
            plain = file.parent.name in ("changelog", "snapshot", "tag")
            found[str(file.relative_to(path))] = file.read_bytes() if plain else b""
    return found


def create(oracle: JavaPaimon, path: Path, kind: str) -> None:
    keys = [] if kind == "append" else ["k"]
    options = {"snapshot.num-retained.min": "500", **KINDS[kind], **LONG}
    oracle.call("create_table", table=str(path), fields=COLUMNS, primary_keys=keys, options=options)


def write_some(oracle: JavaPaimon, path: Path, chance: random.Random, kind: str) -> None:
    for _ in range(chance.randint(2, 4)):
        rows = [[chance.randrange(30), chance.randrange(1000)] for _ in range(chance.randint(1, 8))]
        if chance.random() < 0.15:
            oracle.call("write", table=str(path), rows=rows, overwrite={})
        elif kind in ("lookup", "full-compaction"):
            oracle.call("write", table=str(path), rows=rows, compact="full" if chance.random() < 0.6 else "minor")
        else:
            oracle.call("write", table=str(path), rows=rows)
        if chance.random() < 0.4:
            oracle.call("compact", table=str(path), full=chance.random() < 0.7)


def changes(oracle: JavaPaimon, path: Path, begin: int) -> list[Any]:
    """What a streaming reader sees from that snapshot or changelog on."""
    return list(oracle.call("changelog", table=str(path), **{"from": begin})["changes"])


def expire_both(oracle: JavaPaimon, ours: Path, java: Path, most: int, changelogs: int, limit: int) -> None:
    """Expires two copies of a table, one by each engine."""
    oracle.call(
        "expire",
        table=str(java),
        retain_max=most,
        retain_min=1,
        older_ms=0,
        max_deletes=limit,
        changelog_retain_max=changelogs,
        changelog_retain_min=2,
        expire_changelog=True,
    )
    options = {
        "changelog.num-retained.max": str(changelogs),
        "changelog.num-retained.min": "2",
        "snapshot.num-retained.max": str(most),
        "snapshot.num-retained.min": "1",
        "snapshot.time-retained": "0 ms",
        "changelog.time-retained": "0 ms",
        "snapshot.expire.limit": str(limit),
    }
    done = open_table(str(ours), options=options).expire_snapshots(older_than=next_ms())
    assert done.stopped == () or "expire.limit" in done.stopped[0], done.stopped


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_files_are_deleted_and_kept(kind: str, tmp_path: Path, oracle: JavaPaimon) -> None:
    chance = random.Random(f"lifetime {kind}")
    ours, java = tmp_path / "ours.db" / "t", tmp_path / "java.db" / "t"
    create(oracle, ours, kind)
    for _ in range(3):
        write_some(oracle, ours, chance, kind)
        shutil.rmtree(java, ignore_errors=True)
        shutil.copytree(ours, java)
        most = chance.randint(1, 3)
        expire_both(oracle, ours, java, most, most + chance.randint(1, 6), chance.choice([3, 100]))

        assert files(ours) == files(java)
        assert open_table(str(ours)).verify().problems == ()
        oracle.assert_sound(ours)
        begin, _ = changelog_span(ours)
        assert changes(oracle, ours, begin) == changes(oracle, java, begin)


@pytest.mark.parametrize("kind", ["none", "input"])
def test_java_and_we_see_the_same_changes_of_expired_snapshots(kind: str, tmp_path: Path, oracle: JavaPaimon) -> None:
    chance = random.Random(f"changes {kind}")
    path = tmp_path / "db.db" / "t"
    create(oracle, path, kind)
    for _ in range(2):
        write_some(oracle, path, chance, kind)
    table = open_table(str(path), options={"snapshot.num-retained.min": "1"})
    table.expire_snapshots(retain_max=1)

    streamed = {change["snapshot"]: change["rows"] for change in changes(oracle, path, 1)}
    log = Catalog(str(tmp_path)).table("db.t$audit_log")
    latest = table.latest_snapshot_id()
    assert latest is not None
    for number in range(1, latest + 1):
        ours = log.to_arrow(incremental=(number - 1, number)).to_pylist()
        assert sorted(map(str, streamed.get(number, []))) == sorted(
            str([row["rowkind"], row["k"], row["v"]]) for row in ours
        )


@pytest.mark.parametrize("kind", ["none", "input", "lookup"])
def test_a_rollback_leaves_what_java_leaves(kind: str, tmp_path: Path, oracle: JavaPaimon) -> None:
    chance = random.Random(f"rollback {kind}")
    ours, java = tmp_path / "ours.db" / "t", tmp_path / "java.db" / "t"
    create(oracle, ours, kind)
    write_some(oracle, ours, chance, kind)
    oracle.call("create_tag", table=str(ours), tag="t")
    write_some(oracle, ours, chance, kind)
    open_table(str(ours), options={"snapshot.num-retained.min": "1"}).expire_snapshots(retain_max=1)
    shutil.copytree(ours, java)

    oracle.call("rollback", table=str(java), tag="t")
    result = open_table(str(ours)).rollback(tag="t")

    assert result.removed_changelogs
    of_ours, of_java = files(ours), files(java)
    metadata = ("changelog/", "snapshot/", "tag/")
    assert {name for name in of_ours if name.startswith(metadata)} == {
        name for name in of_java if name.startswith(metadata)
    }
    assert all(data == of_java[name] for name, data in of_ours.items() if name.startswith("changelog/"))
    assert oracle.read(ours) == oracle.read(java)
    oracle.assert_sound(ours)
    assert open_table(str(ours)).verify().problems == ()
    write_some(oracle, ours, chance, kind)
    assert open_table(str(ours)).verify().problems == ()


def test_the_newest_java_continues_where_we_expired(tmp_path: Path, oracle: JavaPaimon, newest: NewestPaimon) -> None:
    chance = random.Random("newest")
    path = tmp_path / "db.db" / "t"
    create(oracle, path, "none")
    for _ in range(2):
        write_some(oracle, path, chance, "none")
    limits = {
        "snapshot.num-retained.min": "1",
        "snapshot.num-retained.max": "2",
        "snapshot.time-retained": "9 d",
        "changelog.num-retained.min": "1",
        "changelog.num-retained.max": "5",
        "changelog.time-retained": "9 d",
    }
    table = open_table(str(path))
    table.alter([SetOption(key, value) for key, value in limits.items()])
    table.expire_snapshots()
    begin, latest = changelog_span(path)[0], table.latest_snapshot_id()
    assert latest is not None
    assert begin == latest - 4
    source = Catalog(str(tmp_path)).create_table("db.s", schema=table.arrow_schema, primary_keys=["k"])
    source.write(pa.table({"k": [1, 2], "v": [7, 8]}, schema=table.arrow_schema))

    newest.write(path, rows_of=source.path)

    newer = open_table(str(path))
    assert newer.latest_snapshot_id() == latest + 1
    assert changelog_span(path) == (begin + 1, latest - 1)
    assert newer.verify().problems == ()
    newer.expire_snapshots(retain_max=1)
    assert changelog_span(path) == (begin + 1, latest)
    assert newer.verify().problems == ()
    oracle.assert_sound(path)


@pytest.mark.parametrize("release", ["oracle", "paimon2"])
@pytest.mark.parametrize("made", ["nothing", "branch", "rollback", "fast-forward", "fast-forward to an older branch"])
def test_what_is_made_of_a_tag_whose_changelog_java_has_deleted_is_sound(
    tmp_path: Path, oracle: JavaPaimon, release: str, made: str, request: pytest.FixtureRequest
) -> None:
    table = table_with_an_early_tag(tmp_path)
    if "older" in made:
        table.create_branch("older", tag="second")
    java: JavaPaimon = request.getfixturevalue(release)
    java.call("expire", table=table.path, retain_max=1, retain_min=1, older_ms=0)
    lists = {file.name for file in Path(table.path, "manifest").glob("manifest-list-*")}
    assert json.loads(Path(table.path, "tag/tag-second").read_bytes())["changelogManifestList"] not in lists

    if made in ("branch", "fast-forward"):
        table.create_branch("b", tag="second")
        assert table.create_branch("b", tag="second", if_exists="ignore").status == "already_done"
        Catalog(str(tmp_path)).table("db.t$branch_b").write(pa.table({"k": [9], "v": [9]}, schema=NUMBERS))
    if made == "fast-forward":
        table.fast_forward("b")
    if made == "fast-forward to an older branch":
        table.fast_forward("older")
    if "older" in made:
        table.delete_branch("older")
    if made == "rollback":
        table.rollback(tag="second")
    orphan = Path(table.path, "bucket-0/data-00000000-0000-0000-0000-000000000000-0.parquet")
    orphan.write_bytes(b"x")
    newer = open_table(table.path)
    newer.write(pa.table({"k": [50], "v": [1]}, schema=NUMBERS))

    assert newer.verify("rows").problems == ()
    assert newer.remove_orphan_files(older_than="0 s").stopped == ()
    assert not orphan.exists()
    oracle.assert_sound(table.path)
    assert newer.verify("rows").problems == ()
    assert sorted(newer.to_arrow(tag="second")["k"].to_pylist()) == [0, 1]


@pytest.mark.parametrize("made", ["branch", "rollback of Java"])
def test_orphans_are_removed_where_a_snapshot_made_of_a_tag_lacks_the_changelog_that_java_has_deleted(
    tmp_path: Path, oracle: JavaPaimon, made: str
) -> None:
    table = table_with_an_early_tag(tmp_path)
    if made == "branch":
        table.create_branch("b", tag="second")
    oracle.call("expire", table=table.path, retain_max=1, retain_min=1, older_ms=0)
    if made == "rollback of Java":
        oracle.call("rollback", table=table.path, tag="second")
    orphan = Path(table.path, "bucket-0/data-00000000-0000-0000-0000-000000000000-0.parquet")
    orphan.write_bytes(b"x")
    newer = open_table(table.path)
    newer.write(pa.table({"k": [50], "v": [1]}, schema=NUMBERS))

    assert newer.remove_orphan_files(older_than="0 s").stopped == ()
    assert not orphan.exists()
    on_branch = Catalog(str(tmp_path)).table("db.t$branch_b") if made == "branch" else newer
    assert sorted(on_branch.to_arrow()["k"].to_pylist()) == [0, 1, *([] if made == "branch" else [50])]
    # Who reads changes of that snapshot meets the list that is gone.
    [problem] = newer.verify("rows").problems
    assert (problem.where.startswith("snapshot 2"), problem.what.endswith("is missing")) == (True, True)


@pytest.mark.parametrize("hidden", [2, 3])
def test_the_changelog_of_a_later_or_untagged_snapshot_is_not_taken_for_deleted(tmp_path: Path, hidden: int) -> None:
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())])
    table = Catalog(str(tmp_path)).create_table("db.t", schema=schema, primary_keys=["k"], options=KINDS["input"])
    for number in range(4):
        table.write(pa.table({"k": [number], "v": [number]}, schema=schema))
    table.create_tag("third", snapshot=3)
    table.expire_snapshots(retain_max=3, retain_min=3)
    text = Path(table.path, f"snapshot/snapshot-{hidden}").read_bytes()
    Path(table.path, "manifest", json.loads(text)["changelogManifestList"]).unlink()

    [reason] = table.remove_orphan_files(older_than="0 s").stopped

    assert f"snapshot {hidden} cannot be read" in reason


def changelog_span(path: Path) -> tuple[int, int]:
    """The oldest and the newest changelog that outlives its snapshot."""
    ids = [int(file.name.rpartition("-")[2]) for file in (path / "changelog").glob("changelog-*")]
    return min(ids), max(ids)
