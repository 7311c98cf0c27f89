"""The interface to what a catalog keeps of a table beside its files, such as the entry of a Hive metastore.

The files stay the truth: an entry is a copy for programs that ask the catalog, and it is written so that a process that
dies in between leaves an entry that shows too much rather than too little.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from paimon_engine.meta.schema import TableSchema

if TYPE_CHECKING:
    from paimon_engine.table.state.handle import TableHandle

PARTITIONED: Final = "metastore.partitioned-table"
"""Option of tables whose partitions the catalog lists."""
TAG_PARTITION: Final = "metastore.tag-to-partition"
"""Option of tables whose tags the catalog lists as partitions; it names their column."""


class TableEntry(Protocol):
    """A catalog's entry of one table."""

    def follow(self, table: TableHandle, before: TableSchema, after: TableSchema) -> None:
        """Makes columns, comment and options of the entry those of `after`, the next schema of the main branch.

        `before` says which options are gone. Does nothing for other branches, or if the entry is so already.
        Called before the schema's file is created, so that a refusal leaves all as it was; and again with what is
        stored if the file could not be created.

        Raises: NotFoundError without the entry; InvalidArgumentError if the catalog refuses; StorageError.
        """
        ...

    def add_partitions(self, table: TableHandle, partitions: Sequence[Mapping[str, str]]) -> None:
        """Lists partitions, values by column, where the table requires it; those that are listed already stay.

        Called before the commit that fills them: readers find no rows in a partition whose commit fails.

        Raises: NotFoundError without the entry; StorageError.
        """
        ...

    def drop_partitions(self, table: TableHandle, partitions: Sequence[Mapping[str, str]]) -> None:
        """Removes partitions from the list, after the commit that emptied them. Raises: as `add_partitions`."""
        ...

    def add_tags(self, table: TableHandle, tags: Sequence[str]) -> None:
        """Lists tags of the main branch as partitions, where the table requires it, after they were created.

        Those that are listed already stay. Raises: as `add_partitions`.
        """
        ...

    def drop_tags(self, table: TableHandle, tags: Sequence[str]) -> None:
        """Removes tags from the list, after they were deleted. Raises: as `add_partitions`."""
        ...
