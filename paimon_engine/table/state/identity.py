"""Which table it is: another one that replaces it under the same name has another id, and schemas of another time."""

from __future__ import annotations

import hashlib
from typing import Final

from paimon_engine.errors import ConflictError, NotFoundError
from paimon_engine.format.stored import parse_object
from paimon_engine.meta.paths import TablePaths
from paimon_engine.table.state.handle import SCHEMA_PREFIX, TableHandle, latest_schema_id, numbered, read_needed

_LENGTH: Final = 16


def table_id(table: TableHandle) -> str:
    """The id of the table: that of its server, else made of its first schema, which holds the time of creation.

    Read from the store each time, as the table may have been dropped and created again. Empty if there is neither.

    Raises: StorageError.
    """
    if table.schema_service is not None and (known := table.schema_service.table_id()):
        return known
    paths = TablePaths(table.paths.root)
    numbers = numbered(table.env, paths.schema_dir, SCHEMA_PREFIX)
    if not numbers:
        return ""
    first = read_needed(table, paths.schema(numbers[0]))
    return hashlib.sha256(first).hexdigest()[:_LENGTH]


def check_not_recreated(table: TableHandle) -> bool:
    """Whether the table, or its branch, is there: with the schema that it was opened with, or else not at all.

    Files of a schema that it does not have could not be read, or would be read with the columns of another one. A table
    that is gone has no snapshots, of which `vanished` tells; a server that keeps the schemas knows which table it is.

    Raises: ConflictError if it was dropped and created again since; StorageError, CorruptTableError.
    """
    if table.schema_service is not None:
        return True
    known, path = table.schema, table.paths.schema(table.schema.id)
    try:
        stored = parse_object(table.env.storage.read(path), path)
        made = stored.get("timeMillis") or 0, stored.get("highestFieldId")
        is_same = made == (known.time_ms, known.highest_field_id)
    except NotFoundError:
        if latest_schema_id(table.env, table.paths) is None:
            return False
        is_same = False
    if is_same:
        return True
    raise ConflictError(
        f"{table.paths.label} was dropped and created again since it was opened: schema {known.id}, which it had then, "
        "is not there or is another one; open it again"
    )
