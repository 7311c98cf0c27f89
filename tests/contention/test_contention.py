"""Eight processes write, compact and expire one table for some seconds; longer: `python -m tests.contention`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contention.fleet import new_table, settle
from tests.contention.launch import launch
from tests.support.s3 import BUCKET, start_s3

SECONDS = 6
SECONDS_ON_S3 = 10


@pytest.fixture(scope="module")
def s3_storage() -> Iterator[dict[str, str]]:
    yield from start_s3(one_at_a_time=True)


@pytest.mark.parametrize("keyed", [False, True], ids=["append", "keyed"])
def test_every_acknowledged_commit_of_eight_processes_is_there_once(tmp_path: Path, keyed: bool):
    path = new_table(str(tmp_path), keyed=keyed).path

    account = settle(path, launch(path, SECONDS, {}), {})

    print(account)
    assert account.commits > 0
    assert account.unknown == 0


@pytest.mark.s3
def test_every_acknowledged_commit_is_there_once_on_s3(s3_storage: dict[str, str]):
    path = new_table(f"s3://{BUCKET}/contended", keyed=False, storage=s3_storage).path

    account = settle(path, launch(path, SECONDS_ON_S3, s3_storage), s3_storage)

    print(account)
    assert account.commits > 0
