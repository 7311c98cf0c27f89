"""Which function merges the versions of a key, by the table's options."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.merge.aggregate import Aggregation, check_columns
from paimon_engine.merge.deduplicate import deduplicate
from paimon_engine.merge.expiry import record_expiry
from paimon_engine.merge.first_row import first_row
from paimon_engine.merge.partial_update import PartialUpdate, sequence_groups
from paimon_engine.merge.window import SequenceOrder, Window
from paimon_engine.meta.schema import TableSchema
from paimon_engine.options import TableOptions

MergeFunction = Callable[[Window], pa.RecordBatch]
"""Window → one row per key, in key order, with the columns of the window's rows.

Law: merging all versions at once gives the same as merging the results of merging parts of them, oldest part first.
Retracts keep the law as far as they do in Paimon: `sum` can subtract what another merge has added, and deletes of
complete rows reach any older version; what a function drops permanently (as `last_value` does older values) stays
dropped. A function does not know levels, and never drops a delete record.
"""


def merge_function(schema: TableSchema, *, lone: bool = False) -> MergeFunction:
    """The function of the table's merge engine, for windows with any columns that `merge_columns` requires.

    With `lone` it also merges keys with a single version, as compactions that look rows up do.

    Raises: InvalidArgumentError, UnsupportedError naming the option that does not fit the engine or the columns.
    """
    match schema.table_options.merge_engine:
        case "partial-update":
            return PartialUpdate(schema, lone=lone)
        case "aggregation":
            return Aggregation(schema, lone=lone)
        case "first-row":
            _check_first_row(schema.table_options)
            return first_row
        case _:
            return deduplicate


def check_merge_options(schema: TableSchema) -> None:
    """Raises InvalidArgumentError or UnsupportedError for options of a new table that no merge can follow."""
    sequence_groups(schema)
    if schema.primary_keys:
        merge_function(schema)
        record_expiry(schema)
        for column in schema.table_options.aggregate_functions:
            check_columns(schema, (column,), f"'fields.{column}.aggregate-function'")


def _check_first_row(options: TableOptions) -> None:
    if options.sequence_fields:
        raise InvalidArgumentError(
            "'merge-engine' = 'first-row' keeps the row that came first, so that 'sequence.field' cannot order versions"
        )
    if options.changelog_producer not in ("none", "lookup"):
        raise InvalidArgumentError(
            f"'merge-engine' = 'first-row' requires 'changelog-producer' = 'none' or 'lookup', "
            f"not with '{options.changelog_producer}'"
        )
    if options.deletion_vectors_enabled and not options.clustering_overrides_keys:
        raise InvalidArgumentError(
            "'merge-engine' = 'first-row' never replaces a row, so it needs no 'deletion-vectors.enabled' = 'true'"
        )


def check_storable(schema: TableSchema, merged: pa.RecordBatch) -> None:
    """Raises InvalidArgumentError if merging gave a number that its column cannot store in a file."""
    if schema.table_options.merge_engine not in ("partial-update", "aggregation"):
        return
    for name in schema.row_type.names:
        if pa.types.is_decimal(merged[name].type):
            try:
                merged[name].validate(full=True)
            except pa.ArrowInvalid as error:
                raise InvalidArgumentError(
                    f"column {name!r}: merging the versions of a key gives a number that does not fit "
                    f"{merged[name].type}; give the column a type of more digits: {error}"
                ) from error


def sequence_order(options: TableOptions) -> SequenceOrder:
    """What orders the versions of a key in this table."""
    return SequenceOrder(options.sequence_fields, options.sequence_descending)
