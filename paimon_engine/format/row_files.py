"""Files of rows for other programs: Parquet, ORC, Avro, CSV with a header, JSON with one object a line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import BinaryIO, Final, TypeAlias

import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
from pyarrow import orc

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.format.avro_rows import AvroWriter
from paimon_engine.format.layout import WriteOptions, leaves_of
from paimon_engine.format.parquet_encoding import stored_paths
from paimon_engine.format.text_rows import flat, flat_schema, json_lines

WriteBatch: TypeAlias = Callable[[pa.RecordBatch], object]


@contextmanager
def row_file(sink: BinaryIO, schema: pa.Schema, file_format: str) -> Iterator[WriteBatch]:
    """A function that adds rows of the schema to a file, which is complete when the `with` block ends.

    Raises: InvalidArgumentError for an unknown format, or columns that it cannot hold; UnsupportedError.
    """
    if file_format not in ROW_FILES:
        raise InvalidArgumentError(f"format={file_format!r}; choose one of {', '.join(ROW_FILES)}")
    try:
        with ROW_FILES[file_format](sink, schema) as write:
            yield write
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidArgumentError(
            f"{file_format} cannot hold these rows: {error}; leave the column out, or choose another format"
        ) from error


@contextmanager
def _parquet(sink: BinaryIO, schema: pa.Schema) -> Iterator[WriteBatch]:
    # The ranges of Arrow leave NaN out, which Java and Spark take for the largest number (`parquet_nan`).
    leaves = [leaf for field in schema for leaf in leaves_of(field.type)]
    paths = zip(stored_paths(schema), leaves, strict=True)
    bounded = [path for path, leaf in paths if not pa.types.is_floating(leaf)]
    with pq.ParquetWriter(sink, schema, compression="zstd", write_statistics=bounded) as writer:
        yield writer.write_batch


@contextmanager
def _orc(sink: BinaryIO, schema: pa.Schema) -> Iterator[WriteBatch]:
    with orc.ORCWriter(sink, compression="zstd") as writer:
        writer.write(schema.empty_table())  # it takes the columns from the first rows, and there may be none
        yield lambda batch: writer.write(pa.Table.from_batches([batch], schema))


@contextmanager
def _avro(sink: BinaryIO, schema: pa.Schema) -> Iterator[WriteBatch]:
    writer = AvroWriter(sink, schema, WriteOptions(compression="zstd"))
    yield writer.write
    writer.close()


@contextmanager
def _csv(sink: BinaryIO, schema: pa.Schema) -> Iterator[WriteBatch]:
    texts = flat_schema(schema)
    with pcsv.CSVWriter(sink, texts) as writer:
        yield lambda batch: writer.write_batch(pa.record_batch([flat(item) for item in batch.columns], schema=texts))


@contextmanager
def _json(sink: BinaryIO, _: pa.Schema) -> Iterator[WriteBatch]:
    yield lambda batch: sink.write("".join(f"{line}\n" for line in json_lines(batch)).encode())


ROW_FILES: Final[Mapping[str, Callable[[BinaryIO, pa.Schema], AbstractContextManager[WriteBatch]]]] = {
    "parquet": _parquet,
    "orc": _orc,
    "avro": _avro,
    "csv": _csv,
    "json": _json,
}
"""How each format is written."""
