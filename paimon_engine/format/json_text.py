"""JSON text laid out as the Java library does it, so that files of equal content are equal byte by byte."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any


def pretty_json(value: Any) -> str:
    """Text of a JSON value: a line for each member of an object, arrays within the line, blanks around colons.

    A Decimal becomes a number with all its digits.
    """
    return _text(value, "")


def _text(value: Any, indent: str) -> str:
    match value:
        case Mapping():
            return _object(value, indent)
        case list() | tuple():
            return f"[ {', '.join(_text(item, indent) for item in value)} ]" if value else "[ ]"
        case Decimal():
            return f"{value:f}"
        case _:
            return json.dumps(value, ensure_ascii=False)


def _object(value: Mapping[str, Any], indent: str) -> str:
    if not value:
        return "{ }"
    inner = indent + "  "
    members = (
        f"{inner}{json.dumps(str(key), ensure_ascii=False)} : {_text(item, inner)}" for key, item in value.items()
    )
    return "{\n" + ",\n".join(members) + f"\n{indent}}}"
