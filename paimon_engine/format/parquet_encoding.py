"""How the columns of a Parquet file are encoded: chosen for each file by a look at its first row group.

- A column gets a dictionary only where its first rows repeat themselves, which halves the time and saves a quarter of
  the size against a dictionary on every column.
- A column of numbers, or of indices of a dictionary, that the codec hardly makes smaller, as random ones, is stored as
  it is: neither writing nor any reading then pays for a compression that saves nothing.
- A small column of a file with few rows is compressed with Snappy, not zstd, where no option names a codec: to begin a
  page, zstd takes 25 µs of each reader, whatever is in it.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Sequence
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from paimon_engine.format.layout import cast, leaves_of
from paimon_engine.format.parquet_file import parquet_metadata

PAGE_BYTES: Final = 1 << 20
PAGE_ROWS: Final = 1 << 15
"""Of numbers of 8 bytes 256 kB: of more at once zstd makes larger files, and each page costs. It divides the rows of a
full row group, so that no small page is left at its end."""
_DICTIONARY_SHARE_MAX: Final = 0.5
SAMPLE_ROWS: Final = 16_384
"""First rows of a file by which the columns with a dictionary are chosen."""
_PREVIEW_ROWS: Final = SAMPLE_ROWS // 8
_PREVIEW_SHARE_MAX: Final = 0.95
"""Where so few of these rows, from anywhere, have so many values, more than half of all do, and these need no look."""
_DICTIONARY_BYTES_SHARE_MAX: Final = 0.02
"""Of the indices, in a column that is stored uncompressed: its dictionary is not compressed either."""
_PAGE_PART_ROWS: Final = (1 << 10, 1 << 14)
"""Arrow looks after each part of so many rows whether the page is full, and gathers the bounds of each part, which is
costly for dictionaries: as many as may be, of rows that are small."""
_CODEC_SAMPLE_PARTS: Final = 8
_CODEC_SAMPLE_PART_ROWS: Final = 2_048
_CODEC_SAMPLE_ROWS_MIN: Final = 1_024
"""Of fewer numbers no codec makes much, and they cost nothing."""
_NUMBER_BITS_MIN: Final = 32
_STORED_SHARE_MIN: Final = 0.95
"""Share of its size from which on a compressed column is stored uncompressed."""
CODEC_OF_SMALL: Final = {"zstd": "snappy"}
"""Codec that takes long to begin → the one of small columns."""
_SMALL_COLUMN_BYTES: Final = 2_048
"""Of 16 such columns, Snappy's file is at most 4 kB larger than that of zstd, and is decoded in 40 % of the time and
written in 60 % (measured with 10 to 200 rows of lineitem)."""


def rows_per_part(batches: Sequence[pa.RecordBatch]) -> int:
    """Rows that Arrow is to encode at once, of rows like these.

    A page has all rows of a part at least, and readers hold it completely in memory: of long values a part has few.
    """
    least, most = _PAGE_PART_ROWS
    rows: int = max(1, sum(batch.num_rows for batch in batches))
    sizes: list[int] = [
        sum(column.nbytes for column in columns) for columns in zip(*(batch.columns for batch in batches), strict=True)
    ]
    least = max(1, min(least, PAGE_BYTES * rows // max(1, *sizes)))
    wanted: int = PAGE_BYTES * rows // max(1, sum(sizes))
    return min(max(wanted, least), most)


def repeating_columns(batch: pa.RecordBatch, codec: str) -> list[str]:
    """Top-level columns whose values repeat among the first rows of the batch, so that a dictionary pays.

    A column with one value of one byte, such as the row kinds of inserts, gets none: a codec makes it as small, in 40 %
    of the time.
    """
    batch = batch.slice(0, SAMPLE_ROWS)
    preview = _preview_positions()
    preview = pa.array(preview[batch.num_rows > preview])
    names = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_nested(column.type) or pa.types.is_boolean(column.type):
            continue
        if pa.types.is_int8(column.type) and codec != "none" and pc.count_distinct(column, mode="all").as_py() == 1:
            continue
        if pa.types.is_dictionary(column.type) or (
            _distinct_share(column.take(preview)) < _PREVIEW_SHARE_MAX
            and _distinct_share(column) <= _DICTIONARY_SHARE_MAX
        ):
            names.append(name)
    return names


@cache
def _preview_positions() -> npt.NDArray[np.int64]:
    """Some of the first rows in no order, so that neither runs nor periods hide that values repeat."""
    return np.random.default_rng(0).choice(SAMPLE_ROWS, _PREVIEW_ROWS, replace=False)


def _distinct_share(column: pa.Array) -> float:
    """Share of different values, apart from one."""
    return float((pc.count_distinct(column).as_py() - 1) / max(1, len(column)))


def with_dictionaries(schema: pa.Schema, batches: list[pa.RecordBatch]) -> pa.Schema:
    """The schema with dictionaries for the columns that have one in each of the batches."""
    fields = [
        field.with_type(batches[0].schema.field(index).type)
        if all(pa.types.is_dictionary(batch.schema.field(index).type) for batch in batches)
        else field
        for index, field in enumerate(schema)
    ]
    return pa.schema(fields)


def joined_rows(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """The batches as a table; each column as the schema has it, texts or one dictionary."""
    columns = []
    for index, field in enumerate(schema):
        chunks = [batch.column(index) for batch in batches]
        if pa.types.is_dictionary(field.type):
            encoded = [chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode() for chunk in chunks]
            columns.append(pa.chunked_array(encoded).unify_dictionaries())
        else:
            columns.append(pa.chunked_array([cast(chunk, field.type) for chunk in chunks], field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def codecs_of(
    batches: Sequence[pa.RecordBatch],
    schema: pa.Schema,
    codec: str,
    level: int | None,
    repeating: Collection[str],
    *,
    mixes: bool,
) -> tuple[str | dict[str, str], int | dict[str, int] | None]:
    """Codec and level of the columns, as `pyarrow.parquet.ParquetWriter` takes them, by the first row group.

    `mixes`: the file has no other one, and small columns may have another codec.
    """
    others: dict[str, str] = {}
    if codec != "none":
        taken = pa.Codec(codec, level)
        plain = {name for name in schema.names if _is_incompressible(_sample(batches, name, repeating), taken)}
        others = dict.fromkeys(plain, "none")
    if mixes and codec in CODEC_OF_SMALL:
        others |= dict.fromkeys(_small_columns(batches) - others.keys(), CODEC_OF_SMALL[codec])
    if not others:
        return codec, level
    paths = iter(stored_paths(schema))
    by_path = {next(paths): others.get(field.name, codec) for field in schema for _ in leaves_of(field.type)}
    return by_path, None if level is None else {path: level for path, used in by_path.items() if used == codec}


def _small_columns(batches: Sequence[pa.RecordBatch]) -> set[str]:
    names = batches[0].schema.names
    return {
        name
        for index, name in enumerate(names)
        if sum(batch.column(index).nbytes for batch in batches) <= _SMALL_COLUMN_BYTES
    }


def _sample(batches: Sequence[pa.RecordBatch], name: str, repeating: Collection[str]) -> npt.NDArray[Any]:
    """Some of a column's numbers from all over the batches, or of their indices in the dictionary, as they are stored.

    None of a column that has no numbers of 4 or 8 bytes, or few, or whose dictionary is a good part of the column.
    """
    kind = batches[0].column(name).type
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if name not in repeating and not (is_number and kind.bit_width >= _NUMBER_BITS_MIN):
        return np.zeros(0)
    step = -(-len(batches) // _CODEC_SAMPLE_PARTS)
    parts = [batch.column(name).slice(0, _CODEC_SAMPLE_PART_ROWS).drop_null() for batch in batches[::step]]
    if sum(map(len, parts)) < _CODEC_SAMPLE_ROWS_MIN:
        return np.zeros(0)
    if name in repeating:
        return _packed_indices(parts, sum(batch.num_rows for batch in batches))
    return np.concatenate([part.to_numpy() for part in parts])


def _packed_indices(parts: Sequence[pa.Array], rows: int) -> npt.NDArray[np.uint8]:
    values = [part.dictionary_decode() if pa.types.is_dictionary(part.type) else part for part in parts]
    encoded = pa.concat_arrays(values).dictionary_encode()
    bits = max(1, (len(encoded.dictionary) - 1).bit_length())
    if encoded.dictionary.nbytes > _DICTIONARY_BYTES_SHARE_MAX * rows * bits / 8:
        return np.zeros(0, np.uint8)
    codes = encoded.indices.to_numpy()
    return np.packbits((codes[:, None] >> np.arange(bits)) & 1, bitorder="little")


def _is_incompressible(stored: npt.NDArray[Any], codec: pa.Codec) -> bool:
    data = stored.tobytes()
    return len(data) > 0 and codec.compress(data).size >= _STORED_SHARE_MIN * len(data)


def stored_paths(schema: pa.Schema) -> list[str]:
    """Names of the columns and of the parts of those that have some, as Parquet has them."""
    file = io.BytesIO()
    pq.write_table(schema.empty_table(), file)
    stored = parquet_metadata(file).schema
    return [stored.column(index).path for index in range(len(stored.names))]
