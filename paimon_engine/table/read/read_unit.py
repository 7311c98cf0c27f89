"""What can be read apart from the rest of a read, here or in a task: a split, or files that one of two states lacks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa

from paimon_engine.meta.manifest import ManifestEntry
from paimon_engine.table.files.deletion_vectors import VectorLocation
from paimon_engine.table.read.reader import RowSelection, read_splits, shaped
from paimon_engine.table.read.split import Split
from paimon_engine.table.state.handle import TableHandle


@dataclass(frozen=True, slots=True)
class Comparison:
    """Files of a bucket, or of joined ones, of which some are in only one of two states. Vectors as in a split."""

    partition: bytes
    bucket: int
    before: tuple[ManifestEntry, ...]
    after: tuple[ManifestEntry, ...]
    vectors_before: Mapping[str, VectorLocation] | None = None
    vectors_after: Mapping[str, VectorLocation] | None = None
    beneath: tuple[ManifestEntry, ...] = ()
    """Files that both states have, all older than these: what they have is seen where a key is in no newer file."""


ReadUnit = Split | Comparison


def read_units(table: TableHandle, units: Iterable[ReadUnit], rows: RowSelection) -> Iterator[pa.RecordBatch]:
    """Rows of units, one after another, in the read's schema."""
    for is_split, some in groupby(units, lambda unit: isinstance(unit, Split)):
        if is_split:
            yield from read_splits(table, (unit for unit in some if isinstance(unit, Split)), rows)
            continue
        for unit in some:
            assert isinstance(unit, Comparison)
            # Only a read of changes needs what plans and compares them.
            from paimon_engine.table.read.incremental import compared

            yield from shaped(table, compared(table, unit), rows)
