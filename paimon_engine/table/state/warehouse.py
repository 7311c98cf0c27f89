"""The layout of a warehouse, `<warehouse>/<database>.db/<table>`; a directory with a schema file is a table.

Source: `FileSystemCatalog` of the Java library.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import pyarrow as pa

from paimon_engine.arrow_types import from_arrow_field
from paimon_engine.env import Env, EnvConfig
from paimon_engine.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidArgumentError,
    NotFoundError,
    PaimonError,
    UnsupportedError,
    shown,
)
from paimon_engine.meta.codec_rules import check_codecs
from paimon_engine.meta.paths import TablePaths
from paimon_engine.meta.schema import TableSchema, new_schema, schema_to_json
from paimon_engine.meta.type_text import TypeLike, to_data_type
from paimon_engine.options.changed import check_changed
from paimon_engine.options.iceberg import check_stored
from paimon_engine.options.texts import option_texts
from paimon_engine.storage.base import Storage, list_present
from paimon_engine.storage.publication import create_own
from paimon_engine.supported import check_writable
from paimon_engine.table.state.handle import TableHandle, check_no_branch, latest_schema_id, load_table
from paimon_engine.table.state.schema_commit import check_branch, check_rules
from paimon_engine.types import DataField, RowType

DATABASE_SUFFIX: Final = ".db"
SYSTEM_MARK: Final = "$"
BRANCH_MARK: Final = "branch_"
_SCHEMA_FILE: Final = re.compile(r"/schema/schema-\d+$")


def split_system_name(name: str) -> tuple[str, str | None, str | None]:
    """Table, branch and system table of `table$branch_<branch>$<system table>`, the latter two where they are named.

    Names of system tables are in small letters, however they are written.

    Raises: InvalidArgumentError.
    """
    check_text(name)
    directory, slash, last = name.rpartition("/")
    table, *marked = last.split(SYSTEM_MARK)
    branch = None
    if marked and marked[0].startswith(BRANCH_MARK):
        branch = marked.pop(0).removeprefix(BRANCH_MARK)
    if len(marked) > 1 or not all([table, *marked]) or branch == "":
        raise InvalidArgumentError(f"{last!r} is not a table name; write table, table$system_table, table$branch_name")
    return directory + slash + table, branch, marked[0].lower() if marked else None


def split_name(name: str) -> tuple[str, str]:
    """Database and table of `db.table`.

    Raises: InvalidArgumentError if it is no such name, or no plain file names.
    """
    check_text(name)
    database, dot, table = name.partition(".")
    if not dot or not database or not table or "." in table:
        raise InvalidArgumentError(f"{name!r} is not a table name; write database.table")
    for part in (database, table):
        check_part(part, name)
    return database, table


def check_part(part: str, name: str) -> None:
    """Raises InvalidArgumentError if a part of a name is not a plain file name."""
    check_text(part)
    if not part or part.startswith(".") or any(char in "/\\$" or ord(char) < 32 for char in part):
        raise InvalidArgumentError(
            f"{part!r} in table name {name!r} must be a plain name without / \\ $ or control characters"
        )


def check_text(name: str) -> None:
    """Raises InvalidArgumentError unless it is a text that can be stored in UTF-8."""
    if not isinstance(name, str):
        raise InvalidArgumentError(f"{name!r} is not a name; write a text, as in 'database.table'")
    if any("\ud800" <= char <= "\udfff" for char in name):
        raise InvalidArgumentError(f"{name!r} contains bytes that are not characters; names are texts in UTF-8")


def table_path(warehouse: str, name: str) -> str:
    """Directory of a table.

    Raises: InvalidArgumentError.
    """
    database, table = split_name(name)
    return f"{warehouse.rstrip('/')}/{database}{DATABASE_SUFFIX}/{table}"


def list_databases(env: Env, warehouse: str) -> list[str]:
    """Names of the databases, sorted."""
    names = [info.path.rsplit("/", 1)[-1] for info in list_present(env.storage, warehouse.rstrip("/")) if info.is_dir]
    return sorted(name.removesuffix(DATABASE_SUFFIX) for name in names if name.endswith(DATABASE_SUFFIX))


def list_tables(env: Env, warehouse: str, database: str) -> list[str]:
    """Names of the database's tables, without the database, sorted.

    Raises: NotFoundError if there is no such database.
    """
    directory = f"{warehouse.rstrip('/')}/{database}{DATABASE_SUFFIX}"
    if not env.storage.exists(directory):
        known = ", ".join(list_databases(env, warehouse)) or "none"
        raise NotFoundError(f"no database {database!r} in {warehouse}; it has {known}")
    folders = [info.path for info in list_present(env.storage, directory) if info.is_dir]
    return sorted(path.rsplit("/", 1)[-1] for path in folders if latest_schema_id(env, TablePaths(path)) is not None)


Columns: TypeAlias = pa.Schema | RowType | Mapping[str, TypeLike | pa.Field]
"""Columns as an Arrow schema, as Paimon's types, or as names with the type of each: a text, or Arrow's."""


def columns_of(given: Columns) -> RowType:
    """The columns in Paimon's types, without ids.

    Raises: InvalidArgumentError, UnsupportedError, naming the column.
    """
    if isinstance(given, RowType):
        return given
    if isinstance(given, pa.Schema):
        return RowType(tuple(from_arrow_field(item) for item in given), nullable=False)
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise InvalidArgumentError(
            "give the columns as an Arrow schema, or as names with types, as in {'id': 'INT NOT NULL', 'v': 'STRING'}"
        )
    return RowType(tuple(_column(name, kind) for name, kind in given.items()), nullable=False)


def _column(name: str, kind: object) -> DataField:
    if isinstance(kind, pa.Field):
        return from_arrow_field(kind.with_name(name))
    if not isinstance(kind, str | Mapping | pa.DataType):
        raise InvalidArgumentError(f"column {name!r}: {kind!r} is not a type; use a text like 'INT', or an Arrow type")
    try:
        return DataField(-1, name, to_data_type(kind))
    except PaimonError as error:
        raise type(error)(f"column {name!r}: {error}") from error


@dataclass(frozen=True)
class TableDraft:
    """A table to be created: columns, keys, options as Python values."""

    columns: Columns
    primary_keys: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    comment: str | None = None

    def with_defaults(self, options: Mapping[str, str]) -> TableDraft:
        """The same table, with these options where it has none of its own."""
        return replace(self, options={**options, **self.options})

    def first_schema(self, env: Env) -> TableSchema:
        """Schema 0, made now.

        Raises: InvalidArgumentError, UnsupportedError.
        """
        options = option_texts(self.options)
        check_changed({}, options)
        for key in options:
            check_stored(key)
        return new_schema(
            columns_of(self.columns),
            primary_keys=self.primary_keys,
            partition_keys=self.partition_keys,
            options=options,
            comment=self.comment,
            time_ms=env.clock(),
        )


def create_table(
    env: Env,
    config: EnvConfig,
    path: str,
    *,
    schema: Columns,
    primary_keys: Sequence[str] = (),
    partition_keys: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    comment: str | None = None,
    if_not_exists: bool = False,
) -> TableHandle:
    """Creates a table by writing its first schema, if absent.

    Raises: InvalidArgumentError, also for the path of a branch; UnsupportedError (an option that the engine lacks);
    ConflictError if it exists, or if a part of another table is there.
    """
    draft = TableDraft(schema, tuple(primary_keys), tuple(partition_keys), dict(options or {}), comment)
    if "path" in draft.options:
        raise UnsupportedError(
            f"option 'path' = {shown(draft.options['path'])}: the table would be created in {path}; leave the option "
            "out, or use a Hive or REST catalog, whose tables may be in other places"
        )
    created = draft.first_schema(env)
    paths = TablePaths(path.rstrip("/"))
    check_no_branch(env, paths)
    exists = latest_schema_id(env, paths) is not None
    if not exists:
        check_engine_can(created)
        check_branch(env, paths, created)
        _check_no_remains(env, paths)
        first, data = paths.schema(0), schema_to_json(created).encode()
        exists = not create_own(env.storage, first, data)
    if exists and not if_not_exists:
        raise AlreadyExistsError(f"there is a table in {path} already; if_not_exists=True (--if-not-exists) uses it")
    return load_table(path, config, env=env)


def delete_table(storage: Storage, path: str) -> None:
    """Deletes the directory of a table: first what says which files have rows, last the schemas.

    So what a deletion leaves that fails, or is killed, is still a table, which the next one deletes. Without a schema
    it would be files that no name leads to, and that a new table of that name would take for its own.

    Raises: StorageError.
    """
    paths = TablePaths(path.rstrip("/"))
    for directory in (paths.snapshot_dir, paths.changelog_dir, paths.tag_dir, paths.branch_dir):
        storage.delete_tree(directory)
    if storage.is_object_store:
        # Not directory by directory, which takes requests for each partition.
        schemas = f"{paths.schema_dir}/"
        storage.delete([info.path for info in storage.walk(paths.root) if not info.path.startswith(schemas)])
    else:
        for info in list_present(storage, paths.root):
            if not info.is_dir:
                storage.delete([info.path])
            elif info.path != paths.schema_dir:
                storage.delete_tree(info.path)
    storage.delete_tree(paths.schema_dir)
    storage.delete_tree(paths.root)


def check_deletable(storage: Storage, path: str) -> None:
    """Checks that the directory of a table holds no other table, which would be deleted with it.

    Raises: ConflictError.
    """
    paths = TablePaths(path.rstrip("/"))
    own = tuple(f"{directory}/" for directory in (paths.schema_dir, paths.branch_dir, paths.quarantine_dir))
    for info in storage.walk(paths.root):
        if not info.path.startswith(own) and (found := _SCHEMA_FILE.search(info.path)):
            raise ConflictError(
                f"{paths.root} is not deleted: there is another table inside of it, {info.path[: found.start()]}, "
                "whose rows would be lost with it. Move that one to another directory, or drop it first"
            )


def check_free(storage: Storage, path: str) -> None:
    """Checks that a table may be renamed to a directory: that there is nothing, or no more than empty directories.

    Raises: ConflictError.
    """
    if not storage.exists(path):
        return
    found = path if not storage.stat(path).is_dir else next((info.path for info in storage.walk(path)), None)
    if found is not None:
        raise ConflictError(
            f"{path} is taken: there is {found}, though no table; move or delete it, or choose another name"
        )


def _check_no_remains(env: Env, paths: TablePaths) -> None:
    """Checks that a directory without a schema has no versions either, which would be those of the new table.

    Others may make the table meanwhile, so the schema is looked for once more.

    Raises: ConflictError.
    """
    for directory in (paths.snapshot_dir, paths.tag_dir, paths.branch_dir):
        found = next(env.storage.walk(directory), None)
        if found is not None and latest_schema_id(env, paths) is None:
            raise ConflictError(
                f"{paths.root} has no schema, but {found.path}: it is left of a table that was deleted in part, or "
                "belongs to one that is being copied; a new table there would take it for its own. Wait until it is "
                "complete, delete or move the directory, or choose another name"
            )


def check_engine_can(schema: TableSchema) -> None:
    """Raises UnsupportedError or InvalidArgumentError for a new table that breaks a rule or that we cannot write."""
    check_rules(schema)
    check_writable(schema.table_options)
    check_codecs(schema.table_options)
