"""The protocol that all kinds of catalog implement: the `Catalog` that people use has one metastore."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.warehouse import TableDraft, check_part, split_name

SYSTEM_DATABASE = "sys"


@dataclass(frozen=True, slots=True)
class TableName:
    """Database and table; both are plain names, without dots or slashes."""

    database: str
    table: str

    @classmethod
    def parse(cls, text: str) -> TableName:
        """Parts of `database.table`. Raises: InvalidArgumentError."""
        return cls(*split_name(text))

    @classmethod
    def for_new(cls, text: str) -> TableName:
        """As `parse`, for a table that is to get this name: not in the database that other engines keep for themselves.

        Raises: InvalidArgumentError.
        """
        name = cls.parse(text)
        checked_database(name.database)
        return name

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"


class Metastore(Protocol):
    """Names of databases and tables.

    Callers check names with `TableName.parse` and `checked_database` first. No call answers from a cache.
    """

    def list_databases(self) -> list[str]:
        """Names, sorted."""
        ...

    def database_properties(self, database: str) -> dict[str, str]:
        """Properties of a database, `location` among them. Raises: NotFoundError."""
        ...

    def create_database(self, database: str, properties: Mapping[str, str]) -> None:
        """Raises: AlreadyExistsError if it exists; UnsupportedError for properties that the kind cannot keep."""
        ...

    def drop_database(self, database: str, *, cascade: bool) -> None:
        """Drops a database, with its tables if `cascade`. Raises: NotFoundError; ConflictError if it has tables."""
        ...

    def list_tables(self, database: str) -> list[str]:
        """Names without the database, sorted. Raises: NotFoundError."""
        ...

    def create_table(self, name: TableName, draft: TableDraft, *, if_not_exists: bool) -> TableHandle:
        """Raises: AlreadyExistsError if it exists; InvalidArgumentError, UnsupportedError."""
        ...

    def load_table(self, name: TableName, *, branch: str, options: Mapping[str, str]) -> TableHandle:
        """The table on a branch; `options` override the stored ones. Raises: NotFoundError."""
        ...

    def drop_table(self, name: TableName) -> None:
        """Drops the table with its files. Raises: NotFoundError."""
        ...

    def rename_table(self, name: TableName, new_name: TableName) -> None:
        """Raises: NotFoundError; ConflictError if the new name is taken; UnsupportedError."""
        ...


def checked_database(name: str) -> str:
    """The name itself, if it is valid for a database.

    Raises: InvalidArgumentError if it is not.
    """
    check_part(name, name)
    if name == SYSTEM_DATABASE:
        raise InvalidArgumentError(f"database {name!r} is reserved by the format")
    if "." in name:
        raise InvalidArgumentError(f"{name!r} is not a valid database name: it must not contain a dot")
    return name
