"""Primary-key tables whose files above level 0 are in the order of other columns: `pk-clustering-override`.

Such a file has the first and the last values of `clustering.columns` as its keys in manifests. Rows that were replaced
are marked in deletion vectors, so that no read merges.

Source: `SchemaValidation.validatePkClusteringOverride`, `KeyValueClusteringFileWriter` of the Java library.
"""

from __future__ import annotations

from typing import Final

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.meta.evolution import has_same_types
from paimon_engine.meta.schema import TableSchema
from paimon_engine.types import AtomicType, RowType

OPTION: Final = "pk-clustering-override"
_ENGINES: Final = ("deduplicate", "first-row")
_PRODUCERS: Final = ("none", "input")


def order_columns(schema: TableSchema) -> RowType | None:
    """The columns that files above level 0 are ordered by, if these are not the primary key; else None."""
    options = schema.table_options
    if not schema.primary_keys or not options.clustering_overrides_keys:
        return None
    return RowType(tuple(map(schema.row_type.field, options.clustering_columns)))


def ends_type(schema: TableSchema, level: int) -> RowType:
    """The columns that a file of that level is ordered by, whose first and last values are its keys in manifests.

    They are the primary key, without the partition keys, except above level 0 of such a table.
    """
    columns = order_columns(schema) if level else None
    return schema.key_type if columns is None else columns


def has_same_order(file_schema: TableSchema, schema: TableSchema) -> bool:
    """Whether files of `file_schema` are in the order of `schema`, and have ends of the same types.

    They are not from before `clustering.columns`, or the type of one of these, changed.
    """
    now, then = order_columns(schema), order_columns(file_schema)
    if now is None or then is None or [field.id for field in now] != [field.id for field in then]:
        return False
    return has_same_types(file_schema, schema, now.names)


def check_clustered_keys(schema: TableSchema) -> None:
    """Raises InvalidArgumentError where the table's files cannot be in the order of `clustering.columns`."""
    options, what = schema.table_options, f"'{OPTION}' = 'true'"
    if not options.clustering_overrides_keys:
        return
    if not schema.primary_keys:
        raise InvalidArgumentError(f"{what} is for tables with a primary key; leave it out")
    if not options.clustering_columns:
        raise InvalidArgumentError(f"{what} needs 'clustering.columns': the columns that files are to be ordered by")
    for name in options.clustering_columns:
        if name not in schema.row_type:
            names = ", ".join(schema.row_type.names)
            raise InvalidArgumentError(f"'clustering.columns': no column {name[:100]!r}; the columns are {names}")
        if not isinstance(schema.row_type.field(name).type, AtomicType):
            raise InvalidArgumentError(f"'clustering.columns': column {name!r} must not have a nested type")
    if options.merge_engine not in _ENGINES:
        raise InvalidArgumentError(f"{what} is for 'merge-engine' = {' or '.join(map(repr, _ENGINES))}; leave it out")
    if not options.deletion_vectors_enabled and options.merge_engine != "first-row":
        raise InvalidArgumentError(f"{what} needs 'deletion-vectors.enabled' = 'true'")
    if options.changelog_producer not in _PRODUCERS:
        raise InvalidArgumentError(f"{what} takes 'changelog-producer' = {' or '.join(map(repr, _PRODUCERS))} only")
    for key in ("sequence.field", "record-level.expire-time"):
        if options.raw.get(key, "").strip():
            raise InvalidArgumentError(f"{what} and '{key}' exclude each other; leave one of them out")
