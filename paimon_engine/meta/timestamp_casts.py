"""Casts between timestamps, dates, times, numbers of seconds, and from text to timestamps.

Source: `TimestampToTimestampCastRule` and its neighbours, `DateTimeUtils` of the Java library.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.meta import cast_time
from paimon_engine.meta.nested import plain_numbers
from paimon_engine.types import AtomicType, TypeRoot, to_arrow

_YEAR_ONE: Final = -62_135_596_800
"""Seconds of the first moment that has a date in Java, relative to 1970."""


def moments(values: pa.Array) -> tuple[cast_time.Integers, cast_time.Integers, npt.NDArray[np.bool_]]:
    """Milliseconds and nanoseconds of timestamps, and where the nulls are."""
    units, mask = plain_numbers(values.view(pa.int64()))
    return *cast_time.split_timestamps(units, values.type.unit), mask


def _timestamps(
    millis: cast_time.Integers, nanos: cast_time.Integers, mask: npt.NDArray[np.bool_], target: AtomicType
) -> pa.Array:
    arrow_type = to_arrow(target)
    return pa.array(cast_time.join_timestamps(millis, nanos, arrow_type.unit), pa.int64(), mask=mask).view(arrow_type)


def text_to_timestamp(values: pa.Array, target: AtomicType) -> pa.Array:
    """Text as timestamps; see `cast_time.parse_timestamp` for the forms. Raises: ValueError."""
    usual = r"^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?$"
    if pc.all(pc.match_substring_regex(values, usual), min_count=0).as_py():
        try:
            return _usualtext_to_timestamp(values, target)
        except pa.ArrowInvalid:
            # A day or an hour beyond the end, which Java may still take.
            pass
    encoded = values.dictionary_encode()
    parsed = []
    for text in encoded.dictionary.to_pylist():
        try:
            parsed.append(cast_time.parse_timestamp(text, target.precision))
        except ValueError as error:
            raise ValueError(f"{text!r} does not fit") from error
    millis, nanos = np.array(parsed, np.int64).reshape(-1, 2).T
    if target.root is TypeRoot.TIMESTAMP_LTZ:
        millis = cast_time.instant(millis)
    return _timestamps(millis, nanos, np.zeros(len(millis), np.bool_), target).take(encoded.indices)


def _usualtext_to_timestamp(values: pa.Array, target: AtomicType) -> pa.Array:
    seconds, mask = plain_numbers(pc.utf8_slice_codeunits(values, 0, 19).cast(pa.timestamp("s")).view(pa.int64()))
    fraction, _ = plain_numbers(pc.utf8_rpad(pc.utf8_slice_codeunits(values, 20), 9, "0").cast(pa.int64()))
    if (seconds[~mask] < _YEAR_ONE).any():
        raise pa.ArrowInvalid("year 0")
    step = 10 ** (9 - target.precision)
    millis, nanos = np.divmod(fraction // step * step, 1_000_000)
    millis += seconds * 1000
    if target.root is TypeRoot.TIMESTAMP_LTZ:
        millis = cast_time.instant(millis)
    return _timestamps(millis, nanos, mask, target)


def timestamp_to_timestamp(values: pa.Array, source: AtomicType, target: AtomicType) -> pa.Array:
    """Another precision, downwards by cutting digits off; another root by the zone of this process."""
    millis, nanos, mask = moments(values)
    if source.root is not target.root:
        move = cast_time.instant if target.root is TypeRoot.TIMESTAMP_LTZ else cast_time.wall_clock
        millis = move(millis)
    if source.precision > target.precision:
        millis, nanos = cast_time.truncate(millis, nanos, target.precision)
    return _timestamps(millis, nanos, mask, target)


def timestamp_to_date(values: pa.Array, source: AtomicType, _target: AtomicType) -> pa.Array:
    """Days, towards 1970; of TIMESTAMP_LTZ the days of the zone's calendar."""
    millis, _, mask = moments(values)
    if source.root is TypeRoot.TIMESTAMP_LTZ:
        days = cast_time.wall_clock(millis) // cast_time.MILLIS_PER_DAY
    else:
        days = cast_time.towards_zero(millis, cast_time.MILLIS_PER_DAY)
    return pa.array(days.astype(np.int32), mask=mask).view(pa.date32())


def timestamp_to_time(values: pa.Array, source: AtomicType, target: AtomicType) -> pa.Array:
    """Milliseconds of the day."""
    millis, _, mask = moments(values)
    if source.root is TypeRoot.TIMESTAMP_LTZ:
        millis = cast_time.wall_clock(millis)
    # 0.9 gives negative times before 1970, which nothing can show; this is what later releases give.
    return pa.array((millis % cast_time.MILLIS_PER_DAY).astype(np.int32), mask=mask).view(to_arrow(target))


def timestamp_to_integers(values: pa.Array, _source: AtomicType, target: AtomicType) -> pa.Array:
    """Seconds, towards 1970."""
    millis, _, mask = moments(values)
    seconds = cast_time.towards_zero(millis, 1000)
    arrow_type = to_arrow(target)
    return pa.array(seconds.astype(arrow_type.to_pandas_dtype()), arrow_type, mask=mask)


def integers_to_timestamp(values: pa.Array, _source: AtomicType, target: AtomicType) -> pa.Array:
    """Timestamps of seconds."""
    numbers, mask = plain_numbers(values)
    millis = numbers.astype(np.int64) * 1000
    if target.root is TypeRoot.TIMESTAMP_LTZ:
        # As in Java, which takes the wall clock of the zone for the instant.
        millis = cast_time.wall_clock(millis)
    return _timestamps(millis, np.zeros_like(millis), mask, target)


def date_to_timestamp(values: pa.Array, _source: AtomicType, target: AtomicType) -> pa.Array:
    """Midnights."""
    days, mask = plain_numbers(values.view(pa.int32()))
    millis = days.astype(np.int64) * cast_time.MILLIS_PER_DAY
    if target.root is TypeRoot.TIMESTAMP_LTZ:
        millis = cast_time.instant(millis)
    return _timestamps(millis, np.zeros_like(millis), mask, target)


def time_to_timestamp(values: pa.Array, _source: AtomicType, target: AtomicType) -> pa.Array:
    """Times on the first of January 1970."""
    numbers, mask = plain_numbers(values.view(pa.int32()))
    millis = numbers.astype(np.int64)
    return _timestamps(millis, np.zeros_like(millis), mask, target)
