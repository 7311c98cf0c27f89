"""The way to tables that people type: `Catalog` and `open_table`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from paimon_engine import actions
from paimon_engine.api import Table, names_of
from paimon_engine.env import EnvConfig
from paimon_engine.errors import ConflictError, InvalidArgumentError, NotFoundError
from paimon_engine.executor import Executor, LocalExecutor
from paimon_engine.meta.paths import MAIN_BRANCH
from paimon_engine.metastores import CatalogConfig, open_metastore
from paimon_engine.metastores.base import TableName, checked_database
from paimon_engine.metastores.config import LOCK_ENABLED, is_true
from paimon_engine.options.names import check_names
from paimon_engine.options.texts import option_texts
from paimon_engine.table.state import warehouse as tables
from paimon_engine.table.state.handle import load_table
from paimon_engine.table.state.warehouse import Columns, TableDraft

if TYPE_CHECKING:
    from paimon_engine.inspect.doctor import Finding
    from paimon_engine.meta.schema_change import SchemaChange


class Catalog:
    """Databases and tables, by name.

    `warehouse` is any fsspec address or a local path, or the name that a REST server gave it; `storage_options` go to
    its file system. `options` are catalog options by Paimon's names: `metastore` is `filesystem` (the default),
    `jdbc`, `hive` or `rest`, the latter three at a `uri`; `table-default.*` are options of new tables. `secrets` maps
    catalog options to the environment variables that hold their values. `executor` chooses where tasks run: threads of
    this process by default, `paimon_engine.spark.executor.SparkExecutor` for Spark.

    Raises: InvalidArgumentError, UnsupportedError, StorageError.
    """

    def __init__(
        self,
        warehouse: str | None = None,
        *,
        storage_options: Mapping[str, str] | None = None,
        executor: Executor | None = None,
        options: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
    ) -> None:
        address = None if warehouse is None else str(warehouse)
        config = CatalogConfig.of(address, options, secrets=secrets, storage_options=storage_options)
        self.warehouse = config.warehouse
        self.executor: Executor = executor or LocalExecutor()
        self._config = config
        self._metastore = open_metastore(config)

    def examine(self, *, programs: bool = False) -> list[Finding]:
        """Whether the catalog answers, and its store keeps what a commit needs; with `programs` also what is installed.

        Makes and removes a small object in the warehouse. What is wrong is a finding, no error.
        """
        values = self._config.values()
        from paimon_engine.inspect.doctor import examine_programs, examine_store

        kind = values.get("metastore", "filesystem")
        decided_by = "the server" if kind == "rest" else "the catalog's lock" if is_true(values, LOCK_ENABLED) else None
        found = examine_programs() if programs else []
        return [
            *found,
            *examine_store(self.warehouse, self._config.storage.build(), self.list_databases, decided_by=decided_by),
        ]

    # ── databases ───────────────────────────────────────────────────────────────────────────────

    def list_databases(self) -> list[str]:
        """Names of the databases, sorted."""
        return self._metastore.list_databases()

    def create_database(
        self, name: str, properties: Mapping[str, str] | None = None, *, if_not_exists: bool = False
    ) -> None:
        """Creates a database; an object store shows it once it has a table.

        Raises: ConflictError if it exists and `if_not_exists` is false; UnsupportedError for properties that the kind
        of catalog does not keep; InvalidArgumentError for those that are no texts.
        """
        try:
            self._metastore.create_database(checked_database(name), _property_texts(properties or {}))
        except ConflictError:
            if not if_not_exists:
                raise

    def database_properties(self, name: str) -> dict[str, str]:
        """Properties of a database, `location` among them. Raises: NotFoundError."""
        return self._metastore.database_properties(checked_database(name))

    def drop_database(self, name: str, *, if_exists: bool = False, cascade: bool = False) -> None:
        """Drops a database; with `cascade` its tables and all their files too. This cannot be undone.

        In a filesystem catalog a database is a directory: with `cascade` everything in it is deleted, also what is not
        a table. Other catalogs leave what they have not entered.

        Raises: ConflictError if it has tables, or in a filesystem catalog anything, and `cascade` is false;
        NotFoundError if there is none and `if_exists` is false.
        """
        try:
            self._metastore.drop_database(checked_database(name), cascade=cascade)
        except NotFoundError:
            if not if_exists:
                raise

    # ── tables ──────────────────────────────────────────────────────────────────────────────────

    def list_tables(self, database: str) -> list[str]:
        """Names of a database's tables, sorted. Raises: NotFoundError."""
        return self._metastore.list_tables(checked_database(database))

    def create_table(
        self,
        name: str | None = None,
        *,
        schema: Columns | None = None,
        sql: str | None = None,
        primary_keys: Sequence[str] | None = None,
        partition_keys: Sequence[str] | None = None,
        options: Mapping[str, Any] | None = None,
        comment: str | None = None,
        if_not_exists: bool = False,
    ) -> Table:
        """Creates `database.table`.

        `schema` is an Arrow schema, or names with types, each an Arrow type or a text of Paimon's, as in `{"id": "INT
        NOT NULL", "name": "VARCHAR(10)"}`. Or `sql` is a complete `CREATE TABLE` statement as for Flink or Spark, with
        columns, keys, options and comment; options given in addition take precedence, and `name` may be left out where
        the statement names the database.

        The filesystem catalog creates a missing database; others require that it exists.

        Raises: InvalidArgumentError, UnsupportedError; NotFoundError without the database; ConflictError if the table
        exists and `if_not_exists` is false.
        """
        if sql is not None:
            if schema is not None or primary_keys or partition_keys or comment is not None:
                raise InvalidArgumentError("the statement defines columns, keys and comment; give only options with it")
            from paimon_engine.meta.create_statement import parse_create_table

            wanted = parse_create_table(sql)
            full_name = _named(name, wanted.name)
            all_options = {**(wanted.options or {}), **(options or {})}
            draft = TableDraft(wanted.columns, wanted.primary_keys, wanted.partition_keys, all_options, wanted.comment)
            if_not_exists = if_not_exists or wanted.if_not_exists
        elif name is None or schema is None:
            raise InvalidArgumentError("give the table's name and its schema, or a CREATE TABLE statement as sql=")
        else:
            full_name = name
            keys = names_of(primary_keys, "primary_keys") or ()
            partitions = names_of(partition_keys, "partition_keys") or ()
            draft = TableDraft(schema, keys, partitions, dict(options or {}), comment)
        handle = self._metastore.create_table(TableName.for_new(full_name), draft, if_not_exists=if_not_exists)
        return Table(handle, self.executor)

    def table(self, name: str, options: Mapping[str, str] | None = None) -> Table:
        """The table `database.table`, with dynamic options laid over the stored ones.

        `database.table$snapshots` and the like are its system tables, to be read only; `database.table$branch_b` is
        its branch `b`.

        Raises: InvalidArgumentError; NotFoundError if the table, branch or system table does not exist.
        """
        text, branch, system = tables.split_system_name(name)
        if system is not None:
            _check_system_table(system)
        dynamic = option_texts(options or {})
        check_names(dynamic)
        branch = _branch(name, branch, dynamic)
        handle = self._metastore.load_table(TableName.parse(text), branch=branch, options=dynamic)
        return Table(handle, self.executor, system)

    def rename_table(self, name: str, new_name: str, *, if_exists: bool = False) -> None:
        """Renames a table, with its directory if its path follows from its name.

        Raises: ConflictError if the new name is taken, also by files that are no table; NotFoundError if the table does
        not exist and `if_exists` is false; UnsupportedError on object stores, where a directory cannot be renamed.
        """
        old, new = TableName.parse(name), TableName.for_new(new_name)
        try:
            self._metastore.rename_table(old, new)
        except NotFoundError:
            if not if_exists or self._has(old):
                raise

    def _has(self, name: TableName) -> bool:
        in_database = name.database in self._metastore.list_databases()
        return in_database and name.table in self._metastore.list_tables(name.database)

    def alter_table(
        self, name: str, changes: Sequence[SchemaChange | Mapping[str, Any]]
    ) -> actions.alter_table.AlterResult:
        """Changes the schema of `database.table`; see `Table.alter`."""
        return self.table(name).alter(changes)

    def drop_table(self, name: str, *, if_exists: bool = False) -> None:
        """Deletes the table with all its files, tags and branches. This cannot be undone.

        Raises: NotFoundError if there is none and `if_exists` is false; StorageError if files could not be deleted: a
        filesystem catalog has the table still, to be dropped again; with another one the error says what is left.
        """
        try:
            self._metastore.drop_table(TableName.parse(name))
        except NotFoundError:
            if not if_exists:
                raise

    def __repr__(self) -> str:
        return f"Catalog({self.warehouse!r})"


def open_table(
    path: str,
    *,
    storage_options: Mapping[str, str] | None = None,
    executor: Executor | None = None,
    options: Mapping[str, str] | None = None,
) -> Table:
    """The table in that directory, `<warehouse>/<database>.db/<table>`, or its branch or system table after a `$`.

    Raises: InvalidArgumentError, NotFoundError.
    """
    address, *part = tables.split_system_name(str(path).rstrip("/"))
    config = EnvConfig(address, dict(storage_options or {}))
    return _opened(address, part, config, executor or LocalExecutor(), options)


def _opened(
    path: str, part: Sequence[str | None], config: EnvConfig, executor: Executor, options: Mapping[str, str] | None
) -> Table:
    """`part` is what follows the table in its name: branch and system table."""
    branch, system = part
    if system is not None:
        _check_system_table(system)
    dynamic = option_texts(options or {})
    check_names(dynamic)
    # An option as good as any other in Java, but here it chooses the files, not how they are read.
    branch = _branch(path, branch, dynamic)
    return Table(load_table(path, config, branch=branch, options=dynamic), executor, system)


def _property_texts(properties: Mapping[str, Any]) -> dict[str, str]:
    """Properties of a database as texts: Java opens no database that has a null among them.

    Raises: InvalidArgumentError.
    """
    texts = option_texts(properties)
    for key, text in texts.items():
        tables.check_text(key)
        tables.check_text(text)
    return texts


def _branch(name: str, named: str | None, options: dict[str, str]) -> str:
    """The branch of a table's name, or of the option, which is taken out.

    Raises: InvalidArgumentError if they differ.
    """
    given = options.pop("branch", None)
    if named and given and named != given:
        raise InvalidArgumentError(f"{name!r} names the branch {named!r}, and the option 'branch' {given!r}; give one")
    return named or given or MAIN_BRANCH


def _check_system_table(name: str) -> None:
    from paimon_engine.inspect.system_tables import check_system_table

    check_system_table(name)


def _named(given: str | None, in_statement: str) -> str:
    """The name of the table to create, given by argument, in the statement, or in both."""
    if given is None or given == in_statement:
        return in_statement
    if in_statement != given.rpartition(".")[2]:
        raise InvalidArgumentError(f"the table is to be {given!r}, but the statement creates {in_statement!r}")
    return given
