"""The time that a partition's values mean.

Without a pattern it is the first partition column. With one, such as `$dt $hour:00:00`, names after `$` are replaced by
the values. The text is read by a formatter (letters as in Java: `yyyyMMdd HH`), or else as `2024-1-31`, with a time
`7:5:0` or `7:05:00.123` after it where there is one. Dates and timestamps in columns are taken as they are.

Source: `PartitionTimeExtractor` of the Java library. Differences: DATE and TIMESTAMP columns count as their ISO text,
not as the number of days that 0.9 makes of them; `$hour` never means `$h` followed by `our`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from paimon_engine.errors import InvalidArgumentError, UnsupportedError
from paimon_engine.meta.paths import partition_text
from paimon_engine.types import AtomicType, RowType, TypeRoot
from paimon_engine.units import local_wall_clock_ms

_DEFAULT: Final = re.compile(
    r"(?P<y>\d{1,10})-(?P<M>\d{1,2})-(?P<d>\d{1,2})"
    r"(?: (?P<H>\d{1,2}):(?P<m>\d{1,2}):(?P<s>\d{1,2})(?:\.(?P<S>\d{1,9}))?)?"
)
_FIELDS: Final = {"y": "y", "u": "y", "M": "M", "d": "d", "H": "H", "m": "m", "s": "s", "S": "S"}
_LETTERS: Final = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|.", re.DOTALL)
_LIMITS: Final = {"M": (1, 12), "d": (1, 31), "H": (0, 23), "m": (0, 59), "s": (0, 59)}
_DAYS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_RESERVED: Final = frozenset("[]{}#")
"""Optional parts, and what Java keeps for the future."""

_TWO_DIGITS: Final = 2
_CENTURY: Final = 2000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def partition_time(
    partition_type: RowType, values: Sequence[Any], *, pattern: str | None, formatter: str | None
) -> datetime | None:
    """Wall clock of a partition, as if it were UTC, its internal values given; None where they mean no time.

    Raises: InvalidArgumentError, UnsupportedError for a formatter as in `check_formatter`.
    """
    if pattern is None:
        first = partition_type.fields[0]
        if values[0] is None:
            return None
        moment = _as_moment(first.type, values[0])
        return moment if moment is not None else _parsed(_text(first.type, values[0]), formatter)
    texts = {
        field.name: None if value is None else _text(field.type, value)
        for field, value in zip(partition_type, values, strict=True)
    }
    names = "|".join(re.escape(name) for name in sorted(texts, key=len, reverse=True))
    used = re.findall(rf"\$({names})", pattern)
    if any(texts[name] is None for name in used):
        return None
    return _parsed(re.sub(rf"\$({names})", lambda match: str(texts[match[1]]), pattern), formatter)


def _text(data_type: Any, value: Any) -> str:
    return partition_text(data_type, value, legacy_name=False)


def _as_moment(data_type: Any, value: Any) -> datetime | None:
    """The moment that a DATE or TIMESTAMP is; None for other types, and outside the years 1 to 9999."""
    assert isinstance(data_type, AtomicType)
    try:
        match data_type.root:
            case TypeRoot.DATE:
                return _EPOCH + timedelta(days=int(value))
            case TypeRoot.TIMESTAMP:
                return _EPOCH + timedelta(microseconds=int(value) // 1000)
            case TypeRoot.TIMESTAMP_LTZ:
                return local_moment(int(value) // 1_000_000)
    except OverflowError:
        return None
    return None


def local_moment(epoch_ms: int) -> datetime:
    """The local wall clock at that time, as if it were UTC."""
    return _EPOCH + timedelta(milliseconds=local_wall_clock_ms(epoch_ms))


def _parsed(text: str, formatter: str | None) -> datetime | None:
    """The wall clock that a text means, as if it were UTC; None if it does not match, or means no day of the calendar.

    Without a formatter, numbers that are too large are carried: month 13 is January of the next year.
    """
    match = (_DEFAULT if formatter is None else _expression(formatter)).fullmatch(text)
    if match is None:
        return None
    found = match.groupdict()
    if any(found.get(name) is None for name in "yMd"):
        return None
    numbers = {name: int(found.get(name) or 0) for name in "yMdHms"}
    fraction = int((found.get("S") or "").ljust(9, "0")[:6] or 0)
    try:
        if formatter is None:
            return _lenient(numbers, fraction)
        if len(found["y"]) == _TWO_DIGITS:
            numbers["y"] += _CENTURY
        return _smart(numbers, fraction)
    except (ValueError, OverflowError):
        return None


def _lenient(numbers: dict[str, int], fraction: int) -> datetime:
    """Month 13 is January of the next year, and so on."""
    years, month = divmod(numbers["M"] - 1, 12)
    begin = datetime(numbers["y"] + years, month + 1, 1, tzinfo=UTC)
    time_of_day = timedelta(hours=numbers["H"], minutes=numbers["m"], seconds=numbers["s"], microseconds=fraction)
    return begin + timedelta(days=numbers["d"] - 1) + time_of_day


def _smart(numbers: dict[str, int], fraction: int) -> datetime | None:
    """February 31 is the last day of February; month 13 is none."""
    if any(not low <= numbers[name] <= high for name, (low, high) in _LIMITS.items()):
        return None
    year, month = numbers["y"], numbers["M"]
    is_leap = month == 2 and (year % 4 == 0 and (year % 100 != 0 or year % 400 == 0))
    day = min(numbers["d"], _DAYS[month - 1] + is_leap)
    return datetime(year, month, day, numbers["H"], numbers["m"], numbers["s"], fraction, UTC)


def check_formatter(formatter: str) -> None:
    """Raises InvalidArgumentError for a formatter that means nothing, UnsupportedError for one of Java's alone."""
    _expression(formatter)


@lru_cache(maxsize=16)
def _expression(formatter: str) -> re.Pattern[str]:
    """The formatter as an expression with a group for each field.

    Raises: InvalidArgumentError, UnsupportedError.
    """
    what = f"'partition.timestamp-formatter' = {formatter!r}"
    parts: list[str] = []
    for match in _LETTERS.finditer(formatter):
        text = match[0]
        if text == "'":
            raise InvalidArgumentError(f"{what} has a quote that does not end; write '' for a quote in the text")
        if text in _RESERVED:
            raise UnsupportedError(f"{what}: {text!r} has a meaning in Java that is not supported; quote it")
        if match[1] is None:
            literal = text[1:-1].replace("''", "'") or "'" if text.startswith("'") else text
            parts.append(re.escape(literal))
            continue
        name, width = _FIELDS.get(text[0]), len(text)
        if name is None or any(f"?P<{name}>" in part for part in parts) or (name == "M" and width > _TWO_DIGITS):
            raise UnsupportedError(f"{what}: {text!r} is not supported; use y, M, d, H, m, s and S, each once")
        parts.append(f"(?P<{name}>{_digits(name, width)})")
    return re.compile("".join(parts))


def _digits(name: str, width: int) -> str:
    if name == "y" and width > _TWO_DIGITS:
        return rf"\d{{{width},10}}"
    return r"\d{1,10}" if width == 1 else rf"\d{{{width}}}"
