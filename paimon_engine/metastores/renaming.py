"""Renaming a table whose name is in a metastore or database, and whose files are in a directory of that name.

The two cannot change in one step. The directory changes first; if what follows has no answer it stays changed, and the
same call once more completes it: nobody can say which of the two names the metastore has by then.
"""

from __future__ import annotations

import logging

from paimon_engine.env import Env
from paimon_engine.errors import ConflictError, OutcomeUnknownError, PaimonError
from paimon_engine.meta.paths import TablePaths
from paimon_engine.metastores.base import TableName
from paimon_engine.table.state.handle import latest_schema_id

logger = logging.getLogger(__name__)


def was_moved(old: str, new: str, stores: tuple[Env, Env], where: str) -> bool:
    """Whether an earlier call has renamed the directory `old` to `new`; `stores` are theirs, `where` knows the names.

    Raises: ConflictError if both have a table.
    """
    old_store, new_store = stores
    if latest_schema_id(new_store, TablePaths(new)) is None:
        return False
    if latest_schema_id(old_store, TablePaths(old)) is not None:
        raise ConflictError(f"{new} contains a table that {where} does not know; choose another name, or move it away")
    logger.warning("%s has no table, but %s has one: an interrupted renaming, which is completed", old, new)
    return True


def moved_only(error: PaimonError, name: TableName, new_name: TableName, new: str) -> OutcomeUnknownError:
    """The error for a directory that may have its new name, while it is not known which one its table has."""
    return OutcomeUnknownError(
        f"{error}. The files may be in {new} now: list the tables, and if {name} is still among them, rename it again "
        f"to {new_name}, which completes it"
    )
