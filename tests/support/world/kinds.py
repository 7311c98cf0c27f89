"""The kinds of tables: each tells how a table of it is made, and what may be done to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from paimon_engine import Catalog, Table
from tests.support.world.world import COLUMNS, Place

SCHEMA = pa.schema(
    [
        pa.field("dt", pa.string(), nullable=False),
        pa.field("k", pa.int64(), nullable=False),
        pa.field("v", pa.int64()),
        pa.field("w", pa.string()),
    ]
)
DATES = ("2024-01-01", "2024-01-02", "2024-01-05")
_OFTEN = {
    "manifest.merge-min-count": "3",
    "num-sorted-run.compaction-trigger": "2",
    "snapshot.num-retained.min": "1",
    "tag.automatic-creation": "process-time",
    "tag.creation-period": "hourly",
    "tag.num-retained-max": "3",
    "tag.create-success-file": "true",
}
"""What makes things happen often that are rare by default."""


@dataclass(frozen=True)
class Kind:
    """One kind of table.

    `hides`: new rows are seen only once they were compacted. `is_newer`: Java 0.9 cannot read it, but Java 2.0 can.
    """

    name: str
    primary_keys: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict, hash=False)
    engine: str = "deduplicate"
    hides: bool = False
    schema: pa.Schema = SCHEMA
    is_newer: bool = False

    def make(self, place: Place) -> None:
        """Makes the place's table, where all happens often."""
        place.make(self.schema, self.primary_keys, self.partition_keys, {**_OFTEN, **self.options})

    def create(self, catalog: Catalog, name: str = "db.t") -> Table:
        """Makes a table in a catalog."""
        return catalog.create_table(
            name,
            schema=self.schema,
            primary_keys=self.primary_keys,
            partition_keys=self.partition_keys,
            options=self.options,
        )

    @property
    def takes_deletes(self) -> bool:
        """Whether rows may be written as `-D`."""
        return bool(self.primary_keys) and self.engine == "deduplicate"

    @property
    def marks_rows(self) -> bool:
        """Whether rows can be deleted by a condition."""
        return "deletion-vectors.enabled" in self.options

    @property
    def splits_rows(self) -> bool:
        """Whether a row may be in several files, so that none of them can be taken away alone."""
        return "data-evolution.enabled" in self.options

    @property
    def moves_keys(self) -> bool:
        """Whether a row may move to another partition; then overwriting some of them is refused."""
        return bool(self.primary_keys) and not set(self.partition_keys) <= set(self.primary_keys)

    @property
    def is_fixed(self) -> bool:
        """Whether its number of buckets is an option."""
        return int(self.options.get("bucket", "-1")) > 0


def _keyed(name: str, *, parts: bool = False, is_newer: bool = False, **options: str) -> Kind:
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    engine = named.get("merge-engine", "deduplicate")
    hides = engine == "first-row" or "deletion-vectors.enabled" in named or named.get("bucket") == "-2"
    keys = ("dt", "k") if parts else ("k",)
    return Kind(name, keys, ("dt",) if parts else (), {"bucket": "2", **named}, engine, hides, is_newer=is_newer)


KEEPS = {"changelog__time-retained": "3 h", "changelog__num-retained.min": "4"}
"""Changelogs live longer than their snapshots."""

_EVOLUTION = {"bucket": "-1", "row-tracking.enabled": "true", "data-evolution.enabled": "true"}

KINDS: Sequence[Kind] = (
    _keyed("key", bucket="1"),
    _keyed("key-partitioned", parts=True),
    _keyed("changelog-input", changelog_producer="input"),
    _keyed("changelog-lookup", changelog_producer="lookup", parts=True),
    _keyed("changelog-full-compaction", changelog_producer="full-compaction"),
    _keyed("deletion-vectors", deletion_vectors__enabled="true", parts=True),
    _keyed("dynamic-bucket", bucket="-1", dynamic_bucket__target_row_num="2", parts=True),
    Kind("cross-partition", ("k",), ("dt",), {"bucket": "-1"}),
    _keyed("postponed", is_newer=True, bucket="-2", parts=True),
    _keyed("partial-update", merge_engine="partial-update"),
    _keyed("aggregation", merge_engine="aggregation", fields__v__aggregate_function="sum", parts=True),
    _keyed("first-row", merge_engine="first-row", changelog_producer="lookup"),
    Kind("append", partition_keys=("dt",), options={"bucket": "-1", "file-index.bloom-filter.columns": "k"}),
    Kind("append-bucketed", options={"bucket": "2", "bucket-key": "k", "file.format": "orc"}),
    Kind("append-vectors", (), ("dt",), {"bucket": "-1", "deletion-vectors.enabled": "true", "file.format": "avro"}),
    _keyed("kept-changelog", changelog_producer="input", parts=True, **KEEPS),
    _keyed("kept-changelog-of-compactions", changelog_producer="full-compaction", bucket="1", **KEEPS),
    _keyed("kept-deltas", **KEEPS),
    Kind("append-kept", options={"bucket": "-1", "changelog.time-retained": "3 h", "changelog.num-retained.min": "4"}),
    _keyed("snapshot-ordering", is_newer=True, sequence__snapshot_ordering="true", write_only="true", parts=True),
    Kind("data-evolution", (), ("dt",), _EVOLUTION, is_newer=True),
)


def of_name(name: str) -> Kind:
    """The kind of that name."""
    return next(kind for kind in (*KINDS, *KILLED) if kind.name == name)


# ── tables of processes ─────────────────────────────────────────────────────────────────────────


def _killed(name: str, options: Mapping[str, str], keys: tuple[str, ...] = ("p", "k")) -> Kind:
    hides = bool(keys) and "deletion-vectors.enabled" in options
    return Kind(name, keys, ("p",), {"manifest.merge-min-count": "4", **options}, hides=hides, schema=COLUMNS)


KILLED: Sequence[Kind] = (
    _killed("keyed", {"bucket": "2"}),
    _killed("lookup", {"bucket": "2", "changelog-producer": "lookup"}),
    _killed("vectors", {"bucket": "1", "deletion-vectors.enabled": "true"}),
    _killed("append", {"bucket": "-1", "deletion-vectors.enabled": "true"}, ()),
    _killed("dynamic", {"bucket": "-1", "dynamic-bucket.target-row-num": "9"}),
)
"""Those whose processes are killed."""
_TEXTS = pa.schema([pa.field("k", pa.string(), nullable=False), pa.field("v", pa.int64())])
CONTENDED: Mapping[bool, Kind] = {
    False: Kind("contended", (), (), {"bucket": "-1", "deletion-vectors.enabled": "true"}, schema=_TEXTS),
    True: Kind("contended, keyed", ("k",), (), {"bucket": "2", "snapshot.num-retained.min": "3"}, schema=_TEXTS),
}
"""Those of many processes, without and with a primary key."""
