"""How many requests a commit on S3 takes: alone, after many others, at the same time as another one; counted by the server itself.

`python -m tests.bench.s3_commits` measures the same, and how many commits a second several writers make.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, Table, open_table
from tests.support.file_system import file_system_of
from tests.support.s3 import BUCKET, RequestLog, start_s3

COLUMNS = pa.schema([pa.field("k", pa.string(), nullable=False), pa.field("v", pa.int64())])
ONE_FILE = 1
pytestmark = pytest.mark.s3


@dataclass
class Lake:
    storage: dict[str, str]
    log: RequestLog

    def table(self, name: str, **options: Any) -> Table:
        catalog = Catalog(f"s3://{BUCKET}/requests", storage_options=self.storage)
        return catalog.create_table(f"db.{name}", schema=COLUMNS, options={"bucket": "-1", **options})

    def requests(self) -> Counter[str]:
        return Counter(verb for verb, _ in self.log.take())


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    log = RequestLog(tmp_path_factory.mktemp("s3") / "requests.log")
    for storage in start_s3(one_at_a_time=True, log=log):
        yield Lake(storage, log)


def write(table: Table, number: int) -> None:
    table.write(pa.table([[f"{number}"], [number]], schema=COLUMNS))


def test_a_commit_takes_as_few_requests_after_many_others(lake: Lake):
    table = lake.table("alone")
    found = []
    for number in range(12):
        lake.log.take()
        write(table, number)
        found.append(lake.requests())

    # The two hints, the snapshot and that none follows it, for the writer; the last two once more for the commit; and after
    # it that the snapshot which it follows is still there. One listing: of schemas; and the one that the table has here,
    # as it may have been made again.
    # A data file, a manifest, two lists, the snapshot, the hint; and whether the snapshot is there after the hint.
    assert found[1:] == [Counter(GET=8, LIST=1, PUT=ONE_FILE + 5, HEAD=1)] * 2 + found[3:]
    assert found[11] == found[2]


def test_a_writer_that_begins_to_append_reads_the_lists_and_no_manifest(lake: Lake):
    table = lake.table("begun")
    for number in range(6):
        write(table, number)

    newcomer = open_table(table.path, storage_options=lake.storage)
    lake.log.take()
    write(newcomer, 7)

    assert lake.requests() == Counter(GET=8 + 2, LIST=1, PUT=ONE_FILE + 5, HEAD=1)


def test_a_lost_race_costs_seven_requests(lake: Lake, monkeypatch: pytest.MonkeyPatch):
    """A rival that never waits takes the next snapshot first, four times."""
    table, rival = lake.table("raced"), open_table(f"s3://{BUCKET}/requests/db.db/raced", storage_options=lake.storage)
    for number in range(3):
        write(table, number)
    storage = table._handle.env.storage
    found: list[Counter[str]] = []
    races = 0

    class Overtaken(type(storage)):  # type: ignore[misc]
        def create(self, path: str, data: bytes) -> bool:
            nonlocal races
            found.append(lake.requests())
            if races:
                races -= 1
                write(rival, 10 + races)
            lake.log.take()
            return bool(super().create(path, data))

    overtaken = Overtaken(file_system_of(storage), "s3")
    ours = Table(replace(table._handle, env=replace(table._handle.env, storage=overtaken)), table._executor)
    # A store is tested once whether it decides races.
    write(ours, 20)
    found.clear()
    races = 4
    write(ours, 21)

    # Refused, and who has committed, read once by the store and once by the commit; that nobody follows, and the two
    # lists of the winner; a list of our own.
    assert found[1:] == [Counter(PUT=2, GET=5)] * 4
