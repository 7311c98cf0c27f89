"""A table as the engine sees it: its paths, its schema, its options, and its environment (storage, clock, ids).

`TableHandle` is for the process that works; `PlainTable` is what travels to a worker, which loads its own handle, and
`SeenTable` what travels to one that reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import BinaryIO, Final

from paimon_engine.env import Env, EnvConfig
from paimon_engine.errors import REMEDY, InvalidArgumentError, NotFoundError, damaged, naming
from paimon_engine.format.binary_row import decode_row
from paimon_engine.meta.fixed_options import with_dynamic_options
from paimon_engine.meta.names import check_inside_directory
from paimon_engine.meta.paths import BRANCH_DIRECTORY, MAIN_BRANCH, TablePaths, partition_path
from paimon_engine.meta.schema import TableSchema, parse_schema
from paimon_engine.options import TableOptions
from paimon_engine.storage import Opener, Storage
from paimon_engine.storage.fenced import fenced
from paimon_engine.table.state.metadata_memory import MetadataMemory
from paimon_engine.table.state.schema_service import SchemaService
from paimon_engine.table.state.snapshot_service import SnapshotService
from paimon_engine.table.state.table_entry import TableEntry

SCHEMA_PREFIX: Final = "schema-"


@dataclass(frozen=True)
class TableHandle:
    """One branch of one table, with one of its schemas (the latest, unless the caller travels in time).

    One that `remembers` takes manifests from `memory` where it has them, see `table.state.metadata_memory`.
    `snapshot_service` is set where a server, not the storage, says which snapshots exist; `schema_service` where a
    server says what the schema is. `entry` is set where a catalog keeps a copy of the schema beside its files.
    """

    env: Env
    config: EnvConfig
    paths: TablePaths
    schema: TableSchema
    dynamic_options: Mapping[str, str] = field(default_factory=dict)
    snapshot_service: SnapshotService | None = field(default=None, repr=False, compare=False)
    _schemas: dict[int, TableSchema] = field(default_factory=dict, repr=False, compare=False)
    schema_service: SchemaService | None = field(default=None, repr=False, compare=False)
    memory: MetadataMemory = field(default_factory=MetadataMemory, repr=False, compare=False)
    remembers: bool = field(default=False, repr=False, compare=False)
    entry: TableEntry | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Puts a fence around the table's directory: no action deletes outside of it."""
        object.__setattr__(self, "env", replace(self.env, storage=fenced(self.env.storage, self.paths.root)))

    @property
    def options(self) -> TableOptions:
        """The table's options, dynamic ones included."""
        return self.schema.table_options

    def schema_of(self, schema_id: int) -> TableSchema:
        """Schema of that id, read once per handle.

        Raises: NotFoundError, CorruptTableError.
        """
        known = self._schemas.get(schema_id)
        if known is None:
            known = self._schemas[schema_id] = read_schema_file(self.env, self.paths, schema_id, self.dynamic_options)
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
        return replace(
            branch, snapshot_service=self.snapshot_service, schema_service=self.schema_service, entry=self.entry
        )

    def newest(self) -> TableHandle:
        """The same branch of the table with its newest schema.

        Raises: NotFoundError.
        """
        if self.schema_service is None:
            table = load_table(
                self.paths.root, self.config, env=self.env, branch=self.paths.branch, options=self.dynamic_options
            )
            return replace(table, memory=self.memory, remembers=self.remembers, entry=self.entry)
        schema = with_dynamic_options(self.schema_service.latest(self), self.dynamic_options)
        return replace(self, schema=schema, _schemas={schema.id: schema})

    def remembering(self) -> TableHandle:
        """The same table for work that commits: it reads no manifest twice."""
        return replace(self, remembers=True)

    def plain(self) -> PlainTable:
        """What a worker needs to load this table."""
        return PlainTable(self.paths.root, self.config, self.paths.branch, dict(self.dynamic_options), self.schema.id)

    def seen(self) -> SeenTable:
        """What a worker needs to read what this handle sees, also where it travels in time."""
        return SeenTable(
            self.paths.root,
            self.config,
            self.paths.branch,
            dict(self.dynamic_options),
            self.schema,
            {**self._schemas},
        )


@dataclass(frozen=True, slots=True)
class PlainTable:
    """Address of a table as a picklable plain value."""

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
        schema = read_schema_file(env, paths, self.schema_id, self.options)
        return TableHandle(env, self.config, paths, schema, self.options, _schemas={schema.id: schema})


@dataclass(frozen=True, slots=True)
class SeenTable:
    """A table as a read sees it, with all schemas that are known of it: a picklable plain value."""

    path: str
    config: EnvConfig
    branch: str
    options: Mapping[str, str]
    schema: TableSchema
    schemas: Mapping[int, TableSchema]

    def load(self, env: Env) -> TableHandle:
        """The table in this process; nothing is looked up for it."""
        paths = TablePaths(self.path, self.branch)
        return TableHandle(env, self.config, paths, self.schema, self.options, _schemas=dict(self.schemas))


def load_table(
    path: str,
    config: EnvConfig,
    *,
    env: Env | None = None,
    branch: str = MAIN_BRANCH,
    options: Mapping[str, str] | None = None,
) -> TableHandle:
    """The table in that directory, with its latest schema and `options` laid over the stored ones.

    Raises: NotFoundError if there is no table or branch; CorruptTableError, UnsupportedError from its schema;
    InvalidArgumentError if the options would let its files be taken for something else, or for the path of a branch.
    """
    env = env or config.build()
    check_inside_directory("branch", branch)
    paths = TablePaths(path.rstrip("/"), branch)
    check_no_branch(env, paths)
    latest = latest_schema_id(env, paths)
    if latest is None:
        where = f"branch {branch!r} of the table in {path}" if branch != MAIN_BRANCH else f"table in {path}"
        raise NotFoundError(
            f"there is no {where}: {paths.schema_dir} holds no schema file; check the path, or create it first"
        )
    schema = with_dynamic_options(read_schema_file(env, paths, latest, {}), options or {})
    return TableHandle(env, config, paths, schema, dict(options or {}), _schemas={schema.id: schema})


def check_no_branch(env: Env, paths: TablePaths) -> None:
    """That a directory is not that of a branch: it has schemas and snapshots, too, but their files are the table's.

    Raises: InvalidArgumentError that says how to name the branch.
    """
    root, _, branch = paths.root.rpartition(BRANCH_DIRECTORY)
    if root and branch and "/" not in branch and latest_schema_id(env, TablePaths(root)) is not None:
        raise InvalidArgumentError(
            f"{paths.root} is the directory of the branch {branch!r}, not of a table; give the table's path {root} "
            f"and the option branch={branch!r}, or {root}$branch_{branch}"
        )


def read_schema_file(env: Env, paths: TablePaths, schema_id: int, options: Mapping[str, str]) -> TableSchema:
    """The schema of that id as it is stored, with `options` laid over its own.

    Raises: NotFoundError, CorruptTableError, UnsupportedError.
    """
    path = paths.schema(schema_id)
    try:
        schema = parse_schema(env.storage.read(path), path)
    except NotFoundError as error:
        if latest_schema_id(env, paths) is None:
            raise gone(paths) from error
        # Schemas do not expire.
        raise NotFoundError(
            f"{path} is missing: if the table was dropped and created again meanwhile, open it again; else the schema "
            "is lost: restore the file from a copy"
        ) from error
    if schema.id != schema_id:
        raise damaged(path, f"the file holds schema {schema.id}")
    return schema.with_options(options)


def read_needed(table: TableHandle, path: str, *, storage: Storage | None = None) -> bytes:
    """A file that others name, so that it must be there; `storage` is where it lies, if elsewhere.

    Raises: NotFoundError naming it and what to do.
    """
    try:
        return (storage or table.env.storage).read(path)
    except NotFoundError as error:
        raise missing(path) from error


def open_needed(
    table: TableHandle, path: str, size_bytes: int | None = None, *, storage: Storage | None = None
) -> BinaryIO:
    """As `read_needed`, for random access; to be closed by the caller. `storage` is where it lies, if elsewhere."""
    try:
        return (storage or table.env.storage).open(path, size_bytes=size_bytes)
    except NotFoundError as error:
        raise missing(path) from error


@contextmanager
def reading_needed(
    table: TableHandle, path: str, size_bytes: int | None = None, *, storage: Opener | None = None
) -> Iterator[BinaryIO]:
    """As `open_needed`, for a `with` block: the same error is raised if the file is deleted while it is read."""
    try:
        with (storage or table.env.storage).open(path, size_bytes=size_bytes) as stream:
            yield stream
    except NotFoundError as error:
        raise missing(path) from error


def check_size(stream: BinaryIO, path: str, size_bytes: int) -> None:
    """Raises CorruptTableError if the file is not as large as others say; goes back to its begin."""
    stream.seek(0, 2)
    found = stream.tell()
    stream.seek(0)
    if found != size_bytes:
        raise damaged(path, f"it has {found} bytes, and should have {size_bytes}")


def missing(path: str) -> NotFoundError:
    """The error for a file that others name and that is not there."""
    return NotFoundError(
        f"{path} is missing (its snapshot expired while it was read, or it is lost); if it expired, read again, and "
        f"keep the snapshot by a tag for as long as reads last; else {REMEDY}"
    )


def gone(paths: TablePaths) -> NotFoundError:
    """The error for a table, or branch, that was opened and has no schema any more."""
    return NotFoundError(
        f"{paths.label} is not there any more: it was dropped or renamed since it was opened, and has no schema; open "
        "it again, by the name that it has now"
    )


def latest_schema_id(env: Env, paths: TablePaths) -> int | None:
    """Newest schema id of the branch; None if there is no table."""
    return max(numbered(env, paths.schema_dir, SCHEMA_PREFIX), default=None)


def numbered(env: Env, directory: str, prefix: str) -> list[int]:
    """Numbers of the files `<prefix><number>` in a directory, ascending; other names are ignored."""
    numbers = []
    for info in env.storage.list(directory):
        name = info.path.rsplit("/", 1)[-1]
        if name.startswith(prefix) and (number := name[len(prefix) :]).isascii() and number.isdigit():
            numbers.append(int(number))
    return sorted(numbers)


def bucket_path(table: TableHandle, partition: bytes, bucket: int) -> str:
    """Directory of a bucket's files."""
    columns, options = table.schema.partition_type, table.options
    with naming(f"{table.paths.root}/manifest: partition of an entry of bucket {bucket}"):
        values = decode_row([field.type for field in columns], partition)
    relative = partition_path(
        columns, values, default_name=options.partition_default_name, legacy_name=options.partition_legacy_name
    )
    return table.paths.bucket_dir("/".join(part for part in (options.data_file_directory, relative) if part), bucket)


def index_file_path(table: TableHandle, partition: bytes, bucket: int, name: str) -> str:
    """Path of an index file of a bucket, unless it is outside the table."""
    if table.options.index_files_beside_data:
        return f"{bucket_path(table, partition, bucket)}/{name}"
    return table.paths.index(name)


DELETION_DIRECTORY: Final = "deletion"
