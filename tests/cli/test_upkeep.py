"""Verification, removal, repair, expiry and jobs: planned, done, reported."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_engine import Catalog, Table
from paimon_engine.actions.compact import Compact
from paimon_engine.jobs import Job, TableRef
from tests.support.clock import next_ms
from tests.support.command_line import Ended, Run, rows


def test_verify_says_ok_or_what_is_wrong_and_fails_then(paimon: Run, table: Table):
    assert paimon("verify", table.path, "--depth", "metadata").lines == ["sound: 4 versions, 3 manifests"]
    assert paimon("verify", table.path).lines == ["sound: 4 versions, 3 manifests, 3 data files"]
    assert paimon("verify", table.path, "--depth", "rows").lines[0].endswith("3 data files, 4 rows")
    gone = next(Path(table.path, "bucket-0").iterdir())
    gone.unlink()

    ended = paimon("verify", table.path)
    result = json.loads(paimon("verify", table.path, "--json").out)

    assert ended.code == 1
    assert f"{gone.name} is missing" in ended.out
    assert ended.lines[-1] == "1 problem: 4 versions, 3 manifests, 3 data files"
    assert result["status"] == "damaged"
    assert gone.name in result["problems"][0]["what"]


def test_compatibility_names_engines_and_what_to_change(paimon: Run, tmp_path: Path):
    table = Catalog(str(tmp_path / "lake")).create_table(
        "db.c", schema=pa.schema([("k", pa.int64())]), options={"manifest.format": "orc"}
    )

    ended = paimon("compatibility", table.path)

    assert ended.code == 0
    assert [line.split()[-1] for line in ended.lines if line.startswith("Java")] == ["right"] * 3
    assert "pypaimon 2.1.0, pypaimon-rust 0.4.0: manifests in ORC or Parquet" in ended.err
    assert "copy the rows to a table with manifests in Avro" in ended.err
    assert json.loads(paimon("compatibility", table.path, "--json").out)["status"] == "limited"


def test_partitions_are_marked_dropped_and_expired(paimon: Run, tmp_path: Path):
    schema = pa.schema([("k", pa.int64()), ("day", pa.string())])
    table = Catalog(str(tmp_path / "lake")).create_table("db.p", schema=schema, partition_keys=["day"])
    table.write(pa.table({"k": [1, 2, 3], "day": ["2024-01-01", "2024-01-02", "never"]}, schema))

    marked = paimon("mark-partition-done", table.path, "day=2024-01-01")
    planned = paimon("drop-partition", table.path, "day=2024-01-01", "--dry-run")
    dropped = paimon("drop-partition", table.path, "day=2024-01-01")
    expired = paimon("expire-partitions", table.path, "--older-than", "30 d")
    again = json.loads(paimon("expire-partitions", table.path, "--older-than", "30 d", "--json").out)

    assert marked.lines == [f"wrote {table.path}/day=2024-01-01/_SUCCESS"]
    assert planned.lines[:1] == dropped.lines[:1] == ["day=2024-01-01"]
    assert planned.lines[1].startswith("dry run: would drop 1 partition with 1 file, 1 record, ")
    assert dropped.lines[1].startswith("committed snapshot 2: dropped 1 partition")
    assert expired.lines[0] == "day=2024-01-02"
    assert "mean no time" in expired.err
    assert (again["status"], len(again["stopped"])) == ("noop", 1)
    assert table.to_arrow()["k"].to_pylist() == [3]


def test_an_expiry_is_moved_aside_listed_brought_back_and_emptied(paimon: Run, table: Table):
    aside = json.loads(paimon("expire", table.path, "--retain-max", 1, "--quarantine", "--json").out)
    listed = paimon("quarantines", table.path)
    back = paimon("restore", table.path, aside["quarantine"])
    again = paimon("expire", table.path, "--retain-max", 1, "--quarantine", "--parallelism", 1)
    now = str(next_ms())
    planned = paimon("empty-quarantine", table.path, "--older-than", now, "--dry-run")
    emptied = paimon("empty-quarantine", table.path, "--older-than", now)

    assert aside["expired_snapshots"] == [1, 2]
    assert aside["quarantine"][:8] in listed.out
    assert back.lines[0].startswith("restored:")
    assert back.lines[0].endswith("of expire_snapshots; snapshot 1, snapshot 2")
    assert "restore restores it" in " ".join(again.err.split())
    assert planned.lines[0].startswith("dry run, would be: 1 quarantine")
    assert emptied.lines[0].startswith("deleted: 1 quarantine")
    assert paimon("quarantines", table.path).err.split() == ["no", "quarantines"]


def test_an_expiry_says_what_it_leaves(paimon: Run, table: Table):
    some = paimon("expire", table.path, "--retain-max", 1, "--limit", 1, "--progress", "none")
    rest = json.loads(paimon("expire", table.path, "--retain-max", 1, "--max-seconds", 60, "--json").out)

    assert some.lines[-1].startswith("expired 1 snapshot (1): ")
    assert "old enough to delete, but left for now: 1" in some.err
    assert "the limit of 1" in some.err
    assert (rest["expired_snapshots"], rest["remaining"], rest["remaining_because"]) == ([2], 0, [])


def test_a_command_that_cannot_be_repeated_leaves_no_record(paimon: Run, table: Table):
    assert paimon("purge", table.path, "--yes", "--keep-tags").code == 0
    assert paimon("rollback", table.path, "--tag", "first", "--as-latest").code == 0
    assert not Path(table.path, "commits").exists()


def test_lost_files_and_gaps_are_mended(paimon: Run, table: Table):
    assert paimon("repair-earliest", table.path).lines == ["nothing to repair"]
    assert paimon("remove-lost-files", table.path).lines == ["no file is lost"]
    assert paimon("remove-lost-manifests", table.path).lines == ["no manifest is lost"]
    Path(table.path, "snapshot", "snapshot-2").unlink()
    next(Path(table.path, "bucket-0").iterdir()).unlink()

    refused = paimon("repair-earliest", table.path)
    repaired = paimon("repair-earliest", table.path, "--snapshot", "3")
    lost = paimon("remove-lost-files", table.path)

    assert refused.code == 1
    assert "stopped: the table would begin with snapshot 3; removed 0 snapshots" in refused.lines[-1]
    assert "snapshot=3 lets the table begin there" in refused.err
    assert "the table begins with snapshot 3; removed 1 snapshot" in repaired.lines[-1]
    assert lost.lines[-1].startswith("committed: removed 1 file with ")


def test_a_purge_asks_for_confirmation(paimon: Run, table: Table, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert paimon("purge", table.path).code == 1
    planned = paimon("purge", table.path, "--dry-run", "--keep-tags")
    done = paimon("purge", table.path, "--yes", "--keep-tags")

    assert planned.lines[-1].startswith("dry run, would be: 3 snapshots, 0 tags, 0 branches, 0 consumers, ")
    assert done.lines[0].startswith("purged: 4 snapshots, 0 tags, 0 branches, 0 consumers, ")
    assert paimon("read", table.path, "-c", "k").lines == ["k"]
    assert paimon("read", table.path, "-c", "k", "--tag", "first").lines == ["k", "1", "2"]


def test_a_branch_is_merged_or_says_what_is_in_the_way(paimon: Run, table: Table):
    paimon("branch", "create", table.path, "dev", "--snapshot", 3)
    branch = Catalog(table.path.removesuffix("/db.db/t")).table("db.t$branch_dev")
    branch.write(rows({"k": 9, "name": "nine"}))

    merged = paimon("branch", "merge", table.path, "dev")
    table.write(rows({"k": 1, "name": "one"}))
    branch.write(rows({"k": 9, "name": "neuf"}))
    refused = paimon("branch", "merge", table.path, "dev", "--dry-run")

    assert merged.lines == ["committed: branch dev up to snapshot 4; added 1 file, removed 0"]
    assert refused.code == 1
    assert "both have changed bucket 0" in " ".join(refused.err.split())


def test_orphans_are_planned_moved_aside_brought_back_and_deleted(paimon: Run, table: Table):
    orphan = Path(table.path, "bucket-0", "data-dead.parquet")
    orphan.write_bytes(b"dead")
    os.utime(orphan, (1, 1))

    planned = paimon("remove-orphans", table.path, "--dry-run")
    aside = json.loads(paimon("remove-orphans", table.path, "--quarantine", "--json").out)
    nothing = paimon("remove-orphans", table.path)
    back = paimon("restore", table.path, aside["quarantine"])
    there = orphan.exists()
    os.utime(orphan, (1, 1))
    done = paimon("remove-orphans", table.path)

    assert planned.lines[-1] == "dry run: would remove 1 file, 4 B, of 1 old file"
    assert aside["status"] == "quarantined"
    assert nothing.lines == ["nothing to remove: 0 old files checked"]
    assert back.lines == ["restored: 1 file of remove_orphan_files"]
    assert there
    assert done.lines[-1] == "deleted 1 file, 4 B, of 1 old file"
    assert not orphan.exists()


def test_orphans_stay_and_the_command_fails_where_metadata_is_damaged(paimon: Run, table: Table):
    Path(table.path, "snapshot", "snapshot-2").write_text("{")

    ended = paimon("remove-orphans", table.path)

    assert ended.code == 1
    assert "nothing is deleted" in ended.err


def test_tags_are_created_and_deleted(paimon: Run, table: Table):
    assert paimon("tag", "create", table.path, "now").lines == ["created: tag now on snapshot 3"]
    assert paimon("tag", "create", table.path, "now").lines == ["already done: tag now on snapshot 3"]
    conflict = paimon("tag", "create", table.path, "now", "--snapshot", 1)
    assert conflict.code == 1
    assert "3" in conflict.err
    assert "1" in conflict.err
    assert paimon("tag", "delete", table.path, "now").lines[0].startswith("deleted: tag now")
    assert table.tags()["tag_name"].to_pylist() == ["first"]


def test_expire_plans_then_does(paimon: Run, table: Table):
    table.compact(full=True)

    planned = paimon("expire", table.path, "--retain-max", 1, "--dry-run")
    before = table.snapshots().num_rows
    done = paimon("expire", table.path, "--retain-max", 1)

    assert before == 4
    assert planned.lines[-1].startswith("dry run: would expire 3 snapshots (1 to 3): ")
    assert planned.lines[-1].split(": ")[-1] == done.lines[-1].split(": ")[-1]
    assert "files kept for 1 tag: first" in done.err
    assert table.snapshots().num_rows == 1
    assert paimon("expire", table.path, "--retain-max", 1).lines == ["nothing to expire"]


def test_changelogs_are_kept_until_they_are_expired(paimon: Run, table: Table):
    assert paimon("alter", "set", table.path, "changelog.num-retained.min=20").code == 0

    expired = paimon("expire", table.path, "--retain-max", 1)
    planned = paimon("expire-changelogs", table.path, "--all", "--dry-run")
    done = paimon("expire-changelogs", table.path, "--all")

    assert "changelogs kept: 1 to 2" in expired.err
    assert planned.lines[-1].startswith("dry run: would expire 2 changelogs (1 to 2): ")
    assert done.lines[-1].startswith("expired 2 changelogs (1 to 2): ")
    assert paimon("expire-changelogs", table.path).lines == ["nothing to expire"]


def test_rollback_asks_for_confirmation(paimon: Run, table: Table, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    assert paimon("rollback", table.path, "--tag", "first").code == 1
    assert table.latest_snapshot_id() == 3

    ended = paimon("rollback", table.path, "--tag", "first", "--yes")

    assert ended.lines[0].startswith("rolled back: snapshot 1 is the latest; removed 2 snapshots, 0 tags, ")
    assert table.latest_snapshot_id() == 1


def test_run_carries_out_a_job(paimon: Run, table: Table, tmp_path: Path):
    job, result = tmp_path / "job.json", tmp_path / "result.json"
    job.write_text(Job(TableRef(path=table.path), Compact(full=True), "me").to_json())

    assert paimon("run", "--job", job, "--result", result) == Ended(0, "", "")
    again = paimon("run", "--job", job)

    assert json.loads(result.read_text())["status"] == "committed"
    assert json.loads(again.out)["status"] == "already_done"


def test_run_takes_a_job_from_standard_input(paimon: Run, table: Table, monkeypatch: pytest.MonkeyPatch):
    job = Job(TableRef(path=table.path), Compact(dry_run=True), "me").to_json()
    monkeypatch.setattr(sys, "stdin", io.StringIO(job))

    assert json.loads(paimon("run", "--job", "-").out)["status"] == "dry_run"
    assert paimon("run", "--job", "-", "--guard").code == 2
