"""Indexes of data files in a read: which rows of a file, or which files, they leave out.

Where an index is stored, see `file_index`. The kinds of index are imported when a file has one.

Source: `FileIndexEvaluator` of the Java library.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, BinaryIO, Final

from paimon_engine.errors import CorruptTableError
from paimon_engine.meta.evolution import unchanged_columns
from paimon_engine.meta.manifest import DataFile
from paimon_engine.predicate import And, Predicate, bind, columns_of, find_field
from paimon_engine.table.files.external import data_file_at
from paimon_engine.table.files.file_filter import has_padded_texts
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.types import AtomicType, MapType, to_arrow_schema

if TYPE_CHECKING:
    from paimon_engine.format.bitmaps import RowBitmap

SUFFIX: Final = ".index"


def index_name(file: DataFile) -> str | None:
    """Name of the index file next to the data file; None if it has none.

    Raises: CorruptTableError if there are several.
    """
    names = [name for name in file.extra_files if name.endswith(SUFFIX)]
    if len(names) > 1:
        raise CorruptTableError(f"data file {file.name} has several index files: {', '.join(names)}")
    return names[0] if names else None


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
        return _indexed_rows(table, file, where, stream, path)


def _embedded_rows(table: TableHandle, file: DataFile, where: Predicate) -> RowBitmap | None:
    assert file.embedded_file_index is not None
    return _indexed_rows(table, file, where, io.BytesIO(file.embedded_file_index), f"manifest entry of {file.name}")


def _indexed_rows(
    table: TableHandle, file: DataFile, where: Predicate, stream: BinaryIO, label: str
) -> RowBitmap | None:
    from paimon_engine.format.file_index.lookup import FileIndexes

    columns = _columns(table, file, where)
    rows = FileIndexes(stream, label, row_count=file.row_count, columns=columns).rows(where)
    if rows is None:
        return None
    from paimon_engine.format.bitmaps import RowBitmap

    return RowBitmap({0: rows})


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
