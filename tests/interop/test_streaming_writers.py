"""A streaming writer of Java 2.0 that compacts a table with deletion vectors, and a compaction beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Table, open_table
from paimon_engine.action import Context
from paimon_engine.actions.compact import Compact, compact
from paimon_engine.env import EnvConfig
from paimon_engine.table.state.handle import load_table
from tests.support.meddling import Meddling
from tests.support.oracle import JavaPaimon

pytestmark = pytest.mark.java

FIELDS = [["k", "BIGINT NOT NULL"], ["city", "STRING"], ["v", "INT"]]
VECTORS = {"bucket": "1", "deletion-vectors.enabled": "true"}
KINDS = {
    "levels": VECTORS,
    "clustered": {**VECTORS, "pk-clustering-override": "true", "clustering.columns": "city"},
    "merge on read": {**VECTORS, "deletion-vectors.merge-on-read": "true"},
}
TWO_HOURS_MS = 7_200_000


class Stream:
    """A writer that stays open from one checkpoint to the next."""

    def __init__(self, java: JavaPaimon, path: str, options: Mapping[str, str]) -> None:
        self.java, self.path, self.checkpoint = java, path, 0
        java.call(
            "create_table", table=path, fields=FIELDS, primary_keys=["k"], partition_keys=[], options=dict(options)
        )
        self.write(range(20_000))
        self.write(range(20_000, 24_000))

    def write(self, keys: Sequence[int]) -> None:
        self.checkpoint += 1
        rows = [[key, f"c{key % 5}", self.checkpoint] for key in keys]
        self.java.call("stream", table=self.path, rows=rows, checkpoint=self.checkpoint)

    def keys(self) -> list[int]:
        """Those that Java reads."""
        return [row[0] for row in self.java.read(self.path)]


def make_older(table: Table, which: str = "snapshot-*") -> None:
    """As if nothing had been written for two hours."""
    for path in Path(table.path, "snapshot").glob(which):
        snapshot: dict[str, Any] = json.loads(path.read_text())
        path.write_text(json.dumps({**snapshot, "timeMillis": snapshot["timeMillis"] - TWO_HOURS_MS}))


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_a_bucket_that_a_stream_compacts_is_left(paimon2: JavaPaimon, tmp_path: Path, options: Mapping[str, str]):
    stream = Stream(paimon2, str(tmp_path / "t"), options)

    for full in (True, False):
        result = open_table(stream.path).compact(full=full)
        assert result.status == "noop"
        assert "a streaming job compacts it (snapshot " in str(result.buckets[0].skipped)
        assert "'write-only' = 'true'" in str(result.buckets[0].skipped)
    for step in range(4):
        stream.write(range(500 + step, 540 + step))

    keys = stream.keys()
    assert len(keys) == len(set(keys)) == 24_000


def test_it_is_compacted_after_an_hour_without_new_rows(paimon2: JavaPaimon, tmp_path: Path):
    stream = Stream(paimon2, str(tmp_path / "t"), VECTORS)
    table = open_table(stream.path)
    make_older(table)

    assert table.compact(full=True).status == "committed"
    assert len(table.to_arrow()) == 24_000


def test_a_bucket_that_a_stream_compacts_meanwhile_is_left(paimon2: JavaPaimon, tmp_path: Path):
    """It marks no old rows, and so no file in common shows it."""
    stream = Stream(paimon2, str(tmp_path / "t"), VECTORS)
    make_older(open_table(stream.path))
    executor = Meddling(lambda: stream.write(range(30_000, 30_100)))

    result = compact(Context(load_table(stream.path, EnvConfig(stream.path)), executor), Compact(full=True))

    assert result.status == "noop"
    assert "a streaming job compacts it" in str(result.buckets[0].skipped)
    stored = {path.name for path in Path(stream.path, "bucket-0").iterdir()}
    assert stored == {Path(row["file_path"]).name for row in open_table(stream.path).files().to_pylist()}
    stream.write(range(500, 540))
    keys = stream.keys()
    assert len(keys) == len(set(keys)) == 24_100


def test_a_late_clock_of_another_committer_does_not_end_the_search(paimon2: JavaPaimon, tmp_path: Path):
    stream = Stream(paimon2, str(tmp_path / "t"), VECTORS)
    table = open_table(stream.path)
    table.write(pa.table({"k": [1], "city": ["x"], "v": [0]}))
    make_older(table, f"snapshot-{table.latest_snapshot_id()}")

    assert "a streaming job compacts it" in str(table.compact().buckets[0].skipped)


def test_only_buckets_of_the_stream_are_left(paimon2: JavaPaimon, tmp_path: Path):
    stream = Stream(paimon2, str(tmp_path / "t"), {**VECTORS, "bucket": "2"})
    make_older(open_table(stream.path))
    table = open_table(stream.path)
    table.write(pa.table({"k": range(100), "city": ["x"] * 100, "v": [0] * 100}))
    stream.write([30_000])

    result = open_table(stream.path).compact(full=True)

    assert sorted(bucket.skipped is None for bucket in result.buckets) == [False, True]


def test_what_becomes_of_a_table_that_two_engines_compact(paimon2: JavaPaimon, tmp_path: Path):
    """What this is about: Java's own compaction brings old rows back. A full compaction here removes them again."""
    stream = Stream(paimon2, str(tmp_path / "t"), VECTORS)
    paimon2.call("compact", table=stream.path, full=True)
    stream.write(range(500, 540))
    assert len(stream.keys()) == 24_040

    table = open_table(stream.path)
    [problem] = table.verify("rows").problems
    assert "40 keys" in problem.what
    make_older(table)
    table.compact(full=True)
    assert sorted(stream.keys()) == list(range(24_000))
    assert {row["v"] for row in table.to_arrow(where="k >= 500 AND k < 540").to_pylist()} == {3}
    assert table.verify("rows").status == "sound"
