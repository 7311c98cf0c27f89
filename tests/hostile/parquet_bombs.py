"""Small Parquet files that unpack to gigabytes, made by hand, and a reader of limited memory.

    python -m tests.hostile.parquet_bombs < file

reads a file twice, through Python as one of a store and without it as one on disk, and writes the number of its rows, or
the error, for each a line.
"""

from __future__ import annotations

import io
import resource
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
from backports import zstd

from paimon_engine.errors import CorruptTableError
from paimon_engine.format.parquet import read_batches
from paimon_engine.format.parquet_page_sizes import DELTA_TEXTS
from paimon_engine.format.thrift_compact import BINARY, I32, I64, LIST, STRUCT, integer, listed, structure, text, varint

MEMORY_BYTES = 3 << 30
"""Address space; Python and Arrow reserve more than a gigabyte of it."""
PAGE_BYTES = 512 << 20
WIDE_ROWS = 20
SHORT_ROWS, LONG_ROWS = 66_000, 60
LONG_TEXT_BYTES = 40 << 20
INT64, BYTE_ARRAY = 2, 6
"""Numbers of physical types."""
_PLAIN, _RLE, _BY_DICTIONARY = 0, 3, 8
_ZSTD = 6


@dataclass(frozen=True)
class Page:
    """A page as it is stored, without its header, and the size that it says it unpacks to."""

    values: int
    packed: bytes
    unpacked_bytes: int
    encoding: int = _PLAIN

    def stored(self, *, is_dictionary: bool = False) -> bytes:
        encodings = (self.encoding,) if is_dictionary else (self.encoding, _RLE, _RLE)
        more = [(number, I32, integer(value)) for number, value in enumerate((self.values, *encodings), 1)]
        kind, index = (2, 7) if is_dictionary else (0, 5)
        sizes = [(2, I32, integer(self.unpacked_bytes)), (3, I32, integer(len(self.packed)))]
        return structure([(1, I32, integer(kind)), *sizes, (index, STRUCT, structure(more))]) + self.packed


def file_of(
    pages: list[Page],
    dictionary: Page | None = None,
    *,
    physical: int = INT64,
    rows: int | None = None,
    values: int | None = None,
    said_bytes: int | None = None,
    is_list: bool = False,
    encodings: tuple[int, ...] = (_PLAIN, _BY_DICTIONARY),
) -> bytes:
    """A file of one column `v`; its footer says `values` and `said_bytes`, unpacked, if not the truth."""
    head = b"" if dictionary is None else dictionary.stored(is_dictionary=True)
    body = head + b"".join(page.stored() for page in pages)
    values = sum(page.values for page in pages) if values is None else values
    rows = values if rows is None else rows
    unpacked = sum(page.unpacked_bytes for page in [*pages, *([dictionary] if dictionary else [])]) + len(body)
    unpacked = unpacked if said_bytes is None else said_bytes
    chunk = [
        (1, I32, integer(physical)),
        (2, LIST, listed(I32, [integer(one) for one in encodings])),
        (3, LIST, listed(BINARY, [text("v")])),
        (4, I32, integer(_ZSTD)),
        *((number, I64, integer(value)) for number, value in ((5, values), (6, unpacked), (7, len(body)))),
        (9, I64, integer(4 + len(head))),
        *([(11, I64, integer(4))] if head else []),
    ]
    stored_chunk = structure([(2, I64, integer(0)), (3, STRUCT, structure(chunk))])
    chunks = (1, LIST, listed(STRUCT, [stored_chunk]))
    group = structure([chunks, (2, I64, integer(unpacked)), (3, I64, integer(rows))])
    column = [(1, I32, integer(physical)), (3, I32, integer(2 if is_list else 0)), (4, BINARY, text("v"))]
    column += [(6, I32, integer(0))] if physical == BYTE_ARRAY else []
    schema = [structure([(4, BINARY, text("schema")), (5, I32, integer(1))]), structure(column)]
    head = structure(
        [
            (1, I32, integer(1)),
            (2, LIST, listed(STRUCT, schema)),
            (3, I64, integer(rows)),
            (4, LIST, listed(STRUCT, [group])),
        ]
    )
    return b"PAR1" + body + head + len(head).to_bytes(4, "little") + b"PAR1"


def zeros(size: int = PAGE_BYTES) -> Page:
    """Numbers 0, that really unpack to so many bytes."""
    packer = zstd.ZstdCompressor()
    part = bytes(1 << 20)
    packed = [packer.compress(part) for _ in range(size >> 20)]
    return Page(size // 8, b"".join([*packed, packer.flush()]), size)


def repeated(count: int, *, levels: bytes = b"") -> Page:
    """The first value of the dictionary so many times."""
    data = levels + b"\1" + varint(count << 1) + b"\0"
    return Page(count, zstd.compress(data), len(data), _BY_DICTIONARY)


def one_value(value: bytes) -> Page:
    """A dictionary."""
    return Page(1, zstd.compress(value), len(value))


def _list_of(count: int, *, begins: int = 1) -> Page:
    """A page of so many values: `begins` lists, of which the last one has all values but one each in the others."""
    runs = [_run(begins, 0) + _run(count - begins, 1), _run(count, 1)]
    return repeated(count, levels=b"".join(len(run).to_bytes(4, "little") + run for run in runs))


def _run(count: int, value: int) -> bytes:
    return varint(count << 1) + bytes([value]) if count else b""


def written(column: pa.Array, **options: Any) -> bytes:
    """A file of one column `v` as Arrow writes it."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"v": column}), sink, dictionary_pagesize_limit=1 << 30, **options)
    return sink.getvalue()


def _between_short_bounds(*, in_lists: bool) -> bytes:
    """Many rows with the same long text, behind others, between texts that are smaller and larger."""
    texts = pa.array(["a", "b" * LONG_TEXT_BYTES, "c"])
    indices = pa.array([0, 2] * (SHORT_ROWS // 2) + [1] * LONG_ROWS)
    column = pa.DictionaryArray.from_arrays(indices, texts)
    if in_lists:
        column = pa.ListArray.from_arrays(pa.array(range(len(indices) + 1), pa.int32()), column)
    return written(column, store_schema=False)


def _same_begin(*, is_declared: bool = True) -> bytes:
    """Texts that are each the one before as a whole, by an encoding of which the footer tells, or not."""
    size = LONG_TEXT_BYTES >> 10
    blocks = b"\0" * 5 * (SHORT_ROWS // 128)
    first = size.to_bytes(4, "little")
    head = varint(128) + varint(4) + varint(SHORT_ROWS)
    # Of differences the smallest, four widths in bits, and what they are beyond the smallest.
    begins = head + integer(0) + b"\0" + bytes([32, 0, 0, 0]) + first + bytes(4 * 31) + blocks
    rests = head + integer(size) + varint(2 * size - 1) + bytes([32] * 4) + bytes(4) + first * 127 + blocks
    data = begins + rests + bytes(size)
    page = Page(SHORT_ROWS, zstd.compress(data), len(data), DELTA_TEXTS)
    return file_of([page], physical=BYTE_ARRAY, encodings=(_RLE, DELTA_TEXTS) if is_declared else (_RLE, _PLAIN))


BOMBS: dict[str, tuple[Callable[[], bytes], str]] = {
    "data pages of zeros": (lambda: file_of([zeros()] * 12), "row group 0 has a page of .* bytes that unpacks to"),
    "a dictionary of zeros": (lambda: file_of([repeated(1_000)], zeros()), "row group 0 has a page of .* unpacks to"),
    "a page that only claims to be large": (
        lambda: file_of([Page(1 << 27, zstd.compress(b"x"), 1 << 30)]),
        "row group 0 has a page of .* bytes that unpacks to 1073741824; at most 268435456 are allowed",
    ),
    "a row with a list of one number": (
        lambda: file_of([_list_of(800_000_000)], one_value(bytes(8)), rows=1, is_list=True),
        "800000000 values in 1 rows",
    ),
    "a page that the footer knows nothing of": (
        lambda: LYING,
        "row group 0 has a page of .* bytes that unpacks to 1073741824; at most 268435456 are allowed",
    ),
    "pages that the footer knows nothing of": (
        lambda: file_of([zeros(16 << 20)] * 40, said_bytes=100),
        "row group 0 has pages that unpack to .* bytes, the footer says 100",
    ),
    "one list among short ones": (
        lambda: file_of([_list_of(800_000_000, begins=1_000)], one_value(bytes(8)), rows=1_000, is_list=True),
        "row group 0 has a page of .* bytes with 800000000 values in lists",
    ),
    "one list over many pages": (
        lambda: file_of(
            [_list_of(10_000_000, begins=10), *[_list_of(10_000_000, begins=0)] * 40],
            one_value(bytes(8)),
            rows=10,
            is_list=True,
        ),
        "row group 0 has rows of .* bytes with .* values in lists",
    ),
    "more rows than values": (
        lambda: file_of([], rows=1 << 60),
        "row group 0 has 0 values, the row group 1152921504606846976 rows",
    ),
    "texts in an encoding that the footer does not name": (
        lambda: _same_begin(is_declared=False),
        "row group 0 has a page of .* bytes in an encoding that the footer does not name",
    ),
}
LYING = file_of([Page(1 << 27, zstd.compress(b"x"), 1 << 30)], said_bytes=100)
"""A footer that knows nothing of what its pages claim."""
SOUND: dict[str, tuple[Callable[[], bytes], int]] = {
    "a number repeated": (lambda: file_of([repeated(50_000_000)], one_value(bytes(8))), 50_000_000),
    "a long text repeated": (
        lambda: file_of(
            [repeated(WIDE_ROWS)],
            one_value((100 << 20).to_bytes(4, "little") + bytes(100 << 20)),
            physical=BYTE_ARRAY,
        ),
        WIDE_ROWS,
    ),
    "a long text repeated between short ones": (
        lambda: _between_short_bounds(in_lists=False),
        SHORT_ROWS + LONG_ROWS,
    ),
    "a long text repeated in lists": (lambda: _between_short_bounds(in_lists=True), SHORT_ROWS + LONG_ROWS),
    "a long text that each repeats": (_same_begin, SHORT_ROWS),
    "many pages of zeros": (lambda: file_of([zeros(16 << 20)] * 20), 40 << 20),
}


def main() -> None:
    """Reads the file of standard input."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    data = sys.stdin.buffer.read()
    for opened in (io.BytesIO, pa.BufferReader):
        print(_outcome(opened(data)))


def _outcome(source: BinaryIO) -> str:
    try:
        schema = pq.read_schema(source)
        return str(sum(rows.num_rows for rows in read_batches(source, schema, path="data-1.parquet")))
    except CorruptTableError as error:
        return f"refused: {error}".replace("\n", " ")


if __name__ == "__main__":
    main()
