"""Writers of dynamic buckets on a store that loses replies and lets other writers commit first; one seed is one history."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from paimon_engine.actions.write import CommitAttributes, write_arrow
from paimon_engine.table.read.open_read import open_read
from paimon_engine.table.read.read_request import ReadRequest
from paimon_engine.table.state.manifests import live_entries
from paimon_engine.table.state.snapshots import latest_snapshot, latest_snapshot_id
from tests.support.key_places import assert_each_key_in_one_bucket
from tests.support.unreliable_storage import UnreliableStorage
from tests.support.world import Place

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64())])
OPTIONS = {
    "bucket": "-1",
    "dynamic-bucket.target-row-num": "2",
    "commit.max-retries": "60",
}


@pytest.mark.parametrize("seed", range(30))
def test_rivals_and_lost_replies_leave_each_key_in_one_bucket(seed: int) -> None:
    chance = random.Random(seed)
    location = Place()
    location.make(SCHEMA, ["k"], [], OPTIONS)
    storage = UnreliableStorage(location.inner, chance)
    table = location.through(storage).handle
    may_be: dict[int, set[int]] = {}
    acknowledged = []

    def write(number: int) -> None:
        keys = chance.sample(range(12), 4)
        rows = pa.record_batch([keys, [number] * 4], schema=SCHEMA)
        result = write_arrow(table, [rows], name=CommitAttributes(f"user-{number}"))
        acknowledged.append(result.snapshot_id)
        for key in keys:
            may_be.setdefault(key, set()).add(number)

    numbers = iter(range(100))
    # A rival writes while somebody else is about to create a snapshot; it has no rival of its own.
    storage.rival = lambda: write(next(numbers))
    for _ in range(5):
        write(next(numbers))
    storage.rival = None

    assert sorted(acknowledged) == list(range(1, (latest_snapshot_id(table) or 0) + 1))
    _, batches = open_read(table, ReadRequest())
    found = {row["k"]: row["v"] for batch in batches for row in batch.to_pylist()}
    assert found.keys() == may_be.keys()
    assert all(value in may_be[key] for key, value in found.items())
    assert_each_key_in_one_bucket(table)
    # Nothing was compacted, so that all files but those placed again are live.
    data = {entry.file.name for entry in live_entries(table, latest_snapshot(table))}
    stored = [info.path.rpartition("/")[2] for info in location.inner.walk(location.root)]
    assert {name for name in stored if name.startswith("data-")} == data
