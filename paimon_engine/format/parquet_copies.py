"""Parquet columns that are copies of others: encoded and compressed once, stored twice.

The key columns of a file, `_KEY_x`, have the values of the columns `x`, and writing them again is a good part of what a
file costs. Arrow writes them once; behind each row group the same pages follow again, and the footer gets columns with
these pages. To readers they are columns as any others.

Why no library does it: `thrift_compact`.

Source: `parquet.thrift` of the Parquet format.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate
from types import MappingProxyType
from typing import Final, NamedTuple

import pyarrow as pa

from paimon_engine.format.parquet_fields import (
    ColumnChunk,
    ColumnMetaData,
    FileMetaData,
    RowGroup,
    SchemaElement,
)
from paimon_engine.format.parquet_footer import is_leaf
from paimon_engine.format.parquet_index_copies import IndexBytes, moved_index
from paimon_engine.format.parquet_page_sizes import page_head
from paimon_engine.format.thrift_compact import (
    BINARY,
    LIST,
    STRUCT,
    FieldChanges,
    Fields,
    Reader,
    changed,
    changed_fields,
    elements,
    fields_of,
    integer,
    listed,
    number_in,
    number_of,
    structure,
    text,
    value_of,
)

_FIELD_ID_KEY: Final = b"PARQUET:field_id"
_SPARE_BYTES: Final = 1 << 20

_Copied = Callable[[bytes, str], bytes]


class ColumnCopies(NamedTuple):
    """`names` are the file's top-level columns, `sources` the copied column of each that is a copy.

    Sources have no parts, and are the file's first columns, in this order. `field_ids` are those of the copies that
    have one.
    """

    names: tuple[str, ...]
    sources: Mapping[str, str]
    field_ids: Mapping[str, int]

    @property
    def written(self) -> list[str]:
        """The columns that are not copies."""
        return [name for name in self.names if name not in self.sources]

    def stored_bytes_max(self, rows: pa.Table) -> int:
        """More than the sources take in a file, however badly they are compressed, with the heads of their pages."""
        return sum(int(rows[name].nbytes) * 5 // 4 + 5 * rows.num_rows + _SPARE_BYTES for name in self.sources.values())


def copies_of(schema: pa.Schema, asked: Mapping[str, str]) -> ColumnCopies:
    """The copies, if they can be made: where their sources are the first columns, of the same type."""
    names = schema.names
    is_possible = names[: len(asked)] == list(asked.values()) and all(
        schema.field(name).type == schema.field(source).type
        and schema.field(name).nullable == schema.field(source).nullable
        and not pa.types.is_nested(schema.field(source).type)
        for name, source in asked.items()
    )
    marks = {name: schema.field(name).metadata or {} for name in asked}
    ids = {name: int(mark[_FIELD_ID_KEY]) for name, mark in marks.items() if _FIELD_ID_KEY in mark}
    return ColumnCopies(tuple(names), asked if is_possible else {}, ids)


def leading_chunks(row_group: bytes, count: int, rows: int) -> list[bytes]:
    """The first `count` column chunks of a row group, of columns without parts."""
    chunks, position = [], 0
    for _ in range(count):
        begin, values = position, 0
        while values < rows:
            head, behind = page_head(row_group, position)
            position = behind + head.stored_bytes
            values += head.values
        chunks.append(row_group[begin:position])
    return chunks


def with_copies(footer: bytes, copies: ColumnCopies, shifts: Sequence[Mapping[str, int]], indexes: IndexBytes) -> bytes:
    """The footer of a file without the copies → with them.

    `shifts` says for each row group the distance in bytes from each chunk to its copy. Page indexes of the copies are
    added to `indexes`, which are those of the footer.
    """
    root, *parts = elements(value_of(footer, FileMetaData.SCHEMA))
    trees = _trees(parts)
    widths = [sum(is_leaf(fields_of(element)) for element in tree) for tree in trees]

    def placed(leaves: Sequence[bytes], copied: _Copied) -> list[bytes]:
        """One thing of each leaf, and of the copies."""
        own = [leaves[end - width : end] for width, end in zip(widths, accumulate(widths), strict=True)]
        return _in_order(copies, own, copied)

    def schema(reader: Reader) -> bytes:
        reader.skip(LIST)
        more = changed(root, {SchemaElement.NUM_CHILDREN: lambda _: integer(len(copies.names))})
        return listed(STRUCT, [more, *_in_order(copies, trees, partial(_renamed, copies))])

    def row_group(reader: Reader, shift: Mapping[str, int]) -> bytes:
        own: list[bytes] = []

        def columns(reader: Reader) -> bytes:
            own.extend(reader.elements())
            return listed(STRUCT, placed(own, partial(_copied_chunk, shift, indexes)))

        fields = list(reader.fields({RowGroup.COLUMNS: columns}))
        return _with_totals(fields, own[: len(copies.sources)])

    def row_groups(reader: Reader) -> bytes:
        count, _ = reader.list_head()
        return listed(STRUCT, [row_group(reader, shift) for _, shift in zip(range(count), shifts, strict=True)])

    def orders(reader: Reader) -> bytes:
        return listed(STRUCT, placed(reader.elements(), lambda order, _: order))

    changes = {FileMetaData.SCHEMA: schema, FileMetaData.ROW_GROUPS: row_groups, FileMetaData.COLUMN_ORDERS: orders}
    return structure(Reader(footer).fields(changes))


def _in_order(copies: ColumnCopies, own: Sequence[Sequence[bytes]], copied: _Copied) -> list[bytes]:
    """What belongs to each column in the file's order; of a copy it is made of what belongs to its source."""
    of_column = dict(zip(copies.written, own, strict=True))
    found: list[bytes] = []
    for name in copies.names:
        if name in copies.sources:
            found += [copied(one, name) for one in of_column[copies.sources[name]]]
        else:
            found += of_column[name]
    return found


def _trees(parts: Sequence[bytes]) -> list[list[bytes]]:
    """Schema elements by their top-level column."""
    trees: list[list[bytes]] = []
    missing = 0
    for part in parts:
        if missing == 0:
            trees.append([])
            missing = 1
        trees[-1].append(part)
        missing += number_in(part, SchemaElement.NUM_CHILDREN, 0) - 1
    return trees


def _renamed(copies: ColumnCopies, element: bytes, name: str) -> bytes:
    def field_id(found: bytes) -> bytes:
        return integer(copies.field_ids[name]) if name in copies.field_ids else found

    return changed(element, {SchemaElement.NAME: lambda _: text(name), SchemaElement.FIELD_ID: field_id})


def _copied_chunk(shifts: Mapping[str, int], indexes: IndexBytes, chunk: bytes, name: str) -> bytes:
    path = listed(BINARY, [text(name)])
    moved = moved_chunk(chunk, shifts[name], {ColumnMetaData.PATH_IN_SCHEMA: lambda _: path})
    return indexes.with_index(moved, moved_index(indexes.of(chunk), shifts[name]))


def moved_offset(offset: bytes, shift: int) -> bytes:
    """An offset moved by so many bytes; 0 stays, as it means none."""
    return integer(number_of(offset) + shift) if number_of(offset) else offset


def moved_chunk(chunk: bytes, shift: int, more: FieldChanges = MappingProxyType({})) -> Fields:
    """The description of a column chunk moved by so many bytes; where its page indexes are does not change.

    `more` changes other fields of its metadata.
    """
    moved = partial(moved_offset, shift=shift)
    offsets = {ColumnMetaData.DATA_PAGE_OFFSET: moved, ColumnMetaData.DICTIONARY_PAGE_OFFSET: moved}
    changes: FieldChanges = {
        ColumnChunk.FILE_OFFSET: moved,
        ColumnChunk.META_DATA: lambda found: changed(found, {**offsets, **more}),
    }
    return changed_fields(chunk, changes)


def _with_totals(group: Fields, copied: Sequence[bytes]) -> bytes:
    """The row group of these fields, with the sizes of chunks that are like those that were `copied` in its own."""
    more = [value_of(chunk, ColumnChunk.META_DATA) for chunk in copied]

    def total(number: int) -> Callable[[bytes], bytes]:
        return lambda found: integer(number_of(found) + sum(number_in(metadata, number) for metadata in more))

    changes = {
        RowGroup.TOTAL_BYTE_SIZE: total(ColumnMetaData.TOTAL_UNCOMPRESSED_SIZE),
        RowGroup.TOTAL_COMPRESSED_SIZE: total(ColumnMetaData.TOTAL_COMPRESSED_SIZE),
    }
    return structure((number, kind, changes.get(number, bytes)(value)) for number, kind, value in group)
