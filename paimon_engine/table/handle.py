"""What a table is to the engine: where it lies, what its schema says, and how to reach the world.

`TableHandle` is for the process that works; `PlainTable` is what travels to a worker, which loads its own handle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from paimon_engine.env import Env, EnvConfig
from paimon_engine.errors import NotFoundError
from paimon_engine.meta.paths import MAIN_BRANCH, TablePaths
from paimon_engine.meta.schema import TableSchema, parse_schema
from paimon_engine.options import TableOptions
from paimon_engine.table.snapshot_door import SnapshotDoor

SCHEMA_PREFIX: Final = "schema-"


@dataclass(frozen=True)
class TableHandle:
    """One branch of one table, with one of its schemas (the latest, unless the caller travels in time).

    `door` is there where a server, not the store, says which snapshots there are; `has_served_schema` where a server
    says what the schema is.
    """

    env: Env
    config: EnvConfig
    paths: TablePaths
    schema: TableSchema
    dynamic_options: Mapping[str, str] = field(default_factory=dict)
    door: SnapshotDoor | None = field(default=None, repr=False, compare=False)
    _schemas: dict[int, TableSchema] = field(default_factory=dict, repr=False, compare=False)
    has_served_schema: bool = False

    @property
    def options(self) -> TableOptions:
        """The table's options, dynamic ones included."""
        return self.schema.table_options

    def schema_of(self, schema_id: int) -> TableSchema:
        """Schema of that id, read once per handle.

        Raises: NotFoundError.
        """
        known = self._schemas.get(schema_id)
        if known is None:
            path = self.paths.schema(schema_id)
            stored = parse_schema(self.env.storage.read(path).decode(), path)
            known = self._schemas[schema_id] = stored.with_options(self.dynamic_options)
        return known

    def at_schema(self, schema_id: int) -> TableHandle:
        """The same table seen through another of its schemas; options stay those of the latest one."""
        schema = replace(self.schema_of(schema_id), options=self.schema.options)
        return replace(self, schema=schema)

    def on_branch(self, name: str) -> TableHandle:
        """The same table on another branch, with that branch's latest schema.

        Raises: NotFoundError.
        """
        options = self.dynamic_options
        branch = load_table(self.paths.root, self.config, env=self.env, branch=name, options=options)
        return replace(branch, door=self.door, has_served_schema=self.has_served_schema)

    def plain(self) -> PlainTable:
        """What a worker needs to load this table."""
        return PlainTable(self.paths.root, self.config, self.paths.branch, dict(self.dynamic_options), self.schema.id)


@dataclass(frozen=True, slots=True)
class PlainTable:
    """Address of a table as a plain value, fit for pickling."""

    path: str
    config: EnvConfig
    branch: str
    options: Mapping[str, str]
    schema_id: int

    def load(self, env: Env) -> TableHandle:
        """The table in this process.

        Raises: NotFoundError.
        """
        paths = TablePaths(self.path, self.branch)
        path = paths.schema(self.schema_id)
        schema = parse_schema(env.storage.read(path).decode(), path).with_options(self.options)
        return TableHandle(env, self.config, paths, schema, self.options, _schemas={schema.id: schema})


def load_table(
    path: str,
    config: EnvConfig,
    *,
    env: Env | None = None,
    branch: str = MAIN_BRANCH,
    options: Mapping[str, str] | None = None,
) -> TableHandle:
    """The table in that directory, with its latest schema and `options` laid over the stored ones.

    Raises: NotFoundError if there is no table or branch; CorruptTableError, UnsupportedError from its schema.
    """
    env = env or config.build()
    paths = TablePaths(path.rstrip("/"), branch)
    latest = latest_schema_id(env, paths)
    if latest is None:
        where = f"branch {branch!r} of the table in {path}" if branch != MAIN_BRANCH else f"table in {path}"
        raise NotFoundError(
            f"there is no {where}: {paths.schema_dir} holds no schema file; check the path, or create it first"
        )
    schema_path = paths.schema(latest)
    schema = parse_schema(env.storage.read(schema_path).decode(), schema_path).with_options(options or {})
    return TableHandle(env, config, paths, schema, dict(options or {}), _schemas={schema.id: schema})


def latest_schema_id(env: Env, paths: TablePaths) -> int | None:
    """Newest schema id of the branch; None if there is no table."""
    return max(numbered(env, paths.schema_dir, SCHEMA_PREFIX), default=None)


def numbered(env: Env, directory: str, prefix: str) -> list[int]:
    """Numbers of the files `<prefix><number>` in a directory, ascending; other names are ignored."""
    numbers = []
    for info in env.storage.list(directory):
        name = info.path.rsplit("/", 1)[-1]
        if name.startswith(prefix) and name[len(prefix) :].isdigit():
            numbers.append(int(name[len(prefix) :]))
    return sorted(numbers)
