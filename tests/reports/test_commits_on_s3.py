"""apache/paimon#9714 and #6563: commits of two writers at once in an object store, of which one overwrote the other.

A file that is written under another name and then renamed replaces what came in between: S3 has no rename that would
not. Creation only if absent leaves one of them the loser, who tries again with the next number.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pyarrow as pa
import pytest

from paimon_engine import Catalog, open_table
from paimon_engine.storage import storage_for
from tests.reports.replay import keys_of
from tests.support.pypaimon import InCatalog, PyPaimon
from tests.support.s3 import BUCKET, start_s3

pytestmark = pytest.mark.s3

WRITERS, COMMITS = 4, 3
SCHEMA = pa.schema([("k", pa.int64())])


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    yield from start_s3(one_at_a_time=True)


def test_of_many_that_create_one_object_one_succeeds(s3: dict[str, str]) -> None:
    path, together = f"s3://{BUCKET}/{uuid.uuid4()}", Barrier(16)

    def create(number: int) -> bool:
        storage = storage_for(path, s3)
        together.wait(60)
        return storage.create(path, str(number).encode())

    with ThreadPoolExecutor(16) as threads:
        made = list(threads.map(create, range(16)))

    assert sum(made) == 1
    assert storage_for(path, s3).read(path) == str(made.index(True)).encode()


def test_acknowledged_commits_are_there(s3: dict[str, str]) -> None:
    table = Catalog(f"s3://{BUCKET}/{uuid.uuid4()}", storage_options=s3).create_table("db.t", schema=SCHEMA)
    together = Barrier(WRITERS)

    def write(writer: int) -> list[int | None]:
        mine = open_table(table.path, storage_options=s3, options={"commit.max-retries": "100"})
        together.wait(60)
        return [mine.write(pa.table({"k": [COMMITS * writer + number]})).snapshot_id for number in range(COMMITS)]

    with ThreadPoolExecutor(WRITERS) as threads:
        snapshots = [number for done in threads.map(write, range(WRITERS)) for number in done]

    assert sorted(snapshots) == list(range(1, WRITERS * COMMITS + 1))
    assert keys_of(table) == list(range(WRITERS * COMMITS))
    assert table.verify(depth="rows").problems == ()


def test_pypaimon_loses_one_of_two_commits(s3: dict[str, str], pypaimon: PyPaimon) -> None:
    warehouse = f"s3://{BUCKET}/{uuid.uuid4()}"
    options = {
        "warehouse": warehouse,
        "fs.s3.endpoint": s3["s3.endpoint"],
        "fs.s3.accessKeyId": s3["s3.access-key"],
        "fs.s3.accessKeySecret": s3["s3.secret-key"],
        "fs.s3.region": s3["s3.region"],
    }
    location = InCatalog(options, "db.t")
    pypaimon.create(location, SCHEMA)

    pypaimon.append_at_once(location, pa.table({"k": [1]}), pa.table({"k": [2]}))

    table = open_table(f"{warehouse}/db.db/t", storage_options=s3)
    assert table.latest_snapshot_id() == 1
    assert len(keys_of(table)) == 1
