"""The interface to a server that manages the schemas of a table, such as a REST catalog.

A table without one keeps its schemas as files, and creating `schema-<n+1>` if absent is the change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from paimon_engine.meta.schema import TableSchema

if TYPE_CHECKING:
    from paimon_engine.meta.schema_change import SchemaChange
    from paimon_engine.table.state.handle import TableHandle


class SchemaService(Protocol):
    """Schemas of the branches of one table, kept by a server."""

    def latest(self, table: TableHandle) -> TableSchema:
        """The newest schema of the handle's branch, without dynamic options. Raises: NotFoundError, StorageError."""
        ...

    def alter(self, table: TableHandle, schema: TableSchema, changes: Sequence[SchemaChange]) -> None:
        """Has the server make the changes, all or none, on its latest schema; `schema` is the one known.

        Sent once, never repeated by itself. Raises: OutcomeUnknownError if the answer got lost; InvalidArgumentError,
        ConflictError if the server refuses.
        """
        ...

    def table_id(self) -> str | None:
        """The server's id of the table, which another table of the same name does not get; None if it gives none.

        Raises: NotFoundError, StorageError.
        """
        ...
