"""Tags, branches, consumers and the way back."""

from __future__ import annotations

import io
import json

import pytest

from paimon_engine import Table
from tests.support.clock import next_ms
from tests.support.command_line import Run


def test_tags_of_a_moment_renamed_listed_and_expired(paimon: Run, table: Table):
    table.delete_tag("first")
    first = table.snapshots()["commit_time"].cast("int64").to_pylist()[0]

    made = paimon("tag", "create", table.path, "jan-1", "--timestamp", str(first), "--retain", "30 d")
    renamed = paimon("tag", "rename", table.path, "jan-1", "feb-1")
    table.create_tag("mar-1")

    assert (made.code, made.out) == (0, "created: tag jan-1 on snapshot 1\n")
    assert renamed.out == "renamed: tag feb-1 on snapshot 1\n"
    listed = json.loads(paimon("tags", table.path, "--like", "f*", "--json").out)
    assert [row["tag_name"] for row in listed] == ["feb-1"]
    assert json.loads(paimon("tags", table.path, "--until", str(first - 1), "--json").out) == []
    assert "no tag has expired" in paimon("tag", "expire", table.path).out
    planned = paimon("tag", "expire", table.path, "--older-than", str(next_ms()), "--dry-run")
    assert "dry run, would be: 2 tags (feb-1, mar-1)" in planned.out
    assert table.tags()["tag_name"].to_pylist() == ["feb-1", "mar-1"]
    assert paimon("tag", "delete", table.path, "feb-1", "--dry-run").out.startswith("dry run, would be: tag feb-1")


def test_due_tags(paimon: Run, table: Table):
    assert paimon("tag", "create-due", table.path).out == "no tag is due\n"
    paimon("alter", "set", table.path, "tag.automatic-creation=process-time")

    planned = paimon("tag", "create-due", table.path, "--dry-run")
    made = paimon("tag", "create-due", table.path)

    assert planned.out.startswith("dry run, would be: ")
    assert made.out.startswith("created: ")
    assert made.out.endswith(" on snapshot 1\n")
    assert len(table.tags()) == 2


def test_back_to_a_moment_and_as_the_latest(paimon: Run, table: Table):
    before, rows = table.latest_snapshot_id(), table.to_arrow(snapshot=1).num_rows

    kept = paimon("rollback", table.path, "--snapshot", "1", "--as-latest")

    assert kept.out == f"committed: snapshot {before + 1} has the rows of snapshot 1 again\n"
    assert table.to_arrow().num_rows == rows
    first = table.snapshots()["commit_time"].cast("int64").to_pylist()[0]
    back = paimon("rollback", table.path, "--timestamp", str(first), "--yes")
    assert "snapshot 1 is the latest" in back.out
    assert paimon("rollback", table.path, "--yes").code == 2


@pytest.mark.parametrize(
    ("command", "more", "words"),
    [
        ("rollback", ["--snapshot", "77"], "snapshot 77"),
        ("rollback", ["--tag", "nope"], "nope"),
        ("branch fast-forward", ["nope"], "no branch 'nope'"),
    ],
)
def test_nothing_is_asked_about_what_is_not_there(
    paimon: Run, table: Table, monkeypatch: pytest.MonkeyPatch, command: str, more: list[str], words: str
):
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    ended = paimon(*command.split(), table.path, *more)

    assert (ended.code, words in ended.err, "Delete" in ended.err) == (1, True, False)


@pytest.mark.parametrize(("answer", "code", "latest"), [("n", 1, 3), ("y", 0, 1)])
def test_a_rollback_asks_first(
    paimon: Run, table: Table, monkeypatch: pytest.MonkeyPatch, answer: str, code: int, latest: int
):
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{answer}\n"))
    ended = paimon("rollback", table.path, "--snapshot", "1")

    assert (ended.code, table.latest_snapshot_id()) == (code, latest)
    assert "Delete everything that came after snapshot 1? [y/N]" in ended.err


def test_branches(paimon: Run, table: Table):
    table.create_tag("base", snapshot=1)

    made = paimon("branch", "create", table.path, "dev", "--tag", "base")
    paimon("branch", "rename", table.path, "dev", "next")

    assert made.out == "created: branch dev, at snapshot 1\n"
    assert [row["branch_name"] for row in json.loads(paimon("branch", "list", table.path, "--json").out)] == ["next"]
    planned = paimon("branch", "fast-forward", table.path, "next", "--dry-run")
    assert planned.out.splitlines()[-1].startswith("dry run, would be: to snapshot 1 of branch next")
    done = paimon("branch", "fast-forward", table.path, "next", "--yes")
    assert done.out.startswith("forwarded: to snapshot 1")
    assert table.latest_snapshot_id() == 1
    assert paimon("branch", "delete", table.path, "next").out.startswith("deleted: branch next")
    assert "no branches" in paimon("branch", "list", table.path).err


def test_consumers(paimon: Run, table: Table):
    assert paimon("consumer", "reset", table.path, "etl", "--next", "1").out == "reset: consumer etl, next snapshot 1\n"
    assert "etl" in paimon("consumer", "list", table.path).out
    assert paimon("consumer", "clear", table.path, "--dry-run").out == "dry run, would be: etl\n"
    assert paimon("consumer", "expire", table.path).out == "no consumer to delete\n"
    assert paimon("consumer", "clear", table.path).out == "removed: etl\n"
