"""Processes in nine roles on one table for some seconds; longer: `python -m tests.contention`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contention.fleet import new_table, settle
from tests.contention.launch import launch
from tests.contention.roles import EIGHT, NINE, STARVING
from tests.support.s3 import BUCKET, start_s3

SECONDS = 5
SECONDS_IN_NINE_ROLES = 12
SECONDS_ON_S3 = 8


@pytest.fixture(scope="module")
def s3_storage() -> Iterator[dict[str, str]]:
    yield from start_s3(one_at_a_time=True)


def test_every_acknowledged_commit_to_a_keyed_table_is_there_once(tmp_path: Path):
    path = new_table(str(tmp_path), keyed=True).path

    account = settle(path, launch(path, SECONDS, {}, EIGHT), {})

    print(account)
    assert account["commits"] > 0
    assert account["unknown"] == 0


@pytest.mark.parametrize("keyed", [False, True], ids=["append", "keyed"])
def test_every_compaction_succeeds_during_twelve_commits_a_second(tmp_path: Path, keyed: bool):
    path = new_table(str(tmp_path), keyed=keyed).path

    account = settle(path, launch(path, SECONDS, {}, STARVING), {})

    print(account)
    assert account["gave up"] == 0
    assert account["compactions"] > 0


def test_nothing_is_lost_in_nine_roles(tmp_path: Path):
    path = new_table(str(tmp_path), keyed=False).path

    everybody_did_something(settle(path, launch(path, SECONDS_IN_NINE_ROLES, {}, NINE), {}))


@pytest.mark.s3
def test_nothing_is_lost_in_nine_roles_on_s3(s3_storage: dict[str, str]):
    path = new_table(f"s3://{BUCKET}/contended", keyed=False, storage=s3_storage).path

    account = settle(path, launch(path, SECONDS_ON_S3, s3_storage, NINE), s3_storage)

    # A busy machine makes only a few commits here, and most of them only while the tagger has nothing to tag.
    everybody_did_something(account, "commits", "reads")


def everybody_did_something(account: Counter[str], *what: str) -> None:
    print(account)
    for name in what or ("commits", "tags", "reads"):
        assert account[name] > 0, account
