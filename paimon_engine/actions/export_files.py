"""Export rows to files for other programs: one file, or a directory with one part per partition; complete or not there.

A directory gets a file `_SUCCESS` as its last one, which says of which table and snapshot the rows are. An object store
shows the files of a directory one by one, so that it has `_STARTED` until then, and no `_SUCCESS`. Only a directory
that has one of both is ever replaced.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Annotated, Any, BinaryIO, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.action import Context, Result, action
from paimon_engine.env import Env
from paimon_engine.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidArgumentError,
    NotFoundError,
    OutcomeUnknownError,
    StorageError,
)
from paimon_engine.format.row_files import WriteBatch, row_file
from paimon_engine.format.text_rows import check_years
from paimon_engine.meta.paths import escape_path_name
from paimon_engine.secrecy import check_address
from paimon_engine.specs import Address, ConditionText, Index, Name, Spec, check_fields
from paimon_engine.storage import Storage
from paimon_engine.storage.local import local_path
from paimon_engine.storage.locations import is_below, is_local
from paimon_engine.storage.publication import beside, create_own, publish_directory, shows_incomplete, whole_file
from paimon_engine.table.read.open_read import limited
from paimon_engine.table.read.read_plan import plan_at_one_snapshot
from paimon_engine.table.read.read_request import ReadRequest
from paimon_engine.table.state.handle import TableHandle

SUCCESS: Final = "_SUCCESS"
STARTED: Final = "_STARTED"
_NULL_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
OPEN_FILES: Final = 64
"""So many parts are written at a time; a partition that comes again later has a further file."""


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
class ExportFiles(Spec):
    """Write rows to files for other programs: all of one snapshot, in the process that runs this, batch by batch.

    The target is one file, or with `partition_by` a directory with directories `column=value`, of which an empty list
    makes one without these. `replace` replaces a file, or a directory that an export has made, and no other one.
    """

    target: Annotated[Address, "path of the file; with partition_by that of the directory"]
    format: Annotated[
        Literal["parquet", "orc", "avro", "csv", "json"], "their format; `json` has one object a line"
    ] = "parquet"
    columns: Annotated[Sequence[Name] | None, "columns to write; all without it"] = None
    where: Annotated[ConditionText | None, "SQL condition over the columns"] = None
    tag: Annotated[Name | None, "rows at this tag instead of the latest ones"] = None
    snapshot: Annotated[Index | None, "rows at this snapshot instead of the latest ones"] = None
    partition_by: Annotated[Sequence[Name] | None, "columns whose values name directories; [] for none of these"] = None
    if_exists: Annotated[
        Literal["error", "ignore", "replace"], "where the target is there: fail, leave it, or replace it"
    ] = "error"
    limit: Annotated[Index | None, "at most so many rows"] = None

    def __post_init__(self) -> None:
        """Raises: InvalidArgumentError for a wrong field, or an address that contains a password."""
        check_fields(self)
        check_address(self.target, "the target")
        if not self.target.strip("/").strip() or self.target.endswith("://"):
            raise InvalidArgumentError(
                f"export_files: target={self.target!r}: give the path of a file, or of a directory"
            )
        if self.target.endswith("/") and self.partition_by is None:
            raise InvalidArgumentError(
                f"export_files: target={self.target!r} is a directory; name a file, or give partition_by"
            )

    @property
    def path(self) -> str:
        """The target without a slash at its end."""
        return self.target.rstrip("/")

    def request(self) -> ReadRequest:
        """What is read. Raises: InvalidArgumentError."""
        columns = None if self.columns is None else tuple(self.columns)
        return ReadRequest(columns=columns, where=self.where, tag=self.tag, snapshot=self.snapshot, limit=self.limit)


@action
def export_files(context: Context, spec: ExportFiles) -> ExportResult:
    """Reads rows and writes them to files at the target; memory does not grow with the rows.

    Raises: InvalidArgumentError; ConflictError if the target is there; NotFoundError, CorruptTableError; StorageError.
    """
    table, request = context.table, spec.request()
    _check_outside(table, spec.target)
    with context.phases("plan"):
        plan, number = plan_at_one_snapshot(table, request)
    parts = _PartColumns.of(plan.schema, spec.partition_by or ())
    env = context.target(spec.target)
    if _is_there(env.storage, spec):
        return ExportResult("exists", spec.target)
    batches = limited(plan.batches(), request.limit)
    with context.phases("export"):
        if spec.partition_by is None:
            counted = _one_file(env.storage, spec, plan.schema, batches)
        else:
            note = {"table": table.paths.root, "snapshot_id": number, "export_id": env.new_id()}
            counted = _directory(env, spec, parts, batches, note)
    return ExportResult("exported", spec.target, number, **counted)


def _check_outside(table: TableHandle, target: str) -> None:
    if is_below(f"{_absolute(target)}/file", [_absolute(table.paths.root)]):
        raise InvalidArgumentError(
            f"target={target!r} is inside the table {table.paths.root}, whose clean-up deletes what it does not know; "
            "choose another path"
        )


def _absolute(path: str) -> str:
    """The path in the one form that locations are compared in."""
    return local_path(path) if is_local(path) else path.rstrip("/")


def _is_there(storage: Storage, spec: ExportFiles) -> bool:
    """Whether the target is there and stays. Raises: ConflictError if it is there and must not be."""
    target = spec.path
    if not storage.exists(target):
        return False
    is_directory = storage.stat(target).is_dir
    if spec.if_exists != "replace" and is_directory and _is_unfinished(storage, target):
        raise ConflictError(
            f"{target}: an export into it has begun and not ended; if_exists='replace' (--if-exists replace) "
            "replaces what is there"
        )
    if spec.if_exists == "ignore":
        return True
    if spec.if_exists == "error":
        raise AlreadyExistsError(
            f"{target} exists; if_exists='replace' (--if-exists replace) replaces it, 'ignore' leaves it as it is"
        )
    if spec.partition_by is None and is_directory:
        raise ConflictError(f"{target} is a directory, which no file replaces; choose another target")
    if spec.partition_by is not None and not (is_directory and _is_export(storage, target)):
        raise ConflictError(
            f"{target} is not a directory that an export has made: it has no {SUCCESS} file that says so. Nothing in "
            "it is deleted; choose another target, or delete it yourself"
        )
    return False


def _is_unfinished(storage: Storage, directory: str) -> bool:
    return _note(storage, f"{directory}/{SUCCESS}") is None and _note(storage, f"{directory}/{STARTED}") is not None


def _is_export(storage: Storage, directory: str) -> bool:
    return any(_note(storage, f"{directory}/{name}") is not None for name in (SUCCESS, STARTED))


def _note(storage: Storage, path: str) -> bytes | None:
    """A file that says of which table and snapshot an export is; None where there is none, or it does not."""
    try:
        content = storage.read(path)
        note = json.loads(content)
    except (NotFoundError, ValueError):
        return None
    return content if isinstance(note, dict) and "snapshot_id" in note and "table" in note else None


# ── one file ────────────────────────────────────────────────────────────────────────────────────


def _one_file(
    storage: Storage, spec: ExportFiles, schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> dict[str, int]:
    rows = 0
    with (
        whole_file(storage, spec.target, replace=spec.if_exists == "replace") as sink,
        row_file(sink, schema, spec.format) as write,
    ):
        for batch in batches:
            write(batch)
            rows += batch.num_rows
    return {"rows": rows, "files": 1, "bytes": storage.stat(spec.target).size_bytes}


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
        for name in self.names:
            check_years(batch[name])
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

    def __init__(self, env: Env, directory: str, form: str, columns: _PartColumns) -> None:
        self._storage, self.directory, self._format, self._columns = env.storage, directory, form, columns
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
        name = f"part-{len(self.paths):05d}-{self._mark}.{self._format}"
        path = "/".join(item for item in (self.directory, part, name) if item)
        with ExitStack() as stack:
            sink: BinaryIO = stack.enter_context(self._storage.writer(path))
            write = stack.enter_context(row_file(sink, self._columns.stored, self._format))
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
    env: Env, spec: ExportFiles, columns: _PartColumns, batches: Iterator[pa.RecordBatch], note: Mapping[str, Any]
) -> dict[str, int]:
    """Writes the parts, then what says that they are all; after a failure no file is left."""
    storage, target = env.storage, spec.path
    publication = _Renamed(storage, target) if shows_incomplete(storage) else _InPlace(storage, target, spec.if_exists)
    parts = _Parts(env, publication.directory, spec.format, columns)
    try:
        publication.begin(note)
        for batch in batches:
            for part, rows in columns.split(batch):
                parts.write(part, rows)
        parts.close()
        size = sum(storage.stat(path).size_bytes for path in parts.paths)
        publication.finish(parts.paths, {**note, "rows": parts.rows, "files": len(parts.paths)})
    except OutcomeUnknownError:
        # The directory may be complete: what is there stays.
        parts.close()
        raise
    except BaseException as error:
        parts.give_up(error)
        publication.take_back()
        raise
    return {"rows": parts.rows, "files": len(parts.paths), "bytes": size}


class _Renamed:
    """A directory that is written under another name, and gets its own one when it is complete."""

    def __init__(self, storage: Storage, target: str) -> None:
        self._storage, self._target = storage, target
        self.directory = beside(target)

    def begin(self, note: Mapping[str, Any]) -> None:
        """Nothing is to be seen yet."""

    def finish(self, paths: Sequence[str], note: Mapping[str, Any]) -> None:  # noqa: ARG002 - as of the other one
        """Makes the directory visible."""
        self._storage.overwrite(f"{self.directory}/{SUCCESS}", json.dumps(note).encode())
        publish_directory(self._storage, self.directory, self._target)

    def take_back(self) -> None:
        """Leaves nothing."""
        self._storage.delete_tree(self.directory)


class _InPlace:
    """A directory of an object store, whose files are seen one by one: while it is written it has no `_SUCCESS`.

    `_STARTED` says that whatever else is there is of exports, so that the next one may replace what was interrupted.
    """

    def __init__(self, storage: Storage, target: str, if_exists: str) -> None:
        self._storage, self._if_exists = storage, if_exists
        self.directory = target
        self._started, self._success = f"{target}/{STARTED}", f"{target}/{SUCCESS}"
        self._earlier: bytes | None = None
        self._is_replacing = False

    def begin(self, note: Mapping[str, Any]) -> None:
        """From here on readers know that the directory is not complete."""
        self._earlier = _note(self._storage, self._success)
        self._storage.overwrite(self._started, json.dumps(note).encode())
        if self._earlier is not None:
            self._storage.delete([self._success])

    def finish(self, paths: Sequence[str], note: Mapping[str, Any]) -> None:
        """Deletes what was there before, and says that the directory is complete."""
        storage, own = self._storage, {*paths, self._started}
        there = [info.path for info in storage.walk(self.directory) if not info.is_dir]
        old = [path for path in there if path not in own]
        if old and self._if_exists != "replace":
            raise ConflictError(f"{self.directory}: others wrote there meanwhile; choose another target")
        if len(set(paths).intersection(there)) < len(paths):
            raise ConflictError(f"{self.directory}: another export there has replaced what this one wrote")
        self._is_replacing = bool(old)
        storage.delete(old)
        content = json.dumps(note).encode()
        # `export_id` in it says whose it is.
        if not create_own(storage, self._success, content):
            raise StorageError(f"{self.directory}: another export has ended there at the same time")
        # With the other file it says nothing any more.
        with suppress(StorageError):
            storage.delete([self._started])

    def take_back(self) -> None:
        """Makes the directory again what it was, if nothing of that was deleted."""
        if self._is_replacing:
            return
        if self._earlier is not None:
            self._storage.create(self._success, self._earlier)
        self._storage.delete([self._started])
