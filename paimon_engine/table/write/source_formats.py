"""Formats of files that are written into a table: their columns, where they say them, and their rows in batches.

Files of other makers: whatever is wrong in them is a wrong argument, and the error names the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, BinaryIO, Final

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.json as pjson

from paimon_engine.errors import REMEDY, CorruptTableError, InvalidArgumentError, PaimonError, StorageError
from paimon_engine.format import orc, parquet

Types = Mapping[str, pa.DataType]
"""Columns of the table with their Arrow types."""

_AVRO_ROWS: Final = 4_096
_NULL_NOTES: Final = pa.array(
    ["", "#N/A", "#N/A N/A", "#NA", "N/A", "NA", "NULL", "n/a", "null", "-1.#IND", "-1.#QNAN", "1.#IND", "1.#QNAN"]
)
_NULL_NOTES_OR_NAN: Final = pa.concat_arrays([_NULL_NOTES, pa.array(["-NaN", "-nan", "NaN", "nan"])])
"""What programs write into CSV where a column of numbers or dates has no value: what Arrow takes for it."""
_JSON_BLOCK_BYTES: Final = 8 << 20
"""A line of JSON must fit into a block."""


@dataclass(frozen=True, slots=True)
class SourceFormat:
    """How files of one format are read; each function gets the open file and its path.

    `schema` gives the columns with their types, and is None where the format has none. `rows` counts without reading
    them, and is None where that is not possible. `batches` also gets the types of the table's columns.
    """

    batches: Callable[[BinaryIO, str, Types], Iterator[pa.RecordBatch]]
    schema: Callable[[BinaryIO, str], pa.Schema] | None = None
    rows: Callable[[BinaryIO, str], int] | None = None


def source_format(name: str) -> SourceFormat:
    """The format of that name. Raises: InvalidArgumentError."""
    if name not in FORMATS:
        raise InvalidArgumentError(f"source format {name!r}; choose one of {', '.join(FORMATS)}")
    return FORMATS[name]


@contextmanager
def naming_source(path: str) -> Iterator[None]:
    """Makes what is wrong in a file of another maker an InvalidArgumentError that names the file."""
    try:
        yield
    except CorruptTableError as error:
        what = str(error).removesuffix(f"; {REMEDY}").removeprefix(f"{path}: ")
        raise InvalidArgumentError(f"source {path}: {what}") from error
    except PaimonError:
        raise
    except Exception as error:
        # Decoders raise errors of very many kinds, each with others for the codecs that it knows.
        if isinstance(error, OSError) and error.errno is not None:
            raise StorageError(f"source {path}: {error}") from error
        what = str(error) or type(error).__name__
        raise InvalidArgumentError(f"source {path}: {what}") from error


# ── one by one ──────────────────────────────────────────────────────────────────────────────────


def _parquet(stream: BinaryIO, path: str, _: Types) -> Iterator[pa.RecordBatch]:
    return parquet.read_batches(stream, parquet.stored_schema(stream, path), path=path)


def _parquet_rows(stream: BinaryIO, path: str) -> int:
    count: int = parquet.footer(stream, path).num_rows
    return count


def _csv(stream: BinaryIO, _: str, types: Types) -> Iterator[pa.RecordBatch]:
    """Null is what is empty and not quoted; in columns that are no texts also an empty text, and the usual notes.

    Arrow has one list of notes for all columns, by which `NA` in a column of texts would be null. So the other columns
    are read as texts, too, and converted here: to the same values (`cast` reads texts as Arrow's reader of CSV does).
    """
    later = {name: kind for name, kind in types.items() if _is_converted_later(kind)}
    options = pcsv.ConvertOptions(
        column_types={name: pa.string() if name in later else kind for name, kind in types.items()},
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    # Without it a line break in a value is an error where a block of the file ends in it.
    parsing = pcsv.ParseOptions(newlines_in_values=True)
    reader = pcsv.open_csv(stream, convert_options=options, parse_options=parsing)
    return (_typed(batch, later) for batch in reader)


def _is_converted_later(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_date(kind)
        or pa.types.is_timestamp(kind)
    )


def _typed(rows: pa.RecordBatch, types: Types) -> pa.RecordBatch:
    """The rows with the columns in `types` converted from texts. Raises: pyarrow.ArrowInvalid naming the column."""
    for index, name in enumerate(rows.schema.names):
        if name in types:
            try:
                values = _values(rows.column(index), types[name])
            except pa.ArrowInvalid as error:
                raise pa.ArrowInvalid(f"column {name!r}: {error}") from error
            rows = rows.set_column(index, pa.field(name, types[name]), values)
    return rows


def _values(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    with suppress(pa.ArrowInvalid):
        # Most columns have values only, and then there is nothing to look for.
        return texts.cast(kind)
    texts = pc.utf8_trim_whitespace(texts)
    notes = _NULL_NOTES if pa.types.is_floating(kind) else _NULL_NOTES_OR_NAN
    return pc.if_else(pc.is_in(texts, value_set=notes), pa.nulls(1, pa.string())[0], texts).cast(kind)


def _json(stream: BinaryIO, _: str, types: Types) -> Iterator[pa.RecordBatch]:
    if not stream.read(1):
        return iter(())  # Arrow takes an empty file for an error
    stream.seek(0)
    # Texts that Arrow's reader does not convert are converted by the cast to the table's columns, but times of day.
    schema = pa.schema([(name, pa.string() if pa.types.is_temporal(kind) else kind) for name, kind in types.items()])
    found = pjson.open_json(
        stream,
        read_options=pjson.ReadOptions(block_size=_JSON_BLOCK_BYTES),
        parse_options=pjson.ParseOptions(explicit_schema=schema, unexpected_field_behavior="infer"),
    )
    times = {name: kind for name, kind in types.items() if pa.types.is_time(kind)}
    return (_with_times(batch, times) for batch in found)


def _with_times(rows: pa.RecordBatch, types: Types) -> pa.RecordBatch:
    """The rows with times of day instead of texts, which Arrow casts to timestamps only.

    Raises: pyarrow.ArrowInvalid naming the column.
    """
    for name in types.keys() & {*rows.schema.names}:
        texts = rows[name].cast(pa.string())
        try:
            values = pc.binary_join_element_wise("1970-01-01T", texts, "").cast(pa.timestamp("us")).cast(types[name])
        except pa.ArrowInvalid as error:
            raise pa.ArrowInvalid(f"column {name!r}: {error}") from error
        rows = rows.set_column(rows.schema.get_field_index(name), pa.field(name, types[name]), values)
    return rows


def _orc(stream: BinaryIO, path: str, _: Types) -> Iterator[pa.RecordBatch]:
    return orc.read_batches(stream, _orc_schema(stream, path), path=path)


def _orc_schema(stream: BinaryIO, path: str) -> pa.Schema:
    return orc.opened(stream, path).schema


def _orc_rows(stream: BinaryIO, path: str) -> int:
    count: int = orc.opened(stream, path).nrows
    return count


def _avro(stream: BinaryIO, path: str, _: Types) -> Iterator[pa.RecordBatch]:
    schema = _avro_schema(stream, path)
    stream.seek(0)
    records = fastavro.reader(stream)
    while part := list(islice(records, _AVRO_ROWS)):
        yield pa.RecordBatch.from_pylist(part, schema)


def _avro_schema(stream: BinaryIO, _: str) -> pa.Schema:
    written: Any = fastavro.reader(stream).writer_schema
    if not isinstance(written, dict) or written.get("type") != "record":
        raise ValueError("the file does not contain records")
    return pa.schema([_avro_field(item) for item in written["fields"]])


FORMATS: Final[Mapping[str, SourceFormat]] = {
    "parquet": SourceFormat(_parquet, parquet.stored_schema, _parquet_rows),
    "orc": SourceFormat(_orc, _orc_schema, _orc_rows),
    "avro": SourceFormat(_avro, _avro_schema),
    "csv": SourceFormat(_csv),
    "json": SourceFormat(_json),
}
"""All formats by name; `json` has one object a line."""


# ── Avro's types ────────────────────────────────────────────────────────────────────────────────

_AVRO_ATOMS: Final = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}
_AVRO_LOGICAL: Final = {
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("ms", tz="UTC"),
    "timestamp-micros": pa.timestamp("us", tz="UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
    "uuid": pa.string(),
}


def _avro_field(item: Any) -> pa.Field:
    kind = item["type"]
    nullable = False
    if isinstance(kind, list):
        others = [one for one in kind if one != "null"]
        nullable = len(others) < len(kind)
        if len(others) != 1:
            raise ValueError(f"column {item['name']!r} is a union of {len(others)} types")
        kind = others[0]
    return pa.field(item["name"], _avro_type(kind, item["name"]), nullable=nullable)


def _avro_type(kind: Any, name: str) -> pa.DataType:
    """The Arrow type of an Avro schema, for creating a table from a file. Raises: ValueError naming the column."""
    plain = kind if isinstance(kind, dict) else {"type": kind}
    logical, base = plain.get("logicalType"), plain["type"]
    if logical == "decimal":
        return pa.decimal128(plain["precision"], plain.get("scale", 0))
    if logical in _AVRO_LOGICAL:
        return _AVRO_LOGICAL[logical]
    match base:
        case "record":
            return pa.struct([_avro_field(item) for item in plain["fields"]])
        case "array":
            return pa.list_(_avro_field({"name": "item", "type": plain["items"]}))
        case "map":
            return pa.map_(pa.string(), _avro_field({"name": "value", "type": plain["values"]}))
        case "fixed":
            return pa.binary(plain["size"])
        case dict():
            return _avro_type(base, name)
        case _ if base in _AVRO_ATOMS:
            return _AVRO_ATOMS[base]
        case _:
            raise ValueError(f"column {name!r} is of type {base!r}, which has no meaning here")
