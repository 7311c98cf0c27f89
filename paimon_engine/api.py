"""The facade that people type: `Catalog`, `Table` and its verbs. Each verb is one call of an action."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from paimon_engine import inspect
from paimon_engine.actions.commit import CommitResult, commit_messages
from paimon_engine.actions.compact import Compact, CompactResult, compact
from paimon_engine.actions.expire_snapshots import ExpireResult, ExpireSnapshots, expire_snapshots
from paimon_engine.actions.rollback import Rollback, RollbackResult, rollback
from paimon_engine.actions.tags import (
    CreateTag,
    DeleteTag,
    DeleteTagResult,
    IfExists,
    TagResult,
    create_tag,
    delete_tag,
)
from paimon_engine.actions.write import CommitName, WriteResult, write_arrow, write_frame
from paimon_engine.catalogs import CatalogConfig, open_metastore
from paimon_engine.catalogs.base import TableName, checked_database
from paimon_engine.env import EnvConfig
from paimon_engine.errors import ConflictError, InvalidArgumentError, NotFoundError, UnsupportedError
from paimon_engine.executor import Executor, LocalExecutor
from paimon_engine.inspect.system_tables import check_system_table, open_system_table
from paimon_engine.meta.paths import MAIN_BRANCH
from paimon_engine.meta.schema import VALUE_KIND, TableSchema
from paimon_engine.meta.snapshot import BATCH_COMMIT_IDENTIFIER
from paimon_engine.progress import OnProgress
from paimon_engine.table import catalog as tables
from paimon_engine.table.catalog import TableDraft
from paimon_engine.table.commit_message import CommitMessage
from paimon_engine.table.handle import TableHandle, load_table
from paimon_engine.table.open_read import open_read
from paimon_engine.table.read import read_schema
from paimon_engine.table.read_request import ReadRequest
from paimon_engine.table.snapshots import choose_snapshot, latest_snapshot_id


class Catalog:
    """Databases and tables, by name.

    `warehouse` is any fsspec address or a local path, or the name that a REST server gave it; `storage_options` go to
    its file system. `options` are catalog options by Paimon's names: `metastore` is `filesystem` (the default),
    `jdbc` or `rest`, the latter two at a `uri`; `table-default.*` are options of new tables. `secrets` maps catalog
    options to the environment variables that hold their values. `executor` chooses where tasks run: threads of this
    process by default, `paimon_engine.spark.executor.SparkExecutor` for Spark.

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
        self._metastore = open_metastore(config)

    # ── databases ───────────────────────────────────────────────────────────────────────────────

    def list_databases(self) -> list[str]:
        """Names of the databases, sorted."""
        return self._metastore.list_databases()

    def create_database(
        self, name: str, properties: Mapping[str, str] | None = None, *, if_not_exists: bool = False
    ) -> None:
        """Creates a database; an object store shows it once it has a table.

        Raises: ConflictError if it exists and `if_not_exists` is false; UnsupportedError for properties that the kind
        of catalog does not keep.
        """
        try:
            self._metastore.create_database(checked_database(name), dict(properties or {}))
        except ConflictError:
            if not if_not_exists:
                raise

    def database_properties(self, name: str) -> dict[str, str]:
        """Properties of a database, `location` among them. Raises: NotFoundError."""
        return self._metastore.database_properties(checked_database(name))

    def drop_database(self, name: str, *, if_exists: bool = False, cascade: bool = False) -> None:
        """Drops a database; with `cascade` its tables and all their files too. There is no way back.

        Raises: ConflictError if it has tables and `cascade` is false; NotFoundError if there is none and `if_exists`
        is false.
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
        name: str,
        *,
        schema: pa.Schema,
        primary_keys: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
        comment: str | None = None,
        if_not_exists: bool = False,
    ) -> Table:
        """Creates `database.table` with the columns of an Arrow schema.

        The filesystem catalog makes the database where it is missing; others want it made before.

        Raises: InvalidArgumentError, UnsupportedError; NotFoundError without the database; ConflictError if the table
        exists and `if_not_exists` is false.
        """
        draft = TableDraft(schema, tuple(primary_keys), tuple(partition_keys), dict(options or {}), comment)
        handle = self._metastore.create_table(TableName.parse(name), draft, if_not_exists=if_not_exists)
        return Table(handle, self.executor)

    def table(self, name: str, options: Mapping[str, str] | None = None) -> Table:
        """The table `database.table`, with dynamic options laid over the stored ones.

        `database.table$snapshots` and the like are its system tables, to be read only; `database.table$branch_b` is
        its branch `b`.

        Raises: InvalidArgumentError; NotFoundError if there is no such table, branch or system table.
        """
        text, branch, system = tables.split_system_name(name)
        if system is not None:
            check_system_table(system)
        dynamic = dict(options or {})
        branch = branch or dynamic.pop("branch", MAIN_BRANCH)
        handle = self._metastore.load_table(TableName.parse(text), branch=branch, options=dynamic)
        return Table(handle, self.executor, system)

    def rename_table(self, name: str, new_name: str, *, if_exists: bool = False) -> None:
        """Renames a table, with its directory where its place follows from its name.

        Raises: ConflictError if the new name is taken; NotFoundError if there is no such table and `if_exists` is
        false; UnsupportedError on object stores, where a directory cannot be renamed.
        """
        old, new = TableName.parse(name), TableName.parse(new_name)
        try:
            self._metastore.rename_table(old, new)
        except NotFoundError:
            if not if_exists or self._has(old):
                raise

    def _has(self, name: TableName) -> bool:
        in_database = name.database in self._metastore.list_databases()
        return in_database and name.table in self._metastore.list_tables(name.database)

    def drop_table(self, name: str, *, if_exists: bool = False) -> None:
        """Deletes the table with all its files, tags and branches. There is no way back.

        Raises: NotFoundError if there is none and `if_exists` is false.
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
        check_system_table(system)
    dynamic = dict(options or {})
    # An option as good as any other in Java, but here it chooses the files, not how they are read.
    branch = branch or dynamic.pop("branch", MAIN_BRANCH)
    return Table(load_table(path, config, branch=branch, options=dynamic), executor, system)


class Table:
    """One table. Verbs look at the store anew each time; the schema is that of the moment the table was opened."""

    def __init__(self, handle: TableHandle, executor: Executor, system: str | None = None) -> None:
        """Use `Catalog.table` or `open_table`. `system` names a system table, whose rows are read instead."""
        self._source = handle
        self._executor = executor
        self._system = system

    @property
    def _handle(self) -> TableHandle:
        """The table itself, for all that is more than reading rows."""
        if self._system is not None:
            raise UnsupportedError(f"${self._system} is a system table: it can be read, and no more")
        return self._source

    @property
    def path(self) -> str:
        """The table's directory."""
        return self._source.paths.root

    @property
    def schema(self) -> TableSchema:
        """Columns, keys and options; of a system table those of the table that it tells of."""
        return self._source.schema

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns as an Arrow schema."""
        return read_schema(self._source, None) if self._system is None else self._read(ReadRequest())[0]

    def __repr__(self) -> str:
        mark = "" if self._system is None else f"{tables.SYSTEM_MARK}{self._system}"
        return f"Table({self.path + mark!r})"

    # ── rows ────────────────────────────────────────────────────────────────────────────────────

    def write(
        self,
        data: Any,
        row_kinds: Any = None,
        overwrite: Mapping[str, Any] | None = None,
        *,
        commit_user: str | None = None,
        commit_identifier: int = BATCH_COMMIT_IDENTIFIER,
    ) -> WriteResult:
        """Writes and commits an Arrow table, record batch or record-batch reader, or a Spark DataFrame.

        `row_kinds` is an array of `+I -U +U -D` beside the rows, or the name of a column that holds them.
        `overwrite={}` replaces the partitions that rows come for (all rows of an unpartitioned table),
        `{"column": value}` those partitions. A `commit_user` makes repeating the call safe: it commits once.

        Raises: InvalidArgumentError if rows do not fit; UnsupportedError; ConflictError; StorageError.
        """
        name = CommitName(commit_user, commit_identifier)
        if _is_frame(data):
            if row_kinds is not None and not isinstance(row_kinds, str):
                raise InvalidArgumentError("rows of a DataFrame have no order: name the column that holds their kinds")
            return write_frame(
                self._handle, data, self._executor, overwrite=overwrite, kind_column=row_kinds, name=name
            )
        batches = _batches(data)
        kind_column = row_kinds if isinstance(row_kinds, str) else None
        if row_kinds is not None and kind_column is None:
            kind_column = VALUE_KIND
            batches = _with_kinds(batches, row_kinds)
        return write_arrow(self._handle, batches, overwrite=overwrite, kind_column=kind_column, name=name)

    def commit(self, messages: Sequence[CommitMessage], *, commit_user: str, kind: str = "APPEND") -> CommitResult:
        """Makes one snapshot of changes that were prepared elsewhere; once for this user and `kind`.

        `kind` is `APPEND` or `COMPACT`. Files of the messages stay whatever happens: they are the caller's.

        Raises: InvalidArgumentError; ConflictError if files that the messages remove are gone; StorageError.
        """
        return commit_messages(self._handle, messages, commit_user=commit_user, kind=kind)

    def to_arrow(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: int | datetime | None = None,
        *,
        branch: str | None = None,
        incremental: tuple[int, int] | tuple[str, str] | None = None,
        with_row_kinds: bool = False,
        options: Mapping[str, Any] | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """All rows, merged: of the latest snapshot, or of one chosen by id, tag or time.

        `where` is a SQL condition over the columns. `timestamp` is epoch milliseconds or a datetime (a naive one is
        local time). An empty table gives no rows.

        `incremental=(from, to)` gives what changed after `from` up to `to`, two snapshot ids or two tags. With
        `with_row_kinds` a first column `rowkind` says `+I` or `+U`. Rows that went are not shown; the system table
        `$audit_log`, asked in the same way, shows them as `-U` and `-D`.

        `options` are for this read: `scan.*` ways to travel in time, `incremental-between` and its scan mode.

        Raises: NotFoundError, InvalidArgumentError, UnsupportedError, CorruptTableError.
        """
        moment = None if timestamp is None else _epoch_ms(timestamp)
        names, given = _names(columns), dict(options or {})
        request = ReadRequest(names, where, snapshot, tag, moment, branch, incremental, with_row_kinds, given, limit)
        schema, batches = self._read(request)
        return pa.Table.from_batches(batches, schema)

    def to_batches(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: int | datetime | None = None,
        *,
        branch: str | None = None,
        incremental: tuple[int, int] | tuple[str, str] | None = None,
        with_row_kinds: bool = False,
        options: Mapping[str, Any] | None = None,
        limit: int | None = None,
    ) -> pa.RecordBatchReader:
        """As `to_arrow`, as a stream: memory stays bounded by runs × batch."""
        moment = None if timestamp is None else _epoch_ms(timestamp)
        names, given = _names(columns), dict(options or {})
        request = ReadRequest(names, where, snapshot, tag, moment, branch, incremental, with_row_kinds, given, limit)
        schema, batches = self._read(request)
        return pa.RecordBatchReader.from_batches(schema, batches)

    def _read(self, request: ReadRequest) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        if self._system is None:
            return open_read(self._source, request)
        return open_system_table(self._source, self._system, request)

    # ── maintenance ─────────────────────────────────────────────────────────────────────────────

    def compact(
        self,
        full: bool = False,  # noqa: FBT001, FBT002 - reads well as compact(full=True), and is in use so
        where: str | None = None,
        *,
        dry_run: bool = False,
        commit_user: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> CompactResult:
        """Merges sorted runs (small files on append tables); `full` takes everything to the highest level.

        `where` chooses partitions. The result tells files, bytes and rows before and after, per bucket, and why
        buckets were skipped; a dry run plans the same and writes nothing.

        Raises: UnsupportedError, ConflictError, StorageError.
        """
        spec = Compact(full, where, dry_run)
        return compact(self._handle, spec, self._executor, commit_user=commit_user, on_progress=on_progress)

    def create_tag(
        self,
        name: str,
        snapshot: int | None = None,
        *,
        if_exists: IfExists = "verify",
        time_retained_ms: int | None = None,
    ) -> TagResult:
        """Names a snapshot (the latest by default); the same tag on the same snapshot is fine.

        Raises: ConflictError naming both snapshots if the tag is on another one; NotFoundError.
        """
        return create_tag(self._handle, CreateTag(name, snapshot, if_exists, time_retained_ms), self._executor)

    def delete_tag(self, name: str) -> DeleteTagResult:
        """Deletes a tag, and the files that only it kept."""
        return delete_tag(self._handle, DeleteTag(name), self._executor)

    def rollback(self, snapshot: int | None = None, tag: str | None = None) -> RollbackResult:
        """Makes that snapshot or tag the latest; newer snapshots and tags go.

        Raises: NotFoundError, InvalidArgumentError.
        """
        return rollback(self._handle, Rollback(snapshot, tag), self._executor)

    def expire_snapshots(
        self,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: int | datetime | None = None,
        dry_run: bool = False,  # noqa: FBT001, FBT002 - reads well as expire_snapshots(dry_run=True), and is in use so
    ) -> ExpireResult:
        """Deletes old snapshots and the files that nothing else reaches: tags, branches and consumers keep theirs.

        `older_than` is epoch milliseconds or a datetime; what is not given comes from the table's options.

        Raises: InvalidArgumentError, UnsupportedError, StorageError.
        """
        limit = None if older_than is None else _epoch_ms(older_than)
        return expire_snapshots(self._handle, ExpireSnapshots(retain_max, retain_min, limit, dry_run), self._executor)

    # ── looking ─────────────────────────────────────────────────────────────────────────────────

    def latest_snapshot_id(self) -> int | None:
        """Id of the newest snapshot; None before the first commit."""
        return latest_snapshot_id(self._handle)

    def snapshots(self) -> pa.Table:
        """All snapshots, oldest first; columns as in the system table `$snapshots`."""
        return inspect.snapshots(self._handle)

    def files(self, snapshot: int | None = None, tag: str | None = None) -> pa.Table:
        """Live data files; columns as in the system table `$files`."""
        return inspect.files(self._handle, choose_snapshot(self._handle, snapshot=snapshot, tag=tag))

    def tags(self) -> pa.Table:
        """All tags; columns as in the system table `$tags`."""
        return inspect.tags(self._handle)


def _is_frame(data: Any) -> bool:
    """Whether the data is a Spark DataFrame; asked without importing pyspark."""
    return type(data).__module__.startswith("pyspark.")


def _batches(data: Any) -> Iterator[pa.RecordBatch]:
    if isinstance(data, pa.RecordBatch):
        return iter([data])
    if isinstance(data, pa.Table):
        return iter(data.to_batches())
    if hasattr(data, "__arrow_c_stream__"):
        return iter(pa.RecordBatchReader.from_stream(data))
    raise InvalidArgumentError(
        f"cannot write a {type(data).__name__}; give an Arrow table, record batch or reader, or a Spark DataFrame"
    )


def _with_kinds(batches: Iterable[pa.RecordBatch], row_kinds: Any) -> Iterator[pa.RecordBatch]:
    """The batches with the row kinds as a column more.

    Raises: InvalidArgumentError if there are not as many kinds as rows.
    """
    kinds = row_kinds if isinstance(row_kinds, pa.Array | pa.ChunkedArray) else pa.array(row_kinds)
    if isinstance(kinds, pa.ChunkedArray):
        kinds = kinds.combine_chunks()
    row = 0
    for batch in batches:
        part = kinds.slice(row, batch.num_rows)
        row += batch.num_rows
        if len(part) != batch.num_rows:
            break
        yield batch.append_column(VALUE_KIND, part)
    if row != len(kinds):
        raise InvalidArgumentError(f"{len(kinds)} row kinds for {row} rows; give one for each row")


def _names(columns: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if columns is None else tuple(columns)


def _epoch_ms(moment: int | datetime) -> int:
    if isinstance(moment, datetime):
        return int(moment.astimezone(UTC).timestamp() * 1000)
    return moment
