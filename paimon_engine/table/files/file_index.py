"""Indexes of data files: built while a file is written, queried before it is read.

An index of at most `file-index.in-manifest-threshold` is stored in the manifest entry, a larger one in a file next to
the data file, which the entry lists among its extra files. Names in an index are those of the file's schema.

Source: `DataFileIndexWriter`, `FileIndexEvaluator` of the Java library.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.errors import CorruptTableError
from paimon_engine.format.bitmaps import RowBitmap
from paimon_engine.format.file_index.container import encode_container, read_head, read_index
from paimon_engine.format.file_index.kinds import (
    IndexBuilder,
    IndexSpec,
    check_column,
    index_builder,
    index_specs,
    indexed_type,
)
from paimon_engine.format.file_index.lookup import FileIndexes
from paimon_engine.format.file_index.values import stored_values
from paimon_engine.meta.evolution import unchanged_columns
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.schema import TableSchema
from paimon_engine.predicate import And, Predicate, bind, columns_of, find_field
from paimon_engine.table.files.external import data_file_at
from paimon_engine.table.files.file_filter import has_padded_texts
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.types import AtomicType, MapType, to_arrow, to_arrow_schema

SUFFIX: Final = ".index"


# ── writing ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class WantedIndex:
    """An index that a data file should have: its name there, and the type of its values."""

    spec: IndexSpec
    name: str
    data_type: AtomicType


def wanted_indexes(table_schema: TableSchema, file_schema: TableSchema | None = None) -> list[WantedIndex]:
    """The indexes that the table's options require, for files of a schema; by default the table's.

    Columns that the files lack, or have in another type, are left out: no reader could use such an index.

    Raises: InvalidArgumentError, UnsupportedError naming an option that does not fit the columns.
    """
    names_in_file = {name: name for name in table_schema.row_type.names}
    if file_schema is not None:
        names_in_file = {name: stored for stored, name in unchanged_columns(file_schema, table_schema).items()}
    wanted = []
    for spec in index_specs(table_schema.table_options.raw):
        check_column(spec, table_schema.row_type)
        data_type = indexed_type(spec, table_schema.row_type.field(spec.column).type)
        if spec.column in names_in_file:
            wanted.append(WantedIndex(spec, spec.name(names_in_file[spec.column]), data_type))
    return wanted


class FileIndexWriter:
    """Makes the indexes of one data file from its rows, in their order in the file."""

    def __init__(self, wanted: Sequence[WantedIndex]) -> None:
        """Raises: InvalidArgumentError for wrong options of an index."""
        self._parts: list[tuple[WantedIndex, IndexBuilder]] = [
            (index, index_builder(index.spec, index.data_type)) for index in wanted
        ]

    def add(self, rows: pa.RecordBatch) -> None:
        """Takes in rows that have the table's columns."""
        for index, builder in self._parts:
            column = rows[index.spec.column]
            if index.spec.key is not None:
                column = pc.map_lookup(column, pa.scalar(index.spec.key, column.type.key_type), "first")
            arrow_type = to_arrow(index.data_type)
            column = column if column.type == arrow_type else column.cast(arrow_type)
            builder.add(stored_values(column, index.data_type))

    def finish(self) -> bytes | None:
        """Bytes of all indexes; None without any."""
        indexes: dict[str, dict[str, bytes]] = {}
        for index, builder in self._parts:
            data = builder.finish()
            if data is not None:
                indexes.setdefault(index.name, {})[index.spec.kind] = data
        return encode_container(indexes) if indexes else None


# ── reading ─────────────────────────────────────────────────────────────────────────────────────


def index_name(file: DataFile) -> str | None:
    """Name of the index file next to the data file; None if it has none.

    Raises: CorruptTableError if there are several.
    """
    names = [name for name in file.extra_files if name.endswith(SUFFIX)]
    if len(names) > 1:
        raise CorruptTableError(f"data file {file.name} has several index files: {', '.join(names)}")
    return names[0] if names else None


def present_indexes(table: TableHandle, directory: str, file: DataFile) -> set[tuple[str, str]]:
    """Name and type of each index that a data file has.

    Raises: NotFoundError, CorruptTableError.
    """
    name = index_name(file)
    if file.embedded_file_index is not None:
        head = read_head(io.BytesIO(file.embedded_file_index), f"manifest entry of {file.name}")
    elif name is not None:
        source, directory = data_file_at(table, directory, file)
        path = f"{directory}/{name}"
        with source.open(path) as stream:
            head = read_head(stream, path)
    else:
        return set()
    return {(column, kind) for column, locations in head.items() for kind in locations}


def check_indexes(table: TableHandle, directory: str, file: DataFile) -> None:
    """Reads all indexes of a data file, to check that they are complete.

    Raises: NotFoundError; CorruptTableError for one that is not.
    """
    name = index_name(file)
    if file.embedded_file_index is not None:
        _read_all(io.BytesIO(file.embedded_file_index), f"manifest entry of {file.name}")
    elif name is not None:
        source, directory = data_file_at(table, directory, file)
        with source.open(f"{directory}/{name}") as stream:
            _read_all(stream, f"{directory}/{name}")


def _read_all(stream: BinaryIO, path: str) -> None:
    for locations in read_head(stream, path).values():
        for location in locations.values():
            if location is not None:
                read_index(stream, location, path)


def index_filter(table: TableHandle, conjuncts: Sequence[Predicate]) -> Predicate | None:
    """The filter for indexes, bound to the table's types; None if there is none, or the table's options disable it."""
    if not conjuncts or not table.options.file_index_read_enabled:
        return None
    return bind(And(tuple(conjuncts)), to_arrow_schema(table.schema.row_type))


def embedded_index_excludes(table: TableHandle, file: DataFile, where: Predicate | None) -> bool:
    """Whether the index in the manifest shows that no row of the file can match.

    Raises: CorruptTableError.
    """
    if where is None or file.embedded_file_index is None:
        return False
    selected = _embedded_rows(table, file, where)
    return selected is not None and not len(selected)


def selected_rows(table: TableHandle, directory: str, file: DataFile, where: Predicate | None) -> RowBitmap | None:
    """Rows of a file that can match, by its indexes; None for all.

    Raises: NotFoundError, CorruptTableError.
    """
    if where is None:
        return None
    if file.embedded_file_index is not None:
        return _embedded_rows(table, file, where)
    name = index_name(file)
    if name is None:
        return None
    source, directory = data_file_at(table, directory, file)
    path = f"{directory}/{name}"
    with source.open(path) as stream:
        indexes = FileIndexes(stream, path, row_count=file.row_count, columns=_columns(table, file, where))
        return _rows(indexes, where)


def _embedded_rows(table: TableHandle, file: DataFile, where: Predicate) -> RowBitmap | None:
    assert file.embedded_file_index is not None
    stream, label = io.BytesIO(file.embedded_file_index), f"manifest entry of {file.name}"
    columns = _columns(table, file, where)
    return _rows(FileIndexes(stream, label, row_count=file.row_count, columns=columns), where)


def _rows(indexes: FileIndexes, where: Predicate) -> RowBitmap | None:
    rows = indexes.rows(where)
    return None if rows is None else RowBitmap({0: rows})


def _columns(table: TableHandle, file: DataFile, where: Predicate) -> Mapping[str, tuple[str, AtomicType]]:
    """Name in the file's index and type of what has one type in table and file: columns, and values of keys of MAPs."""
    names = unchanged_columns(table.schema_of(file.schema_id), table.schema)
    stored = {name: (in_file, table.schema.row_type.field(name).type) for in_file, name in names.items()}
    found = {name: (in_file, kind) for name, (in_file, kind) in stored.items() if isinstance(kind, AtomicType)}
    arrow_schema = to_arrow_schema(table.schema.row_type)
    for name in columns_of(where) - stored.keys():
        path, _ = find_field(arrow_schema, name)
        in_file, kind = stored.get(path[0], ("", None))
        if len(path) == 2 and isinstance(kind, MapType) and isinstance(kind.value, AtomicType):
            found[name] = (f"{in_file}[{path[1].as_py()}]", kind.value)
    return {name: (in_file, kind) for name, (in_file, kind) in found.items() if not has_padded_texts(file, kind)}
