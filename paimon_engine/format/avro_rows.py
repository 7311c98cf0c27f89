"""Avro data files: bytes → record batches, record batches → bytes.

Avro stores rows, so each value passes through Python; tables that are read by columns do better with Parquet or ORC.
Dates, times, timestamps and decimals are taken as the numbers and bytes that they are in the file: the library's own
conversions end at the year 9999, and Java has swapped the names of timestamps with and without time zone.

A MULTISET of texts is a map of Avro's; of anything else an array of entries, as for MAP. Up to 2.0 no release of Java
reads or writes the latter; its sources do since.

Source: `AvroSchemaConverter`, `FieldReaderFactory`, `FieldWriterFactory` of the Java library.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO, Final

import fastavro
import pyarrow as pa
from fastavro.write import Writer

from paimon_engine.errors import NotFoundError, StorageError, UnsupportedError, damaged, unreadable
from paimon_engine.format.avro import check_count
from paimon_engine.format.avro_blocks import check_schema
from paimon_engine.format.codecs import codec_of
from paimon_engine.format.layout import BATCH_LIMIT, BatchLimit, WriteOptions, cast, replace_leaves

Convert = Callable[[Any], Any]

_RECORD: Final = "org.apache.paimon.avro.generated.record"
_WRITE_ROWS: Final = 4_096
"""Rows that are Python values at a time while writing."""

_DIGITS: Final = decimal.Context(prec=76)


# ── reading ─────────────────────────────────────────────────────────────────────────────────────


def read_batches(
    source: BinaryIO, schema: pa.Schema, *, path: str, limit: BatchLimit = BATCH_LIMIT
) -> Iterator[pa.RecordBatch]:
    """Rows of the file in order: the columns of `schema` that the file has, in these types.

    Raises: CorruptTableError if the bytes are not an Avro file with such columns.
    """
    try:
        # All that can be wrong with the bytes shows up as one of very many exceptions.
        blocks = fastavro.block_reader(source)
        check_schema(blocks.writer_schema)
        stored = _record_of(blocks.writer_schema)
        names = {field["name"] for field in stored["fields"]}
        columns = _Columns([field for field in schema if field.name in names])
        plain = fastavro.parse_schema(_without_logical_types(blocks.writer_schema))
        rows: list[dict[str, Any]] = []
        held_bytes = 0
        for block in blocks:
            held_bytes += block.bytes_.getbuffer().nbytes
            rows += _rows(block, plain)
            while rows and (count := limit.rows_of(held_bytes // len(rows))) <= len(rows):
                yield columns.batch(rows[:count])
                held_bytes -= held_bytes * count // len(rows)
                del rows[:count]
        if rows:
            yield columns.batch(rows)
    except (GeneratorExit, NotFoundError, StorageError):
        raise
    except (OSError, MemoryError) as error:
        raise unreadable(path, "an Avro file", error) from error
    except Exception as error:
        raise damaged(path, f"cannot be read as an Avro file: {error!r}") from error


def _rows(block: Any, schema: Any) -> list[dict[str, Any]]:
    check_count(block.num_records, block.bytes_.getbuffer().nbytes)
    rows = [fastavro.schemaless_reader(block.bytes_, schema, None) for _ in range(block.num_records)]
    if left := len(block.bytes_.read()):
        raise ValueError(f"{left} bytes follow the records of a block")
    return rows


def _record_of(schema: Any) -> Any:
    """The record of a file; Java 0.9 writes it as a union with null."""
    return schema if isinstance(schema, dict) else next(branch for branch in schema if branch != "null")


def _without_logical_types(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_logical_types(branch) for branch in schema]
    if isinstance(schema, dict):
        return {name: _without_logical_types(part) for name, part in schema.items() if name != "logicalType"}
    return schema


class _Columns:
    """Turns records into batches of some columns."""

    def __init__(self, fields: Sequence[pa.Field]) -> None:
        self._schema = pa.schema([field.with_nullable(True) for field in fields])
        self._stored = [replace_leaves(field.type, _stored, nullable=True) for field in fields]
        self._converts = [_from_avro(field.type) for field in fields]

    def batch(self, rows: Sequence[dict[str, Any]]) -> pa.RecordBatch:
        arrays = []
        for field, stored, convert in zip(self._schema, self._stored, self._converts, strict=True):
            values = [row[field.name] for row in rows]
            if convert is not None:
                values = [None if value is None else convert(value) for value in values]
            arrays.append(cast(pa.array(values, stored), field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _stored(leaf: pa.DataType) -> pa.DataType:
    """Arrow type of a value as it is stored: Avro has no type of seconds."""
    if pa.types.is_timestamp(leaf) and leaf.unit == "s":
        return pa.timestamp("ms", leaf.tz)
    return leaf


def _from_avro(data_type: pa.DataType) -> Convert | None:
    """What turns a stored value that is not null into one that Arrow takes; None if nothing has to."""
    if pa.types.is_decimal(data_type):
        scale = -data_type.scale
        return lambda value: _DIGITS.scaleb(_DIGITS.create_decimal(int.from_bytes(value, "big", signed=True)), scale)
    if pa.types.is_list(data_type):
        return _each(_from_avro(data_type.value_type))
    if pa.types.is_map(data_type):
        return _entries(_nullable(_from_avro(data_type.key_type)), _nullable(_from_avro(data_type.item_type)))
    if pa.types.is_struct(data_type):
        fields = [data_type.field(index) for index in range(data_type.num_fields)]
        return _members({field.name: _from_avro(field.type) for field in fields})
    return None


def _each(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    return lambda values: [None if value is None else convert(value) for value in values]


def _entries(key: Convert, value: Convert) -> Convert:
    """Maps with text keys are Avro maps; others are arrays of records."""

    def convert(stored: Any) -> list[tuple[Any, Any]]:
        pairs = stored.items() if isinstance(stored, dict) else ((pair["key"], pair["value"]) for pair in stored)
        return [(key(one), value(other)) for one, other in pairs]

    return convert


def _members(converts: dict[str, Convert | None]) -> Convert | None:
    changing = {name: convert for name, convert in converts.items() if convert is not None}
    if not changing:
        return None

    def convert(stored: dict[str, Any]) -> dict[str, Any]:
        changed = {name: None if stored[name] is None else one(stored[name]) for name, one in changing.items()}
        return {**stored, **changed}

    return convert


def _nullable(convert: Convert | None) -> Convert:
    if convert is None:
        return lambda value: value
    return lambda value: None if value is None else convert(value)


# ── writing ─────────────────────────────────────────────────────────────────────────────────────


class AvroWriter:
    """Writes batches of one schema to one file."""

    stored_bounds = None

    def __init__(self, sink: BinaryIO, schema: pa.Schema, options: WriteOptions) -> None:
        """Begins a file on `sink`; the caller closes the sink.

        Raises: InvalidArgumentError for a codec that Avro does not have; UnsupportedError for timestamps of more than
        6 digits.
        """
        codec = codec_of("avro", options.compression)
        fields = [
            {"name": field.name, **_default(field), "type": _avro_type(field, f"{_RECORD}_{field.name}")}
            for field in schema
        ]
        level = {"compression_level": options.zstd_level} if codec == "zstandard" else {}
        # Java 0.9 puts a union with null around it, which pypaimon-rust cannot read; all read it without.
        record = {"type": "record", "name": _RECORD, "fields": fields}
        self._writer = Writer(sink, fastavro.parse_schema(record), codec=codec, **level)
        self._sink = sink
        self._names = schema.names
        self._plain = [replace_leaves(replace_leaves(field.type, _stored), _plain) for field in schema]
        self._stored = [replace_leaves(field.type, _stored) for field in schema]
        self._converts = [_to_avro(field.type) for field in schema]

    @property
    def bytes_written(self) -> int:
        """Bytes in the file."""
        return self._sink.tell()

    @property
    def bytes_pending(self) -> int:
        """None: all rows are in the file."""
        return 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Adds rows."""
        for begin in range(0, batch.num_rows, _WRITE_ROWS):
            part = batch.slice(begin, _WRITE_ROWS)
            columns = []
            for column, stored, plain, convert in zip(
                part.columns, self._stored, self._plain, self._converts, strict=True
            ):
                values = cast(cast(column, stored), plain).to_pylist()
                if convert is not None:
                    values = [None if value is None else convert(value) for value in values]
                columns.append(values)
            for row in zip(*columns, strict=True):
                self._writer.write(dict(zip(self._names, row, strict=True)))
            self._writer.flush()

    def close_row_group(self) -> None:
        """Nothing: rows do not wait."""

    def close(self) -> None:
        """Nothing is left to write."""
        self._writer.flush()


def _default(field: pa.Field) -> dict[str, None]:
    return {"default": None} if field.nullable else {}


def _avro_type(field: pa.Field, name: str) -> Any:
    bare = _bare_avro_type(field, name)
    return ["null", bare] if field.nullable else bare


def _bare_avro_type(field: pa.Field, name: str) -> Any:
    """The Avro type of values that are not null, as Java writes it; `name` is the name of a record, unique in a schema.

    A map whose keys are no texts is an array of records, since keys of Avro's maps are texts.
    """
    kind = field.type
    if pa.types.is_list(kind):
        return {"type": "array", "items": _avro_type(kind.value_field, name)}
    if pa.types.is_map(kind):
        if pa.types.is_string(kind.key_type):
            return {"type": "map", "values": _avro_type(kind.item_field, name)}
        key = {"name": "key", "type": _avro_type(kind.key_field, f"{name}_key")}
        value = {"name": "value", **_default(kind.item_field), "type": _avro_type(kind.item_field, f"{name}_value")}
        items = {"type": "record", "name": name, "fields": [key, value]}
        return {"type": "array", "items": items, "logicalType": "map"}
    if pa.types.is_struct(kind):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        members = [{"name": one.name, **_default(one), "type": _avro_type(one, f"{name}_{one.name}")} for one in fields]
        return {"type": "record", "name": name, "fields": members}
    return _avro_atom(field)


_ATOMS: Final = {
    pa.bool_(): "boolean",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
    pa.time32("ms"): {"type": "int", "logicalType": "time-millis"},
}


def _avro_atom(field: pa.Field) -> Any:
    kind = field.type
    if pa.types.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if not pa.types.is_timestamp(kind):
        return _ATOMS[kind]
    unit = {"s": "millis", "ms": "millis", "us": "micros"}.get(kind.unit)
    if unit is None:
        raise UnsupportedError(f"column {field.name!r}: Avro files hold timestamps of up to 6 digits; use TIMESTAMP(6)")
    # Java has these two names the other way round.
    prefix = "timestamp" if kind.tz is None else "local-timestamp"
    return {"type": "long", "logicalType": f"{prefix}-{unit}"}


def _plain(leaf: pa.DataType) -> pa.DataType:
    """The stored number of a date, time or timestamp."""
    if pa.types.is_timestamp(leaf):
        return pa.int64()
    if pa.types.is_date(leaf) or pa.types.is_time(leaf):
        return pa.int32()
    return leaf


def _to_avro(data_type: pa.DataType) -> Convert | None:
    """What turns a Python value of Arrow's that is not null into the one to store; None if nothing has to."""
    if pa.types.is_decimal(data_type):
        scale = data_type.scale
        return lambda value: _signed_bytes(int(_DIGITS.scaleb(value, scale)))
    if pa.types.is_list(data_type):
        return _each(_to_avro(data_type.value_type))
    if pa.types.is_map(data_type):
        return _stored_entries(
            _nullable(_to_avro(data_type.key_type)),
            _nullable(_to_avro(data_type.item_type)),
            as_map=pa.types.is_string(data_type.key_type),
        )
    if pa.types.is_struct(data_type):
        fields = [data_type.field(index) for index in range(data_type.num_fields)]
        return _members({field.name: _to_avro(field.type) for field in fields})
    return None


def _signed_bytes(value: int) -> bytes:
    """The shortest two's complement, high byte first."""
    return value.to_bytes((value if value >= 0 else ~value).bit_length() // 8 + 1, "big", signed=True)


def _stored_entries(key: Convert, value: Convert, *, as_map: bool) -> Convert:
    if as_map:
        return lambda pairs: {key(one): value(other) for one, other in pairs}
    return lambda pairs: [{"key": key(one), "value": value(other)} for one, other in pairs]
