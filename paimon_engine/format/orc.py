"""ORC data files: bytes → record batches, record batches → bytes.

ORC has no time of day (Java writes milliseconds as an int) and one kind of timestamp, in nanoseconds. Of timestamps
before 1970, `orc_timestamps` repairs what Arrow wrote.

Files of Java have types CHAR(n) and VARCHAR(n): values are cut to n characters, and CHARs are padded with spaces in
the file and are read without it. Arrow does none of that, so `fitted` does it behind the reader.

Source: `OrcTypeUtil`, `OrcReaderFactory` of the Java library.
"""

from __future__ import annotations

import io
import shutil
import weakref
from collections.abc import Collection, Iterator, Mapping
from tempfile import SpooledTemporaryFile
from typing import Any, BinaryIO, Final
from typing import cast as cast_type

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as po

from paimon_engine.errors import InvalidArgumentError, PaimonError, UnsupportedError, temporary_files_failed, unreadable
from paimon_engine.format import orc_timestamps
from paimon_engine.format.codecs import codec_of
from paimon_engine.format.layout import (
    BATCH_LIMIT,
    BatchLimit,
    WriteOptions,
    cast,
    copied,
    leaf_arrays,
    leaf_paths,
    leaves_of,
    replace_leaves,
)
from paimon_engine.format.orc_far import read_far_stripe
from paimon_engine.format.orc_message import WRONG
from paimon_engine.format.orc_stripes import stripes_of
from paimon_engine.format.orc_types import open_orc
from paimon_engine.format.stored import check_row_count
from paimon_engine.predicate import Predicate, bind, conjuncts_of, may_match, with_values
from paimon_engine.types import (
    MAX_LENGTH,
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    VectorType,
    atomic_types,
)

STRIPE_BYTES: Final = 64 << 20
_ENCODED_SHARE: Final = 0.4
"""Typical bytes in the file per Arrow byte, for rows of which no stripe has been written yet."""

_FAR: Final = "out of range for nanosecond"
"""How Arrow says that a timestamp is before 1677 or after 2262."""

_WAITING_BYTES: Final = 32 << 20
"""Bytes of a file that are kept in memory; from then on it is written to a temporary file."""
_COPY_BYTES: Final = 1 << 20


def opened(source: BinaryIO, path: str) -> po.ORCFile:
    """The file, which says its columns and how many rows it has. Raises: CorruptTableError if it is no ORC file."""
    heard = _heard(source)
    try:
        return open_orc(heard, path)
    except (OSError, *WRONG) as error:
        raise _given_up(heard, path, error) from error


def read_batches(
    source: BinaryIO, schema: pa.Schema, *, path: str, limit: BatchLimit = BATCH_LIMIT
) -> Iterator[pa.RecordBatch]:
    """Rows of the file in order: the columns of `schema` that the file has, in these types.

    Raises: CorruptTableError if the bytes are not an ORC file; UnsupportedError for timestamps that Arrow cannot count.
    """
    return (rows for _, rows in _stripe_rows(source, schema, None, path, limit))


def read_matching(
    source: BinaryIO,
    schema: pa.Schema,
    where: Predicate,
    *,
    path: str,
    row_count: int | None = None,
    without_nan: Collection[str] = (),  # noqa: ARG001 - ORC's own ranges never include NaN
    limit: BatchLimit = BATCH_LIMIT,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """As `read_batches`, without stripes whose statistics show that no row matches.

    Each batch comes with the position of its first row in the file. Columns of `where` must be the file's own.

    Raises: CorruptTableError if the bytes are not an ORC file, or one of another `row_count`; UnsupportedError for
    timestamps that Arrow cannot count.
    """
    return _stripe_rows(source, schema, where, path, limit, row_count=row_count)


def _stripe_rows(
    source: BinaryIO,
    schema: pa.Schema,
    where: Predicate | None,
    path: str,
    limit: BatchLimit,
    *,
    row_count: int | None = None,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Rows of the stripes that may match, in batches, each with the position of its first row in the file.

    Raises: UnsupportedError, CorruptTableError naming the path.
    """
    source = _heard(source)
    file = opened(source, path)
    check_row_count(path, file.nrows, row_count)
    try:
        names = set(file.schema.names)
        wanted = [field for field in schema if field.name in names]
        skipped = {} if where is None else _skipped_stripes(source, file, where)
        position = 0
        for number in range(file.nstripes):
            if number in skipped:
                position += skipped[number]
                continue
            stripe = _stripe(source, file, number, wanted)
            batch_rows = limit.rows_of(stripe.nbytes // max(1, stripe.num_rows))
            for begin in range(0, stripe.num_rows, batch_rows):
                yield position + begin, _typed(stripe.slice(begin, batch_rows), wanted)
            position += stripe.num_rows
    except UnsupportedError as error:
        raise UnsupportedError(f"{path}: {error}") from error
    except (OSError, KeyError, *WRONG) as error:
        raise _given_up(source, path, error) from error
    check_row_count(path, position, row_count)


class _HeardFile:
    """A file for the C++ reader of ORC, which makes a text of what a file raises: the error itself is kept here."""

    closed = False
    """The file's owner closes it."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self.seek, self.tell = source.seek, source.tell
        self.error: Exception | None = None

    def read(self, size: int = -1) -> bytes:
        try:
            return self._source.read(size)
        except Exception as error:
            self.error = error
            raise


def _heard(source: BinaryIO) -> BinaryIO:
    """The file, so that its errors are kept; Arrow's own files name the errors of the system in their texts."""
    return source if isinstance(source, pa.NativeFile | _HeardFile) else cast_type("BinaryIO", _HeardFile(source))


def _given_up(source: BinaryIO, path: str, error: Exception) -> PaimonError:
    """The error for a file that cannot be read: what its store raised, if it did."""
    raised = source.error if isinstance(source, _HeardFile) else None
    return raised if isinstance(raised, PaimonError) else unreadable(path, "an ORC file", raised or error)


def _stripe(source: BinaryIO, file: po.ORCFile, number: int, wanted: list[pa.Field]) -> pa.RecordBatch:
    # ORC's reader looks for `a.b` in the column `a` first, even if there is a column of that name.
    paths = None if _has_ambiguous_names(file.schema) else leaf_paths(pa.schema(wanted), file.schema)
    try:
        return file.read_stripe(number, paths)
    except pa.ArrowInvalid as error:
        if _FAR not in str(error):
            raise
    return read_far_stripe(source, file, number, wanted)


def _has_ambiguous_names(schema: pa.Schema) -> bool:
    """Whether the name of a column is also a path into another one."""
    dotted = [name for name in schema.names if "." in name]
    rows = [field.name for field in schema if pa.types.is_struct(field.type)] if dotted else []
    return any(name.startswith(f"{row}.") for name in dotted for row in rows)


def _skipped_stripes(source: BinaryIO, file: po.ORCFile, where: Predicate) -> dict[int, int]:
    """Number and row count of the stripes that have no row that matches."""
    if file.nstripes < 2:
        return {}
    try:
        stripes = stripes_of(source, file)
    except WRONG:
        # The rows may nevertheless be complete; if they are not, reading them raises an error.
        return {}
    parts = [part for conjunct in conjuncts_of(where) if (part := _plain_values(conjunct, file.schema)) is not None]
    return {
        number: stripe.row_count
        for number, stripe in enumerate(stripes or ())
        if not all(may_match(part, stripe.columns, stripe.row_count) for part in parts)
    }


def _plain_values(predicate: Predicate, schema: pa.Schema) -> Predicate | None:
    """The predicate with values that compare with those of stripes; None where a column is stored as another type."""
    try:
        bound = bind(predicate, schema)
    except InvalidArgumentError:
        return None
    return with_values(bound, _plain_value)


def _plain_value(value: pa.Scalar) -> Any:
    return value.cast(pa.int32()).as_py() if pa.types.is_date(value.type) else value.as_py()


def _typed(rows: pa.RecordBatch, fields: list[pa.Field]) -> pa.RecordBatch:
    """The rows in the requested types. Digits of a timestamp beyond its precision are cut off, as Java does."""
    arrays = [cast(rows[field.name], field.type, safe=False) for field in fields]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([field.with_nullable(True) for field in fields]))


# ── texts of limited length ─────────────────────────────────────────────────────────────────────


def fitted(rows: pa.RecordBatch, types: Mapping[str, DataType]) -> pa.RecordBatch:
    """The rows with the texts of CHAR and VARCHAR columns, and parts, as Java reads them; `types` are the columns'."""
    columns = [
        _fitted(column, types[name]) if name in types and _has_limited_text(types[name]) else column
        for name, column in zip(rows.schema.names, rows.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def _has_limited_text(data_type: DataType) -> bool:
    return any(
        part.root is TypeRoot.CHAR or (part.root is TypeRoot.VARCHAR and part.length < MAX_LENGTH)
        for part in atomic_types(data_type)
    )


def _fitted(array: pa.Array, data_type: DataType) -> pa.Array:
    """Values with their limited texts, at any depth, cut to their length; spaces behind a CHAR are left out.

    Offsets and nulls of lists, maps and rows stay what they are.
    """
    if isinstance(data_type, VectorType):
        return array
    if isinstance(data_type, AtomicType):
        return _fitted_texts(array, data_type) if _has_limited_text(data_type) else array
    whole = copied(array)
    mask = whole.is_null() if whole.null_count else None
    match data_type:
        case ArrayType(element):
            return pa.ListArray.from_arrays(whole.offsets, _fitted(whole.values, element), type=array.type, mask=mask)
        case MapType(key, value):
            keys, items = _fitted(whole.keys, key), _fitted(whole.items, value)
        case MultisetType(element):
            keys, items = _fitted(whole.keys, element), whole.items
        case RowType(fields):
            parts = [_fitted(whole.field(index), field.type) for index, field in enumerate(fields)]
            return pa.StructArray.from_arrays(parts, fields=list(array.type), mask=mask)
    return pa.MapArray.from_arrays(whole.offsets, keys, items, type=array.type, mask=mask)


def _fitted_texts(texts: pa.Array, data_type: AtomicType) -> pa.Array:
    longest = pc.max(pc.binary_length(texts)).as_py()
    if longest is not None and longest > data_type.length:
        texts = pc.utf8_slice_codeunits(texts, 0, data_type.length)
    return pc.utf8_rtrim(texts, characters=" ") if data_type.root is TypeRoot.CHAR else texts


# ── writing ─────────────────────────────────────────────────────────────────────────────────────


class _Sink(io.RawIOBase):
    """The encoder's sink; discards what is written after the writer was aborted, or after a write has failed.

    The error of a failed write is kept for `check`: raised in the encoder, it ends the process, as on a full disk.
    """

    def __init__(self, sink: BinaryIO) -> None:
        self._sink = sink
        self._size = sink.tell()
        self._error: BaseException | None = None
        self.is_given_up = False

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._size

    def write(self, data: Any) -> int:
        count = len(data)
        if not self.is_given_up:
            try:
                self._sink.write(data)
            except BaseException as error:  # noqa: BLE001 - raised by `check`
                self.is_given_up, self._error = True, error
        self._size += count
        return count

    def check(self) -> None:
        """Raises the error of a write that has failed, if one has; StorageError for a temporary file."""
        if isinstance(self._error, OSError) and isinstance(self._sink, SpooledTemporaryFile):
            raise temporary_files_failed(self._error) from self._error
        if self._error is not None:
            raise self._error


class OrcWriter:
    """Writes batches of one schema to one file. One with timestamps is written to a temporary file first."""

    stored_bounds = None

    def __init__(self, sink: BinaryIO, schema: pa.Schema, options: WriteOptions) -> None:
        """Begins a file on `sink`; the caller closes the sink.

        Raises: InvalidArgumentError for a codec that ORC does not have.
        """
        codec = codec_of("orc", options.compression)
        # ORC says of no part that it must not be null.
        types = [replace_leaves(field.type, _stored, nullable=True) for field in schema]
        self._schema = pa.schema([pa.field(name, kind) for name, kind in zip(schema.names, types, strict=True)])
        fractions = any(pa.types.is_timestamp(one) and one.unit != "s" for f in schema for one in leaves_of(f.type))
        self._sink = sink
        self._waiting = SpooledTemporaryFile(_WAITING_BYTES) if fractions else None  # noqa: SIM115 - closed in close
        self._encoded = sink
        if self._waiting is not None:
            self._encoded = cast_type(BinaryIO, self._waiting)
            # A file whose writing fails is never closed.
            weakref.finalize(self, self._waiting.close)
        # The encoder ends its file when it is dropped, and ends the process if that fails: as when the file of a
        # writer that was given up no longer exists.
        self._last = _Sink(self._encoded)
        self._writer = po.ORCWriter(self._last, compression=codec, stripe_size=STRIPE_BYTES)
        self._last.check()
        self._begun = False
        self._to_be_mended = False
        self._at_last_stripe = 0
        self._since_last_stripe = 0

    def __del__(self) -> None:
        if hasattr(self, "_last"):
            self._last.is_given_up = True

    @property
    def bytes_written(self) -> int:
        """Bytes of the stripes in the file, and about those of the open one."""
        return self._encoded.tell() + int(self._since_last_stripe * _ENCODED_SHARE)

    @property
    def bytes_pending(self) -> int:
        """None: all rows are with the encoder, and counted as written."""
        return 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Adds rows.

        Raises: UnsupportedError for timestamps that ORC cannot store.
        """
        arrays = [_settled(cast(column, field.type)) for column, field in zip(batch.columns, self._schema, strict=True)]
        if self._waiting is not None:
            self._check_timestamps(arrays)
        self._last.check()
        self._writer.write(pa.Table.from_arrays(arrays, schema=self._schema))
        self._last.check()
        self._begun = True
        self._since_last_stripe += batch.nbytes
        if self._encoded.tell() > self._at_last_stripe:
            self._at_last_stripe, self._since_last_stripe = self._encoded.tell(), 0

    def _check_timestamps(self, arrays: list[pa.Array]) -> None:
        for name, array in zip(self._schema.names, arrays, strict=True):
            for leaf in leaf_arrays(array) if any(map(pa.types.is_timestamp, leaves_of(array.type))) else ():
                if not pa.types.is_timestamp(leaf.type):
                    continue
                moments = orc_timestamps.moments_of(leaf)
                if orc_timestamps.without_form(moments).any():
                    raise UnsupportedError(
                        f"column {name!r} has timestamps with parts of a millisecond in the last second before 1970, "
                        "which ORC cannot distinguish from the first second after it: use 'file.format' = 'parquet'"
                    )
                self._to_be_mended |= orc_timestamps.needs_rewriting(moments)

    def close_row_group(self) -> None:
        """Nothing: ORC ends a stripe by its size alone."""

    def close(self) -> None:
        """Writes the open stripe and the footer."""
        if not self._begun:
            self._writer.write(self._schema.empty_table())
        self._writer.close()
        self._last.check()
        self._since_last_stripe = 0
        if self._waiting is None:
            return
        with self._waiting as waiting:
            waiting.seek(0)
            if self._to_be_mended:
                orc_timestamps.rewrite(cast_type(BinaryIO, waiting), self._sink)
            else:
                shutil.copyfileobj(waiting, self._sink, _COPY_BYTES)
        self._waiting, self._encoded = None, self._sink


def _settled(array: pa.Array) -> pa.Array:
    """The array in a form that Arrow's encoder writes correctly: no slices, and only nulls below a row that is null.

    Otherwise it gives rows the fields of their neighbours.
    """
    return _with_nulls_below(copied(array)) if _has_struct(array.type) else array


def _has_struct(data_type: pa.DataType) -> bool:
    inner = (data_type.field(index).type for index in range(data_type.num_fields))
    return pa.types.is_struct(data_type) or any(map(_has_struct, inner))


def _with_nulls_below(array: pa.Array) -> pa.Array:
    mask = array.is_null() if array.null_count else None
    if pa.types.is_struct(array.type):
        return pa.StructArray.from_arrays(
            [_with_nulls_below(part) for part in array.flatten()], fields=list(array.type), mask=mask
        )
    if pa.types.is_list(array.type):
        return pa.ListArray.from_arrays(array.offsets, _with_nulls_below(array.values), type=array.type, mask=mask)
    if pa.types.is_map(array.type):
        keys, items = _with_nulls_below(array.keys), _with_nulls_below(array.items)
        return pa.MapArray.from_arrays(array.offsets, keys, items, type=array.type, mask=mask)
    return array


def _stored(leaf: pa.DataType) -> pa.DataType:
    return pa.int32() if pa.types.is_time(leaf) else leaf
