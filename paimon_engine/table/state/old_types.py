"""Whether live files can still be read after a column gets another type.

Each file is read by one cast, from the type that it was written with to that of today. So a column that became STRING
and then BYTES has no cast for files from before, although each of the changes has one.
"""

from __future__ import annotations

from paimon_engine.errors import InvalidArgumentError, NotFoundError
from paimon_engine.meta.evolution import bare, same_columns, without_cast
from paimon_engine.meta.schema import TableSchema
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import live_entries
from paimon_engine.types import DataType, type_to_json


def check_old_types(table: TableHandle, snapshot: Snapshot | None, before: TableSchema, after: TableSchema) -> None:
    """Raises InvalidArgumentError if live files have values of a type from which there is no cast to the new one.

    Costs nothing where no column gets another type; manifests are read only where a schema so far has such a type.
    """
    retyped = [name for name, (old, new) in same_columns(before, after).items() if bare(old.type) != bare(new.type)]
    if snapshot is None or not retyped:
        return
    lacking = {
        schema_id: found for schema_id in range(before.id + 1) if (found := _lacking(table, schema_id, after, retyped))
    }
    if not lacking:
        return
    for entry in live_entries(table, snapshot):
        if entry.file.schema_id in lacking:
            name, stored, wanted = lacking[entry.file.schema_id]
            raise InvalidArgumentError(
                f"column {name!r}: files from before its last change have {type_to_json(stored)}, from which there is "
                f"no cast to {type_to_json(wanted)}; compact the table fully with "
                "'compaction.force-rewrite-all-files' = 'true' first, or add a new column"
            )


def _lacking(
    table: TableHandle, schema_id: int, after: TableSchema, columns: list[str]
) -> tuple[str, DataType, DataType] | None:
    """A column whose type in an earlier schema has no cast, with both types; None if there is none."""
    try:
        pairs = same_columns(table.schema_of(schema_id), after)
    except NotFoundError:
        return None
    for name in columns:
        found = without_cast(pairs[name][0].type, pairs[name][1].type) if name in pairs else None
        if found is not None:
            return name, *found
    return None
