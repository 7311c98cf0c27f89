"""Jobs are followed by their heartbeats: what is taken for a lost one, and what only cannot be seen at the moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_paimon.launchers.watching import LOST_S, JobLostError, Watch
from paimon_engine.errors import StorageError
from paimon_engine.job_record import Beat, JobRecord


class Job:
    """A job that has sent one heartbeat, who follows it, and the time."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.now = folder, 1_000.0
        self.record = JobRecord.at(str(folder))
        self.record.prepare()
        self.beat(1)
        self.watch = Watch(self.record, clock=lambda: self.now)
        assert self.watch.outcome() is None

    def beat(self, number: int) -> None:
        self.record.beat(Beat(number, "driver", 1))

    def seconds_until_lost(self, step_s: float) -> float:
        """So long it is looked at, without a new heartbeat, until it counts as lost."""
        begin = self.now
        with pytest.raises(JobLostError, match="on driver, process 1, has sent no heartbeat for 60 s"):
            while self.now < begin + 1_000:
                self.now += step_s
                self.watch.outcome()
        return self.now - begin


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path / "work" / "job")


@pytest.mark.parametrize(("step_s", "lost_after_s"), [(1, 61), (5, 65), (30, 90), (45, 135), (300, 900)])
def test_a_job_without_heartbeats_is_lost(job: Job, step_s: float, lost_after_s: float):
    assert job.seconds_until_lost(step_s) == lost_after_s


def test_heartbeats_keep_a_job(job: Job):
    for number in range(2, 20):
        job.now += LOST_S
        job.beat(number)
        assert job.watch.outcome() is None


def test_a_store_that_failed_for_a_time_does_not_make_a_job_lost(job: Job):
    """Nor could the job send heartbeats then; who looks first after it must wait for the next one."""
    beat, aside = job.folder / "beat.json", job.folder / "aside"
    beat.rename(aside)
    beat.mkdir()
    for _ in range(600):
        job.now += 1
        with pytest.raises(StorageError, match="beat.json"):
            job.watch.outcome()
    beat.rmdir()
    aside.rename(beat)

    assert job.watch.outcome() is None
    job.now += 5
    job.beat(2)
    assert job.watch.outcome() is None
    assert job.seconds_until_lost(5) == 65


def test_who_was_paused_looks_again(job: Job):
    """A machine that slept: its clock has gone on, and the job was asleep as well."""
    job.now += 3_600

    assert job.watch.outcome() is None
    job.beat(2)
    assert job.watch.outcome() is None
