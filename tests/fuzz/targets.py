"""The decoders that are fuzzed: what each gets, what it may raise, and bytes to begin with.

A decoder passes if it returns a value or raises an error of ours for all bytes. To add one: a line in `TARGETS`.
"""

from __future__ import annotations

import contextlib
import io
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from paimon_engine.errors import CorruptTableError, PaimonError
from paimon_engine.format.avro import read_records, record_fields
from paimon_engine.format.avro_blocks import container
from paimon_engine.format.avro_rows import read_batches
from paimon_engine.format.binary_row import decode_row, encode_row
from paimon_engine.format.bitmaps import RowBitmap
from paimon_engine.format.blob import NULL, PLACEHOLDER, read_index, read_values
from paimon_engine.format.deletion_vector import FRAME_BYTES, decode_index_file, decode_vector, encode_index_file
from paimon_engine.format.file_index.kinds import KINDS
from paimon_engine.format.hash_index import decode_hashes
from paimon_engine.format.layout import WriteOptions
from paimon_engine.format.orc_message import WRONG
from paimon_engine.format.orc_stripes import stripes_of
from paimon_engine.format.orc_types import open_orc
from paimon_engine.format.parquet import ParquetWriter, layout_of, read_matching
from paimon_engine.format.parquet_bounds import ChunkBounds
from paimon_engine.format.parquet_page_bounds import PageBounds
from paimon_engine.format.parquet_pages import GroupPages, Page
from paimon_engine.format.parquet_row_groups import stored_row_groups
from paimon_engine.meta.file_set import merge_entries
from paimon_engine.meta.index_manifest import index_files
from paimon_engine.meta.manifest import entry_from_record, manifest_file_from_record, unknown_types_of_entries
from paimon_engine.meta.manifest_columns import ManifestColumns
from paimon_engine.meta.schema import parse_schema
from paimon_engine.meta.snapshot import parse_snapshot
from paimon_engine.meta.stats import from_simple_stats
from paimon_engine.meta.table_statistics import parse_table_statistics
from paimon_engine.meta.tag import parse_tag
from paimon_engine.predicate import parse_where, to_arrow_expression
from paimon_engine.types import DataType, parse_type
from tests.fuzz.index_targets import ask_container, container_seeds, index_decoder, index_seeds
from tests.support.blob_bytes import blob_file
from tests.support.golden import golden_folder
from tests.support.row_bitmaps import rows_of

PATH: Final = "fuzz"
SEEDS_MAX: Final = 60
PARQUET_ROWS: Final = 100
INDEXED_ROWS: Final = 17_000
"""Row groups with fewer are read as a whole."""

TYPES: Final[tuple[DataType, ...]] = tuple(
    map(
        parse_type,
        [
            "BOOLEAN",
            "INT",
            "BIGINT NOT NULL",
            "DOUBLE",
            "STRING",
            "BYTES",
            "DECIMAL(10, 2)",
            "DECIMAL(38, 10)",
            "TIMESTAMP(3)",
            "TIMESTAMP(9)",
            {"type": "ARRAY", "element": "INT"},
            {"type": "MAP", "key": "STRING", "value": {"type": "ARRAY", "element": "STRING"}},
            {"type": "ROW", "fields": [{"id": 0, "name": "a", "type": "STRING"}]},
        ],
    )
)
ARROW: Final = pa.schema(
    [
        ("k", pa.int64()),
        ("s", pa.string()),
        ("d", pa.decimal128(10, 2)),
        ("t", pa.timestamp("us")),
        ("l", pa.list_(pa.int32())),
        ("m", pa.map_(pa.string(), pa.int32())),
    ]
)


@dataclass(frozen=True, slots=True)
class Target:
    """A decoder, and the seeds of its corpus."""

    decode: Callable[[bytes], Any]
    seeds: Callable[[], Iterable[bytes]]


def hold(name: str, data: bytes) -> None:
    """Raises the error if the decoder must not raise it."""
    try:
        TARGETS[name].decode(data)
    except PaimonError:
        return


# ── decoders ────────────────────────────────────────────────────────────────────────────────────


def _manifest(data: bytes) -> None:
    unknown = unknown_types_of_entries(record_fields(data, PATH))
    merge_entries([entry_from_record(record, PATH, unknown) for record in read_records(data, PATH)])


def _manifest_columns(data: bytes) -> None:
    """What columns take they give as the reader of entries does; what they do not take is left to that reader."""
    try:
        found = container(data)
        columns = ManifestColumns(found.schema, found.blocks)
        entries = columns.entries(np.arange(len(columns)))
    except Exception:  # noqa: BLE001 - as in `live_columns`
        return
    unknown = unknown_types_of_entries(record_fields(data, PATH))
    assert entries == [entry_from_record(record, PATH, unknown) for record in read_records(data, PATH)]


def _manifest_list(data: bytes) -> None:
    for record in read_records(data, PATH):
        from_simple_stats(TYPES[:2], manifest_file_from_record(record, PATH).partition_stats)


def _index_manifest(data: bytes) -> None:
    index_files(read_records(data, PATH), PATH, record_fields(data, PATH))


def _binary_row(data: bytes) -> None:
    decode_row(TYPES, struct.pack(">i", len(TYPES)) + data)


def _deletion_vector(data: bytes) -> None:
    """The bytes in a frame whose length and checksum are right, so that the bitmap itself is reached."""
    framed = struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    rows = decode_vector(framed, PATH, 1, len(data) + (FRAME_BYTES if data[:1] == b"\xd1" else 0))
    begin = max(0, rows.last - 100_000)
    found = (np.flatnonzero(rows.present(begin, 100_001)) + begin).tolist()
    assert found == rows_of(rows)[-len(found) :] if len(rows) < 1 << 20 else found[-1] == rows.last


def _vector_file(data: bytes) -> None:
    """A whole file of one vector, with the length that the index manifest would have."""
    size = int.from_bytes(data[1:5], "big")
    decode_index_file(data, {"a": (1, size + (FRAME_BYTES if data[5:6] == b"\xd1" else 0))}, PATH)


def _avro_rows(data: bytes) -> None:
    for batch in read_batches(io.BytesIO(data), ARROW, path=PATH):
        batch.validate(full=True)


def _orc_stripes(data: bytes) -> None:
    """The tail of an ORC file, after stripes that are not read."""
    try:
        file = open_orc(io.BytesIO(data), PATH)
    except (CorruptTableError, pa.ArrowException, OSError, UnicodeDecodeError):
        return
    with contextlib.suppress(*WRONG):
        stripes_of(io.BytesIO(data), file)


def _parquet_row_groups(data: bytes) -> None:
    """Row groups that are copied from file to file."""
    source = io.BytesIO(data)
    for group in stored_row_groups(source, PATH, layout_of(ARROW, WriteOptions()), PARQUET_ROWS):
        if group is not None:
            group.copy(source, bytes, 4)


def _blob_file(data: bytes) -> None:
    """A file of a BLOB column of three rows."""
    source = io.BytesIO(data)
    index = read_index(source, len(data), 3, PATH)
    assert len(read_values(source, index, np.flatnonzero(index.lengths >= 0), PATH)) <= 3


def _where(data: bytes) -> None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return
    to_arrow_expression(parse_where(text), ARROW)


# ── seeds ───────────────────────────────────────────────────────────────────────────────────────


def _golden(pattern: str) -> Callable[[], Iterator[bytes]]:
    """Some of the golden tables' files; Avro files also without compression, so that flips reach the records."""

    def seeds() -> Iterator[bytes]:
        folder = golden_folder()
        assert folder is not None, "the golden tables are missing"
        paths = [path for path in sorted(folder.glob(f"*/table/{pattern}")) if path.is_file()]
        for path in paths[:: max(1, len(paths) // SEEDS_MAX)]:
            data = path.read_bytes()
            yield data
            if data.startswith(b"Obj"):
                yield _uncompressed(data)

    return seeds


def _uncompressed(data: bytes) -> bytes:
    records = fastavro.reader(io.BytesIO(data))
    sink = io.BytesIO()
    fastavro.writer(sink, records.writer_schema, list(records), codec="null")
    return sink.getvalue()


def _rows() -> Iterator[bytes]:
    from decimal import Decimal

    full = (True, 1, 2, 3.0, "a longer text", b"bytes that are long", Decimal("1.50"), Decimal("-2.5"), 5_000_000, 7)
    values = (*full, [1, None, 3], [("a", ["b", None])], ("text of the row",))
    yield encode_row(TYPES, values, reserve_null=True)[4:]
    yield encode_row(TYPES, [None] * len(TYPES), reserve_null=True)[4:]
    yield encode_row(TYPES, [None] * len(TYPES), reserve_null=False)[4:]


def _vectors(*, framed: bool) -> Callable[[], Iterator[bytes]]:
    def seeds() -> Iterator[bytes]:
        for positions in ([1, 5, 9], list(range(5000)), list(range(0, 200_000, 3)), []):
            for bits in (32, 64):
                file, ranges = encode_index_file({"a": RowBitmap.of(np.array(positions, np.int64))}, bits=bits)  # type: ignore[arg-type]
                assert ranges
                yield file if framed else file[5:-4]

    return seeds


def _avro_files() -> Iterator[bytes]:
    from decimal import Decimal

    from paimon_engine.format.avro_rows import AvroWriter
    from paimon_engine.format.layout import WriteOptions

    rows = {"k": [1, 2], "s": ["a", None], "d": [Decimal("1.50"), None], "t": [5, None], "l": [[1, None], None]}
    batch = pa.record_batch({**rows, "m": pa.array([[("a", 1)], None], ARROW.field("m").type)}, schema=ARROW)
    for codec in ("none", "zstd", "snappy", "deflate"):
        sink = io.BytesIO()
        writer = AvroWriter(sink, ARROW, WriteOptions(compression=codec))
        writer.write(batch)
        writer.close()
        yield sink.getvalue()


def _orc_tails() -> Iterator[bytes]:
    from paimon_engine.format.layout import WriteOptions
    from paimon_engine.format.orc import OrcWriter

    rows = pa.record_batch({"i": [1, None], "s": ["a", "b"], "t": pa.array([5, -(10**15) + 1], pa.timestamp("us"))})
    for codec in ("none", "zstd", "snappy", "zlib", "lz4"):
        sink = io.BytesIO()
        writer = OrcWriter(sink, rows.schema, WriteOptions(compression=codec))
        writer.write(rows)
        writer.close()
        yield sink.getvalue()


def _page_header(data: bytes) -> None:
    """A page that it describes, with what its bounds are within."""
    for number, within, kind in (
        (0, ChunkBounds(0, 1 << 40, 0), pa.int64()),
        (1, ChunkBounds("", "z", 0), pa.string()),
    ):
        column = pq.ParquetFile(io.BytesIO(next(_parquet_files()))).schema.column(number)
        found = PageBounds(io.BytesIO(data), column, within, kind).over([Page(0, len(data), len(data))])
        assert found is None or within.min <= found.min <= found.max <= within.max


def _page_headers() -> Iterator[bytes]:
    rows = pa.table({"k": range(PARQUET_ROWS), "s": [None, *(f"text {number}" for number in range(PARQUET_ROWS - 1))]})
    for version in ("1.0", "2.0"):
        sink = io.BytesIO()
        pq.write_table(rows, sink, data_page_version=version)
        pages = GroupPages(sink, pq.read_metadata(sink), 0, PATH)
        for number in range(rows.num_columns):
            found = pages.of(number)
            assert found is not None
            yield sink.getvalue()[found.pages[0].begin : found.pages[0].data_begin]


def _page_index(data: bytes) -> None:
    """The page indexes in front of a footer."""
    whole, begin, end = _with_page_index()
    changed = whole[:begin] + data[: end - begin].ljust(end - begin, b"\0") + whole[end:]
    where = parse_where("k >= 16000 and k < 16100")
    schema = pa.schema([("k", pa.int64()), ("s", pa.string())])
    for position, rows in read_matching(pa.BufferReader(changed), schema, where, path=PATH):
        assert rows["k"][0].as_py() == position


@cache
def _with_page_index() -> tuple[bytes, int, int]:
    """A file, and where its page indexes begin and end."""
    sink = io.BytesIO()
    rows = pa.table({"k": range(INDEXED_ROWS), "s": [f"text {number}" for number in range(INDEXED_ROWS)]})
    pages = {"max_rows_per_page": 2_000, "write_batch_size": 1_000, "write_page_index": True}
    pq.write_table(rows, sink, use_dictionary=False, **pages)
    metadata = pq.read_metadata(sink)
    last = metadata.row_group(0).column(1)
    begin = last.data_page_offset + last.total_compressed_size
    return sink.getvalue(), begin, len(sink.getvalue()) - 8 - metadata.serialized_size


def _page_indexes() -> Iterator[bytes]:
    whole, begin, end = _with_page_index()
    yield whole[begin:end]


def _parquet_files() -> Iterator[bytes]:
    columns = {"k": range(PARQUET_ROWS), "s": ["a"] * PARQUET_ROWS, "d": [None] * PARQUET_ROWS}
    nested = {"t": [5] * PARQUET_ROWS, "l": [[1, None]] * PARQUET_ROWS, "m": [[("a", 1)]] * PARQUET_ROWS}
    sink = io.BytesIO()
    writer = ParquetWriter(sink, ARROW, WriteOptions())
    writer.write(pa.record_batch(columns | nested, schema=ARROW))
    writer.close()
    yield sink.getvalue()


def _blob_files() -> Iterator[bytes]:
    for values in ([b"", NULL, b"a longer value"], [PLACEHOLDER, b"x" * 3_000, b"y"], [NULL, NULL, PLACEHOLDER]):
        yield blob_file(values)


def _conditions() -> Iterator[bytes]:
    yield from (
        b"k = 1 AND s <> 'a' OR NOT (d >= 1.5)",
        b"k IN (1, 2, 3) AND s IS NOT NULL",
        b"t BETWEEN TIMESTAMP '2020-01-01 00:00:00' AND TIMESTAMP '2021-01-01'",
        b"`k` > -5 OR d < -1.25e3",
        b"s = 'it\\'s' AND k <= 9223372036854775807",
        b"t > DATE '2020-02-29'",
        b"m['a'] = 1 AND m['b]'] IS NULL",
    )


TARGETS: Final[dict[str, Target]] = {
    "manifest": Target(_manifest, _golden("manifest/manifest-[!l]*")),
    "manifest-columns": Target(_manifest_columns, _golden("manifest/manifest-[!l]*")),
    "manifest-list": Target(_manifest_list, _golden("manifest/manifest-list-*")),
    "index-manifest": Target(_index_manifest, _golden("manifest/index-manifest-*")),
    "binary-row": Target(_binary_row, _rows),
    "deletion-vector": Target(_deletion_vector, _vectors(framed=False)),
    "vector-file": Target(_vector_file, _vectors(framed=True)),
    "hash-index": Target(lambda data: decode_hashes(data, PATH), _golden("index/*")),
    "schema": Target(lambda data: parse_schema(data, PATH), _golden("schema/schema-*")),
    "snapshot": Target(lambda data: parse_snapshot(data, PATH), _golden("snapshot/snapshot-*")),
    "tag": Target(lambda data: parse_tag("t", data, PATH), _golden("tag/tag-*")),
    "statistics": Target(lambda data: parse_table_statistics(data, PATH), _golden("statistics/*")),
    "avro-rows": Target(_avro_rows, _avro_files),
    "parquet-row-groups": Target(_parquet_row_groups, _parquet_files),
    "page-index": Target(_page_index, _page_indexes),
    "page-header": Target(_page_header, _page_headers),
    "orc-stripes": Target(_orc_stripes, _orc_tails),
    **{kind: Target(index_decoder(kind), index_seeds(kind)) for kind in KINDS},
    "file-index": Target(ask_container, container_seeds),
    "blob-file": Target(_blob_file, _blob_files),
    "where": Target(_where, _conditions),
}
"""Decoder by name."""
