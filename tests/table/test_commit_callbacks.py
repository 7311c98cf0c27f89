"""Callbacks of commits: `commit.callbacks` names classes that installed packages provide."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_engine import CallbackError, Catalog, Table, UnsupportedError, open_table
from paimon_engine.env import EnvConfig
from paimon_engine.meta.snapshot import CommitKind
from paimon_engine.table.commit.commit import commit
from paimon_engine.table.commit.job_commit import look_up_commit
from paimon_engine.table.state.handle import load_table

SOURCE = """
import json
from pathlib import Path


class Note:
    def __init__(self, parameter):
        self.path, _, self.what = (parameter or "").partition("|")

    def committed(self, event):
        path = Path(event.table)
        root = path if event.branch == "main" else path / "branch" / f"branch-{event.branch}"
        line = {
            "snapshot": event.snapshot_id, "kind": event.kind, "user": event.user, "branch": event.branch,
            "identifier": event.identifier, "repeated": event.is_repeated,
            "is_there": (root / "snapshot" / f"snapshot-{event.snapshot_id}").exists(),
        }
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\\n")
        if self.what == "fail":
            raise ValueError(f"no answer from {self.path}|{self.what}")
        if self.what == "die":
            raise KeyboardInterrupt


class Deaf:
    def __init__(self, parameter):
        pass
"""

POINTS = """[paimon_engine.commit_callbacks]
com.acme.Note = commit_hooks_of_acme:Note
com.acme.Deaf = commit_hooks_of_acme:Deaf
"""


@pytest.fixture
def heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[dict]]:
    """What the callback has heard since the last look."""
    site = tmp_path / "site"
    info = site / "acme_commit_hooks-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "commit_hooks_of_acme.py").write_text(SOURCE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-commit-hooks\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    monkeypatch.syspath_prepend(str(site))
    file = tmp_path / "heard"

    def look() -> list[dict]:
        lines = file.read_text().splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return [json.loads(line) for line in lines]

    return look


def options(tmp_path: Path, what: str = "") -> dict[str, str]:
    parameter = f"{tmp_path}/heard|{what}" if what else f"{tmp_path}/heard"
    return {"commit.callbacks": "com.acme.Note", "commit.callback.com.acme.Note.param": parameter}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Catalog(str(tmp_path / "lake")).create_table(
        "db.t", schema={"id": "BIGINT NOT NULL"}, primary_keys=["id"], options={"bucket": "1", **options(tmp_path)}
    )


def rows(*keys: int) -> pa.Table:
    return pa.table({"id": pa.array(keys, pa.int64())})


def notes(table: Table) -> list[Path]:
    return sorted(Path(table.path).glob("**/pending-commits/*.json"))


def test_a_callback_hears_of_each_commit_once_its_snapshot_is_there(table: Table, heard):
    table.write(rows(1), commit_user="me")
    table.write(rows(2))
    table.compact(full=True)

    first, *others = heard()
    assert {**first, "identifier": 0} == {
        "snapshot": 1,
        "kind": "APPEND",
        "user": "me",
        "branch": "main",
        "identifier": 0,
        "repeated": False,
        "is_there": True,
    }
    assert [(line["snapshot"], line["kind"]) for line in others] == [(2, "APPEND"), (3, "COMPACT")]
    assert notes(table) == []


def test_commits_of_metadata_alone_are_heard(table: Table, heard):
    table.write(rows(1))
    table.create_tag("first")
    table.write(rows(2))
    heard()
    table.rollback_to_as_latest(tag="first")
    table.rollback_to_as_latest(snapshot=2)
    lost = Catalog(str(Path(table.path).parents[1])).table("db.t$manifests").to_arrow(["file_name"])[0][0].as_py()
    Path(table.path, "manifest", lost).unlink()
    table.remove_unexisting_manifests()

    assert [(line["snapshot"], line["kind"]) for line in heard()] == [
        (3, "OVERWRITE"),
        (4, "OVERWRITE"),
        (5, "OVERWRITE"),
    ]
    assert notes(table) == []


def test_a_branch_is_named(table: Table, heard):
    table.write(rows(1))
    table.create_tag("t")
    table.create_branch("b", tag="t")
    heard()
    open_table(f"{table.path}$branch_b").write(rows(2))
    assert [(line["branch"], line["snapshot"], line["is_there"]) for line in heard()] == [("b", 2, True)]


def test_a_second_attempt_of_a_job_calls_again(table: Table, heard):
    table.write(rows(1), commit_user="me")
    heard()
    assert table.write(rows(1), commit_user="me").status == "already_done"
    assert [(line["snapshot"], line["repeated"]) for line in heard()] == [(1, True)]


def test_a_failure_is_said_after_the_commit_and_loses_nothing(table: Table, heard, tmp_path: Path):
    failing = open_table(table.path, options=options(tmp_path, "fail"))
    with pytest.raises(CallbackError, match=r"snapshot 1 of .* is committed, but com.acme.Note.*\*\*\*") as raised:
        failing.write(rows(1), commit_user="me")
    assert "|fail" not in str(raised.value)
    assert table.to_arrow()["id"].to_pylist() == [1]
    assert len(notes(table)) == 1
    heard()
    table.write(rows(1), commit_user="me")
    assert (heard()[0]["snapshot"], notes(table)) == (1, [])
    assert notes(table) == []


def test_a_commit_that_died_before_it_called_is_made_up_for_by_the_next(table: Table, heard, tmp_path: Path):
    with pytest.raises(KeyboardInterrupt):
        open_table(table.path, options=options(tmp_path, "die")).write(rows(1))
    assert table.to_arrow()["id"].to_pylist() == [1]
    (note,) = notes(table)
    heard()

    table.write(rows(2))
    assert [line["snapshot"] for line in heard()] == [2]  # the run of the first one may still be at work
    an_hour_ago = note.stat().st_mtime - 3600
    os.utime(note, (an_hour_ago, an_hour_ago))
    table.write(rows(3))
    assert [(line["snapshot"], line["repeated"]) for line in heard()] == [(1, True), (3, False)]
    assert notes(table) == []


def test_a_note_of_a_commit_that_never_happened_goes_after_a_day(table: Table, heard):
    folder = Path(table.path, "pending-commits")
    folder.mkdir()
    note = {"user": "gone", "identifier": 1, "kind": "APPEND", "after": 0}
    (folder / "a.json").write_text(json.dumps(note))
    (folder / "b.json").write_text("{")
    table.write(rows(1))
    assert len(notes(table)) == 2
    for path in notes(table):
        two_days_ago = path.stat().st_mtime - 2 * 86_400
        os.utime(path, (two_days_ago, two_days_ago))
    table.write(rows(2))
    assert [line["snapshot"] for line in heard()] == [1, 2]
    assert notes(table) == []


def test_a_commit_that_is_refused_is_not_heard_of(table: Table, heard):
    table.write(rows(1))
    messages = table.prepare_write(rows(2))
    heard()
    handle = load_table(table.path, EnvConfig(table.path))
    job = look_up_commit(handle, "me", CommitKind.COMPACT, 7)
    gone = messages[0].__class__(messages[0].partition, 0, 1, compact_before=messages[0].new_files, compact_after=())
    assert type(commit(handle, job.request([gone]))).__name__ == "Conflict"
    assert heard() == []
    assert notes(table) == []


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("com.acme.Unknown", "'com.acme.Unknown' is not installed: .* 'paimon_engine.commit_callbacks'"),
        ("com.acme.Deaf", "not a CommitCallback: it lacks committed"),
        ("os.system", "'os.system' is not installed"),
    ],
)
def test_what_is_not_installed_is_refused_before_rows_are_written(table: Table, heard, names: str, message: str):
    lame = open_table(table.path, options={"commit.callbacks": names})
    before = sorted(Path(table.path).rglob("*"))
    with pytest.raises(UnsupportedError, match=message):
        lame.write(rows(1))
    assert sorted(Path(table.path).rglob("*")) == before
    assert open_table(table.path, options={"commit.callbacks": ""}).write(rows(1)).status == "committed"
    assert heard() == []


def test_reads_need_no_callback(table: Table, heard):
    table.write(rows(1))
    assert open_table(table.path, options={"commit.callbacks": "a.B"}).to_arrow().num_rows == 1
