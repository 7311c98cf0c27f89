"""The JSON schema of jobs: as strict as the decoder about names and shapes."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from paimon_engine.actions.compact import Compact
from paimon_engine.actions.write import Write
from paimon_engine.jobs import Job, NewTable, TableRef, job_schema

JOB = {"version": 1, "table": {"path": "/t"}, "commit_user": "u"}


def is_valid(action: Any, **more: Any) -> bool:
    return jsonschema.Draft202012Validator(job_schema()).is_valid({**JOB, "action": action, **more})


def test_it_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(job_schema())


@pytest.mark.parametrize(
    "job",
    [
        Job(TableRef(path="/t"), Compact(full=True, max_bytes="50gb", buckets=[1]), "u"),
        Job(TableRef("/lake", "db.t"), Write(["a", "b"], overwrite={}), "u", create=NewTable(("k",))),
    ],
)
def test_jobs_that_the_engine_writes_are_valid(job: Job):
    jsonschema.validate(json.loads(job.to_json()), job_schema())


@pytest.mark.parametrize(
    "action",
    [
        {"name": "compact", "full": "true", "max_bytes": "50gb", "buckets": "1,2", "where": None},
        {"name": "expire_snapshots", "older_than": "30 days", "retain_max": "5", "files_per_second": 2.5},
        {"name": "drop_partition", "partitions": ["day=1", {"day": 2}]},
        {"name": "alter_table", "changes": [{"change": "drop_column", "name": "a"}]},
        {"name": "create_tag", "tag": "t", "if_exists": "replace"},
    ],
)
def test_what_the_decoder_takes_is_valid(action: dict[str, Any]):
    Job.from_json(json.dumps({**JOB, "action": action}))

    assert is_valid(action)


@pytest.mark.parametrize(
    "action",
    [
        {"name": "fly"},
        {"name": "compact", "speed": 1},
        {"name": "compact", "full": 1},
        {"name": "compact", "max_bytes": 0},
        {"name": "compact", "buckets": 1.5},
        {"name": "delete_tag"},
        {"name": "create_tag", "tag": "t", "if_exists": "perhaps"},
        {"name": "drop_partition", "partitions": [1]},
    ],
)
def test_what_has_no_such_shape_is_not(action: dict[str, Any]):
    assert not is_valid(action)
    assert not is_valid({"name": "verify"}, unknown=1)
