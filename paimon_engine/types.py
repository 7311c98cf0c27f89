"""Paimon's data types: their text and JSON forms, and their Arrow counterparts.

1. `parse_type` reads the form stored in a schema file: a string for atomic types, an object for nested ones.
2. `type_to_json` writes that form again.
3. `to_arrow` and `from_arrow` map to Arrow types; both directions keep nullability in `pa.Field`.

Source: `DataTypeJsonParser`, `DataTypes` and `ArrowFieldTypeConversion` of the Java library.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, Final

import pyarrow as pa

from paimon_engine.arrow_variant import ARROW_VARIANT
from paimon_engine.errors import InvalidArgumentError, UnsupportedError

MAX_DECIMAL_PRECISION = 38
MAX_LENGTH = 2147483647
"""Length of STRING and BYTES, the unbounded forms of VARCHAR and VARBINARY."""


class TypeRoot(StrEnum):
    """The kinds of atomic types, spelled as in schema files."""

    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INT"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DECIMAL = "DECIMAL"
    CHAR = "CHAR"
    VARCHAR = "VARCHAR"
    BINARY = "BINARY"
    VARBINARY = "VARBINARY"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMP_LTZ = "TIMESTAMP_LTZ"
    BLOB = "BLOB"


@dataclass(frozen=True, slots=True)
class AtomicType:
    """An atomic type.

    `length` belongs to CHAR, VARCHAR, BINARY and VARBINARY (code points or bytes);
    `precision` to DECIMAL (digits), TIME and the timestamps (digits of the second); `scale` to DECIMAL.
    """

    root: TypeRoot
    nullable: bool = True
    length: int = 0
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True, slots=True)
class ArrayType:
    """ARRAY of `element`."""

    element: DataType
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class VectorType:
    """VECTOR of `length` numbers or booleans of the type `element`, none of them null; in files an array."""

    element: DataType
    length: int
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class MapType:
    """MAP from `key` to `value`."""

    key: DataType
    value: DataType
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class MultisetType:
    """MULTISET of `element`; stored as a map from element to its count."""

    element: DataType
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class RowType:
    """ROW of named fields; also the type of a whole table."""

    fields: tuple[DataField, ...]
    nullable: bool = True
    _by_name: Mapping[str, DataField] | None = dataclasses.field(default=None, init=False, repr=False, compare=False)
    """Made when a field is first looked up: tables have up to thousands of columns."""

    def __iter__(self) -> Iterator[DataField]:
        return iter(self.fields)

    def __contains__(self, name: object) -> bool:
        """Whether there is a field of that name."""
        return name in self._named()

    @property
    def names(self) -> tuple[str, ...]:
        """Field names in order."""
        return tuple(field.name for field in self.fields)

    def field(self, name: str) -> DataField:
        """The field of that name.

        Raises: InvalidArgumentError naming the columns that exist.
        """
        found = self._named().get(name)
        if found is None:
            raise missing_column(name, self.names)
        return found

    def project(self, names: tuple[str, ...]) -> RowType:
        """The fields of those names, in that order.

        Raises: InvalidArgumentError naming the columns that exist.
        """
        return RowType(tuple(self.field(name) for name in names), self.nullable)

    def _named(self) -> Mapping[str, DataField]:
        if self._by_name is None:
            # The first of a name counts. Threads may make it side by side, but see none that is half made.
            object.__setattr__(self, "_by_name", {field.name: field for field in reversed(self.fields)})
        assert self._by_name is not None
        return self._by_name


def missing_column(name: str, names: Sequence[str], purpose: str = "") -> InvalidArgumentError:
    """The error that a column does not exist, with those that do; names in another case, or nearly the same, first."""
    lower = {known.lower(): known for known in names}
    near = [lower[name.lower()]] if name.lower() in lower else get_close_matches(name, names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ";"
    what = f"no column {name!r}{f' {purpose}' if purpose else ''}"
    return InvalidArgumentError(f"{what}{hint} the columns are {', '.join(names)}")


DataType = AtomicType | ArrayType | VectorType | MapType | MultisetType | RowType


@dataclass(frozen=True, slots=True)
class DataField:
    """A column, or a field of a ROW. `id` is unique in a table and never used again.

    `unknown` has fields of later releases, as pairs of a key and JSON text; it plays no part in comparisons.
    """

    id: int
    name: str
    type: DataType
    description: str | None = None
    default_value: str | None = None
    unknown: tuple[tuple[str, str], ...] = dataclasses.field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class VariantType(RowType):
    """VARIANT: a value of any shape; stored, and in Arrow, a row of two binary columns (`arrow_variant`)."""

    fields: tuple[DataField, ...] = (
        DataField(0, "value", AtomicType(TypeRoot.VARBINARY, nullable=False, length=MAX_LENGTH)),
        DataField(1, "metadata", AtomicType(TypeRoot.VARBINARY, nullable=False, length=MAX_LENGTH)),
    )


INTEGER_ROOTS = frozenset({TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT})
FLOAT_ROOTS = frozenset({TypeRoot.FLOAT, TypeRoot.DOUBLE})
_NUMERIC_ROOTS = INTEGER_ROOTS | FLOAT_ROOTS | {TypeRoot.DECIMAL}
_VECTOR_ROOTS = INTEGER_ROOTS | FLOAT_ROOTS | {TypeRoot.BOOLEAN}
STRING_ROOTS = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
BINARY_ROOTS = frozenset({TypeRoot.BINARY, TypeRoot.VARBINARY, TypeRoot.BLOB})
TIMESTAMP_ROOTS = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})

_UNSUPPORTED_ROOTS = frozenset({"GEOMETRY", "GEOGRAPHY"})
_PLAIN = {
    "BOOLEAN": TypeRoot.BOOLEAN,
    "TINYINT": TypeRoot.TINYINT,
    "SMALLINT": TypeRoot.SMALLINT,
    "INT": TypeRoot.INT,
    "INTEGER": TypeRoot.INT,
    "BIGINT": TypeRoot.BIGINT,
    "FLOAT": TypeRoot.FLOAT,
    "DOUBLE": TypeRoot.DOUBLE,
    "DOUBLE PRECISION": TypeRoot.DOUBLE,
    "DATE": TypeRoot.DATE,
    "BLOB": TypeRoot.BLOB,
}
_SIZED = {
    "CHAR": (TypeRoot.CHAR, 1),
    "VARCHAR": (TypeRoot.VARCHAR, 1),
    "STRING": (TypeRoot.VARCHAR, MAX_LENGTH),
    "BINARY": (TypeRoot.BINARY, 1),
    "VARBINARY": (TypeRoot.VARBINARY, 1),
    "BYTES": (TypeRoot.VARBINARY, MAX_LENGTH),
}
_TIMED = {
    "TIME": (TypeRoot.TIME, 0),
    "TIME WITHOUT TIME ZONE": (TypeRoot.TIME, 0),
    "TIMESTAMP": (TypeRoot.TIMESTAMP, 6),
    "TIMESTAMP WITHOUT TIME ZONE": (TypeRoot.TIMESTAMP, 6),
    "TIMESTAMP WITH LOCAL TIME ZONE": (TypeRoot.TIMESTAMP_LTZ, 6),
    "TIMESTAMP_LTZ": (TypeRoot.TIMESTAMP_LTZ, 6),
}
_VARIANT = "VARIANT"
_DECIMALS = frozenset({"DECIMAL", "DEC", "NUMERIC"})

_ATOMIC = re.compile(
    r"\s*(?P<head>[A-Z_]+(?:\s+PRECISION)?)\s*(?:\(\s*(?P<a>\d+)\s*(?:,\s*(?P<b>\d+)\s*)?\))?"
    r"\s*(?P<zone>WITH\s+LOCAL\s+TIME\s+ZONE|WITHOUT\s+TIME\s+ZONE)?"
    r"\s*(?P<null>NOT\s+NULL|NULL)?\s*",
    re.IGNORECASE,
)


def parse_atomic(text: str) -> AtomicType | VariantType:
    """Type of a string such as `DECIMAL(10, 2) NOT NULL`; keywords in any case.

    Raises: UnsupportedError for types that the engine lacks, InvalidArgumentError for text that is not a type.
    """
    match = _ATOMIC.fullmatch(text)
    if match is None:
        raise _no_type(text)
    name = " ".join(part.upper() for part in f"{match['head']} {match['zone'] or ''}".split())
    nullable = not (match["null"] or "").upper().startswith("NOT")
    first = int(match["a"]) if match["a"] else None
    second = int(match["b"]) if match["b"] else None
    if name in _UNSUPPORTED_ROOTS:
        raise UnsupportedError(f"type {name} is not supported yet (in {text!r})")
    if name == _VARIANT and first is None:
        return VariantType(nullable=nullable)
    if name in _DECIMALS:
        return AtomicType(TypeRoot.DECIMAL, nullable, precision=10 if first is None else first, scale=second or 0)
    if second is None and name in _PLAIN and first is None:
        return AtomicType(_PLAIN[name], nullable)
    if second is None and name in _SIZED:
        root, length = _SIZED[name]
        return AtomicType(root, nullable, length=length if first is None else first)
    if second is None and name in _TIMED:
        root, precision = _TIMED[name]
        return AtomicType(root, nullable, precision=precision if first is None else first)
    raise _no_type(text)


def _no_type(text: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{text!r} is not a Paimon type; use e.g. INT, BIGINT NOT NULL, DECIMAL(10, 2), STRING, TIMESTAMP(6)"
    )


def parse_type(value: str | Mapping[str, Any]) -> DataType:
    """Type of the JSON form in a schema file.

    Raises: UnsupportedError, InvalidArgumentError.
    """
    if isinstance(value, str):
        return parse_atomic(value)
    head = str(value["type"]).upper().split()
    nullable = "NOT" not in head[1:]
    match head[0]:
        case "ARRAY":
            return ArrayType(_inside(value["element"]), nullable)
        case "VECTOR":
            return vector_of(parse_type(value["element"]), int(value["length"]), nullable=nullable)
        case "MAP":
            return MapType(_inside(value["key"]), _inside(value["value"]), nullable)
        case "MULTISET":
            return MultisetType(_inside(value["element"]), nullable)
        case "ROW":
            fields = tuple(parse_field(field) for field in value["fields"])
            for field in fields:
                check_inside(field.type)
            return RowType(fields, nullable)
        case other:
            raise UnsupportedError(f"nested type {other} is not supported")


def _inside(value: str | Mapping[str, Any]) -> DataType:
    return check_inside(parse_type(value))


def vector_of(element: DataType, length: int, *, nullable: bool) -> VectorType:
    """The type.

    Raises: InvalidArgumentError for other elements, and for a length below 1.
    """
    if not (isinstance(element, AtomicType) and element.root in _VECTOR_ROOTS):
        raise InvalidArgumentError(
            f"the element of a VECTOR is one of {', '.join(sorted(_VECTOR_ROOTS))}, not {type_to_json(element)}"
        )
    if not 1 <= length <= MAX_LENGTH:
        raise InvalidArgumentError(f"a VECTOR has 1 to {MAX_LENGTH} elements, not {length}")
    return VectorType(element, length, nullable)


def check_inside(data_type: DataType) -> DataType:
    """The type of a part of another. Raises: UnsupportedError for a VECTOR and a BLOB, which only columns are."""
    if isinstance(data_type, VectorType):
        raise UnsupportedError("a VECTOR inside of another type is not supported; use an ARRAY there")
    if is_blob(data_type):
        raise UnsupportedError("a BLOB inside of another type (ARRAY, MAP) is not supported yet; use BYTES there")
    return data_type


_FIELD_KEYS: Final = frozenset({"id", "name", "type", "description", "defaultValue"})


def parse_field(value: Mapping[str, Any]) -> DataField:
    """Field of its JSON form; a missing id becomes −1."""
    return DataField(
        id=int(value.get("id", -1)),
        name=value["name"],
        type=parse_type(value["type"]),
        description=value.get("description"),
        default_value=value.get("defaultValue"),
        unknown=tuple((key, json.dumps(item)) for key, item in value.items() if key not in _FIELD_KEYS),
    )


def type_to_json(data_type: DataType) -> str | dict[str, Any]:
    """JSON form of a type, spelled as the Java library spells it."""
    suffix = "" if data_type.nullable else " NOT NULL"
    match data_type:
        case AtomicType():
            return _atomic_text(data_type) + suffix
        case VariantType():
            return _VARIANT + suffix
        case ArrayType(element):
            return {"type": "ARRAY" + suffix, "element": type_to_json(element)}
        case VectorType(element, length):
            return {"type": "VECTOR" + suffix, "element": type_to_json(element), "length": length}
        case MultisetType(element):
            return {"type": "MULTISET" + suffix, "element": type_to_json(element)}
        case MapType(key, value):
            return {"type": "MAP" + suffix, "key": type_to_json(key), "value": type_to_json(value)}
        case RowType(fields):
            return {"type": "ROW" + suffix, "fields": [field_to_json(field) for field in fields]}


def field_to_json(field: DataField) -> dict[str, Any]:
    """JSON form of a field; absent description and default are left out."""
    out: dict[str, Any] = {"id": field.id, "name": field.name, "type": type_to_json(field.type)}
    if field.description is not None:
        out["description"] = field.description
    if field.default_value is not None:
        out["defaultValue"] = field.default_value
    return out | {key: json.loads(text) for key, text in field.unknown}


def _atomic_text(data_type: AtomicType) -> str:
    """The type as Paimon's schemas spell it, without `NOT NULL`."""
    match data_type.root:
        case TypeRoot.DECIMAL:
            return f"DECIMAL({data_type.precision}, {data_type.scale})"
        case TypeRoot.VARCHAR if data_type.length == MAX_LENGTH:
            return "STRING"
        case TypeRoot.VARBINARY if data_type.length == MAX_LENGTH:
            return "BYTES"
        case TypeRoot.CHAR | TypeRoot.VARCHAR | TypeRoot.BINARY | TypeRoot.VARBINARY:
            return f"{data_type.root}({data_type.length})"
        case TypeRoot.TIME | TypeRoot.TIMESTAMP:
            return f"{data_type.root}({data_type.precision})"
        case TypeRoot.TIMESTAMP_LTZ:
            return f"TIMESTAMP({data_type.precision}) WITH LOCAL TIME ZONE"
        case _:
            return str(data_type.root)


def with_nullable(data_type: DataType, *, nullable: bool) -> DataType:
    """The same type with that nullability."""
    return replace(data_type, nullable=nullable)


def atomic_types(data_type: DataType) -> Iterator[AtomicType]:
    """The atomic types in a type, in order; an atomic type gives itself."""
    match data_type:
        case AtomicType():
            yield data_type
        case ArrayType(element) | MultisetType(element) | VectorType(element):
            yield from atomic_types(element)
        case MapType(key, value):
            yield from atomic_types(key)
            yield from atomic_types(value)
        case RowType(fields):
            for field in fields:
                yield from atomic_types(field.type)


# ── Arrow ───────────────────────────────────────────────────────────────────────────────────────

_ARROW_ATOMS: Mapping[TypeRoot, pa.DataType] = {
    TypeRoot.BOOLEAN: pa.bool_(),
    TypeRoot.TINYINT: pa.int8(),
    TypeRoot.SMALLINT: pa.int16(),
    TypeRoot.INT: pa.int32(),
    TypeRoot.BIGINT: pa.int64(),
    TypeRoot.FLOAT: pa.float32(),
    TypeRoot.DOUBLE: pa.float64(),
    TypeRoot.CHAR: pa.string(),
    TypeRoot.VARCHAR: pa.string(),
    TypeRoot.BINARY: pa.binary(),
    TypeRoot.VARBINARY: pa.binary(),
    TypeRoot.DATE: pa.date32(),
    TypeRoot.BLOB: pa.binary(),
    # Paimon keeps milliseconds of the day whatever the declared precision.
    TypeRoot.TIME: pa.time32("ms"),
}


def timestamp_unit(precision: int) -> str:
    """Arrow unit for a timestamp of that precision: `s`, `ms`, `us` or `ns`."""
    return "s" if precision == 0 else "ms" if precision <= 3 else "us" if precision <= 6 else "ns"


def to_arrow(data_type: DataType) -> pa.DataType:
    """Arrow type for all values of `data_type`."""
    match data_type:
        case AtomicType(root):
            # Types without parameters first: a read looks up each column of each file.
            if (known := _ARROW_ATOMS.get(root)) is not None:
                return known
            if root is TypeRoot.DECIMAL:
                return pa.decimal128(data_type.precision, data_type.scale)
            return pa.timestamp(
                timestamp_unit(data_type.precision), tz="UTC" if root is TypeRoot.TIMESTAMP_LTZ else None
            )
        case ArrayType(element):
            return pa.list_(pa.field("element", to_arrow(element), element.nullable))
        case VectorType(element, length):
            return pa.list_(pa.field("element", to_arrow(element), element.nullable), length)
        case MapType(key, value):
            return pa.map_(to_arrow(key), pa.field("value", to_arrow(value), value.nullable))
        case MultisetType(element):
            return pa.map_(to_arrow(element), pa.field("value", pa.int32(), nullable=False))
        case VariantType():
            return ARROW_VARIANT
        case RowType(fields):
            return pa.struct([to_arrow_field(field) for field in fields])


def stored_arrow(data_type: DataType) -> pa.DataType:
    """Arrow type of the values in data files, where a VECTOR is an array."""
    match data_type:
        case VectorType(element):
            return pa.list_(pa.field("element", to_arrow(element), element.nullable))
        case _:
            return to_arrow(data_type)


def to_arrow_field(field: DataField) -> pa.Field:
    """Arrow field with name, type and nullability of `field`."""
    return pa.field(field.name, to_arrow(field.type), field.type.nullable)


def to_arrow_schema(row_type: RowType) -> pa.Schema:
    """Arrow schema of a table's columns."""
    return pa.schema([to_arrow_field(field) for field in row_type])


def is_blob(data_type: DataType) -> bool:
    """Whether values of the type are in files of their own (`format.blob`)."""
    return isinstance(data_type, AtomicType) and data_type.root is TypeRoot.BLOB


def is_numeric(data_type: DataType) -> bool:
    """Whether values of the type are numbers."""
    return isinstance(data_type, AtomicType) and data_type.root in _NUMERIC_ROOTS


def has_char(data_type: DataType) -> bool:
    """Whether values of the type may have had spaces behind them that a reader of ORC has cut off."""
    return any(part.root is TypeRoot.CHAR for part in atomic_types(data_type))
