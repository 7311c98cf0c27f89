"""Tables that use one feature each, for comparisons with the newest release of Java Paimon."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from paimon_engine import Catalog, Table

SCHEMA = pa.schema(
    [
        pa.field("p", pa.int32(), nullable=False),
        pa.field("k", pa.string(), nullable=False),
        pa.field("n", pa.int64()),
        pa.field("s", pa.string()),
        pa.field("m", pa.map_(pa.string(), pa.int32())),
        pa.field("r", pa.struct([("x", pa.int32()), ("l", pa.list_(pa.string()))])),
    ]
)


@dataclass(frozen=True)
class Use:
    """What a table uses."""

    options: Mapping[str, str] = field(default_factory=dict)
    keys: tuple[str, ...] = ("p", "k")
    partitions: tuple[str, ...] = ("p",)
    deletes: bool = True
    full_only: bool = False
    """Whether rows are seen only after they were compacted."""

    java_writes: bool = True
    """Whether the driver of the Java library can write to such a table."""


def use(options: Mapping[str, str], **more: Any) -> Use:
    return Use({"bucket": "2", **options}, **more)


INDEXES = {f"file-index.{kind}.columns": "n" for kind in ("bloom-filter", "bitmap", "bsi", "range-bitmap")}
AGGREGATION = {
    "merge-engine": "aggregation",
    "fields.n.aggregate-function": "sum",
    "fields.s.aggregate-function": "max",
}


def rows_at(step: int) -> pa.Table:
    """Rows of which some keys come again at later steps."""
    numbers = range(step * 25, step * 25 + 50)
    return pa.table(
        [
            [n % 2 for n in numbers],
            [f"key-{n}" for n in numbers],
            [None if n % 7 == 0 else (n * 37) % 11 for n in numbers],
            [None if n % 5 == 0 else f"{'s' * (n % 30)}{step}" for n in numbers],
            [None if n % 3 == 0 else [("a", n), ("b", None)][: n % 3] for n in numbers],
            [None if n % 4 == 0 else {"x": n, "l": ["u", None][: n % 3]} for n in numbers],
        ],
        schema=SCHEMA,
    )


def ours(folder: Path, name: str, wanted: Use) -> Table:
    return Catalog(str(folder)).create_table(
        f"db.{name}",
        schema=SCHEMA,
        primary_keys=list(wanted.keys),
        partition_keys=list(wanted.partitions),
        options=dict(wanted.options),
    )
