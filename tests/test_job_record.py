"""Records of jobs that no task waits for any more."""

from __future__ import annotations

import os
import time
import uuid
from pathlib import Path

import pytest

from paimon_engine.job_record import Beat, JobFailure, JobRecord, forget_abandoned

DAY_S = 86_400


def record_in(root: Path, *, days: float, work: str | None = None) -> Path:
    """The folder of a record that nothing has written to for so many days."""
    folder = root / (work or str(uuid.uuid4())) / str(uuid.uuid4())
    record = JobRecord.at(str(folder))
    record.prepare()
    record.beat(Beat(1, "host", 1))
    record.end(JobFailure("Stopped", "it was asked to stop"))
    record.keep_output("all that it said")
    age(folder, days)
    return folder


def age(folder: Path, days: float) -> None:
    moment = time.time() - days * DAY_S
    for path in folder.iterdir():
        os.utime(path, (moment, moment))


def test_records_of_a_month_ago_are_deleted_with_their_folders(tmp_path: Path):
    old, young = record_in(tmp_path, days=31), record_in(tmp_path, days=29)

    assert forget_abandoned(str(tmp_path)) == 1

    assert not old.parent.exists()
    assert len(list(young.iterdir())) == 4
    assert forget_abandoned(str(tmp_path)) == 0


def test_a_record_of_work_that_is_going_on_stays(tmp_path: Path):
    """A later attempt at the same work may look for the result of the earlier one."""
    old = record_in(tmp_path, days=31)
    record_in(tmp_path, days=0, work=old.parent.name)

    assert forget_abandoned(str(tmp_path)) == 0
    assert old.exists()


@pytest.mark.parametrize(
    "strange", ["mine.txt", "{work}/mine.txt", "{work}/{attempt}/mine.txt", "{work}/mine/beat.json"]
)
def test_what_is_no_record_is_not_touched(tmp_path: Path, strange: str):
    old = record_in(tmp_path, days=31)
    path = tmp_path / strange.format(work=old.parent.name, attempt=old.name)
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine")
    age(path.parent, 400)
    others = record_in(tmp_path, days=400, work="daily")

    deleted = forget_abandoned(str(tmp_path))

    assert path.read_text() == "mine"
    assert len(list(others.iterdir())) == 4
    assert deleted == (1 if path.parent == tmp_path else 0)


def test_no_more_works_are_looked_at_than_allowed(tmp_path: Path):
    for _ in range(4):
        record_in(tmp_path, days=31)

    assert forget_abandoned(str(tmp_path), at_most=3) == 3
    assert forget_abandoned(str(tmp_path / "missing")) == 0
