"""check_table finds what is wrong with a table, and nothing in tables that Java wrote."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_engine.env import EnvConfig
from paimon_engine.format.binary_row import EMPTY_ROW
from paimon_engine.meta.snapshot import CommitKind
from paimon_engine.table.check import Problem, check_table
from paimon_engine.table.commit import CommitRequest, commit
from paimon_engine.table.commit_message import CommitMessage
from paimon_engine.table.handle import load_table
from tests.actions.history import History
from tests.support.corpus import Case, corpus_cases


@pytest.mark.parametrize("case", corpus_cases())
def test_tables_written_by_java_are_sound(case: Case) -> None:
    assert check_table(load_table(str(case.table), EnvConfig(str(case.table)))) == []


def _rewrite_snapshot(history: History, **changes: Any) -> None:
    path = history.handle.paths.snapshot(3)
    value = json.loads(history.storage.read(path))
    history.storage.overwrite(path, json.dumps({**value, **changes}).encode())


def _delete_list(history: History) -> None:
    path = history.handle.paths.snapshot(3)
    name = json.loads(history.storage.read(path))["deltaManifestList"]
    history.storage.delete([history.handle.paths.manifest(name)])


DAMAGES: dict[str, tuple[Callable[[History], Any], str, str]] = {
    "a data file is gone": (lambda h: h.storage.delete([h.path("c.orc")]), "snapshot 3", "c.orc is missing"),
    "an extra file is gone": (lambda h: h.storage.delete([h.path("c.orc.index")]), "snapshot 3", "index is missing"),
    "a tag's file is gone": (lambda h: h.storage.delete([h.path("a.orc")]), "snapshot 1", "a.orc is missing"),
    "a data file is cut": (lambda h: h.storage.overwrite(h.path("c.orc"), b"0"), "snapshot 3", "has 1 bytes"),
    "a snapshot is gone": (
        lambda h: h.storage.delete([h.handle.paths.snapshot(2)]),
        "snapshot 3",
        "follows snapshot 1",
    ),
    "a list is gone": (_delete_list, "snapshot 3", "manifest-list"),
    "a wrong total": (lambda h: _rewrite_snapshot(h, totalRecordCount=77), "snapshot 3", "says 77 records"),
    "a wrong delta": (lambda h: _rewrite_snapshot(h, deltaRecordCount=77), "snapshot 3", "77 records more"),
    "a list that is not its own": (
        lambda h: _rewrite_snapshot(h, baseManifestList=_base_list(h, 1), baseManifestListSize=None),
        "snapshot 3",
        "removed but was never added",
    ),
}


def _base_list(history: History, snapshot_id: int) -> str:
    path = history.handle.paths.snapshot(snapshot_id)
    return str(json.loads(history.storage.read(path))["baseManifestList"])


@pytest.mark.parametrize(("damage", "where", "what"), DAMAGES.values(), ids=DAMAGES.keys())
def test_damage_is_found(damage: Callable[[History], Any], where: str, what: str) -> None:
    history = History().write("a").write("b").compact("c")
    assert check_table(history.handle) == []

    damage(history)

    problems = check_table(history.handle)
    assert any(problem.where == where and what in problem.what for problem in problems), problems


def test_overlapping_files_are_found() -> None:
    history = History().write("a")
    message = CommitMessage(EMPTY_ROW, 0, 1, new_files=(history.file("x", level=3), history.file("y", level=3)))
    # Appends are committed without a look at keys: writers only ever add files of level 0.
    commit(history.handle, CommitRequest([message], CommitKind.APPEND, "careless"))

    assert "overlap" in " ".join(problem.what for problem in check_table(history.handle))


def test_a_wrong_row_count_in_a_footer_is_found() -> None:
    history = History()
    sink = io.BytesIO()
    pq.write_table(pa.table({"k": [1, 2]}), sink)
    history.storage.overwrite(history.path("x.parquet"), sink.getvalue())
    file = replace(history.file("x"), name="x.parquet", size_bytes=len(sink.getvalue()), row_count=3)
    message = CommitMessage(EMPTY_ROW, 0, 1, new_files=(file,))
    commit(history.handle, CommitRequest([message], CommitKind.APPEND, "writer"))

    problems = check_table(history.handle)

    assert problems == [Problem(history.path("x.parquet"), "has 2 rows, its manifest says 3")]
    assert check_table(history.handle, footers=False) == []


def test_a_snapshot_that_cannot_be_read_is_a_finding_and_the_others_are_looked_at() -> None:
    history = History().write("a").write("b").compact("c")
    history.storage.overwrite(history.handle.paths.snapshot(2), b"{")
    history.storage.delete([history.path("c.orc")])

    problems = check_table(history.handle)

    assert any(problem.where == history.handle.paths.snapshot(2) for problem in problems)
    assert any("c.orc is missing" in problem.what for problem in problems)
