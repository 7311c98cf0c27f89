"""Single values in Iceberg's metadata: bounds as bytes, and partition values as Avro has them.

Values of partitions are numbers and texts here, not dates and times: `avro_value` makes them of internal values,
`stored_value` of what an Avro reader returns.

Source: `IcebergConversions`, `AvroSchemaConverter` of the Java library.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final

from paimon_engine.errors import UnsupportedError
from paimon_engine.format.binary_row import minimal_length, unscaled_value
from paimon_engine.types import STRING_ROOTS, TIMESTAMP_ROOTS, AtomicType, DataType, TypeRoot

_NANOS_PER_MICRO: Final = 1_000
_MICROS_PER_MILLI: Final = 1_000
_MILLIS_DIGITS: Final = 3
_MICROS_DIGITS: Final = 6
_FORMS: Final[Mapping[TypeRoot, str]] = {
    TypeRoot.BOOLEAN: "<?",
    TypeRoot.TINYINT: "<i",
    TypeRoot.SMALLINT: "<i",
    TypeRoot.INT: "<i",
    TypeRoot.DATE: "<i",
    TypeRoot.BIGINT: "<q",
    TypeRoot.FLOAT: "<f",
    TypeRoot.DOUBLE: "<d",
}
_AVRO: Final[Mapping[TypeRoot, Any]] = {
    TypeRoot.BOOLEAN: "boolean",
    TypeRoot.TINYINT: "int",
    TypeRoot.SMALLINT: "int",
    TypeRoot.INT: "int",
    TypeRoot.BIGINT: "long",
    TypeRoot.FLOAT: "float",
    TypeRoot.DOUBLE: "double",
    TypeRoot.DATE: {"type": "int", "logicalType": "date"},
    TypeRoot.TIME: {"type": "int", "logicalType": "time-millis"},
    TypeRoot.CHAR: "string",
    TypeRoot.VARCHAR: "string",
    TypeRoot.BINARY: "bytes",
    TypeRoot.VARBINARY: "bytes",
}


def bound(data_type: DataType, value: Any) -> bytes | None:
    """Bytes of an internal value; None for types without bounds, such as timestamps of nanoseconds."""
    if value is None or not isinstance(data_type, AtomicType):
        return None
    root = data_type.root
    if root in _FORMS:
        return struct.pack(_FORMS[root], value)
    if root in STRING_ROOTS:
        return str(value).encode()
    if root == TypeRoot.DECIMAL:
        unscaled = unscaled_value(value, data_type)
        return unscaled.to_bytes(minimal_length(unscaled), "big", signed=True)
    if root == TypeRoot.TIME:
        return struct.pack("<q", value * _MICROS_PER_MILLI)
    if root in TIMESTAMP_ROOTS:
        return struct.pack("<q", value // _NANOS_PER_MICRO) if data_type.precision <= _MICROS_DIGITS else None
    return bytes(value)


def avro_type(data_type: DataType, name: str) -> Any:
    """The Avro type of a partition column. Raises: UnsupportedError naming the column."""
    if not isinstance(data_type, AtomicType) or _is_too_fine(data_type):
        raise UnsupportedError(
            f"partition column {name!r} has a type that Iceberg's manifests cannot have; set "
            "'metadata.iceberg.storage' = 'disabled'"
        )
    kind: Any
    if data_type.root == TypeRoot.DECIMAL:
        kind = {
            "type": "bytes",
            "logicalType": "decimal",
            "precision": data_type.precision,
            "scale": data_type.scale,
        }
    elif data_type.root in TIMESTAMP_ROOTS:
        unit = "millis" if data_type.precision <= _MILLIS_DIGITS else "micros"
        local = "" if data_type.root == TypeRoot.TIMESTAMP else "local-"
        kind = {"type": "long", "logicalType": f"{local}timestamp-{unit}"}
    else:
        kind = _AVRO[data_type.root]
    return ["null", kind] if data_type.nullable else kind


def _is_too_fine(data_type: AtomicType) -> bool:
    limit = _MILLIS_DIGITS if data_type.root == TypeRoot.TIME else _MICROS_DIGITS
    return data_type.root in (TypeRoot.TIME, *TIMESTAMP_ROOTS) and data_type.precision > limit


def avro_value(data_type: DataType, value: Any) -> Any:
    """A partition value, from the internal one."""
    if value is None or not isinstance(data_type, AtomicType) or data_type.root not in TIMESTAMP_ROOTS:
        return value
    micros = value // _NANOS_PER_MICRO
    return micros // _MICROS_PER_MILLI if data_type.precision <= _MILLIS_DIGITS else micros


def internal_value(data_type: DataType, value: Any) -> Any:
    """The internal value: the inverse of `avro_value`."""
    if value is None or not isinstance(data_type, AtomicType) or data_type.root not in TIMESTAMP_ROOTS:
        return value
    micros = value * _MICROS_PER_MILLI if data_type.precision <= _MILLIS_DIGITS else value
    return micros * _NANOS_PER_MICRO


def stored_value(data_type: DataType, value: Any) -> Any:
    """A partition value, from what an Avro reader makes of its bytes."""
    if isinstance(value, datetime):
        begin = datetime(1970, 1, 1, tzinfo=UTC)
        micros = (value.replace(tzinfo=UTC) - begin) // timedelta(microseconds=1)
        is_millis = isinstance(data_type, AtomicType) and data_type.precision <= _MILLIS_DIGITS
        return micros // _MICROS_PER_MILLI if is_millis else micros
    if isinstance(value, date):
        return value.toordinal() - date(1970, 1, 1).toordinal()
    if isinstance(value, time):
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return seconds * 1_000 + value.microsecond // _MICROS_PER_MILLI
    return Decimal(value) if isinstance(value, Decimal) else value
