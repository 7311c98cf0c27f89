"""Which table it is: another one that replaces it under the same name has another id."""

from __future__ import annotations

import hashlib
from typing import Final

from paimon_engine.meta.paths import TablePaths
from paimon_engine.table.state.handle import SCHEMA_PREFIX, TableHandle, numbered, read_needed

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
