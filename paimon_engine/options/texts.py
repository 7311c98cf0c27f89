"""Options as stored, and how their texts become values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from math import isfinite
from numbers import Number
from typing import Any, Final

from paimon_engine.errors import InvalidArgumentError, shown
from paimon_engine.options.older_names import with_newest_names
from paimon_engine.units import parse_duration_ms, parse_size_bytes

INT_MAX: Final = (1 << 31) - 1
_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]+")
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)
_DIGITS_MAX: Final = 40
"""More than any number that fits 64 bits has, and less than Python refuses to parse."""
_NAME_PART_BYTES_MAX: Final = 120
"""File names end at 255 bytes on most stores, and ids, numbers and extensions need their part of them."""


@dataclass(frozen=True)
class OptionTexts:
    """Texts by key, under its newest name.

    What cannot be parsed raises InvalidArgumentError naming its key.
    """

    raw: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "raw", with_newest_names(self.raw))

    def check(self) -> None:
        """Looks at the value of every option that has a property here.

        Raises: InvalidArgumentError naming one that cannot be parsed.
        """
        for owner in type(self).__mro__:
            for name, member in vars(owner).items():
                if isinstance(member, property):
                    getattr(self, name)

    def _int(self, key: str, default: int, *, bits: int = 32) -> int:
        text = self.raw.get(key)
        return default if text is None else integer_of(key, text, bits=bits)

    def _float(self, key: str, default: float) -> float:
        text = self.raw.get(key)
        return default if text is None else number_of(key, text)

    def _bool(self, key: str, *, default: bool) -> bool:
        text = self.raw.get(key)
        return default if text is None else boolean_of(key, text)

    def _list(self, key: str) -> tuple[str, ...]:
        return split_list(self.raw.get(key, ""))

    def _by_column(self, suffix: str) -> Mapping[str, str]:
        """Texts of the options `fields.<column>.<suffix>`, by column."""
        begin, end = "fields.", f".{suffix}"
        return {
            key[len(begin) : -len(end)]: text
            for key, text in self.raw.items()
            if key.startswith(begin) and key.endswith(end) and len(key) > len(begin) + len(end)
        }

    def _choice(self, key: str, default: str, choices: tuple[str, ...]) -> str:
        value = self.raw.get(key, default).lower()
        if value not in choices:
            raise InvalidArgumentError(f"option '{key}' = {value!r}; choose one of {', '.join(filter(None, choices))}")
        return value

    def _name_part(self, key: str, default: str) -> str:
        """A text that is used in names of files."""
        text = self.raw.get(key, default)
        if not text.isprintable() or any(char in "/\\" for char in text) or text.startswith("."):
            raise InvalidArgumentError(
                f"option '{key}' = {text[:40]!r} is used in names of files: it must not begin with a dot, nor contain "
                "separators or control characters"
            )
        if len(text.encode(errors="surrogatepass")) > _NAME_PART_BYTES_MAX:
            raise InvalidArgumentError(
                f"option '{key}' = {text[:40]!r}… is used in names of files; it is longer than "
                f"{_NAME_PART_BYTES_MAX} bytes"
            )
        return text

    def _size(self, key: str, default: int) -> int:
        text = self.raw.get(key)
        return default if text is None else named(key, text, parse_size_bytes)

    def _duration(self, key: str, default_ms: int) -> int:
        text = self.raw.get(key)
        return default_ms if text is None else named(key, text, parse_duration_ms)

    def _per_level(self, key: str) -> dict[int, str]:
        """Values such as `0:avro,5:parquet` by level."""
        try:
            pairs = [part.split(":") for part in self._list(key)]
            return {int(level): value.strip().lower() for level, value in pairs}
        except ValueError as error:
            raise InvalidArgumentError(
                f"option '{key}' = {self.raw[key]!r}; it looks like '0:avro,5:parquet'"
            ) from error


def option_texts(options: Mapping[Any, Any]) -> dict[str, str]:
    """Options that are given as Python values, as texts.

    Raises: InvalidArgumentError for a name that is not a text, and for a value that has no text of its own.
    """
    return {_name_of(name): _text_of(name, value) for name, value in options.items()}


def _name_of(name: Any) -> str:
    if not isinstance(name, str) or not name.strip():
        raise InvalidArgumentError(f"{shown(name)} is not the name of an option; write a text, such as 'bucket'")
    return name


def _text_of(name: Any, value: Any) -> str:
    # NumPy's numbers and flags have their Python value so; those of pandas are NumPy's.
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | Number | date):
        remedy = "leave it out for its default" if value is None else "write a text, a number or a boolean"
        raise InvalidArgumentError(f"option {shown(name)} = {shown(value)}: {remedy}")
    return str(value)


def boolean_of(key: str, text: str) -> bool:
    """The value of a switch. Raises: InvalidArgumentError naming the option."""
    if text.lower() not in ("true", "false"):
        raise InvalidArgumentError(f"option '{key}' = {text!r} is neither true nor false")
    return text.lower() == "true"


def integer_of(key: str, text: str, *, bits: int) -> int:
    """The value of an integer of so many bits. Raises: InvalidArgumentError naming the option."""
    # No more than Java takes: Python's own parser ignores blanks and underscores.
    if not _WHOLE_NUMBER.fullmatch(text):
        raise InvalidArgumentError(f"option '{key}' = {text!r} is not an integer; write digits only")
    end = 1 << (bits - 1)
    if len(text) > _DIGITS_MAX or not -end <= int(text) < end:
        raise InvalidArgumentError(f"option '{key}' = {text[:_DIGITS_MAX]!r} does not fit {bits} bits")
    return int(text)


def number_of(key: str, text: str) -> float:
    """The value of a number that may have a fraction. Raises: InvalidArgumentError naming the option."""
    if not _NUMBER.fullmatch(text.strip()) or not isfinite(float(text)):
        raise InvalidArgumentError(f"option '{key}' = {text[:_DIGITS_MAX]!r} is not a number; write e.g. 0.5")
    return float(text)


def named(key: str, text: str, parse: Callable[[str], int]) -> int:
    """What `parse` makes of the text of an option. Raises: InvalidArgumentError naming the option."""
    try:
        return parse(text)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"option '{key}': {error}") from error


def split_list(text: str) -> tuple[str, ...]:
    """The parts of a comma list."""
    return tuple(part.strip() for part in text.split(",") if part.strip())
