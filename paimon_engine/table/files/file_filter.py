"""A filter as a data file sees it: over the file's own columns, for leaving out parts of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paimon_engine.meta.evolution import unchanged_columns
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.row_tracking import statistics_columns, stored_columns
from paimon_engine.meta.schema import TableSchema
from paimon_engine.meta.stats import from_simple_stats
from paimon_engine.predicate import Predicate, conjunction, renamed
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.types import FLOAT_ROOTS, AtomicType, DataField, DataType, TypeRoot


@dataclass(frozen=True, slots=True)
class FileFilter:
    """The condition for rows to be read; in the columns `without_nan` the file has no NaN."""

    where: Predicate
    without_nan: frozenset[str]


def file_filter(table: TableHandle, file: DataFile, where: Sequence[Predicate]) -> FileFilter | None:
    """The conjuncts as conditions on the file's own columns, without those on columns whose type has changed."""
    if not where:
        return None
    schema = stored_columns(table.schema_of(file.schema_id), file)
    # Files were already chosen by partition columns, and their own values of these do not count.
    partition = table.schema.partition_keys
    unchanged = unchanged_columns(schema, table.schema).items()
    names = {name: stored for stored, name in unchanged if name not in partition}
    parts = [part for conjunct in where if (part := renamed(conjunct, names)) is not None]
    return FileFilter(conjunction(*parts), without_nan(schema, file)) if parts else None


def is_float(field: DataField) -> bool:
    """Whether a column may contain NaN."""
    return isinstance(field.type, AtomicType) and field.type.root in FLOAT_ROOTS


def counts_nan(file: DataFile) -> bool:
    """Whether a range in the manifest says that there is no NaN; those that Java takes from ORC files do not."""
    return file.format != "orc"


def has_padded_texts(file: DataFile, data_type: DataType) -> bool:
    """Whether bounds and indexes are of texts with spaces behind them, as ORC files have CHARs, which read without."""
    return file.format == "orc" and isinstance(data_type, AtomicType) and data_type.root is TypeRoot.CHAR


def without_nan(schema: TableSchema, file: DataFile) -> frozenset[str]:
    """Floating-point columns without NaN in a file, by its manifest entry; `schema` is the file's."""
    if not file.value_stats.null_counts or not counts_nan(file):
        return frozenset()
    columns = statistics_columns(schema, file)
    known = zip(columns, from_simple_stats([field.type for field in columns], file.value_stats), strict=True)
    return frozenset(field.name for field, stats in known if is_float(field) and stats.max is not None)
