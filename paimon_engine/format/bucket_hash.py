"""Bucket of each row: a 32-bit hash over the BinaryRow bytes of the bucket key, whole Arrow columns at a time.

No row is ever encoded. The words that a row would consist of are taken from the columns, one word position of all
rows at once, and fed to MurmurHash3 (x86, 32 bits, seed 42) in the order of the row's bytes:

1. kind and null bits: constant unless a column has nulls;
2. two words per slot. Offsets of long strings are sums over the columns before, so they may differ by row;
3. the variable parts, column by column. Strings are ordered by their number of words,
   so the rows that still have words are always the first ones and shrink as a slice.
   Where all have one length, their words are every k-th bytes of the column's.

Rows are taken in chunks that keep the intermediate arrays in the processor's cache.

Source: `FixedBucketRowKeyExtractor`, `DefaultBucketFunction`, `ModBucketFunction` and `HiveBucketFunction` of the Java
library; layouts as in `binary_row`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_engine.errors import InvalidArgumentError, UnsupportedError
from paimon_engine.format.binary_row import (
    COMPACT_DECIMAL_PRECISION_MAX,
    COMPACT_TIMESTAMP_PRECISION_MAX,
    INLINE_BYTES_MAX,
    NANOS_PER_MILLI,
    NANOS_PER_UNIT,
    null_bits_size,
)
from paimon_engine.format.murmur import Array, Murmur, Word, absorbed, mix
from paimon_engine.types import (
    BINARY_ROOTS,
    FLOAT_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    AtomicType,
    DataType,
    TypeRoot,
    to_arrow,
)

CHUNK_ROWS = 16384
"""Rows hashed together; a word of each is 64 KiB, so the few arrays in use stay in the second-level cache."""

SCALAR_ROWS_MAX = 8
"""When fewer rows than this still have words, plain integers beat array operations on so few elements."""

_LARGE = (pa.large_string(), pa.large_binary())
# Keeps the first k of eight little-endian bytes.
_FIRST_BYTES = np.array([(1 << 8 * k) - 1 for k in range(9)], np.uint64)

_FIXED_DTYPES: Mapping[TypeRoot, str] = {
    TypeRoot.TINYINT: "<i1",
    TypeRoot.SMALLINT: "<i2",
    TypeRoot.INT: "<i4",
    TypeRoot.DATE: "<i4",
    TypeRoot.TIME: "<i4",
    TypeRoot.BIGINT: "<i8",
    TypeRoot.FLOAT: "<i4",
    TypeRoot.DOUBLE: "<i8",
}


def hash_rows(columns: Sequence[pa.Array], types: Sequence[DataType]) -> npt.NDArray[np.int32]:
    """Hash of each row: `columns`, k arrays of n values each -> int32 [n].

    The arrays may have any Arrow type that casts to the one of their Paimon type.

    Raises: InvalidArgumentError without columns; UnsupportedError for nested types.
    """
    if not columns or len(columns) != len(types):
        raise InvalidArgumentError(f"a bucket key of {len(types)} types was given {len(columns)} columns")
    atoms = [_atomic(data_type) for data_type in types]
    plain = [_plain(column, atom) for column, atom in zip(columns, atoms, strict=True)]
    hashes = np.empty(len(plain[0]), np.uint32)
    scratch = np.empty((2, min(CHUNK_ROWS, len(hashes))), np.uint32)
    for start in range(0, len(hashes), CHUNK_ROWS):
        chunk = [column.slice(start, CHUNK_ROWS) for column in plain]
        _hash_chunk(chunk, atoms, hashes[start : start + CHUNK_ROWS], scratch)
    return hashes.view(np.int32)


def bucket_of(hashes: npt.NDArray[np.int32], bucket_count: int) -> npt.NDArray[np.int32]:
    """Bucket of each hash under the default function: the magnitude of the truncated remainder."""
    return _into_buckets(hashes.copy(), bucket_count)


def buckets(
    columns: Sequence[pa.Array], types: Sequence[DataType], bucket_count: int, *, function: str = "default"
) -> npt.NDArray[np.int32]:
    """Bucket of each row under `bucket-function.type` (`default`, `mod`, `hive`): int32 [n] in 0 … bucket_count − 1.

    Raises: InvalidArgumentError for another function or a bucket count below 1; UnsupportedError for types that the
    function does not take.
    """
    if bucket_count < 1:
        raise InvalidArgumentError(f"bucket count must be at least 1, not {bucket_count}")
    match function:
        case "default":
            return _into_buckets(hash_rows(columns, types), bucket_count)
        case "mod":
            return _mod_buckets(columns, types, bucket_count)
        case "hive":
            return _hive_buckets(columns, types, bucket_count)
        case _:
            raise InvalidArgumentError(f"bucket-function.type must be default, mod or hive, not {function!r}")


def _into_buckets(hashes: npt.NDArray[np.int32], bucket_count: int) -> npt.NDArray[np.int32]:
    """`bucket_of`, in place."""
    # |h rem n| = |h| mod n; as unsigned, the magnitude of the smallest int32 is right as well.
    magnitudes = np.abs(hashes, out=hashes).view(np.uint32)
    if bucket_count & (bucket_count - 1) == 0:
        magnitudes &= np.uint32(bucket_count - 1)
        return hashes
    for start in range(0, len(magnitudes), CHUNK_ROWS):
        chunk = magnitudes[start : start + CHUNK_ROWS]
        # numpy divides by a constant much faster than it takes remainders.
        chunk -= chunk // np.uint32(bucket_count) * np.uint32(bucket_count)
    return hashes


# ── Rows of words ───────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Strings:
    """Variable parts of a string column; `lengths` are 0 where nothing is stored (null or in the slot)."""

    words: Array  # uint64: the bytes of all values, zeros behind
    starts: Array  # int64 [n]: first byte of each value
    lengths: Array  # int64 [n]


@dataclass(frozen=True, slots=True)
class _HashedColumn:
    """What one column adds to the rows."""

    low: Word
    high: Word
    variable: tuple[Word, ...] | _Strings = ()
    size_bytes: Word = 0  # of the variable part


def _hash_chunk(columns: Sequence[pa.Array], types: Sequence[AtomicType], hashes: Array, scratch: Array) -> None:
    """Hashes the BinaryRow of each row into `hashes`, uint32 [n], in the order of its bytes, without building it.

    These are null bits, the slots of all columns, then the variable parts. `scratch` has the same shape and is
    overwritten.
    """
    size: Word = null_bits_size(len(types)) + 8 * len(types)
    murmur = Murmur(hashes, scratch)
    parts: list[_HashedColumn] = []
    nulls = [_nulls(column) for column in columns]
    for word in _null_words(nulls):
        murmur.add(word)
    for column, data_type, null in zip(columns, types, nulls, strict=True):
        part = _column(column, data_type, null, size)
        murmur.add(part.low)
        murmur.add(part.high)
        size = size + part.size_bytes
        parts.append(part)
    for part in parts:
        if isinstance(part.variable, _Strings):
            _mix_strings(murmur.states(), part.variable, scratch)
        else:
            for word in part.variable:
                murmur.add(word)
    murmur.finish(size)


def _null_words(nulls: Sequence[Array | None]) -> list[Word]:
    """Row kind +I and null bits, as words: column i has bit i + 8."""
    words: list[Word] = [0] * (null_bits_size(len(nulls)) // 4)
    for bit, null in enumerate(nulls, start=8):
        if null is not None:
            position = bit // 32
            words[position] = words[position] | null.astype(np.uint32) << bit % 32
    return words


# ── Columns ─────────────────────────────────────────────────────────────────────────────────────


def _atomic(data_type: DataType) -> AtomicType:
    if not isinstance(data_type, AtomicType):
        raise UnsupportedError(f"a bucket key cannot have the nested type {data_type}")
    return data_type


def _plain(column: pa.Array, data_type: AtomicType) -> pa.Array:
    """The column in an Arrow type whose buffers `_column` reads."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    arrow_type = column.type
    if data_type.root in TIMESTAMP_ROOTS and pa.types.is_timestamp(arrow_type):
        return column
    if data_type.root in STRING_ROOTS | BINARY_ROOTS and arrow_type in _LARGE:
        return column
    return column if arrow_type == to_arrow(data_type) else column.cast(to_arrow(data_type))


def _nulls(column: pa.Array) -> Array | None:
    """Boolean [n], true where null; None if nothing is null."""
    if column.null_count == 0:
        return None
    nulls: Array = column.is_null().to_numpy(zero_copy_only=False)
    return nulls


def _column(column: pa.Array, data_type: AtomicType, null: Array | None, offset: Word) -> _HashedColumn:
    """Words of a column whose variable part would begin at `offset` of the row."""
    root = data_type.root
    if root == TypeRoot.BOOLEAN:
        return _HashedColumn(_bits(column), 0)
    if root in _FIXED_DTYPES:
        return _fixed_slot(_not_null(_values(column, _FIXED_DTYPES[root]), null))
    if root in TIMESTAMP_ROOTS:
        return _timestamp_column(column, data_type, null, offset)
    if root == TypeRoot.DECIMAL:
        if data_type.precision <= COMPACT_DECIMAL_PRECISION_MAX:
            return _fixed_slot(_not_null(_values(column, "<i8", 2)[:, 0], null))
        return _wide_decimal_column(column, null, offset)
    return _string_column(column, null, offset)


def _values(column: pa.Array, dtype: str, width: int = 1) -> Array:
    """The value buffer of a fixed-width column: [n], or [n, width]. Values of nulls are undefined."""
    values = np.frombuffer(column.buffers()[1], dtype)
    values = values[column.offset * width : (column.offset + len(column)) * width]
    return values if width == 1 else values.reshape(-1, width)


def _not_null(values: Array, null: Array | None) -> Array:
    """The values with zeros instead of nulls."""
    return values if null is None else np.where(null, values.dtype.type(0), values)


def _bits(column: pa.Array) -> Array:
    """Booleans as uint32, nulls as 0."""
    bits: Array = column.cast(pa.uint8()).fill_null(0).to_numpy().astype(np.uint32)
    return bits


def _fixed_slot(values: Array) -> _HashedColumn:
    """Slot of integers by their own width: the bytes beyond are zero, not the sign."""
    if values.dtype.itemsize == 8:
        return _HashedColumn(*_halves(values))
    return _HashedColumn(values.view(f"<u{values.dtype.itemsize}").astype(np.uint32, copy=False), 0)


def _halves(values: Array) -> tuple[Array, Array]:
    """Low and high words of 64-bit integers."""
    words = np.ascontiguousarray(values).view("<u4")
    return words[0::2], words[1::2]


def _word(number: Word) -> Word:
    """A number of each row, or of all, as a word."""
    return number if isinstance(number, int) else number.astype(np.uint32)


def _timestamp_column(column: pa.Array, data_type: AtomicType, null: Array | None, offset: Word) -> _HashedColumn:
    values = _not_null(_values(column, "<i8"), null)
    nanos_per_unit = NANOS_PER_UNIT[column.type.unit]
    nanos_of_milli: Word = 0
    if nanos_per_unit >= NANOS_PER_MILLI:
        millis = values * (nanos_per_unit // NANOS_PER_MILLI)
    else:
        units_per_milli = NANOS_PER_MILLI // nanos_per_unit
        millis = values // units_per_milli
        nanos_of_milli = ((values - millis * units_per_milli) * nanos_per_unit).astype(np.uint32)
    if data_type.precision <= COMPACT_TIMESTAMP_PRECISION_MAX:
        return _HashedColumn(*_halves(millis))
    return _HashedColumn(nanos_of_milli, _word(offset), _halves(millis), 8)


def _wide_decimal_column(column: pa.Array, null: Array | None, offset: Word) -> _HashedColumn:
    """16 bytes each: the shortest two's complement, big endian, followed by zeros."""
    pairs = _values(column, "<i8", 2)
    low, high = _not_null(pairs[:, 0], null), _not_null(pairs[:, 1], null)
    lengths = _minimal_lengths(low, high)
    shift = ((16 - lengths) * 8).astype(np.uint64)
    low_bits, high_bits = low.view(np.uint64), high.view(np.uint64)
    # numpy gives 0 for shifts of 64 bits and more; differences below zero wrap to such shifts.
    word = np.uint64(64)
    first = (high_bits << shift | low_bits >> (word - shift) | low_bits << (shift - word)).byteswap()
    second = (low_bits << shift).byteswap()
    if null is not None:
        lengths = np.where(null, 0, lengths)
    return _HashedColumn(lengths.astype(np.uint32), _word(offset), (*_halves(first), *_halves(second)), 16)


def _minimal_lengths(low: Array, high: Array) -> Array:
    """Bytes of the shortest two's complement of 128-bit integers, given as two int64 halves."""
    sign = high >> 63
    magnitude = np.stack([low ^ sign, high ^ sign], axis=1).view(np.uint8)
    # One byte up to the highest that is not zero, and one more if that has no room for the sign.
    top = 15 - np.argmax(magnitude[:, ::-1] != 0, axis=1)
    top_byte = np.take_along_axis(magnitude, top[:, None], axis=1)[:, 0]
    lengths: Array = np.where(top_byte == 0, 1, top + 1 + (top_byte >> 7))
    return lengths


# ── Strings ─────────────────────────────────────────────────────────────────────────────────────


def _string_column(column: pa.Array, null: Array | None, offset: Word) -> _HashedColumn:
    """What texts or bytes add to the words of binary rows.

    Up to `INLINE_BYTES_MAX` bytes are in the column's slot; longer ones are behind the fixed part, at `offset` bytes
    from the begin of the row, and the slot has their length and offset.
    """
    data, starts, lengths = _string_buffers(column, null)
    length = int(lengths[0]) if len(lengths) else 0
    if length > INLINE_BYTES_MAX and len(lengths) >= SCALAR_ROWS_MAX and (lengths == length).all():
        return _HashedColumn(length, _word(offset), _words_of_one_length(data, length), (length + 7) & ~7)
    # Reading eight bytes from any position touches up to two words.
    words = np.zeros(len(data) // 8 + 3, np.uint64)
    words.view(np.uint8)[: len(data)] = data
    positions, shifts = starts >> 3, _shifts(starts)
    heads = _shifted(words.take(positions), words.take(positions + 1), shifts) & _first_bytes(lengths)
    inline = lengths <= INLINE_BYTES_MAX
    mark = (0x80 + lengths).astype(np.uint64) << np.uint64(56)
    length_and_offset = lengths.astype(np.uint64) | np.asarray(offset).astype(np.uint64) << np.uint64(32)
    slots = _not_null(np.where(inline, heads | mark, length_and_offset), null)
    stored = np.where(inline, 0, lengths)
    return _HashedColumn(*_halves(slots), _Strings(words, starts, stored), (stored + 7) & ~7)


def _words_of_one_length(data: Array, length: int) -> tuple[Word, ...]:
    """The variable parts of strings of `length` bytes each, at least 4, that follow one another."""
    words: list[Word] = [np.ndarray(len(data) // length, "<u4", data, at, (length,)) for at in range(0, length - 3, 4)]
    if length % 4:
        words.append(np.ndarray(len(data) // length, "<u4", data, length - 4, (length,)) >> 8 * (-length % 4))
    return (*words, *[0] * (len(words) % 2))


def _shifts(starts: Array) -> Array:
    """Bits by which eight bytes that begin at byte `starts` are after the full words."""
    return ((starts & 7) << 3).astype(np.uint64)


def _shifted(current: Array, following: Array, shifts: Array) -> Array:
    """Eight bytes that begin in the word `current`, `shifts` bits from its start, and end in `following`."""
    # numpy gives 0 for a shift of 64 bits, which is right: nothing of `following` is needed then.
    return current >> shifts | following << (np.uint64(64) - shifts)


def _first_bytes(lengths: Array) -> Array:
    """Masks that keep as many bytes of eight as the string still has."""
    return _FIRST_BYTES.take(np.minimum(lengths, 8))


def _string_buffers(column: pa.Array, null: Array | None) -> tuple[Array, Array, Array]:
    """Bytes of a string or binary column; where each value starts in them, and its length (0 for nulls)."""
    _, offsets_buffer, data_buffer = column.buffers()
    large = column.type in _LARGE
    offsets = np.frombuffer(offsets_buffer, "<i8" if large else "<i4")
    offsets = offsets[column.offset : column.offset + len(column) + 1].astype(np.int64)
    data = np.frombuffer(data_buffer or b"", np.uint8)[offsets[0] : offsets[-1]]
    offsets -= offsets[0]
    return data, offsets[:-1], _not_null(np.diff(offsets), null)


def _mix_strings(state: Array, strings: _Strings, scratch: Array) -> None:
    """Brings the states to those after the variable parts of a string column, eight bytes of all rows at a time."""
    steps = (strings.lengths + 7) >> 3
    # remaining[s]: rows that have more than s steps.
    remaining = len(steps) - np.cumsum(np.bincount(steps))
    if remaining[0] == 0:
        return
    order = slice(None) if remaining[-2] == len(steps) else _longest_first(steps)[: remaining[0]]
    ordered, starts, lengths = state[order], strings.starts[order], strings.lengths[order]
    positions, shifts = starts >> 3, _shifts(starts)
    following = strings.words.take(positions)
    for step, count in enumerate(remaining[:-1].tolist()):
        if count < SCALAR_ROWS_MAX:
            _mix_rests(ordered[:count], strings.words, starts[:count] + 8 * step, lengths[:count] - 8 * step)
            break
        current, following = following[:count], strings.words.take(positions[:count] + (step + 1))
        block = _shifted(current, following, shifts[:count])
        if remaining[step + 1] < count:
            block &= _first_bytes(lengths[:count] - 8 * step)
        low, high = _halves(block)
        mix(ordered[:count], low, *scratch[:, :count])
        mix(ordered[:count], high, *scratch[:, :count])
    state[order] = ordered


def _longest_first(steps: Array) -> Array:
    """Positions of the rows by falling number of steps."""
    keys = steps.max() - steps
    # numpy has a radix sort for 16 bits; only a chunk with a string of half a megabyte goes without.
    return np.argsort(keys.astype(np.uint16) if keys.max() < 1 << 16 else keys, kind="stable")


def _mix_rests(state: Array, words: Array, starts: Array, lengths: Array) -> None:
    """Mix what is left of a few strings into their `state`, one after the other."""
    data = words.view(np.uint8)
    for row, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist(), strict=True)):
        rest = data[start : start + length].tobytes()
        state[row] = absorbed(int(state[row]), rest.ljust(length + -length % 8, b"\0"))


# ── Other bucket functions ──────────────────────────────────────────────────────────────────────


def _mod_buckets(columns: Sequence[pa.Array], types: Sequence[DataType], bucket_count: int) -> npt.NDArray[np.int32]:
    """Floor modulo of the one integer column; null counts as 0."""
    if [_atomic(data_type).root for data_type in types] not in ([TypeRoot.INT], [TypeRoot.BIGINT]):
        raise UnsupportedError("bucket-function.type = mod takes one bucket-key column of type INT or BIGINT")
    atom = _atomic(types[0])
    column = _plain(columns[0], atom)
    values = _not_null(_values(column, _FIXED_DTYPES[atom.root]), _nulls(column))
    return np.mod(values, bucket_count).astype(np.int32)


def _hive_buckets(columns: Sequence[pa.Array], types: Sequence[DataType], bucket_count: int) -> npt.NDArray[np.int32]:
    """Hive's bucket: the columns' Java hash codes as digits of base 31."""
    atoms = [_atomic(data_type) for data_type in types]
    hashes: Array = np.zeros(1, np.uint32)
    for column, atom in zip(columns, atoms, strict=True):
        hashes = hashes * np.uint32(31) + _hive_hashes(_plain(column, atom), atom)
    return ((hashes & 0x7FFFFFFF) % np.uint32(bucket_count)).astype(np.int32)


def _hive_hashes(column: pa.Array, data_type: AtomicType) -> Array:
    """Java hash code of each value as uint32; null is 0."""
    root, null = data_type.root, _nulls(column)
    if root in FLOAT_ROOTS:
        floats = column.to_numpy(zero_copy_only=False) if null is None else column.fill_null(0).to_numpy()
        # -0.0 counts as 0, and Java has one bit pattern for NaN only.
        floats = np.where(np.isnan(floats), floats.dtype.type(np.nan), floats + floats.dtype.type(0))
        return _fold(floats.view(f"<i{floats.dtype.itemsize}"))
    if root in _FIXED_DTYPES:
        return _fold(_not_null(_values(column, _FIXED_DTYPES[root]), null))
    if root == TypeRoot.BOOLEAN:
        return _bits(column)
    if root == TypeRoot.DECIMAL:
        # One Python step per distinct value: this rare combination does not earn 128-bit arithmetic.
        distinct = column.dictionary_encode()
        codes = np.array([_java_decimal_hash(value) for value in distinct.dictionary.to_pylist()] + [0], np.uint32)
        positions: Array = distinct.indices.fill_null(len(codes) - 1).to_numpy()
        return codes[positions]
    if root in STRING_ROOTS | BINARY_ROOTS:
        return _hive_string_hashes(*_string_buffers(column, null))
    raise UnsupportedError(f"bucket-function.type = hive does not take columns of type {root}")


def _fold(values: Array) -> Array:
    """Java hash codes of integers: themselves, or the two halves of a long combined."""
    if values.dtype.itemsize < 8:
        return values.astype(np.int32).view(np.uint32)
    low, high = _halves(values)
    return low ^ high


def _hive_string_hashes(data: Array, starts: Array, lengths: Array) -> Array:
    """Sum of each value's signed bytes times falling powers of 31."""
    hashes = np.zeros(len(lengths), np.uint32)
    filled = np.flatnonzero(lengths)
    if len(filled) == 0:
        return hashes
    starts, lengths = starts[filled], lengths[filled]
    powers = np.power(np.uint32(31), np.arange(lengths.max(), dtype=np.uint32))
    # One element per byte: its value's position among the filled ones, and its own position in the value.
    value = np.repeat(np.arange(len(filled)), lengths)
    firsts = np.cumsum(lengths) - lengths
    within = np.arange(len(value)) - firsts[value]
    digits = data[starts[value] + within].view(np.int8).astype(np.int32).view(np.uint32)
    hashes[filled] = np.add.reduceat(digits * powers[lengths[value] - 1 - within], firsts)
    return hashes


def _java_decimal_hash(value: Decimal | None) -> int:
    """`BigDecimal.hashCode` of the number without trailing zeros behind the point, as an unsigned 32-bit integer."""
    if not value:
        return 0
    sign, digits, exponent = value.as_tuple()
    magnitude, scale = int("".join(map(str, digits))), -int(exponent)
    while scale > 0 and magnitude % 10 == 0:
        magnitude, scale = magnitude // 10, scale - 1
    code = 0
    for (word,) in struct.iter_unpack(">I", magnitude.to_bytes(16, "big")):
        code = 31 * code + word
    return 31 * (-code if sign else code) + scale & 0xFFFFFFFF
