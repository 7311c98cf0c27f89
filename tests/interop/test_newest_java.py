"""The newest release of Java Paimon reads what we write, and we read what it writes, with all features."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_engine import Catalog, Table
from tests.interop.newest_tables import AGGREGATION, INDEXES, SCHEMA, Use, ours, rows_at, use
from tests.support.canonical import assert_same_rows, rows_of
from tests.support.newest import NewestPaimon
from tests.support.random_tables import build
from tests.support.seeds import seeds

SEQUENCE_GROUP = {
    "merge-engine": "partial-update",
    "fields.n.sequence-group": "s",
    "partial-update.ignore-delete": "true",
}
USES = {
    "deduplicate": use({}),
    "partial-update": use({"merge-engine": "partial-update"}, deletes=False),
    "sequence group": use(SEQUENCE_GROUP, deletes=False),
    "aggregation": use(AGGREGATION, deletes=False),
    "first-row": use({"merge-engine": "first-row"}, deletes=False, full_only=True),
    "sequence field": use({"sequence.field": "n"}),
    "orc": use({"file.format": "orc"}),
    "avro": use({"file.format": "avro", "file.compression": "snappy"}),
    "formats per level": use({"file.format.per.level": "0:avro", "file.compression.per.level": "0:snappy"}),
    "deletion vectors": use({"deletion-vectors.enabled": "true"}, full_only=True),
    "64-bit deletion vectors": use(
        {"deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": "true"}, full_only=True
    ),
    "file indexes": use(INDEXES),
    "file indexes in manifests": use({**INDEXES, "file-index.in-manifest-threshold": "1 mb"}),
    "dense statistics": use({"metadata.stats-dense-store": "true", "metadata.stats-mode": "none"}),
    "thin files": use({"data-file.thin-mode": "true"}),
    "changelog by input": use({"changelog-producer": "input"}),
    "changelog by full compaction": use({"changelog-producer": "full-compaction"}),
    "dynamic buckets": use({"bucket": "-1", "dynamic-bucket.target-row-num": "20"}),
    "cross-partition": use({"bucket": "-1"}, keys=("k",), java_writes=False),
    "postponed": use({"bucket": "-2"}, full_only=True),
    "no partitions": use({}, partitions=(), keys=("k",)),
    "append": use({"bucket-key": "k"}, keys=(), deletes=False),
    "append, unaware": use({"bucket": "-1"}, keys=(), deletes=False),
    "append, indexed": use({"bucket": "-1", **INDEXES}, keys=(), deletes=False),
}
ALL = [pytest.param(one, id=name) for name, one in USES.items()]
WRITTEN = [pytest.param(one, id=name) for name, one in USES.items() if one.java_writes]


def assert_read_alike(table: Table, newest: NewestPaimon, where: str) -> None:
    """Both read equal rows, all of them and those of a filter, and there are any."""
    found = rows_of(table.to_arrow())
    assert found
    assert_same_rows(found, newest.read(table.path), where, schema=SCHEMA)
    some = rows_of(table.to_arrow(where="n = 3"))
    assert_same_rows(some, newest.read(table.path, equal={"n": "3"}), f"{where}, n = 3", schema=SCHEMA)


@pytest.mark.parametrize("wanted", ALL)
def test_the_newest_java_reads_what_we_wrote(wanted: Use, tmp_path: Path, newest: NewestPaimon):
    table = ours(tmp_path, "t", wanted)
    for step in range(3):
        table.write(rows_at(step))
        if wanted.full_only and step == 1:
            table.compact(full=True)
        if not wanted.full_only:
            assert_read_alike(table, newest, f"step {step}")
    if wanted.deletes:
        table.write(rows_at(1).slice(0, 20), row_kinds=["-D"] * 20)
    table.compact(full=True)
    table.analyze()

    assert_read_alike(table, newest, "after compaction")


@pytest.mark.parametrize("wanted", WRITTEN)
def test_we_read_what_the_newest_java_wrote(wanted: Use, tmp_path: Path, newest: NewestPaimon):
    model = ours(tmp_path, "model", wanted)
    path = tmp_path / "db.db" / "theirs"
    newest.create(
        path, like=model.path, primary_keys=wanted.keys, partition_keys=wanted.partitions, options=wanted.options
    )
    table = Catalog(str(tmp_path)).table("db.theirs")
    for step in range(3):
        source = ours(tmp_path, f"source_{step}", Use({"bucket": "-1"}, keys=(), partitions=()))
        source.write(rows_at(step))
        # Java's own compaction of rows without a bucket, or with dynamic ones, is a job and not a part of the write.
        newest.write(path, rows_of=source.path, compact=step == 1 and wanted.options["bucket"] == "2")
        model.write(rows_at(step))
    table.compact(full=True)
    model.compact(full=True)

    assert_same_rows(rows_of(table.to_arrow()), rows_of(model.to_arrow()), schema=SCHEMA)
    assert_read_alike(table, newest, "after our compaction")


PARTITIONS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "bool": (pa.bool_(), [True, None]),
    "date": (pa.date32(), [-1, 19_782]),
    "time of seconds": (pa.time32("s"), [0, 86_399]),
    "time of milliseconds": (pa.time32("ms"), [0, 120, 86_399_999]),
    "seconds": (pa.timestamp("s"), [0, 1_700_000_001]),
    "milliseconds": (pa.timestamp("ms"), [0, 1_700_000_000_120]),
    "microseconds": (pa.timestamp("us"), [0, 1_700_000_000_123_450]),
    "instant": (pa.timestamp("ms", "UTC"), [0, 1_700_000_000_123]),
    "decimal": (pa.decimal128(5, 2), [Decimal("1.50"), Decimal("-0.01")]),
    "double": (pa.float64(), [1.5, 1e10, float("-inf")]),
    "text": (pa.string(), ["a b", "", "x=y/z"]),
}


@pytest.mark.parametrize("legacy", ["true", "false"])
@pytest.mark.parametrize("name", PARTITIONS)
def test_partitions_are_where_the_newest_java_looks(name: str, legacy: str, tmp_path: Path, newest: NewestPaimon):
    kind, values = PARTITIONS[name]
    rows = pa.table({"p": pa.array(values, kind), "v": list(range(len(values)))})
    table = Catalog(str(tmp_path)).create_table(
        "db.t", schema=rows.schema, partition_keys=["p"], options={"partition.legacy-name": legacy}
    )

    table.write(rows)

    assert_same_rows(rows_of(rows), newest.read(table.path), schema=rows.schema)


@pytest.mark.parametrize("width", ["false", "true"], ids=["32 bits", "64 bits"])
def test_the_newest_java_reads_tables_that_we_deleted_from(width: str, tmp_path: Path, newest: NewestPaimon):
    vectors = {"deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": width}
    table = ours(tmp_path, "t", Use({"bucket": "-1", **vectors}, keys=()))
    table.write(rows_at(0))
    table.write(rows_at(1))

    table.delete("n < 3 OR k = 'key-74'")
    table.delete("n = 5")

    assert_read_alike(table, newest, "after two deletions")
    table.compact(full=True)
    assert_read_alike(table, newest, "after compaction")


@pytest.mark.parametrize("seed", seeds(8))
def test_the_newest_java_reads_random_tables(seed: int, tmp_path: Path, newest: NewestPaimon):
    wanted, table, tags = build(tmp_path, seed)

    for tag, rows in {None: wanted.rows, **tags}.items():
        assert_same_rows(rows, newest.read(table.path, tag=tag), f"tag {tag}", schema=wanted.schema)
