"""Texts of sizes, durations and moments, as options and callers spell them: `128 mb`, `1 h`, `PT1H`, an ISO time."""

from __future__ import annotations

import operator
import re
import time
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any, Final

from paimon_engine.errors import InvalidArgumentError, shown

MIB: Final = 1 << 20
DAY_MS: Final = 86_400_000
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_SIZE_UNITS: Final = {
    "": 1, "b": 1, "bytes": 1,
    "k": 1 << 10, "kb": 1 << 10, "kibibytes": 1 << 10,
    "m": 1 << 20, "mb": 1 << 20, "mebibytes": 1 << 20,
    "g": 1 << 30, "gb": 1 << 30, "gibibytes": 1 << 30,
    "t": 1 << 40, "tb": 1 << 40, "tebibytes": 1 << 40,
}  # fmt: skip
_DURATION_UNITS_MS: Final = {
    "": 1.0, "ms": 1.0, "milli": 1.0, "millis": 1.0, "millisecond": 1.0, "milliseconds": 1.0,
    "s": 1e3, "sec": 1e3, "secs": 1e3, "second": 1e3, "seconds": 1e3,
    "m": 6e4, "min": 6e4, "minute": 6e4, "minutes": 6e4,
    "h": 3.6e6, "hour": 3.6e6, "hours": 3.6e6,
    "d": 8.64e7, "day": 8.64e7, "days": 8.64e7,
    "ns": 1e-6, "nano": 1e-6, "nanos": 1e-6, "nanosecond": 1e-6, "nanoseconds": 1e-6,
    "us": 1e-3, "µs": 1e-3, "micro": 1e-3, "micros": 1e-3, "microsecond": 1e-3, "microseconds": 1e-3,
}  # fmt: skip
_NUMBER_AND_UNIT = re.compile(r"\s*(\d{1,40})\s*([a-zµ]*)\s*", re.IGNORECASE)
_JAVA_BLANKS: Final = "".join(map(chr, range(33)))
_JAVA_END: Final = 1 << 63
_JAVA_DURATION_UNITS: Final = _DURATION_UNITS_MS.keys() - {"us"}
_ISO_DURATION = re.compile(
    r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE
)  # fmt: skip


def parse_size_bytes(text: str) -> int:
    """Bytes of a size such as `128 mb`; units are powers of 1024.

    Raises: InvalidArgumentError.
    """
    match = _NUMBER_AND_UNIT.fullmatch(text)
    if match is None or match[2].lower() not in _SIZE_UNITS:
        raise InvalidArgumentError(f"{text!r} is not a size; write e.g. '128 mb', '64 kb' or a number of bytes")
    return int(match[1]) * _SIZE_UNITS[match[2].lower()]


def java_size_bytes(text: str) -> int:
    """Bytes of a size that Java, too, can read in an option of a table.

    Raises: InvalidArgumentError.
    """
    size_bytes = parse_size_bytes(text)
    number, _ = _java_number_and_unit(text)
    if not number or size_bytes >= _JAVA_END:
        raise InvalidArgumentError(f"{text!r} is not a size that Java reads: it has no digits, or 2^63 bytes or more")
    return size_bytes


def _java_number_and_unit(text: str) -> tuple[str, str]:
    trimmed = text.strip(_JAVA_BLANKS)
    unit = trimmed.lstrip("0123456789")
    return trimmed[: len(trimmed) - len(unit)], unit.strip(_JAVA_BLANKS).lower()


def size_text(size_bytes: int) -> str:
    """Bytes as people read them, such as `1.5 MiB`."""
    value = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def parse_duration_ms(text: str) -> int:
    """Milliseconds of a duration such as `1 h`, `10 s`, `1 d` or ISO `PT1H`.

    Raises: InvalidArgumentError.
    """
    match = _NUMBER_AND_UNIT.fullmatch(text)
    if match is not None and match[2].lower() in _DURATION_UNITS_MS:
        return int(int(match[1]) * _DURATION_UNITS_MS[match[2].lower()])
    iso = _ISO_DURATION.fullmatch(text.strip())
    if iso is not None and any(iso.groups()):
        days, hours, minutes, seconds = (float(part or 0) for part in iso.groups())
        return int(days * DAY_MS + hours * 3.6e6 + minutes * 6e4 + seconds * 1e3)
    raise InvalidArgumentError(f"{text!r} is not a duration; write e.g. '1 h', '10 s' or '7 d'")


def java_duration_ms(text: str) -> int:
    """Milliseconds of a duration that Java, too, can read in an option of a table: not those of ISO.

    Raises: InvalidArgumentError, with the form that Java reads.
    """
    duration_ms = parse_duration_ms(text)
    number, unit = _java_number_and_unit(text)
    if number and unit in _JAVA_DURATION_UNITS and duration_ms < _JAVA_END:
        return duration_ms
    remedy = f"'{duration_text(duration_ms)}'" if 0 < duration_ms < _JAVA_END else "e.g. '1 h', '10 s' or '7 d'"
    raise InvalidArgumentError(f"{text[:80]!r} is not a duration that Java reads; write {remedy}")


def duration_text(duration_ms: int) -> str:
    """The duration in its largest unit, as Java reads it: `1 h`."""
    for unit, name in ((DAY_MS, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")):
        if duration_ms % unit == 0:
            return f"{duration_ms // unit} {name}"
    return f"{duration_ms} ms"


def timedelta_ms(value: timedelta) -> int:
    """Milliseconds of a length of time, also of a subclass such as pendulum's, whose division takes only integers.

    Raises: ValueError for none, as NaT of pandas.
    """
    return round(value.total_seconds() * 1_000)


def moment_ms(name: str, value: Any, *, now_ms: int, zone: tzinfo | None = None) -> int:
    """Epoch milliseconds of a moment: a datetime, an ISO text, epoch milliseconds, or an age (timedelta, or `7 d`).

    An age is counted back from `now_ms`. A time without a zone is one of `zone`, or local if that is None.

    Raises: InvalidArgumentError naming the argument.
    """
    try:
        return _moment_ms(value, now_ms, zone)
    except (ValueError, OverflowError, TypeError, InvalidArgumentError):
        raise InvalidArgumentError(
            f"{name}={shown(value)} is not a time; write a datetime, an ISO time, epoch milliseconds, or an age such "
            "as '7 d'"
        ) from None


def _moment_ms(value: Any, now_ms: int, zone: tzinfo | None) -> int:
    """Epoch milliseconds of a moment given as integer, datetime, text, or age (a duration or timedelta before now).

    A datetime without a zone is in `zone`, else local time. Raises: TypeError, ValueError.
    """
    match value:
        case bool():
            raise TypeError(value)
        case datetime():
            local = value if value.tzinfo is not None or zone is None else value.replace(tzinfo=zone)
            moment = local.astimezone(UTC)
            # Not by subtraction: what subclasses of datetime, as pendulum's, give then cannot be divided.
            seconds = (moment.hour * 60 + moment.minute) * 60 + moment.second
            days = moment.toordinal() - _EPOCH_DAY
            return days * DAY_MS + seconds * 1_000 + moment.microsecond // 1_000
        case timedelta():
            return now_ms - timedelta_ms(value)
        case str() if re.fullmatch(r"\s*-?\d+\s*", value):
            return int(value)
        case str():
            try:
                moment = datetime.fromisoformat(value.strip())
            except ValueError:
                return now_ms - parse_duration_ms(value)
            return _moment_ms(moment, now_ms, zone)
        case _:
            return operator.index(value)


def instant_text(epoch_ms: int) -> str:
    """An instant for messages, such as `2013-01-01T00:00:00.000Z`; the number itself beyond the years 1 to 9999."""
    try:
        moment = datetime.fromtimestamp(epoch_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{epoch_ms} ms"
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def local_wall_clock_ms(epoch_ms: int) -> int:
    """The local wall clock at that time, as if it were UTC: the form in which manifests store creation times."""
    return epoch_ms + time.localtime(epoch_ms // 1000).tm_gmtoff * 1000
