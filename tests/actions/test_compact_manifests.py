"""Rewriting manifests: fewer files, the same table, once."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_engine import Catalog, Table, open_table
from paimon_engine.actions.compact_manifests import CompactManifests
from paimon_engine.env import EnvConfig
from paimon_engine.jobs import Job, TableRef, run
from paimon_engine.meta.manifest import ManifestFile
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.table.check.table_check import check_table
from paimon_engine.table.commit import manifest_merge
from paimon_engine.table.state import live_columns
from paimon_engine.table.state.handle import TableHandle, load_table
from paimon_engine.table.state.manifests import read_manifest, read_manifest_list, snapshot_manifests
from paimon_engine.table.state.snapshots import latest_snapshot
from tests.support.corpus import case
from tests.support.oracle import JavaPaimon

SCHEMA = pa.schema(
    [pa.field("p", pa.string(), nullable=False), pa.field("k", pa.int64(), nullable=False), ("v", pa.string())]
)


def rows(first: int, partition: str = "a") -> pa.Table:
    keys = range(first, first + 3)
    return pa.table({"p": [partition] * 3, "k": list(keys), "v": [f"v{key}" for key in keys]}, SCHEMA)


def make(folder: Path, **options: str) -> Table:
    return Catalog(str(folder)).create_table(
        "db.t",
        schema=SCHEMA,
        primary_keys=["p", "k"],
        partition_keys=["p"],
        options={"bucket": "1", **{key.replace("_", "-"): value for key, value in options.items()}},
    )


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Six commits, a compaction among them: seven manifests, some with removals."""
    table = make(tmp_path)
    for number in range(3):
        table.write(rows(number))
    table.compact(full=True)
    for number in range(3):
        table.write(rows(number, "b"))
    return table


def handle_of(table: Table) -> TableHandle:
    return load_table(table.path, EnvConfig(table.path))


def newest(table: Table) -> Snapshot:
    found = latest_snapshot(handle_of(table))
    assert found is not None
    return found


@pytest.fixture(params=["entry by entry", "copied"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways of writing entries again: bytes are copied only where there are many."""
    if request.param == "copied":
        monkeypatch.setattr(manifest_merge, "ENTRIES_MIN", 0)
        monkeypatch.setattr(live_columns, "WIDTH_MIN", 0)


@pytest.mark.usefixtures("_way")
def test_few_manifests_have_the_entries_of_many(table: Table, oracle: JavaPaimon):
    before, files = table.to_arrow().sort_by("k"), table.files().sort_by("file_path")

    result = table.compact_manifests()

    assert (result.status, result.snapshot_id) == ("committed", 8)
    assert (result.manifests_before, result.manifests_after) == (7, 1)
    assert (result.entries_before, result.entries_after) == (3 + 4 + 3, 4)
    assert 0 < result.bytes_after < result.bytes_before
    assert table.to_arrow().sort_by("k") == before
    assert table.files().sort_by("file_path") == files
    assert len(oracle.read(table.path)) == before.num_rows
    oracle.assert_sound(table.path)


def test_the_snapshot_changes_no_data(table: Table):
    before = newest(table)
    table.compact_manifests()
    after = newest(table)

    assert str(after.commit_kind) == "COMPACT"
    assert (after.delta_record_count, after.total_record_count) == (0, before.total_record_count)
    assert read_manifest_list(handle_of(table), after.delta_manifest_list) == []
    assert check_table(handle_of(table)) == []


def test_there_is_nothing_to_do_the_second_time(table: Table):
    table.compact_manifests()

    again = table.compact_manifests()

    assert (again.status, again.snapshot_id) == ("noop", None)
    assert again.manifests_before == again.manifests_after == 1
    assert table.latest_snapshot_id() == 8


def test_an_empty_table_has_nothing_to_rewrite(tmp_path: Path):
    assert make(tmp_path).compact_manifests().status == "noop"


def test_a_dry_run_reports_the_result_and_writes_nothing(table: Table):
    stored = {path for path in Path(table.path).rglob("*") if path.is_file()}

    planned = table.compact_manifests(dry_run=True)

    assert {path for path in Path(table.path).rglob("*") if path.is_file()} == stored
    done = table.compact_manifests()
    assert planned.status == "dry_run"
    counted = ("manifests_after", "entries_before", "entries_after", "bytes_before")
    assert {name: getattr(planned, name) for name in counted} == {name: getattr(done, name) for name in counted}
    # The same but for the names of new manifests, which the compressed bytes do not hold.
    assert planned.bytes_after == done.bytes_after


def test_a_job_that_is_repeated_rewrites_once(table: Table):
    job = Job(TableRef(path=table.path), CompactManifests(), "nightly")
    first = run(Job.from_json(job.to_json()))
    table.write(rows(50))

    again = run(job)

    assert (first.status, again.status) == ("committed", "already_done")
    assert first.snapshot_id == again.snapshot_id == 8
    assert table.latest_snapshot_id() == 9


def test_older_snapshots_and_tags_stay_readable(table: Table):
    table.create_tag("old", 3)
    before = table.to_arrow(snapshot=4)

    table.compact_manifests()

    assert table.to_arrow(snapshot=4) == before
    assert table.to_arrow(tag="old").num_rows == 5
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert table.to_arrow(tag="old").num_rows == 5
    assert table.to_arrow().num_rows == 10


@pytest.mark.parametrize(
    "name", ["dv_parquet", "dynamic_bucket_partitioned", "changelog_lookup", "append_dv", "branches"]
)
def test_tables_that_are_not_written_to_yet_can_be_tidied(name: str, tmp_path: Path, oracle: JavaPaimon):
    path = case(name).copy_to(tmp_path)
    before = oracle.read(path)

    result = open_table(str(path)).compact_manifests()

    assert result.status == "committed"
    assert sorted(map(json.dumps, oracle.read(path))) == sorted(map(json.dumps, before))
    oracle.assert_sound(path)


def test_manifests_stay_in_the_format_that_readers_expect(tmp_path: Path, oracle: JavaPaimon):
    path = case("manifest_orc").copy_to(tmp_path)
    before = oracle.read(path)

    open_table(str(path)).compact_manifests()
    open_table(str(path)).compact(full=True)

    assert {one.read_bytes()[:3] for one in (path / "manifest").iterdir()} == {b"ORC"}
    assert sorted(map(json.dumps, oracle.read(path))) == sorted(map(json.dumps, before))
    oracle.assert_sound(path)


def manifests_of(table: Table) -> list[ManifestFile]:
    return snapshot_manifests(handle_of(table), newest(table))


def test_large_manifests_of_untouched_partitions_stay_as_they_are(tmp_path: Path):
    table = make(tmp_path)
    table.write(rows(0, "a"))
    table.write(rows(0, "b"))
    # All manifests count as large, so that only a removal makes one change.
    table = open_table(table.path, options={"manifest.target-file-size": "1 b"})
    first, second = manifests_of(table)
    table.write(rows(9, "b"), overwrite={"p": "b"})

    result = table.compact_manifests()

    names = [item.name for item in manifests_of(table)]
    assert result.status == "committed"
    assert first.name in names
    assert second.name not in names


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize("seed", range(4))
def test_many_commits_with_merges_of_every_kind_are_as_java_reads_them(seed: int, tmp_path: Path, oracle: JavaPaimon):
    chance = random.Random(seed)
    table = make(
        tmp_path,
        **{
            "manifest.merge-min-count": chance.choice(["2", "3", "5"]),
            "manifest.target-file-size": chance.choice(["1 b", "3 kb", "8 kb", "8 mb"]),
            "manifest.full-compaction-threshold-size": chance.choice(["1 b", "6 kb", "16 mb"]),
        },
    )
    expected: dict[tuple[str, int], str] = {}
    for number in range(24):
        partition = chance.choice("abc")
        batch = rows(chance.randrange(12), partition)
        overwrites = chance.random() < 0.2
        table.write(batch, overwrite={"p": partition} if overwrites else None)
        if overwrites:
            expected = {key: value for key, value in expected.items() if key[0] != partition}
        expected |= {(row["p"], row["k"]): row["v"] for row in batch.to_pylist()}
        if chance.random() < 0.3:
            table.compact(full=chance.random() < 0.5)
        if chance.random() < 0.1:
            table.compact_manifests()
        if number % 8 == 7:
            oracle.run(table.path, [{"op": "write", "rows": [["c", 100 + number, "java"]]}])
            expected["c", 100 + number] = "java"

    theirs = {(row[0], row[1]): row[2] for row in oracle.read(table.path)}
    assert theirs == expected
    assert {(row["p"], row["k"]): row["v"] for row in table.to_arrow().to_pylist()} == expected
    oracle.assert_sound(table.path)
    assert check_table(handle_of(table)) == []
    for item in manifests_of(table):
        entries = read_manifest(handle_of(table), item.name)
        assert len(entries) == item.added_count + item.deleted_count


@pytest.mark.parametrize("least", [0, 1_000_000], ids=["copied", "entry by entry"])
def test_a_file_that_was_removed_and_added_again_stays(least: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(manifest_merge, "ENTRIES_MIN", least)
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64())])
    options = {"bucket": 1, "manifest.merge-min-count": 99}
    table = Catalog(str(tmp_path)).create_table("db.t", schema=schema, primary_keys=["k"], options=options)
    table.write(pa.table({"k": [1, 2], "v": [1, 1]}, schema))
    table.compact(full=True)
    table.rollback_to_as_latest(snapshot=1)
    table.compact(full=True)
    table.write(pa.table({"k": [3], "v": [1]}, schema))
    before = table.to_arrow().to_pylist()

    assert table.compact_manifests().status == "committed"

    assert table.to_arrow().to_pylist() == before
    assert len(before) == 3
    assert table.verify("rows").status == "sound"
