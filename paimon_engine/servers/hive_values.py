"""Locations, and types and comments of columns, as a Hive metastore has them.

Source: `HiveTypeUtils`, `HiveTableUtils`, `LocationHelper` of the Java library.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, Final

from paimon_engine.errors import UnsupportedError
from paimon_engine.types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    VariantType,
    VectorType,
)

EXTERNAL: Final = "EXTERNAL_TABLE"
RETENTION: Final = (1 << 31) - 1
INPUT_FORMAT: Final = "org.apache.paimon.hive.mapred.PaimonInputFormat"
OUTPUT_FORMAT: Final = "org.apache.paimon.hive.mapred.PaimonOutputFormat"
LOCATION_PARAMETER: Final = "paimon_location"

_COLUMN_COMMENT_MAX: Final = 256
_CHAR_MAX: Final = 255
_VARCHAR_MAX: Final = 65535

_SIMPLE: Final[Mapping[TypeRoot, str]] = {
    TypeRoot.BOOLEAN: "boolean",
    TypeRoot.TINYINT: "tinyint",
    TypeRoot.SMALLINT: "smallint",
    TypeRoot.INT: "int",
    TypeRoot.BIGINT: "bigint",
    TypeRoot.FLOAT: "float",
    TypeRoot.DOUBLE: "double",
    TypeRoot.BINARY: "binary",
    TypeRoot.VARBINARY: "binary",
    TypeRoot.BLOB: "binary",
    TypeRoot.DATE: "date",
    TypeRoot.TIME: "string",
    TypeRoot.TIMESTAMP: "timestamp",
    TypeRoot.TIMESTAMP_LTZ: "timestamp with local time zone",
}


def is_paimon(entry: Any) -> bool:
    """Whether an entry is that of a Paimon table."""
    return entry.sd is not None and (entry.sd.inputFormat, entry.sd.outputFormat) == (INPUT_FORMAT, OUTPUT_FORMAT)


def plain_location(text: str | None) -> str | None:
    """A location as this engine writes paths: without the scheme on the local disk, without a slash at the end."""
    if not text:
        return None
    local = re.fullmatch(r"file:(?://)?(/.*)", text)
    return (local[1] if local else text).rstrip("/")


def full_location(path: str) -> str:
    """A path as the metastore needs it: one without a scheme would be taken to be in its own default store."""
    if "://" in path or path.startswith("file:"):
        return path
    return f"file:{os.path.abspath(path)}"


def hive_type(data_type: DataType) -> str:
    """Hive's name of a type. Raises: UnsupportedError for a type that Hive has nothing for."""
    match data_type:
        case ArrayType(element) | VectorType(element):
            return f"array<{hive_type(element)}>"
        case MapType(key, value):
            return f"map<{hive_type(key)},{hive_type(value)}>"
        case MultisetType(element):
            return f"map<{hive_type(element)},int>"
        case RowType(fields) if not isinstance(data_type, VariantType):
            return f"struct<{','.join(f'{field.name}:{hive_type(field.type)}' for field in fields)}>"
        case AtomicType(root):
            return _atomic(data_type, root)
    raise UnsupportedError(f"{data_type} cannot be the type of a column in a Hive metastore")


def _atomic(data_type: AtomicType, root: TypeRoot) -> str:
    match root:
        case TypeRoot.DECIMAL:
            return f"decimal({data_type.precision},{data_type.scale})"
        case TypeRoot.CHAR:
            return f"char({data_type.length})" if data_type.length <= _CHAR_MAX else "string"
        case TypeRoot.VARCHAR:
            return f"varchar({data_type.length})" if data_type.length <= _VARCHAR_MAX else "string"
    if root not in _SIMPLE:
        raise UnsupportedError(f"{data_type} cannot be the type of a column in a Hive metastore")
    return _SIMPLE[root]


def column(types: Any, field: DataField, comment: str | None) -> Any:
    """The metastore's entry of a column. Raises: UnsupportedError."""
    return types.FieldSchema(field.name, hive_type(field.type), comment)


def column_comment(text: str | None) -> str | None:
    """A comment as the metastore can keep it: on one line, and cut."""
    if text is None:
        return None
    line = text.replace("\n", " ").replace("\r", " ")
    return line if len(line) <= _COLUMN_COMMENT_MAX else f"{line[: _COLUMN_COMMENT_MAX - 3]}..."
