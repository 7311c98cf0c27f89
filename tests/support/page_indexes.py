"""Page indexes of a Parquet file, compared with the rows that are in the pages."""

from __future__ import annotations

import io
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from paimon_engine.format.parquet_chunk_check import StoredFooter
from paimon_engine.format.parquet_page_index import PageIndexes, PageLocated, StoredBounds
from paimon_engine.format.parquet_page_sizes import begin_of, page_head

PATH = "f.parquet"


def indexes_of(data: bytes, group: int = 0) -> PageIndexes:
    """The page indexes of a row group."""
    source = io.BytesIO(data)
    metadata = pq.read_metadata(source)
    footer = StoredFooter(source, metadata, PATH)
    return PageIndexes(source, lambda: footer.of_group(group), metadata.row_group(group))


def assert_indexes_fit(data: bytes) -> int:
    """Asserts that each column chunk has an offset index that fits its pages, and its bounds, if any, their values.

    Returns the number of pages with bounds that were compared.
    """
    pages_of = assert_offsets_fit(data)
    file, compared = pq.ParquetFile(io.BytesIO(data)), 0
    for number in range(file.num_row_groups):
        described, indexes, rows = (
            file.metadata.row_group(number),
            indexes_of(data, number),
            file.read_row_group(number),
        )
        for index in range(file.metadata.num_columns):
            name, pages = described.column(index).path_in_schema, pages_of[number, index]
            bounds = indexes.bounds(index)
            assert (bounds is not None) == described.column(index).has_column_index
            if bounds is not None:
                assert len(bounds) == len(pages)
            if name in rows.column_names and not pa.types.is_nested(rows.schema.field(name).type):
                ends = [*(page.row for page in pages), described.num_rows]
                assert [end - begin for begin, end in pairwise(ends)] == [_values_of(data, page) for page in pages]
                for (begin, end), bound in zip(pairwise(ends), bounds or (), strict=False):
                    compared += _is_of(bound, rows[name].slice(begin, end - begin))
    return compared


def assert_offsets_fit(data: bytes) -> dict[tuple[int, int], list[PageLocated]]:
    """Asserts that each column chunk has an offset index that fits its pages, and that none overlaps another one.

    Returns the pages by the numbers of row group and column.
    """
    footer = pq.read_metadata(io.BytesIO(data))
    found, used = dict[tuple[int, int], list[PageLocated]](), list[tuple[int, int]]()
    for number in range(footer.num_row_groups):
        indexes = indexes_of(data, number)
        for index in range(footer.num_columns):
            chunk = footer.row_group(number).column(index)
            begin = begin_of(chunk)
            pages = indexes.pages(index, begin, begin + chunk.total_compressed_size)
            assert pages is not None, (number, chunk.path_in_schema)
            assert sum(_values_of(data, page) for page in pages) == chunk.num_values
            found[number, index] = pages
            used.append((begin, begin + chunk.total_compressed_size))
    assert all(one[1] <= other[0] for one, other in pairwise(sorted(used)))
    return found


def _values_of(data: bytes, page: PageLocated) -> int:
    """How many values a page has, which must end where its index says."""
    head, behind = page_head(data, page.begin)
    assert behind + head.stored_bytes == page.end
    return head.values


def _is_of(found: StoredBounds | None, values: pa.ChunkedArray) -> bool:
    """Asserts that bounds are those of these values; returns whether there are some."""
    if found is None:
        return False
    assert found.null_count == values.null_count
    assert found.null_count < len(values)
    decoded = _decoded(found, values.type)
    if decoded is not None:
        bounds = pc.min_max(values)
        assert pa.array(decoded, values.type).equals(pa.array([bounds["min"], bounds["max"]], values.type))
    return True


def _decoded(found: StoredBounds, kind: pa.DataType) -> list[object] | None:
    """The bounds as values of a type; None for types that are not decoded here."""
    if pa.types.is_string(kind):
        return [one.decode() for one in found[:2]]
    if pa.types.is_integer(kind) or pa.types.is_temporal(kind):
        return [int.from_bytes(one, "little", signed=True) for one in found[:2]]
    return None
