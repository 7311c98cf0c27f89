"""Points in time as Java's casts see them: parsed from text, written as text, moved between precisions and zones.

Inside, a timestamp is two int64 arrays: milliseconds since 1970, and the nanoseconds after them (0 to 999,999).
TIMESTAMP WITH LOCAL TIME ZONE is converted with the time zone of this process, as in Java.

Source: `DateTimeUtils`, `BinaryStringUtils`, `Timestamp` of the Java library.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Integers = npt.NDArray[np.int64]

MILLIS_PER_DAY: Final = 86_400_000
_MILLIS_PER_SECOND: Final = 1000
_NANOS_PER_MILLI: Final = 1_000_000
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - wall clock
_BLANKS: Final = "".join(map(chr, range(33)))
_PER_MILLI: Final = {"us": 1000, "ns": _NANOS_PER_MILLI}


def split_timestamps(units: Integers, unit: str) -> tuple[Integers, Integers]:
    """Milliseconds and nanoseconds after them, of timestamps counted in an Arrow unit."""
    if unit == "s":
        return units * _MILLIS_PER_SECOND, np.zeros_like(units)
    if unit == "ms":
        return units, np.zeros_like(units)
    millis, rest = np.divmod(units, _PER_MILLI[unit])
    return millis, rest * (_NANOS_PER_MILLI // _PER_MILLI[unit])


def join_timestamps(millis: Integers, nanos: Integers, unit: str) -> Integers:
    """Timestamps counted in an Arrow unit; what is finer than the unit is cut off.

    Raises: ValueError if one is outside the range of the unit.
    """
    if unit == "s":
        return millis // _MILLIS_PER_SECOND
    if unit == "ms":
        return millis
    factor = _PER_MILLI[unit]
    limit = np.iinfo(np.int64).max // factor - 1
    if len(millis) and (millis.max() > limit or millis.min() < -limit):
        raise ValueError(f"Arrow counts timestamps of this precision in {unit}, and cannot count so far from 1970")
    return millis * factor + nanos // (_NANOS_PER_MILLI // factor)


def truncate(millis: Integers, nanos: Integers, precision: int) -> tuple[Integers, Integers]:
    """Timestamps with no more than `precision` digits of the second.

    Java cuts nanoseconds off downwards, but milliseconds towards 1970.
    """
    if precision <= 3:
        return towards_zero(millis, 10 ** (3 - precision)) * 10 ** (3 - precision), np.zeros_like(nanos)
    step = 10 ** (9 - precision)
    return millis, nanos // step * step


def towards_zero(values: Integers, divisor: int) -> Integers:
    """Java's division of integers."""
    quotients: Integers = values // divisor
    quotients += (values % divisor != 0) & (values < 0)
    return quotients


# ── time zone ───────────────────────────────────────────────────────────────────────────────────


def wall_clock(millis: Integers) -> Integers:
    """What clocks in the zone of this process show at these instants."""
    return _shifted(millis, _offset_at)


def instant(millis: Integers) -> Integers:
    """Instants at which clocks in the zone of this process show these times; the earlier one of two."""
    return _shifted(millis, _offset_of_wall_clock)


def _shifted(millis: Integers, offset_of: Callable[[int], int]) -> Integers:
    if time.tzname == ("UTC", "UTC"):
        return millis
    seconds, where = np.unique(millis // _MILLIS_PER_SECOND, return_inverse=True)
    offsets = np.array([offset_of(int(second)) for second in seconds], np.int64)
    return millis + offsets[where] * _MILLIS_PER_SECOND


def _offset_at(seconds: int) -> int:
    local = datetime.fromtimestamp(seconds)  # noqa: DTZ006 - local time is wanted
    return int((local - _EPOCH).total_seconds()) - seconds


def _offset_of_wall_clock(seconds: int) -> int:
    return int((_EPOCH + timedelta(seconds=seconds)).timestamp()) - seconds


# ── to text ─────────────────────────────────────────────────────────────────────────────────────


def dates_as_text(days: pa.Array) -> pa.Array:
    """DATE → `yyyy-MM-dd`."""
    dates = days.cast(pa.date32())
    parts = [_digits(pc.year(dates), 4), _digits(pc.month(dates), 2), _digits(pc.day(dates), 2)]
    return pc.binary_join_element_wise(*parts, "-")


def times_as_text(millis: pa.Array, precision: int) -> pa.Array:
    """TIME(p), in milliseconds of the day → `HH:mm:ss` and a fraction of at least one and at most p digits."""
    clock = _clock(pc.divide(millis, _MILLIS_PER_SECOND))
    if precision == 0:
        return clock
    fraction = _digits(pc.subtract(millis, pc.multiply(pc.divide(millis, 1000), 1000)), 3)
    fraction = pc.utf8_slice_codeunits(fraction, 0, precision)
    # The first digit stays, even where it is a zero.
    rest = pc.utf8_rtrim(pc.utf8_slice_codeunits(fraction, 1), "0")
    return pc.binary_join_element_wise(clock, ".", pc.utf8_slice_codeunits(fraction, 0, 1), rest, "")


def timestamps_as_text(millis: pa.Array, nanos: pa.Array, precision: int) -> pa.Array:
    """TIMESTAMP(p) → `yyyy-MM-dd HH:mm:ss` and a fraction of nine digits less the trailing zeros beyond p."""
    day = pc.floor(pc.divide(pc.cast(millis, pa.float64()), float(MILLIS_PER_DAY))).cast(pa.int64())
    in_day = pc.subtract(millis, pc.multiply(day, MILLIS_PER_DAY))
    seconds = pc.divide(in_day, _MILLIS_PER_SECOND)
    fraction = pc.add(pc.multiply(pc.subtract(in_day, pc.multiply(seconds, 1000)), _NANOS_PER_MILLI), nanos)
    digits = _digits(fraction, 9)
    kept = pc.utf8_slice_codeunits(digits, 0, precision)
    rest = pc.utf8_rtrim(pc.utf8_slice_codeunits(digits, precision), "0")
    both = pc.binary_join_element_wise(kept, rest, "")
    point = pc.if_else(pc.equal(pc.binary_length(both), 0), "", ".")
    text = pc.binary_join_element_wise(dates_as_text(day.cast(pa.int32())), _clock(seconds), " ")
    return pc.binary_join_element_wise(text, point, both, "")


def _clock(seconds: pa.Array) -> pa.Array:
    hours = pc.divide(seconds, 3600)
    minutes = pc.subtract(pc.divide(seconds, 60), pc.multiply(hours, 60))
    rest = pc.subtract(seconds, pc.multiply(pc.divide(seconds, 60), 60))
    return pc.binary_join_element_wise(_digits(hours, 2), _digits(minutes, 2), _digits(rest, 2), ":")


def _digits(numbers: pa.Array, width: int) -> pa.Array:
    return pc.utf8_lpad(numbers.cast(pa.string()), width, "0")


# ── from text ───────────────────────────────────────────────────────────────────────────────────


def parse_date(text: str) -> int:
    """Days since 1970 of `y-M-d`, `y-M` or `y`; what follows a blank is a time, and does not matter.

    Raises: ValueError.
    """
    blank = text.find(" ")
    parts = [_number(part) for part in (text[:blank] if blank > 0 else text).split("-", 2)]
    year, month, day = (*parts, 1, 1)[:3]
    if year == 0:
        # Python has no year 0; it is a leap year, and all its days are those of 400 years later.
        return (date(400, month, day) - _EPOCH.date()).days - 146_097
    return (date(year, month, day) - _EPOCH.date()).days


def parse_time(text: str) -> int:
    """Milliseconds of `H:m:s.fff`, `H:m` or `H`, with an offset such as `+08` or, after a second, `+08:00`.

    They may be outside of a day.

    Raises: ValueError.
    """
    clock, sign, offset = text.partition("-")
    if not sign:
        clock, sign, offset = text.partition("+")
    parts = clock.split(":", 2)
    if ":" in offset and len(parts) <= 2:
        raise ValueError(text)
    minutes = _minutes(parts[:2])
    # As in Java, an offset with a plus is added and one with a minus taken off.
    if sign:
        minutes += _minutes(offset.split(":", 1)) * (1 if sign == "+" else -1)
    if len(parts) <= 2:
        return minutes * 60_000
    second, _, fraction = parts[2].partition(".")
    return (minutes * 60 + _number(second)) * 1000 + _fraction_millis(fraction.strip(_BLANKS))


def _minutes(parts: Sequence[str]) -> int:
    """Minutes of an hour and, if given, a minute."""
    return _number(parts[0]) * 60 + (_number(parts[1]) if len(parts) > 1 else 0)


def _number(text: str) -> int:
    stripped = text.strip(_BLANKS)
    if re.fullmatch(r"[0-9]+", stripped) is None or int(stripped) >= 2**31:
        raise ValueError(text)
    return int(stripped)


def _fraction_millis(digits: str) -> int:
    """Milliseconds of the digits after a point, rounded by the fourth; other characters count as zero."""
    clean = re.sub("[^0-9]", "0", digits)
    return int(clean[:3].ljust(3, "0")) + (len(digits) > 3 and digits[3] >= "5")


_TIMESTAMP: Final = re.compile(
    r"(?P<year>[0-9]{4}|\+[0-9]{5,9})-(?P<month>[0-9]+)-(?P<day>[0-9]+)"
    r"(?:[ T](?P<hour>[0-9]+):(?P<minute>[0-9]+)(?::(?P<second>[0-9]+)(?:\.(?P<fraction>[0-9]{0,9}))?)?)?"
)
_EPOCH_SCALES: Final = {0: 10**9, 3: 10**6, 6: 10**3, 9: 1}


def parse_timestamp(text: str, precision: int) -> tuple[int, int]:
    """Milliseconds and nanoseconds after them; a number alone counts units of the precision since 1970.

    `yyyy-M-d`, then `H:m:s.fraction` after a blank or a T (only there may the second be missing). Digits beyond the
    precision are cut off.

    Raises: ValueError.
    """
    if re.fullmatch(r"[0-9]+", text):
        if precision not in _EPOCH_SCALES or int(text) >= 2**63:
            raise ValueError(text)
        return divmod(int(text) * _EPOCH_SCALES[precision], _NANOS_PER_MILLI)
    match = _TIMESTAMP.fullmatch(text)
    if match is None or (match["hour"] and not match["second"] and "T" not in text):
        raise ValueError(text)
    days = _day_number(int(match["year"]), _two_digits(match["month"]), _two_digits(match["day"]))
    hour, minute, second = (_two_digits(match[part] or "00") for part in ("hour", "minute", "second"))
    nanos = int((match["fraction"] or "").ljust(9, "0"))
    at_midnight_after = (hour, minute, second, nanos) == (24, 0, 0, 0)
    if not at_midnight_after and (hour > 23 or minute > 59 or second > 59):
        raise ValueError(text)
    nanos = nanos // 10 ** (9 - precision) * 10 ** (9 - precision)
    millis = ((days * 24 + hour) * 60 + minute) * 60_000 + second * 1000
    return millis + nanos // _NANOS_PER_MILLI, nanos % _NANOS_PER_MILLI


def _two_digits(text: str) -> int:
    """One or two digits; Java also takes the number twice in a row, as in `011`."""
    if len(text) > 2 and int(text[:2]) != int(text[2:]):
        raise ValueError(text)
    return int(text[:2])


def _day_number(year: int, month: int, day: int) -> int:
    """Days since 1970; a day after the end of its month is the month's last, as long as it is no more than 31."""
    if year < 1 or not 1 <= month <= 12 or not 1 <= day <= 31:
        raise ValueError(f"{year}-{month}-{day}")
    first = np.datetime64(f"{year:04d}-{month:02d}" if year < 10_000 else f"+{year}-{month:02d}", "M")
    last = (first + 1).astype("datetime64[D]") - 1
    return int(min(first.astype("datetime64[D]") + (day - 1), last).astype(np.int64))
