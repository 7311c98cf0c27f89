"""How to read row groups of a Parquet file, so that a decoded batch of rows keeps the intended size.

Footers give bytes before compression, which is what most values take. Texts and bytes in dictionaries may be
many times as large: a long one is stored once, and decoded for each row that has it, and bounds say nothing about what
lies between them. So such columns are read as dictionaries, which is faster anyway, and decoded here: as many rows at
once as fit. If a dictionary did not contain all values, Arrow would have to find the other indices again, at ten times
the cost. Such columns are read plainly: a writer gives its dictionary up early, so that few rows refer to it. How many
do, the headers up to the first plain page say; only where these times the longest value are too much for a batch, the
column is read as a dictionary nevertheless.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import BinaryIO, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from paimon_engine.arrow_values import as_numbers
from paimon_engine.format.layout import BATCH_ROWS, BatchLimit, dictionary_decoded, leaf_arrays, text_offsets
from paimon_engine.format.parquet_page_sizes import (
    PAGE_BYTES_MAX,
    ChunkPages,
    has_dictionary,
    headers,
    is_delta,
)

_LOOK_ROWS: Final = 4_096
_LOOK_BYTES: Final = 1 << 20
"""Of rows that are read to see a dictionary; all of them may be plain ones that are hashed for it."""
_SHORT_BYTES: Final = 256
"""Values up to that long fit into any batch."""
_LONG_BYTES: Final = 4_096
"""Values longer than that are copied one by one."""
_TEXTS: Final = (pa.string(), pa.binary())
_FIXED_BYTES: Final = 8
_INDEX_BYTES_MAX: Final = 2
"""Of an index in most dictionaries; a plain text takes the bytes of its length at least."""
_LENGTH_BYTES: Final = 4
_DICTIONARY_VALUES_MAX: Final = 1 << 10
"""Entries of a dictionary that texts are kept with: where runs are merged, their dictionaries are joined each time."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How many rows to read at once, and which columns as dictionaries.

    `longest_bytes`: of the values in dictionaries of other columns, which only pages before the first plain one use.
    """

    rows: int
    dictionaries: frozenset[str]
    longest_bytes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Dictionary:
    """Of a column chunk: bytes of the longest value and of all, and how many values use it in front of a plain page."""

    longest_bytes: int
    size_bytes: int
    uses: int

    @property
    def decoded_bytes(self) -> int:
        """What the values that are taken from it take at most."""
        return self.longest_bytes * self.uses


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Leaves of some row groups by path and column index; `to_look` opens the file to look at some in a row group."""

    file: pq.ParquetFile
    source: BinaryIO
    path: str
    leaves: Mapping[str, int]
    groups: Sequence[int]
    to_look: Callable[[int, Mapping[str, int]], pq.ParquetFile]

    def chunk(self, group: int, leaf: str) -> pq.ColumnChunkMetaData:
        """What the footer says of a leaf in a row group."""
        return self.file.metadata.row_group(group).column(self.leaves[leaf])


def leaf_indices(metadata: pq.FileMetaData, columns: Sequence[str]) -> dict[str, int]:
    """Path and column index of the leaves of columns, given by name or path as for `ParquetFile.iter_batches`."""
    schema, names = metadata.schema, {*columns}
    leaves = {schema.column(index).path: index for index in range(metadata.num_columns)}
    return {
        path: index
        for path, index in leaves.items()
        if path in names or any(path[:end] in names for end, mark in enumerate(path) if mark == ".")
    }


def reading_of(stored: StoredRows, limit: BatchLimit) -> Reading:
    """How to read the rows, so that batches keep to the limit.

    Raises: CorruptTableError.
    """
    texts = _text_columns(stored)
    chosen = {name for name in texts if all(_has_only_indices(stored.chunk(number, name)) for number in stored.groups)}
    looks = {number: _dictionaries(stored, number, chosen, limit) for number in stored.groups}
    for number, found in looks.items():
        for name in found.keys() & texts:
            is_small = found[name].longest_bytes <= _SHORT_BYTES or found[name].decoded_bytes <= limit.size_bytes
            if not is_small or _has_only_indices(stored.chunk(number, name), found[name].size_bytes):
                chosen.add(name)
    rows = limit.rows
    longest: dict[str, int] = {}
    for number, found in looks.items():
        count = stored.file.metadata.row_group(number).num_rows
        plain = {name: one for name, one in found.items() if name not in chosen}
        for name, one in plain.items():
            if one.longest_bytes > _SHORT_BYTES and one.decoded_bytes <= limit.size_bytes:
                longest[name] = max(longest.get(name, 0), one.longest_bytes)
        size_bytes = sum(_size_bytes(stored, number, name, plain.get(name), limit) for name in stored.leaves)
        # Texts that are stored in next to nothing, such as nulls, still take this for each row. It is compared, and not
        # added: of a few such columns among others it is little, and smaller batches would take longer to merge.
        places_bytes = sum(
            stored.chunk(number, name).num_values * _LENGTH_BYTES
            for name, index in stored.leaves.items()
            if _is_bytes(stored, index)
        )
        row_bytes = max(size_bytes, places_bytes) // max(1, count)
        rows = min(rows, limit.rows_of(row_bytes), _rows_of_deltas(stored, number))
    return Reading(rows, frozenset(chosen), longest)


def _text_columns(stored: StoredRows) -> set[str]:
    """The columns that may come as dictionaries."""
    metadata, schema = stored.file.metadata, stored.file.schema_arrow
    if any(metadata.schema.column(index).physical_type == "INT96" for index in range(metadata.num_columns)):
        # Batches of dictionaries end where row groups do, and those that INT96 is compared with do not.
        return set()
    types = {name: schema.field(index).type for index, name in enumerate(schema.names)}
    return {name for name in stored.leaves if types.get(name) in _TEXTS}


def _has_only_indices(chunk: pq.ColumnChunkMetaData, dictionary_bytes: int = 0) -> bool:
    """Whether a chunk of texts, apart from its dictionary, is too small to contain texts; as far as is known."""
    nulls = chunk.statistics.null_count if chunk.is_stats_set and chunk.statistics.has_null_count else 0
    rest = chunk.total_uncompressed_size - dictionary_bytes
    return has_dictionary(chunk) and bool(rest < _INDEX_BYTES_MAX * (chunk.num_values - nulls))


def _dictionaries(stored: StoredRows, group: int, known: Collection[str], limit: BatchLimit) -> dict[str, _Dictionary]:
    """The dictionaries in a row group, of leaves that may have long ones."""
    asked = {}
    for name, index in stored.leaves.items():
        chunk = stored.chunk(group, name)
        if name in known or not _is_bytes(stored, index) or not has_dictionary(chunk):
            continue
        if chunk.total_uncompressed_size > _SHORT_BYTES and chunk.num_values:
            asked[name] = chunk.num_values
    found: dict[str, _Dictionary] = {}
    if not asked:
        return found
    count = stored.file.metadata.row_group(group).num_rows
    stored_bytes = max(stored.chunk(group, name).total_uncompressed_size for name in asked)
    row_bytes = max(max(asked.values()) * _FIXED_BYTES, stored_bytes) // max(1, count)
    step = min(_LOOK_ROWS, BatchLimit(limit.rows, min(_LOOK_BYTES, limit.size_bytes)).rows_of(row_bytes))
    file = stored.to_look(group, {name: stored.leaves[name] for name in asked})
    # A dictionary comes with the first value.
    for name, values in asked.items():
        for batch in file.iter_batches(step, row_groups=[group], columns=[name], use_threads=False):
            sizes = _dictionary_sizes(batch.column(0))
            if len(sizes):
                longest = int(sizes.max())
                uses = values
                if longest > _SHORT_BYTES:
                    uses = _uses(stored, group, name, limit.size_bytes // longest)
                found[name] = _Dictionary(longest, int(sizes.sum()) + _LENGTH_BYTES * len(sizes), uses)
                break
    return found


def _uses(stored: StoredRows, group: int, name: str, enough: int) -> int:
    """Values of the pages of a chunk before the first plain one, or so many of them that they are more than enough.

    That no others follow the plain one is checked when they are read (`ChunkPages`).
    """
    pages = ChunkPages(stored.file.metadata, group, stored.leaves[name], stored.path, batch_rows=1)
    uses = 0
    for head in headers(stored.source, pages):
        if head.is_plain or uses > enough:
            break
        uses += head.values
        pages.begin_batch()
    return uses


def _dictionary_sizes(column: pa.Array) -> npt.NDArray[np.int32]:
    (leaf,) = leaf_arrays(column)
    return _sizes(leaf.dictionary if pa.types.is_dictionary(leaf.type) else leaf.drop_null())


def _sizes(values: pa.Array) -> npt.NDArray[np.int32]:
    """Bytes of each value; values that are not texts are small."""
    if not _is_text(values.type):
        return np.full(len(values), _FIXED_BYTES, np.int32)
    found: npt.NDArray[np.int32] = as_numbers(pc.binary_length(values)).astype(np.int32, copy=False)
    return found


def _is_text(data_type: pa.DataType) -> bool:
    return data_type in (pa.string(), pa.binary(), pa.large_string(), pa.large_binary())


def _is_bytes(stored: StoredRows, index: int) -> bool:
    column = stored.file.metadata.schema.column(index)
    return bool(column.physical_type == "BYTE_ARRAY" and column.logical_type.type != "DECIMAL")


def _size_bytes(stored: StoredRows, group: int, name: str, dictionary: _Dictionary | None, limit: BatchLimit) -> int:
    """About how many bytes a chunk takes in Arrow, which has that dictionary or none."""
    chunk, index = stored.chunk(group, name), stored.leaves[name]
    if not _is_bytes(stored, index):
        width = max(_FIXED_BYTES, stored.file.metadata.schema.column(index).length)
    elif dictionary is None or dictionary.decoded_bytes <= limit.size_bytes:
        # The values of the dictionary fit into one batch together with the others.
        width = 0
    else:
        width = dictionary.longest_bytes
    return int(max(chunk.total_uncompressed_size, chunk.num_values * width))


def _rows_of_deltas(stored: StoredRows, group: int) -> int:
    """Number of rows that do not exceed memory even if each text is as long as a page."""
    count, rows = stored.file.metadata.row_group(group).num_rows, BATCH_ROWS
    for name, index in stored.leaves.items():
        chunk = stored.chunk(group, name)
        if count and is_delta(chunk):
            pages = ChunkPages(stored.file.metadata, group, index, stored.path, batch_rows=1)
            largest = max((head.unpacked_bytes for head in headers(stored.source, pages)), default=1)
            per_row = max(1, chunk.num_values // count)
            rows = min(rows, max(1, PAGE_BYTES_MAX // max(1, largest * per_row)))
    return rows


def decoded(rows: pa.RecordBatch, kept: Collection[str], size_bytes: int) -> Iterator[pa.RecordBatch]:
    """The rows with plain values instead of dictionaries, in parts of about so many bytes.

    Those in `kept` stay dictionaries, if these are small.
    """
    if not any(map(pa.types.is_dictionary, rows.schema.types)):
        yield rows
        return
    plain: list[str] = []
    long: dict[str, npt.NDArray[np.int32]] = {}
    for field, column in zip(rows.schema, rows.columns, strict=True):
        if not pa.types.is_dictionary(field.type):
            continue
        sizes = _sizes(column.dictionary)
        may_be_long = field.type.value_type in _TEXTS and int(sizes.max(initial=0)) * rows.num_rows > size_bytes
        if field.name in kept and len(sizes) <= _DICTIONARY_VALUES_MAX and not may_be_long:
            continue
        if may_be_long:
            long[field.name] = _widths(column, sizes)
        else:
            plain.append(field.name)
    for begin, end in pairwise([0, *_ends(list(long.values()), size_bytes), rows.num_rows]):
        part = dictionary_decoded(rows.slice(begin, end - begin), plain)
        for name in long:
            index = part.schema.get_field_index(name)
            field = part.schema.field(index)
            part = part.set_column(index, field.with_type(field.type.value_type), _values(part.column(index)))
        yield part


def _ends(widths: Sequence[npt.NDArray[np.int32]], size_bytes: int) -> list[int]:
    """Where parts of about so many bytes end before the last one, given the bytes of each row by column."""
    if not widths:
        return []
    row_bytes = np.sum(widths, axis=0, dtype=np.int64)
    ends: list[int] = (np.flatnonzero(np.diff(np.cumsum(row_bytes) // max(1, size_bytes))) + 1).tolist()
    return ends


def _widths(column: pa.DictionaryArray, sizes: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Bytes of each row, given those of the dictionary's values."""
    if not len(sizes):
        return np.zeros(len(column), np.int32)
    codes = column.indices.fill_null(0).to_numpy(zero_copy_only=False)
    found: npt.NDArray[np.int32] = sizes[codes] * column.is_valid().to_numpy(zero_copy_only=False)
    return found


def _values(column: pa.DictionaryArray) -> pa.Array:
    """Plain values of a column with long ones in its dictionary.

    Arrow would allot memory for as many values of average length, however few rows have the long ones. So it gets the
    short ones only, and the long ones are put between them.
    """
    sizes = np.diff(text_offsets(column.dictionary))
    widths = _widths(column, sizes)
    rows = np.flatnonzero(widths > _LONG_BYTES)
    empty = pa.scalar("", pa.string()).cast(column.type.value_type)
    short = pc.if_else(pa.array(sizes > _LONG_BYTES), empty, column.dictionary).take(column.indices)
    if not len(rows):
        return short
    begins = text_offsets(column.dictionary)
    values, others = column.dictionary.buffers()[2], short.buffers()[2]
    codes = column.indices.take(pa.array(rows)).to_numpy()
    others = memoryview(others if others is not None else b"")
    pieces, at = [], 0
    for end, code in zip(text_offsets(short)[rows].tolist(), codes.tolist(), strict=True):
        pieces += [others[at:end], memoryview(values)[begins[code] : begins[code + 1]]]
        at = end
    pieces.append(others[at : int(text_offsets(short)[-1])])
    offsets = np.concatenate([[0], np.cumsum(widths)]).astype(np.int32)
    buffers = [short.buffers()[0], pa.py_buffer(offsets), pa.py_buffer(b"".join(pieces))]
    return pa.Array.from_buffers(short.type, len(short), buffers, short.null_count)
