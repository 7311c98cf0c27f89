"""ORC data files: bytes → record batches, record batches → bytes.

ORC has no time of day (Java writes milliseconds as an int) and one kind of timestamp, in nanoseconds. Arrow encodes
fractions of a second before 1970 with negative nanoseconds, which Java and pypaimon read and pypaimon-rust does not.

Source: `OrcTypeUtil`, `OrcReaderFactory` of the Java library.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.orc as po

from paimon_engine.errors import InvalidArgumentError, UnsupportedError, damaged
from paimon_engine.format.layout import BATCH_ROWS, WriteOptions, cast, replace_leaves

STRIPE_BYTES: Final = 64 << 20
_ENCODED_SHARE: Final = 0.4
"""Typical bytes in the file per Arrow byte, for rows of which no stripe has been written yet."""

_CODECS: Final = {
    "zstd": "ZSTD",
    "snappy": "SNAPPY",
    "lz4": "LZ4",
    "zlib": "ZLIB",
    "gzip": "ZLIB",
    "none": "UNCOMPRESSED",
    "uncompressed": "UNCOMPRESSED",
}


def read_batches(
    source: BinaryIO, schema: pa.Schema, *, path: str, batch_rows: int = BATCH_ROWS
) -> Iterator[pa.RecordBatch]:
    """Rows of the file in order: the columns of `schema` that the file has, in these types.

    Raises: CorruptTableError if the bytes are no ORC file; UnsupportedError for timestamps outside 1677 to 2262.
    """
    try:
        file = po.ORCFile(source)
        places = {name: place for place, name in enumerate(file.schema.names)}
        wanted = [field for field in schema if field.name in places]
        # By place, because a name with a dot would mean a nested column.
        columns = [places[field.name] for field in wanted]
        for number in range(file.nstripes):
            stripe = file.read_stripe(number, columns)
            for begin in range(0, stripe.num_rows, batch_rows):
                yield _typed(stripe.slice(begin, batch_rows), wanted)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if "out of range for nanosecond" in str(error):
            raise UnsupportedError(
                f"{path}: {error}; such timestamps can be read from Parquet and Avro only"
            ) from error
        raise damaged(path, f"cannot be read as an ORC file: {error}") from error


def _typed(rows: pa.RecordBatch, fields: list[pa.Field]) -> pa.RecordBatch:
    """The rows in the types asked for. Digits of a timestamp beyond its precision are cut off, as Java does."""
    arrays = [cast(rows[field.name], field.type, safe=False) for field in fields]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([field.with_nullable(True) for field in fields]))


class OrcWriter:
    """Writes batches of one schema to one file."""

    def __init__(self, sink: BinaryIO, schema: pa.Schema, options: WriteOptions) -> None:
        """Begins a file on `sink`; the caller closes the sink.

        Raises: InvalidArgumentError for a codec that ORC does not have.
        """
        codec = _CODECS.get(options.compression)
        if codec is None:
            raise InvalidArgumentError(
                f"'file.compression' = {options.compression!r}; ORC takes one of {', '.join(sorted(_CODECS))}"
            )
        self._sink = sink
        self._schema = pa.schema([field.with_type(replace_leaves(field.type, _stored)) for field in schema])
        self._writer = po.ORCWriter(sink, compression=codec, stripe_size=STRIPE_BYTES)
        self._begun = False
        self._at_last_stripe = 0
        self._since_last_stripe = 0

    @property
    def bytes_written(self) -> int:
        """Bytes of the stripes in the file, and about those of the open one."""
        return self._sink.tell() + int(self._since_last_stripe * _ENCODED_SHARE)

    @property
    def bytes_pending(self) -> int:
        """None: all rows are with the encoder, and counted as written."""
        return 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Adds rows.

        Raises: UnsupportedError for timestamps that ORC cannot hold.
        """
        try:
            arrays = [cast(column, field.type) for column, field in zip(batch.columns, self._schema, strict=True)]
        except pa.ArrowInvalid as error:
            raise UnsupportedError(f"{error}: ORC holds timestamps from 1677 to 2262 only") from error
        self._writer.write(pa.Table.from_arrays(arrays, schema=self._schema))
        self._begun = True
        self._since_last_stripe += batch.nbytes
        if self._sink.tell() > self._at_last_stripe:
            self._at_last_stripe, self._since_last_stripe = self._sink.tell(), 0

    def close_row_group(self) -> None:
        """Nothing: ORC ends a stripe by its size alone."""

    def close(self) -> None:
        """Writes the open stripe and the footer."""
        if not self._begun:
            self._writer.write(self._schema.empty_table())
        self._writer.close()
        self._since_last_stripe = 0


def _stored(leaf: pa.DataType) -> pa.DataType:
    if pa.types.is_time(leaf):
        return pa.int32()
    if pa.types.is_timestamp(leaf):
        return pa.timestamp("ns", leaf.tz)
    return leaf
