"""Values out of stored records: JSON objects, and what Avro, ORC and Parquet give for a record of metadata.

Nothing in a stored record is trusted: what is taken from it is of the kind that the format says, or one of the errors
`WRONG` with the reason, for the decoder to turn into an error that names the file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from paimon_engine.errors import damaged

LONG_MAX: Final = (1 << 63) - 1
LONG_MIN: Final = -(1 << 63)
INT_MAX: Final = (1 << 31) - 1

WRONG: Final = (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError)
"""What taking apart a record of another shape raises."""


def check_row_count(path: str, found: int, declared: int | None) -> None:
    """Raises CorruptTableError if a file has another number of rows than its manifest declares, if that is known."""
    if declared is not None and found != declared:
        raise damaged(path, f"it has {found} rows, its manifest says {declared}")


def parse_object(data: str | bytes, path: str) -> dict[str, Any]:
    """The JSON object that a file consists of.

    Raises: CorruptTableError naming `path`.
    """
    try:
        value = json.loads(data if isinstance(data, str) else data.decode())
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"no JSON, {reason(error)}") from error
    if not isinstance(value, dict):
        raise damaged(path, f"expected a JSON object, found {str(value)[:40]!r}")
    return value


def reason(error: Exception) -> str:
    """Why a record cannot be parsed, for a message."""
    match error:
        case KeyError():
            return f"it has no {error}"
        case RecursionError():
            return "it is nested too deeply"
        case UnicodeDecodeError():
            return f"no UTF-8 at byte {error.start}"
        case ValueError() | TypeError():
            return str(error)
        case _:
            return repr(error)


def required_integer(record: Mapping[str, Any], key: str, low: int = LONG_MIN, high: int = LONG_MAX) -> int:
    """An integer within bounds. Raises: KeyError, ValueError."""
    return _checked_integer(record[key], key, low, high)


def integer_or_none(record: Mapping[str, Any], key: str, low: int = LONG_MIN) -> int | None:
    """An integer of 64 bits, from `low` on; None where it is missing or null. Raises: ValueError."""
    value = record.get(key)
    return None if value is None else _checked_integer(value, key, low, LONG_MAX)


def _checked_integer(value: Any, key: str, low: int, high: int) -> int:
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"{key} is {value!r}, expected an integer from {low} to {high}")
    return value


def text(record: Mapping[str, Any], key: str) -> str:
    """A text. Raises: KeyError, TypeError."""
    value = record[key]
    if not isinstance(value, str):
        raise TypeError(f"{key} is {value!r}, expected a text")
    return value


def binary(record: Mapping[str, Any], key: str) -> bytes:
    """Bytes. Raises: KeyError, TypeError."""
    value = record[key]
    if not isinstance(value, bytes):
        raise TypeError(f"{key} is {value!r}, expected bytes")
    return value


def texts(record: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """A list of texts; empty where it is missing or null. Raises: TypeError."""
    value = record.get(key)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise TypeError(f"{key} is {value!r}, expected a list of texts")
    return tuple(value)


def file_name(record: Mapping[str, Any], key: str) -> str:
    """The name of a file within its directory. Raises: KeyError, ValueError."""
    return checked_name(record[key], key)


def checked_name(value: Any, key: str) -> str:
    """The value, if it names a file in a directory: one that leads elsewhere would be read, and later deleted, there.

    Raises: ValueError.
    """
    if not isinstance(value, str) or not value.isprintable() or "/" in value or "\\" in value or value in _NO_NAMES:
        raise ValueError(f"{key} is {value!r}, which is not a file name")
    return value


_NO_NAMES: Final = frozenset({"", ".", ".."})
