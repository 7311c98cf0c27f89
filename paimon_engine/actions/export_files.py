"""Export rows to files for other programs: one file, or a directory with one part per partition; complete or not there.

A directory gets a file `_SUCCESS` as its last one. It says of which table and snapshot the rows are; only a directory
that has it is ever replaced.
"""

from __future__ import annotations

import json
import logging
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.action import Result
from paimon_engine.env import Env, EnvConfig
from paimon_engine.errors import ConflictError, InvalidArgumentError, NotFoundError, StorageError
from paimon_engine.format.row_files import ROW_FILES, WriteBatch, row_file
from paimon_engine.meta.paths import escape_path_name
from paimon_engine.secrecy import check_address
from paimon_engine.storage import Storage
from paimon_engine.storage.local import local_path
from paimon_engine.storage.locations import is_below, is_local
from paimon_engine.storage.publication import beside, publish_directory, shows_incomplete, whole_file
from paimon_engine.table.read.open_read import check_limit, limited
from paimon_engine.table.read.read_plan import plan_at_one_snapshot
from paimon_engine.table.read.read_request import ReadRequest
from paimon_engine.table.state.handle import TableHandle

IF_EXISTS: Final = ("error", "ignore", "replace")
SUCCESS: Final = "_SUCCESS"
_NULL_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
OPEN_FILES: Final = 64
"""So many parts are written at a time; a partition that comes again later has a further file."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ExportResult(Result):
    """What an export did; `status` is `exported`, or `exists` where the target was there and was left alone."""

    status: str
    target: str
    snapshot_id: int | None = None
    rows: int = 0
    files: int = 0
    bytes: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Export:
    """Where the rows go, and how: one file, or with `partition_by` a directory with `column=value` directories."""

    target: str
    format: str = "parquet"
    partition_by: tuple[str, ...] | None = None
    if_exists: str = "error"

    def __post_init__(self) -> None:
        """Raises: InvalidArgumentError."""
        check_address(self.target, "the target")
        if not self.target.strip("/") or self.target.endswith("://"):
            raise InvalidArgumentError(f"target={self.target!r}: give the path of a file, or of a directory")
        if self.target.endswith("/") and self.partition_by is None:
            raise InvalidArgumentError(
                f"target={self.target!r} is a directory; name a file, or give partition_by= for a directory"
            )
        if self.format not in ROW_FILES:
            raise InvalidArgumentError(f"format={self.format!r}; choose one of {', '.join(ROW_FILES)}")
        if self.if_exists not in IF_EXISTS:
            raise InvalidArgumentError(f"if_exists={self.if_exists!r}; choose one of {', '.join(IF_EXISTS)}")


def export_files(table: TableHandle, request: ReadRequest, export: Export, store: EnvConfig) -> ExportResult:
    """Reads rows and writes them to files at the target, whose store is `store`; memory does not grow with the rows.

    Raises: InvalidArgumentError; ConflictError if the target is there; NotFoundError, CorruptTableError; StorageError.
    """
    begun = time.monotonic()
    check_limit(request.limit)
    _check_outside(table, export.target)
    plan, number = plan_at_one_snapshot(table, request)
    names = () if export.partition_by is None else export.partition_by
    parts = _PartColumns.of(plan.schema, names)
    env = store.build()
    storage = env.storage
    if _is_there(storage, export):
        return ExportResult("exists", export.target, seconds=time.monotonic() - begun)
    batches = limited(plan.batches(), request.limit)
    if export.partition_by is None:
        counted = _one_file(storage, export, plan.schema, batches)
    else:
        counted = _directory(env, export, parts, batches, {"table": table.paths.root, "snapshot_id": number})
    logger.info("exported %d rows of %s to %s", counted["rows"], table.paths.root, export.target)
    return ExportResult("exported", export.target, number, **counted, seconds=time.monotonic() - begun)


def _check_outside(table: TableHandle, target: str) -> None:
    if is_below(f"{_absolute(target)}/file", [_absolute(table.paths.root)]):
        raise InvalidArgumentError(
            f"target={target!r} is inside the table {table.paths.root}, whose clean-up deletes what it does not know; "
            "choose another path"
        )


def _absolute(path: str) -> str:
    """The path in the one form that locations are compared in."""
    return local_path(path) if is_local(path) else path.rstrip("/")


def _is_there(storage: Storage, export: Export) -> bool:
    """Whether the target is there and stays. Raises: ConflictError if it is there and must not be."""
    target = export.target.rstrip("/")
    if not storage.exists(target):
        return False
    if export.if_exists == "ignore":
        return True
    if export.if_exists == "error":
        raise ConflictError(f"{target} exists; if_exists='replace' replaces it, 'ignore' leaves it as it is")
    is_directory = storage.stat(target).is_dir
    if export.partition_by is None and is_directory:
        raise ConflictError(f"{target} is a directory, which no file replaces; choose another target")
    if export.partition_by is not None and not (is_directory and _is_export(storage, target)):
        raise ConflictError(
            f"{target} is not a directory that an export has made: it has no {SUCCESS} file that says so. Nothing in "
            "it is deleted; choose another target, or delete it yourself"
        )
    return False


def _is_export(storage: Storage, directory: str) -> bool:
    try:
        note = json.loads(storage.read(f"{directory}/{SUCCESS}"))
    except (NotFoundError, ValueError):
        return False
    return isinstance(note, dict) and "snapshot_id" in note and "table" in note


# ── one file ────────────────────────────────────────────────────────────────────────────────────


def _one_file(storage: Storage, export: Export, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> dict[str, int]:
    rows = 0
    with (
        whole_file(storage, export.target, replace=export.if_exists == "replace") as sink,
        row_file(sink, schema, export.format) as write,
    ):
        for batch in batches:
            write(batch)
            rows += batch.num_rows
    return {"rows": rows, "files": 1, "bytes": storage.stat(export.target).size_bytes}


# ── a directory ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _PartColumns:
    """Which columns choose the directory, and which are in the files."""

    names: tuple[str, ...]
    stored: pa.Schema

    @classmethod
    def of(cls, schema: pa.Schema, names: Sequence[str]) -> _PartColumns:
        """Raises: InvalidArgumentError for columns that are not there, or whose values name no directory."""
        for name in names:
            if name not in schema.names:
                raise InvalidArgumentError(f"partition_by: there is no column {name!r} in {', '.join(schema.names)}")
            kind = schema.field(name).type
            if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_floating(kind):
                raise InvalidArgumentError(f"partition_by: values of {name!r}, a {kind}, cannot name directories")
        stored = pa.schema([field for field in schema if field.name not in names])
        if names and not len(stored):
            raise InvalidArgumentError("partition_by: no column would be left for the files")
        return cls(tuple(names), stored)

    def split(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows of each partition, with its directory."""
        rows = batch.select(self.stored.names)
        if not self.names:
            yield "", rows
            return
        texts = [pc.cast(batch[name], pa.string()).fill_null(_NULL_PARTITION) for name in self.names]
        columns = [pc.replace_with_mask(text, pc.equal(text, ""), _NULL_PARTITION) for text in texts]
        keys = pc.dictionary_encode(pc.binary_join_element_wise(*columns, "\x00"))
        first = pc.index_in(pa.array(range(len(keys.dictionary)), pa.int32()), value_set=keys.indices)
        for number, row in enumerate(first.to_pylist()):
            values = [column[row].as_py() for column in columns]
            parts = [
                f"{escape_path_name(name)}={_escaped(text)}" for name, text in zip(self.names, values, strict=True)
            ]
            yield "/".join(parts), rows.filter(pc.equal(keys.indices, number))


def _escaped(text: str) -> str:
    return escape_path_name(text).replace(".", "%2E") if text in (".", "..") else escape_path_name(text)


class _Parts:
    """The files of a directory; of those that are written, some are open, and the longest unused is closed first."""

    def __init__(self, env: Env, directory: str, export: Export, columns: _PartColumns) -> None:
        self._storage, self.directory, self._export, self._columns = env.storage, directory, export, columns
        self._open: OrderedDict[str, tuple[ExitStack, WriteBatch]] = OrderedDict()
        self._mark = env.new_id()[:8]
        self.paths: list[str] = []
        self.rows = 0

    def write(self, part: str, rows: pa.RecordBatch) -> None:
        """Adds rows of a partition."""
        if part not in self._open:
            if len(self._open) >= OPEN_FILES:
                self._open.popitem(last=False)[1][0].close()
            self._open[part] = self._begun(part)
        self._open.move_to_end(part)
        self._open[part][1](rows)
        self.rows += rows.num_rows

    def _begun(self, part: str) -> tuple[ExitStack, WriteBatch]:
        name = f"part-{len(self.paths):05d}-{self._mark}.{self._export.format}"
        path = "/".join(item for item in (self.directory, part, name) if item)
        with ExitStack() as stack:
            sink: BinaryIO = stack.enter_context(self._storage.writer(path))
            write = stack.enter_context(row_file(sink, self._columns.stored, self._export.format))
            self.paths.append(path)
            return stack.pop_all(), write
        raise AssertionError("the stack gives no error away")

    def close(self) -> None:
        """Completes all files."""
        while self._open:
            self._open.popitem()[1][0].close()

    def give_up(self, error: BaseException) -> None:
        """Leaves no file."""
        for stack, _ in self._open.values():
            # The error that is known already is the one to be told.
            with suppress(Exception):
                stack.__exit__(type(error), error, error.__traceback__)
        self._storage.delete(self.paths)


def _directory(
    env: Env,
    export: Export,
    columns: _PartColumns,
    batches: Iterator[pa.RecordBatch],
    note: Mapping[str, Any],
) -> dict[str, int]:
    """Writes the parts, then what says that they are all; after a failure no file is left."""
    storage, target = env.storage, export.target.rstrip("/")
    is_renamed = shows_incomplete(storage)
    parts = _Parts(env, beside(target) if is_renamed else target, export, columns)
    try:
        for batch in batches:
            for part, rows in columns.split(batch):
                parts.write(part, rows)
        parts.close()
        size = sum(storage.stat(path).size_bytes for path in parts.paths)
        totals = {**note, "rows": parts.rows, "files": len(parts.paths)}
        _finish(storage, export, parts, totals, target, is_renamed=is_renamed)
    except BaseException as error:
        parts.give_up(error)
        if is_renamed:
            storage.delete_tree(parts.directory)
        raise
    return {"rows": parts.rows, "files": len(parts.paths), "bytes": size}


def _finish(
    storage: Storage, export: Export, parts: _Parts, note: Mapping[str, Any], target: str, *, is_renamed: bool
) -> None:
    """Makes the directory one that is complete; on an object store also deletes what was there before."""
    content = json.dumps(note).encode()
    if is_renamed:
        storage.overwrite(f"{parts.directory}/{SUCCESS}", content)
        publish_directory(storage, parts.directory, target)
        return
    old = [info.path for info in storage.walk(target) if info.path not in parts.paths and not info.is_dir]
    if old and export.if_exists != "replace":
        raise ConflictError(f"{target}: others wrote there meanwhile; choose another target")
    if old:
        storage.delete([f"{target}/{SUCCESS}"])
        storage.delete(old)
    if not storage.create(f"{target}/{SUCCESS}", content):
        raise StorageError(f"{target}: another export has ended there at the same time")
