"""Types as people write them: `INT`, `DECIMAL(10, 2) NOT NULL`, `ARRAY<INT>`, `ROW<a INT, b MAP<STRING, DATE>>`.

Fields of a ROW may have a comment: `ROW<a INT COMMENT 'text'>`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import accumulate
from typing import Any, Final, TypeAlias

import pyarrow as pa

from paimon_engine.arrow_types import from_arrow
from paimon_engine.errors import InvalidArgumentError
from paimon_engine.types import (
    ArrayType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VectorType,
    check_inside,
    parse_atomic,
    parse_type,
    vector_of,
    with_nullable,
)

_NESTED: Final = re.compile(
    r"\s*(?P<head>ARRAY|VECTOR|MULTISET|MAP|ROW)\s*<(?P<inside>.*)>\s*(?P<null>NOT\s+NULL|NULL)?\s*",
    re.IGNORECASE | re.DOTALL,
)
_DEPTH_MAX: Final = 64
"""Nesting of types; deeper ones are not needed, and each costs a call in every recursive function."""
_SHOWN_CHARS: Final = 60
_FIELD: Final = re.compile(
    r"\s*(?:`(?P<quoted>[^`]+)`|(?P<name>[^\s`<>,():]+))\s*(?::|\s)\s*(?P<type>.+?)"
    r"(?:\s+COMMENT\s+'(?P<comment>(?:[^']|'')*)')?\s*",
    re.IGNORECASE | re.DOTALL,
)

TypeLike: TypeAlias = str | Mapping[str, Any] | pa.DataType
"""A type as text, as the JSON of a schema file, or as an Arrow type."""


def to_data_type(value: TypeLike) -> DataType:
    """Paimon type of any form that people give it in.

    Raises: InvalidArgumentError, UnsupportedError.
    """
    if isinstance(value, pa.DataType):
        return from_arrow(value)
    if isinstance(value, str):
        return parse_type_text(value)
    try:
        return parse_type(value)
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidArgumentError(f"{value!r} is not a type as schema files store it") from error


def parse_type_text(text: str) -> DataType:
    """Type of a text; fields of rows get id −1.

    Raises: InvalidArgumentError, UnsupportedError.
    """
    if text.count("<") > _DEPTH_MAX and max(accumulate((char == "<") - (char == ">") for char in text)) > _DEPTH_MAX:
        raise InvalidArgumentError(f"{text[:_SHOWN_CHARS]!r} … nests types more than {_DEPTH_MAX} levels deep")
    match = _NESTED.fullmatch(text)
    if match is None:
        return parse_atomic(text)
    nullable = not (match["null"] or "").upper().startswith("NOT")
    parts = _split(match["inside"], text)
    head = match["head"].upper()
    if head == "ROW":
        return RowType(tuple(_field(part, text) for part in parts), nullable)
    if head == "VECTOR":
        return _vector(parts, nullable=nullable, complete_text=text)
    types = [check_inside(parse_type_text(part)) for part in parts]
    if len(types) != (2 if head == "MAP" else 1):
        raise InvalidArgumentError(
            f"{text!r} is not a Paimon type; {head} takes {'a key and a value' if head == 'MAP' else 'an element'}"
        )
    match head:
        case "ARRAY":
            return ArrayType(types[0], nullable)
        case "MULTISET":
            return MultisetType(types[0], nullable)
        case _:
            # Keys are never null, as in Arrow.
            return MapType(with_nullable(types[0], nullable=False), types[1], nullable)


def _vector(parts: list[str], *, nullable: bool, complete_text: str) -> VectorType:
    if len(parts) != 2 or not parts[1].strip().isdecimal():
        raise InvalidArgumentError(
            f"{complete_text!r} is not a Paimon type; VECTOR takes an element and a length, as in VECTOR<FLOAT, 3>"
        )
    return vector_of(parse_type_text(parts[0]), int(parts[1]), nullable=nullable)


def _field(text: str, complete_text: str) -> DataField:
    match = _FIELD.fullmatch(text)
    if match is None:
        raise InvalidArgumentError(
            f"{text.strip()!r} in {complete_text!r} is not a field; write a name and a type, as in ROW<a INT, b STRING>"
        )
    comment = None if match["comment"] is None else match["comment"].replace("''", "'")
    return DataField(-1, match["quoted"] or match["name"], check_inside(parse_type_text(match["type"])), comment)


def _split(text: str, complete_text: str) -> list[str]:
    """Parts between the commas that are in no brackets and in no quotes."""
    parts, depth, quote = [""], 0, ""
    for char in text:
        if quote or char in "'`":
            quote = "" if char == quote else quote or char
            parts[-1] += char
            continue
        depth += (char in "<(") - (char in ">)")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
        if depth < 0:
            break
    if depth != 0:
        raise InvalidArgumentError(f"{complete_text!r} is not a Paimon type; its brackets do not match")
    return parts
