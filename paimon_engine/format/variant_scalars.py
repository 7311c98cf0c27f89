"""Arrow values as the scalars of a VARIANT in its binary form: a byte with the type, then the value.

As Java Paimon reads them: integers in the fewest bytes of 1, 2, 4 and 8, decimals in those of 4, 8 and 16, and one NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from paimon_engine.format.layout import copied

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]

TRUE, FALSE, INT1, DOUBLE, DECIMAL4, DATE, TIMESTAMP, TIMESTAMP_NTZ, FLOAT, BINARY, LONG_TEXT, UUID = (
    1, 2, 3, 7, 8, 11, 12, 13, 14, 15, 16, 20,
)  # fmt: skip
"""Types of scalars; INT1 is followed by integers of 2, 4 and 8 bytes, DECIMAL4 by decimals of 8 and 16."""
SHORT_TEXT: Final = 1
_SHORT_TEXT_MAX: Final = 63
_SHIFT: Final = 2
_UUID_BYTES: Final = 16


class Scalars(NamedTuple):
    """Scalars in one byte string: where each begins, and how long it is."""

    data: Bytes
    begins: Ints
    sizes: Ints


def scalars_of(values: pa.Array) -> Scalars | None:
    """The scalars of an array without nulls; None for a type that Java puts into no VARIANT."""
    kind = values.type
    for is_kind, encode in _ENCODERS:
        if is_kind(kind):
            return encode(values)
    return None


def copy_spans(target: Bytes, begins: Ints, source: Bytes, source_begins: Ints, sizes: Ints) -> None:
    """Copies spans of one byte string into another."""
    total = int(sizes.sum())
    within = np.arange(total) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    target[np.repeat(begins, sizes) + within] = source[np.repeat(source_begins, sizes) + within]


def numbers(values: pa.Array, dtype: str) -> NDArray[Any]:
    """The stored numbers of an array without nulls, of a fixed width."""
    data = values.buffers()[1]
    width = np.dtype(dtype).itemsize
    if not len(values):
        return np.zeros(0, dtype)
    return np.frombuffer(data, dtype, len(values), values.offset * width)


def _alike(types: int | NDArray[Any], payload: Bytes, sizes: Ints | None = None) -> Scalars:
    """One scalar for each row of the payload, of which `sizes` says how many bytes are used."""
    count, width = payload.shape
    data = np.empty((count, 1 + width), np.uint8)
    data[:, 0] = np.asarray(types) << _SHIFT
    data[:, 1:] = payload
    found = np.full(count, 1 + width, np.int64) if sizes is None else 1 + sizes
    return Scalars(data.reshape(-1), np.arange(count, dtype=np.int64) * (1 + width), found)


def _as_bytes(values: NDArray[Any]) -> Bytes:
    plain = np.ascontiguousarray(values)
    return plain.view(np.uint8).reshape(len(plain), plain.itemsize)


def _booleans(values: pa.Array) -> Scalars:
    is_true = numbers(values.cast(pa.uint8()), "u1").astype(bool)
    return _alike(np.where(is_true, TRUE, FALSE), np.empty((len(values), 0), np.uint8))


def _integers(values: pa.Array) -> Scalars:
    wide = numbers(values.cast(pa.int64()), "<i8")
    steps = sum((wide != wide.astype(narrow)).astype(np.int64) for narrow in ("<i1", "<i2", "<i4"))
    return _alike(INT1 + np.asarray(steps), _as_bytes(wide), np.int64(1) << np.asarray(steps, np.int64))


def _floats(values: pa.Array) -> Scalars:
    kind, dtype = (FLOAT, "<f4") if pa.types.is_float32(values.type) else (DOUBLE, "<f8")
    found = numbers(values, dtype)
    return _alike(kind, _as_bytes(np.where(np.isnan(found), np.array(np.nan, dtype), found)))


def _dates(values: pa.Array) -> Scalars:
    return _alike(DATE, _as_bytes(numbers(values, "<i4")))


def _timestamps(values: pa.Array) -> Scalars:
    kind = TIMESTAMP_NTZ if values.type.tz is None else TIMESTAMP
    found = numbers(values, "<i8")
    match values.type.unit:
        case "s":
            found = found * 1_000_000
        case "ms":
            found = found * 1_000
        case "ns":
            found = found // 1_000
        case _:
            pass
    return _alike(kind, _as_bytes(found))


def _decimals(values: pa.Array) -> Scalars:
    scale = values.type.scale
    halves = numbers(copied(values.cast(pa.decimal128(38, scale))), "V16").view("<i8").reshape(len(values), 2)
    low = halves[:, 0]
    is_long = halves[:, 1] != low >> 63
    steps = np.zeros(len(low), np.int64)
    for digits in (9, 18):
        limit = 10**digits
        steps += is_long | (low >= limit) | (low <= -limit) | (scale > digits)
    payload = np.empty((len(low), 17), np.uint8)
    payload[:, 0] = scale
    payload[:, 1:] = _as_bytes(halves.view("V16").reshape(-1))
    return _alike(DECIMAL4 + steps, payload, 1 + (np.int64(4) << steps))


def _texts(values: pa.Array) -> Scalars:
    return _long(values, LONG_TEXT, short_max=_SHORT_TEXT_MAX)


def _binaries(values: pa.Array) -> Scalars:
    return _long(values, BINARY, short_max=-1)


def _long(values: pa.Array, kind: int, short_max: int) -> Scalars:
    source, source_begins, lengths = spans_of(values)
    heads = np.where(lengths <= short_max, 1, 5)
    sizes = heads + lengths
    begins = np.cumsum(sizes) - sizes
    data = np.empty(int(sizes.sum()), np.uint8)
    is_short = heads == 1
    data[begins] = np.where(is_short, lengths << _SHIFT | SHORT_TEXT, kind << _SHIFT)
    for index in range(4):
        data[begins[~is_short] + 1 + index] = lengths[~is_short] >> 8 * index & 255
    copy_spans(data, begins + heads, source, source_begins, lengths)
    return Scalars(data, begins, sizes)


def spans_of(values: pa.Array) -> Scalars:
    """The bytes of an array of texts or bytes without nulls."""
    if not len(values):
        return Scalars(np.zeros(0, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int64))
    is_large = values.type in (pa.large_string(), pa.large_binary())
    _, offsets, data = values.buffers()
    width = 8 if is_large else 4
    ends = np.frombuffer(offsets, f"<i{width}", len(values) + 1, values.offset * width).astype(np.int64)
    heap = np.frombuffer(data if data is not None else b"", np.uint8)[ends[0] : ends[-1]]
    return Scalars(heap, ends[:-1] - ends[0], np.diff(ends))


def _uuids(values: pa.Array) -> Scalars:
    plain = values.storage if isinstance(values, pa.ExtensionArray) else values
    return _alike(UUID, _as_bytes(numbers(plain, f"V{_UUID_BYTES}")))


def _is_uuid(kind: pa.DataType) -> bool:
    storage = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    return bool(storage == pa.binary(_UUID_BYTES))


_ENCODERS: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], Scalars]], ...]] = (
    (pa.types.is_boolean, _booleans),
    (pa.types.is_signed_integer, _integers),
    (lambda kind: pa.types.is_float32(kind) or pa.types.is_float64(kind), _floats),
    (pa.types.is_date32, _dates),
    (pa.types.is_timestamp, _timestamps),
    (lambda kind: pa.types.is_decimal(kind) and not pa.types.is_decimal256(kind), _decimals),
    (lambda kind: kind in (pa.string(), pa.large_string()), _texts),
    (lambda kind: kind in (pa.binary(), pa.large_binary()), _binaries),
    (_is_uuid, _uuids),
)
