"""Rows of one bucket among others stay in the batches that they came in; what is written is the same."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, Table
from paimon_engine.meta.schema import SEQUENCE_NUMBER
from paimon_engine.table.check.table_check import check_table
from paimon_engine.table.files import bucketing
from paimon_engine.table.files.bucketing import split_by_bucket
from paimon_engine.table.files.data_file import bucket_location, read_data_file
from paimon_engine.table.state.manifests import live_entries
from paimon_engine.table.state.snapshots import latest_snapshot
from tests.support.write_parts import OPTIONS, handle_of

SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        pa.field("p", pa.string(), nullable=False),
        pa.field("v", pa.int64()),
        pa.field("w", pa.string()),
    ]
)
KINDS: Mapping[str, Mapping[str, str]] = {
    **OPTIONS,
    "by a field": {"bucket": "3", "sequence.field": "v"},
    "added up": {"bucket": "3", "merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
    "dynamic": {"bucket": "-1", "dynamic-bucket.target-row-num": "40"},
}


def _table(path: Path, kind: str, buffer: str) -> Table:
    keys = [] if kind.startswith("append") else ["p", "k"]
    options = {**KINDS[kind], "write-buffer-size": buffer}
    return Catalog(str(path)).create_table(
        "db.t", schema=SCHEMA, primary_keys=keys, partition_keys=["p"], options=options
    )


def _rows(seed: int) -> pa.Table:
    chance = random.Random(seed)
    rows = [
        {
            "k": chance.randrange(60),
            "p": chance.choice("ab"),
            "v": chance.randrange(5),
            "w": chance.choice([None, "x" * 30]),
        }
        for _ in range(400)
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _stored(table: Table) -> list[tuple[Any, ...]]:
    """The rows of each file, with their numbers."""
    handle = handle_of(table)
    is_keyed = bool(handle.schema.primary_keys)
    names = [SEQUENCE_NUMBER, *SCHEMA.names] if is_keyed else SCHEMA.names
    found = []
    for entry in live_entries(handle, latest_snapshot(handle)):
        location = bucket_location(handle, entry.partition, entry.bucket)
        parts = read_data_file(handle, location, entry.file, SCHEMA.names, with_system_columns=is_keyed)
        rows = [row for part in parts for row in part.select(names).to_pylist()]
        found.append((entry.partition, entry.bucket, rows))
    return sorted(found, key=repr)


@pytest.mark.parametrize("buffer", ["256 mb", "3 kb"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_does_not_depend_on_it(
    kind: str, buffer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, read = [], []
    for least in (0, 1 << 40):
        monkeypatch.setattr(bucketing, "SHARED_ROWS_MIN", least)
        table = _table(tmp_path / str(least), kind, buffer)
        for seed in (1, 2):
            table.write(pa.Table.from_batches(_rows(seed).to_batches(max_chunksize=150)))
        assert check_table(handle_of(table)) == []
        if kind == "postponed":
            table.compact()
        written.append(_stored(table))
        read.append(Counter(tuple(row.values()) for row in table.to_arrow().to_pylist()))
    assert read[0] == read[1]
    # A full buffer is written at other rows, as the bytes of shared ones are not known exactly.
    assert written[0] == written[1] or buffer == "3 kb"
    assert sum(len(rows) for _, _, rows in written[0]) > 100


def test_rows_of_a_large_batch_are_not_copied(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bucketing, "SHARED_ROWS_MIN", 10)
    table = _table(tmp_path, "keyed", "256 mb")
    rows = _rows(3).to_batches()[0]
    parts = list(split_by_bucket(handle_of(table).schema, rows))
    assert len(parts) == 4
    assert all(part.chosen.batch is rows for part in parts)
    small = list(split_by_bucket(handle_of(table).schema, rows.slice(0, 20)))
    assert all(part.chosen.positions is None for part in small)
    assert pa.Table.from_batches([part.rows for part in small]).num_rows == 20
