"""Aggregate function `count`: how many versions of a key have a value that is not null.

A count of values and counts would depend on what is merged first. So each row becomes a partial count when it is
written, 1 or 0 for null, and merging only adds; a retract takes its partial count back. What a column of such a table
is given is whether there is a value, what it gives back is how many there were: rows that were read and are written
again count as one each.

Java engines from 0.9 on have no `count`, and refuse to merge such a table.
"""

from __future__ import annotations

import pyarrow as pa

from paimon_engine.merge.gather import validity
from paimon_engine.meta.schema import TableSchema


def counted_columns(schema: TableSchema) -> tuple[str, ...]:
    """Columns whose aggregate function is `count`, explicitly or by default."""
    options = schema.table_options
    if not schema.primary_keys or options.merge_engine not in ("aggregation", "partial-update"):
        return ()
    ordering = {*options.sequence_fields} if options.merge_engine == "aggregation" else set()
    ordering |= {name for by, _ in options.sequence_groups for name in by}
    functions = options.aggregate_functions
    return tuple(
        name
        for name in schema.row_type.names
        if name not in ordering
        and name not in schema.primary_keys
        and functions.get(name, options.default_aggregate_function) == "count"
    )


def with_partial_counts(rows: pa.RecordBatch, columns: tuple[str, ...]) -> pa.RecordBatch:
    """The rows with 1 for values of those columns, and 0 for nulls."""
    for name in columns:
        number = rows.schema.get_field_index(name)
        present = validity(rows.column(number))
        field = rows.schema.field(number)
        rows = rows.set_column(number, field, pa.array(present).cast(field.type))
    return rows
