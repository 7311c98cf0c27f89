"""Jobs that are left to themselves while their task waits in the triggerer, and what is taken over when they end.

A job is found again by its commit user, under which each attempt at the same work looks for records: a worker that dies
after it has started a job costs nothing but the retry.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_provider_paimon import engine
from airflow_provider_paimon.launchers.base import Detaching, exception_of
from airflow_provider_paimon.launchers.spark_submit import new_record
from airflow_provider_paimon.launchers.watching import forget, running_of
from paimon_engine.errors import PaimonError

logger = logging.getLogger(__name__)


def leave_to_itself(
    launcher: Detaching,
    job: engine.Job,
    secrets: Mapping[str, str],
    *,
    root: str | None,
    store_options: Mapping[str, str],
) -> engine.JobRecord:
    """Starts a job, or finds that of an earlier attempt that still runs; gives its record, in the folder `root`.

    Raises: AirflowFailException if there is no location for it; AirflowException if the store fails.
    """
    if root is None:
        raise AirflowFailException("deferrable=True needs result_uri, a folder in a store that all workers reach")
    try:
        record = new_record(root, job.commit_user, store_options)
        found = running_of(record)
        if found is not None:
            logger.info("Found the job of an earlier attempt, which continues: %s", found.folder)
            return found
        # From here on another attempt finds it.
        record.prepare()
        launcher.detach(job, secrets, record)
    except PaimonError as error:
        raise AirflowException(f"The job could not be started: {error}") from error
    logger.info("Started %s; its progress is written to %s", engine.name_of(job.action), record.folder)
    _forget_abandoned(root, store_options)
    return record


def _forget_abandoned(root: str, store_options: Mapping[str, str]) -> None:
    """Deletes records that no task waits for any more. It is no task's work, so it fails none."""
    try:
        count = engine.forget_abandoned(root, store_options)
    except PaimonError as error:
        logger.info("Old records of jobs in %s stay: %s", root, error)
        return
    if count:
        logger.info("Deleted %s old records of jobs in %s that no task waits for any more", count, root)


def taken_over(event: Mapping[str, Any], store_options: Mapping[str, str]) -> engine.JobResult:
    """The result of a job that a trigger's event says has ended; its record is deleted then.

    Raises: AirflowFailException if trying again is useless; AirflowException for all other failures.
    """
    if event["status"] != "ended":
        raise AirflowException(event["message"])
    record = engine.JobRecord.at(event["folder"], store_options)
    try:
        outcome = record.outcome()
        if outcome is None:
            raise AirflowException(f"The record {record.folder} of the job is lost; a retry finds what was committed")
        output = forget(record)
    except PaimonError as error:
        raise AirflowException(f"The outcome of the job cannot be read: {error}") from error
    for line in output.splitlines():
        logger.info("%s", line)
    if isinstance(outcome, engine.JobFailure):
        raise exception_of(outcome)
    return outcome
