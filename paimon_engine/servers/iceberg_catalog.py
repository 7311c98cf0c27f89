"""What a catalog of Iceberg learns about a table that has Iceberg metadata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from paimon_engine.meta.schema import TableSchema


@dataclass(frozen=True)
class Shown:
    """The newest metadata of the table in `root`: its file, `path`, and what is in it. `schema` is the table's."""

    root: str
    path: str
    schema: TableSchema
    metadata: Mapping[str, Any] = field(repr=False)

    @property
    def directory(self) -> str:
        """Directory of the metadata."""
        return self.path.rpartition("/")[0]

    @property
    def location(self) -> str:
        """Directory of Iceberg's table."""
        return self.directory.rpartition("/")[0]


class IcebergCatalog(Protocol):
    """A catalog in which Iceberg's readers find a table."""

    def check(self, schema: TableSchema) -> None:
        """Looks, without asking the catalog, whether it could show a table of this schema.

        Raises: InvalidArgumentError, UnsupportedError.
        """
        ...

    def shows(self, shown: Shown) -> bool:
        """Whether the catalog shows just that. Raises: as `show`."""
        ...

    def show(self, shown: Shown) -> None:
        """Has the catalog show that; safe to repeat.

        Raises: ConflictError if the name belongs to something else, which stays as it is; InvalidArgumentError,
        UnsupportedError; StorageError, OutcomeUnknownError.
        """
        ...
