"""Kinds of tables of the histories, and which rows they should contain: dictionaries, one change at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

Row = dict[str, Any]
Change = tuple[str, Row]
"""A row kind and a row."""

SCHEMA = pa.schema(
    [
        pa.field("dt", pa.string(), nullable=False),
        pa.field("k", pa.int64(), nullable=False),
        pa.field("v", pa.int64()),
        pa.field("w", pa.string()),
    ]
)
DATES = ("2024-01-01", "2024-01-02", "2024-01-05")
COMMON = {
    "commit.min-retry-wait": "0 ms",
    "commit.max-retry-wait": "0 ms",
    "manifest.merge-min-count": "3",
    "num-sorted-run.compaction-trigger": "2",
    "snapshot.num-retained.min": "1",
    "tag.automatic-creation": "process-time",
    "tag.creation-period": "hourly",
    "tag.num-retained-max": "3",
    "tag.create-success-file": "true",
}


@dataclass(frozen=True)
class Kind:
    """One kind of table. `hides`: new rows are seen only once they were compacted."""

    name: str
    primary_keys: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict, hash=False)
    engine: str = "deduplicate"
    hides: bool = False

    @property
    def takes_deletes(self) -> bool:
        """Whether rows may be written as `-D`."""
        return bool(self.primary_keys) and self.engine == "deduplicate"

    @property
    def marks_rows(self) -> bool:
        """Whether rows can be deleted by a condition."""
        return "deletion-vectors.enabled" in self.options

    @property
    def moves_keys(self) -> bool:
        """Whether a row may move to another partition; then overwriting some of them is refused."""
        return bool(self.primary_keys) and not set(self.partition_keys) <= set(self.primary_keys)

    @property
    def is_fixed(self) -> bool:
        """Whether its number of buckets is an option."""
        return int(self.options.get("bucket", "-1")) > 0


def _keyed(name: str, *, parts: bool = False, **options: str) -> Kind:
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    engine = named.get("merge-engine", "deduplicate")
    hides = engine == "first-row" or "deletion-vectors.enabled" in named
    keys = ("dt", "k") if parts else ("k",)
    return Kind(name, keys, ("dt",) if parts else (), {"bucket": "2", **named}, engine, hides)


KEEPS = {"changelog__time-retained": "3 h", "changelog__num-retained.min": "4"}
"""Changelogs live longer than their snapshots."""

KINDS: Sequence[Kind] = (
    _keyed("key", bucket="1"),
    _keyed("key-partitioned", parts=True),
    _keyed("changelog-input", changelog_producer="input"),
    _keyed("changelog-lookup", changelog_producer="lookup", parts=True),
    _keyed("changelog-full-compaction", changelog_producer="full-compaction"),
    _keyed("deletion-vectors", deletion_vectors__enabled="true", parts=True),
    _keyed("dynamic-bucket", bucket="-1", dynamic_bucket__target_row_num="2", parts=True),
    Kind("cross-partition", ("k",), ("dt",), {"bucket": "-1"}),
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
)


def of_name(name: str) -> Kind:
    """The kind of that name."""
    return next(kind for kind in KINDS if kind.name == name)


# ── rows ────────────────────────────────────────────────────────────────────────────────────────


class Rows:
    """What a table holds: rows by key, or any number of them. A value: changes give another one."""

    def __init__(self, kind: Kind, rows: Iterable[Row] = ()) -> None:
        self.kind = kind
        self.rows = list(rows)

    def after(self, changes: Sequence[Change]) -> Rows:
        """These rows with changes merged in, in order."""
        if not self.kind.primary_keys:
            return Rows(self.kind, [*self.rows, *(row for _, row in changes)])
        merged = {self._key(row): row for row in self.rows}
        for row_kind, row in changes:
            key = self._key(row)
            if row_kind == "-D":
                merged.pop(key, None)
            else:
                merged[key] = self._merge(merged.get(key), row)
        return Rows(self.kind, merged.values())

    def without(self, goes: Callable[[Row], bool]) -> Rows:
        """The rows that stay."""
        return Rows(self.kind, [row for row in self.rows if not goes(row)])

    def counted(self, names: Sequence[str]) -> Counter[tuple[Any, ...]]:
        """How often each row is there; columns that it has not are null."""
        return Counter(tuple(row.get(name) for name in names) for row in self.rows)

    def _key(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.kind.primary_keys)

    def _merge(self, old: Row | None, new: Row) -> Row:
        if old is None or self.kind.engine == "deduplicate":
            return new
        if self.kind.engine == "first-row":
            return old
        merged = {**old, **{name: value for name, value in new.items() if value is not None}}
        if self.kind.engine == "aggregation":
            numbers = [row["v"] for row in (old, new) if row["v"] is not None]
            merged["v"] = sum(numbers) if numbers else None
        return merged
