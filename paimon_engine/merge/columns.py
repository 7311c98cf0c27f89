"""Which columns a merge needs. The merge itself is imported where there is something to merge."""

from __future__ import annotations

from collections.abc import Sequence

from paimon_engine.meta.schema import TableSchema


def merge_columns(schema: TableSchema, wanted: Sequence[str]) -> tuple[str, ...]:
    """Columns that rows must have so that merging gives the `wanted` ones, in table order."""
    needed = {*wanted, *schema.trimmed_primary_keys, *schema.table_options.sequence_fields}
    if schema.table_options.merge_engine == "partial-update":
        from paimon_engine.merge.partial_update import removing_groups, sequence_groups

        groups = sequence_groups(schema)
        removing = removing_groups(schema, groups)
        for group in groups:
            if group in removing or needed & {*group.by, *group.members}:
                needed |= {*group.by}
    return tuple(name for name in schema.row_type.names if name in needed)
