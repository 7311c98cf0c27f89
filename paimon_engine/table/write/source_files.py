"""Files that a user wants to have in a table: found, read in order, written by tasks."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from paimon_engine.env import Env, EnvConfig
from paimon_engine.errors import InvalidArgumentError, NotFoundError
from paimon_engine.meta.schema import TableSchema
from paimon_engine.storage import Storage
from paimon_engine.storage.base import list_present
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.write.row_input import RowInput
from paimon_engine.table.write.source_formats import naming_source, source_format
from paimon_engine.table.write.writer import WriteState, write_batches
from paimon_engine.types import to_arrow_schema

TASK_BYTES = 64 << 20
"""Source bytes of one task: enough to outweigh its start, little enough to spread over cores."""


@dataclass(frozen=True, slots=True)
class WriteTask:
    """Files to write, and the position of their rows in the order of all rows."""

    state: WriteState
    paths: tuple[str, ...]
    format: str
    kind_column: str | None
    source: EnvConfig


def write_files(env: Env, task: WriteTask) -> list[CommitMessage]:
    """Writes the rows of the task's files, in order."""
    return write_batches(task.state.table.load(env), task.state, read_files(env, task), kind_column=task.kind_column)


def read_files(env: Env, task: WriteTask) -> Iterator[pa.RecordBatch]:
    """The rows of the task's files, in order, as the files have them."""
    table = task.state.table.load(env)
    for path in task.paths:
        yield from _read_source(table, task, path)


def read_rows(env: Env, task: WriteTask) -> Iterator[pa.RecordBatch]:
    """The rows of the task's files, in order, as columns of the table, however the files differ.

    The row kind is the first column if no column contains it.
    """
    rows = RowInput(task.state.table.load(env).schema, task.kind_column)
    return map(rows.of_source, read_files(env, task))


def _read_source(table: TableHandle, task: WriteTask, path: str) -> Iterator[pa.RecordBatch]:
    types = _types_of(table.schema)
    with task.source.build().storage.open(path) as stream, naming_source(path):
        yield from source_format(task.format).batches(stream, path, types)


def _types_of(schema: TableSchema) -> dict[str, pa.DataType]:
    return {field.name: field.type for field in to_arrow_schema(schema.row_type)}


def plan_files(
    table: TableHandle, state: WriteState, source: str | Sequence[str], file_format: str, kind_column: str | None
) -> list[WriteTask]:
    """Tasks of about `TASK_BYTES` over the files of some paths or wildcards, in their order.

    Raises: NotFoundError if no file matches; InvalidArgumentError for an unknown format, or a file of a different
    format.
    """
    count = source_format(file_format).rows
    sources = _listed(source)
    config = EnvConfig(sources[0], table.config.options, table.config.secrets)
    storage = config.build().storage
    files = [info for source in sources for info in _expand(storage, source)]
    tasks: list[WriteTask] = []
    group: list[str] = []
    group_bytes = rows_before = group_rows = 0
    for info in files:
        group.append(info.path)
        group_bytes += info.size_bytes
        # If the number of rows is not known before they are read, one task reads all.
        if count is None:
            continue
        with storage.open(info.path) as stream, naming_source(info.path):
            group_rows += count(stream, info.path)
        if group_bytes >= TASK_BYTES:
            shifted = replace(state, sequence_offset=rows_before)
            tasks.append(WriteTask(shifted, tuple(group), file_format, kind_column, config))
            rows_before += group_rows
            group, group_bytes, group_rows = [], 0, 0
    if group:
        shifted = replace(state, sequence_offset=rows_before)
        tasks.append(WriteTask(shifted, tuple(group), file_format, kind_column, config))
    return tasks


def _listed(source: str | Sequence[str]) -> list[str]:
    """The sources as a list. Raises: InvalidArgumentError if there is none."""
    sources = [source] if isinstance(source, str) else list(source)
    if not sources:
        raise InvalidArgumentError("a write needs at least one source file")
    return sources


def source_bytes(source: str | Sequence[str], config: EnvConfig) -> int:
    """Bytes of the files of some paths or wildcards, as they are listed; `config` has the options of their store.

    Raises: NotFoundError if no file matches; InvalidArgumentError if none is named.
    """
    sources = _listed(source)
    storage = EnvConfig(sources[0], config.options, config.secrets).build().storage
    return sum(info.size_bytes for item in sources for info in _expand(storage, item))


def _expand(storage: Any, source: str) -> list[Any]:
    """Files of a path: the file itself, the files of a directory, or those that match a wildcard in the last part.

    Brackets are often part of a name, `orders [1].csv`: they are a wildcard only where there is no such file.
    """
    directory, _, pattern = source.rpartition("/")
    if any(sign in pattern for sign in "*?") or ("[" in pattern and not storage.exists(source)):
        found = [
            info
            for info in list_present(storage, directory or ".")
            if fnmatch.fnmatch(info.path.rsplit("/", 1)[-1], pattern)
        ]
        files = [info for info in found if not info.is_dir]
    elif storage.exists(source):
        info = storage.stat(source)
        files = [info] if not info.is_dir else [item for item in storage.list(source) if not item.is_dir]
    else:
        files = []
    if not files:
        raise NotFoundError(f"no source file matches {source!r}")
    return files


def source_schema(source: str | Sequence[str], file_format: str, config: EnvConfig) -> pa.Schema:
    """Arrow schema of the first source file, for creating a table from it.

    Raises: NotFoundError; InvalidArgumentError for formats whose columns have no types.
    """
    read = source_format(file_format).schema
    if read is None:
        raise InvalidArgumentError(
            f"columns of a {file_format.upper()} file have no types, so that no table can be created from it; give the "
            "table's columns with their types, as in columns={'id': 'BIGINT', 'name': 'STRING'}"
        )
    storage, path = _first_file(source, config)
    with storage.open(path) as stream, naming_source(path):
        return read(stream, path)


def check_first_rows(
    schema: TableSchema, source: str | Sequence[str], file_format: str, kind_column: str | None, config: EnvConfig
) -> None:
    """Whether the first source file fits a table of that schema: its columns, and its first rows if these show more.

    Raises: NotFoundError if no file matches; InvalidArgumentError naming the file and the column that does not fit.
    """
    form = source_format(file_format)
    storage, path = _first_file(source, config)
    with storage.open(path) as stream, naming_source(path):
        if form.schema is not None:
            first = pa.RecordBatch.from_pylist([], form.schema(stream, path))
        else:
            found = next(form.batches(stream, path, _types_of(schema)), None)
            if found is None:
                return
            first = found
        try:
            RowInput(schema, kind_column).read(first)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"source {path}: {error}") from error


def _first_file(source: str | Sequence[str], config: EnvConfig) -> tuple[Storage, str]:
    first = _listed(source)[0]
    storage = EnvConfig(first, config.options, config.secrets).build().storage
    path: str = _expand(storage, first)[0].path
    return storage, path
