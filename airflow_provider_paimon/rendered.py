"""Values of operator fields after templates were rendered: Jinja gives texts for numbers and times too."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from paimon_engine import InvalidArgumentError
from paimon_engine.units import moment_ms as engine_moment_ms
from paimon_engine.units import parse_size_bytes

_NOTHING: Final = ("", "None", "null")
_UNIT_MS: Final = {"ms": 1, "s": 1000, "min": 60_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION: Final = re.compile(r"(\d+)\s*([a-z]+)")
_YES_NO: Final = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def number(name: str, value: Any) -> int | None:
    """A whole number; None where nothing was given.

    Raises: InvalidArgumentError.
    """
    if value is None or (isinstance(value, str) and value.strip() in _NOTHING):
        return None
    try:
        if not isinstance(value, bool | float):
            return int(value)
    except (TypeError, ValueError):
        pass
    raise InvalidArgumentError(f"{name}={value!r} is no whole number")


def numbers(name: str, value: Any) -> tuple[int, ...] | None:
    """Whole numbers: of a list, or of a text such as `0, 3`; None where nothing was given.

    Raises: InvalidArgumentError.
    """
    if isinstance(value, str):
        given = text(value)
        value = None if given is None else given.strip("[]() ").split(",")
    if value is None or isinstance(value, int):
        return None if value is None else (value,)
    found = [number(name, item) for item in value]
    if None in found:
        raise InvalidArgumentError(f"{name}={value!r} are no whole numbers")
    return tuple(item for item in found if item is not None)


def decimal_number(name: str, value: Any) -> float | None:
    """A number that need not be whole; None where nothing was given. Raises: InvalidArgumentError."""
    if text(value) is None:
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InvalidArgumentError(f"{name}={value!r} is no number") from None


def size_bytes(name: str, value: Any) -> int | None:
    """Bytes: of a number, or of a text such as `50 gb`; None where nothing was given. Raises: InvalidArgumentError."""
    given = text(value)
    if given is None:
        return None
    try:
        return parse_size_bytes(given)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{name}: {error}") from error


def flag(name: str, value: Any) -> bool:
    """A yes or no. Raises: InvalidArgumentError."""
    if isinstance(value, bool):
        return value
    found = _YES_NO.get(str(value).strip().lower())
    if found is None:
        raise InvalidArgumentError(f"{name}={value!r} is neither true nor false")
    return found


def text(value: Any) -> str | None:
    """A text; None where nothing was given."""
    return None if value is None or str(value).strip() in _NOTHING else str(value)


def duration_ms(name: str, value: Any) -> int | None:
    """A time span in milliseconds: of a timedelta, or of a text such as `36 h`; a bare number is milliseconds.

    Raises: InvalidArgumentError.
    """
    if isinstance(value, timedelta):
        return value // timedelta(milliseconds=1)
    given = text(value)
    if given is None or given.isdigit():
        return number(name, given)
    match = _DURATION.fullmatch(given.strip().lower())
    if match is None or match[2] not in _UNIT_MS:
        raise InvalidArgumentError(f"{name}={value!r} is no time span; write a timedelta, or a text such as '36 h'")
    return int(match[1]) * _UNIT_MS[match[2]]


def moment_ms(name: str, value: Any, *, now: datetime | None = None) -> int | None:
    """A moment in epoch milliseconds: of a datetime, an ISO text, epoch milliseconds, or a time span before `now`.

    A time without a zone is UTC, as elsewhere in Airflow.
    Raises: InvalidArgumentError.
    """
    if not isinstance(value, datetime | timedelta) and text(value) is None:
        return None
    moment = now or datetime.now(UTC)
    return engine_moment_ms(name, value, now_ms=int(moment.timestamp() * 1000), zone=UTC)
