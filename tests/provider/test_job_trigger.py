"""The trigger that waits for a job: a user ends its task."""

from __future__ import annotations

import asyncio
from pathlib import Path

from airflow_provider_paimon.triggers.job import PaimonJobTrigger
from paimon_engine.job_record import Beat, JobFailure, JobRecord


def test_a_job_is_ended_even_if_airflow_does_not_wait_for_that(tmp_path: Path):
    """Its triggerer cancels `on_kill` as soon as it finds the trigger there still, after about a second."""
    folder = tmp_path / "record"
    record = JobRecord.at(str(folder))
    record.prepare()
    record.beat(Beat(1, "host", 1))
    trigger = PaimonJobTrigger(folder=str(folder), warehouse=str(tmp_path))

    async def end() -> None:
        killing = asyncio.create_task(trigger.on_kill())
        while not record.is_asked_to_stop():  # noqa: ASYNC110 - a file tells it
            await asyncio.sleep(0.05)
        killing.cancel()
        await asyncio.wait([killing])
        assert killing.cancelled()
        record.end(JobFailure("Stopped", "it was asked to stop"))
        record.keep_output("all that it said")
        async with asyncio.timeout(60):
            while any(folder.glob("*")):  # noqa: ASYNC110 - files are deleted
                await asyncio.sleep(0.05)

    asyncio.run(end())
