"""Small Parquet files that unpack to gigabytes are refused, or read within bounded memory, and named by `verify`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from paimon_engine.format.binary_row import EMPTY_ROW
from paimon_engine.meta.snapshot import CommitKind
from paimon_engine.table.check.table_check import Depth, check_table
from paimon_engine.table.commit.commit import CommitRequest, commit
from paimon_engine.table.files.commit_message import CommitMessage
from tests.hostile.parquet_bombs import BOMBS, LYING, SOUND
from tests.support.reference import PROJECT
from tests.support.world.made_up import History


def read_in_little_memory(data: bytes) -> list[str]:
    """What comes of a file that is read through Python, and of one that Arrow reads itself."""
    run = subprocess.run(
        [sys.executable, "-m", "tests.hostile.parquet_bombs"],
        cwd=PROJECT,
        env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1"},
        input=data,
        capture_output=True,
        check=True,
    )
    through_python, by_arrow = run.stdout.decode().splitlines()
    return [through_python, by_arrow]


@pytest.mark.parametrize("what", BOMBS)
def test_a_file_that_unpacks_to_gigabytes_is_refused(what: str):
    make, message = BOMBS[what]

    for outcome in read_in_little_memory(make()):
        assert outcome.startswith("refused: data-1.parquet: column 'v' of row group 0 has ")
        assert re.search(message.removeprefix("row group 0 has "), outcome)
        assert "roll back to a snapshot" in outcome


@pytest.mark.parametrize("what", SOUND)
def test_what_is_well_compressed_stays_readable(what: str):
    make, rows = SOUND[what]

    assert read_in_little_memory(make()) == [str(rows)] * 2


def with_file(data: bytes) -> History:
    history = History()
    history.storage.overwrite(history.path("x.parquet"), data)
    file = replace(history.file("x"), name="x.parquet", size_bytes=len(data), row_count=1 << 27)
    commit(history.handle, CommitRequest([CommitMessage(EMPTY_ROW, 0, 1, new_files=(file,))], CommitKind.APPEND, "w"))
    return history


def test_verify_names_the_file_by_its_footer():
    history = with_file(BOMBS["a page that only claims to be large"][0]())

    problems = check_table(history.handle)

    assert [problem.where for problem in problems] == [history.path("x.parquet")]
    assert "unpacks to 1073741824" in problems[0].what


def test_verify_of_rows_does_not_trust_the_footer():
    history = with_file(LYING)

    assert check_table(history.handle) == []
    assert any("unpacks to 1073741824" in found.what for found in check_table(history.handle, depth=Depth.ROWS))
