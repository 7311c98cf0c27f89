"""Clean-up of tables of Java: what their snapshots, branches and long-lived changelogs name stays, what nothing names is deleted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from paimon_engine import open_table
from tests.support.corpus import Case, corpus_cases
from tests.support.oracle import JavaPaimon

FAST_FORWARD = "branch_fast_forward"
"""A table in which Java put a branch's snapshots in place of one of main's, whose files it does not delete."""


def clean(path: Path, *, confirmed: bool = False) -> set[str]:
    """Removes all orphans, of files that all look old; their paths within the table."""
    for file in path.rglob("*"):
        os.utime(file, (1, 1))
    table = open_table(str(path))
    if confirmed:
        # What Java has left of a version could belong to one that is not visible.
        assert table.remove_orphan_files().status == "stopped"
    newest = table.latest_snapshot_id() if confirmed else None
    done = table.remove_orphan_files(confirm_latest_snapshot=newest)
    assert done.stopped == ()
    return {file.path.removeprefix(f"{path}/") for file in done.deleted}


@pytest.mark.parametrize("case", corpus_cases())
def test_in_tables_written_by_java_only_litter_is_orphaned(case: Case, tmp_path: Path) -> None:
    path = case.copy_to(tmp_path)
    litter = {"manifest/manifest-dead-0", "index/index-dead-0", "snapshot/.snapshot-99.dead.tmp"}
    for name in litter:
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_bytes(b"dead")

    gone = clean(path, confirmed=case.name == FAST_FORWARD)

    if case.name == FAST_FORWARD:
        assert len(gone - litter) == 4
        gone &= litter
    assert gone == litter
    assert open_table(str(path)).verify().problems == ()


@pytest.mark.parametrize("name", [FAST_FORWARD, "expire_changelog_decoupled"])
def test_java_reads_rows_and_changelogs_as_before(name: str, tmp_path: Path, oracle: JavaPaimon) -> None:
    case = next(case for parameter in corpus_cases() for case in parameter.values if case.name == name)
    path = case.copy_to(tmp_path)
    before = oracle.read(path), oracle.call("changelog", table=str(path))

    clean(path, confirmed=name == FAST_FORWARD)

    assert (oracle.read(path), oracle.call("changelog", table=str(path))) == before
    oracle.assert_sound(path)
