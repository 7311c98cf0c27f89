"""Indexes of data files: built while a file is written, read by `index_filter`.

An index of at most `file-index.in-manifest-threshold` is stored in the manifest entry, a larger one in a file next to
the data file, which the entry lists among its extra files. Names in an index are those of the file's schema.

Source: `DataFileIndexWriter`, `FileIndexEvaluator` of the Java library.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.format.file_index.container import encode_container, read_head, read_index
from paimon_engine.format.file_index.kinds import (
    IndexBuilder,
    IndexSpec,
    check_column,
    index_builder,
    index_specs,
    indexed_type,
)
from paimon_engine.format.file_index.values import stored_values
from paimon_engine.meta.evolution import unchanged_columns
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.schema import TableSchema
from paimon_engine.table.files.external import data_file_at
from paimon_engine.table.files.index_filter import index_name
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.types import AtomicType, to_arrow

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
