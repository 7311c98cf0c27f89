"""Values of an old type as values of the type that their column has today, as Java casts them.

1. Kinds of types: a rule is for a pair of kinds, say integers to text.
2. `check_alterable` says which types a column may change to, `cast` does it to the values of an Arrow array.
3. Where releases differ, values are those of Paimon 0.9: a BIGINT becomes BOOLEAN by its lower 32 bits, and moments
   before 1970 lose their milliseconds, seconds and days towards 1970. Casts that 0.9 lacks are those of later releases.

Source: `CastExecutors`, `DataTypeCasts`, `BinaryStringUtils`, `DecimalUtils` of the Java library.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.errors import InvalidArgumentError, UnsupportedError
from paimon_engine.meta import cast_text, cast_time, timestamp_casts
from paimon_engine.meta.java_floats import float_text
from paimon_engine.meta.nested import list_of, list_parts, plain_numbers
from paimon_engine.types import (
    FLOAT_ROOTS,
    INTEGER_ROOTS,
    MAX_LENGTH,
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    VariantType,
    VectorType,
    is_numeric,
    to_arrow,
    type_to_json,
)

_KINDS: Final = {
    TypeRoot.BOOLEAN: "boolean",
    **dict.fromkeys(INTEGER_ROOTS, "integer"),
    **dict.fromkeys(FLOAT_ROOTS, "float"),
    TypeRoot.DECIMAL: "decimal",
    **dict.fromkeys((TypeRoot.CHAR, TypeRoot.VARCHAR), "text"),
    **dict.fromkeys((TypeRoot.BINARY, TypeRoot.VARBINARY), "binary"),
    TypeRoot.DATE: "date",
    TypeRoot.BLOB: "blob",
    TypeRoot.TIME: "time",
    **dict.fromkeys((TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ), "timestamp"),
}
_SECONDS_ROOTS: Final = frozenset({TypeRoot.INT, TypeRoot.BIGINT})
"""Integer types that can be seconds since 1970."""

STRING: Final = AtomicType(TypeRoot.VARCHAR, length=MAX_LENGTH)
"""Text of any length."""

_INTEGER_DIGITS: Final = 19
_FLOAT_SCALE: Final = 37

CastRule = Callable[[pa.Array, Any, Any], pa.Array]


def kind_of(data_type: DataType) -> str:
    """What kind of type it is, as far as casts distinguish types."""
    match data_type:
        case AtomicType(root):
            return _KINDS[root]
        case ArrayType():
            return "array"
        case VectorType():
            return "vector"
        case MapType():
            return "map"
        case MultisetType():
            return "multiset"
        case VariantType():
            return "variant"
        case RowType():
            return "row"


def is_castable(source: DataType, target: DataType) -> bool:
    """Whether there is a cast from one type to the other, apart from identity."""
    pair = (kind_of(source), kind_of(target))
    if pair not in _RULES or not isinstance(target, AtomicType):
        return False
    match source:
        case ArrayType(element):
            return _has_text(element)
        case MapType(key, value):
            return _has_text(key) and _has_text(value)
        case RowType(fields):
            return all(_has_text(field.type) for field in fields)
        case AtomicType(root):
            if pair == ("integer", "timestamp"):
                return root in _SECONDS_ROOTS
            return pair != ("timestamp", "integer") or target.root in _SECONDS_ROOTS
        case _:
            return False


def is_alterable(source: DataType, target: DataType) -> bool:
    """Whether a column of one type may be given the other: as Java, moments become STRING only, not shorter text."""
    if not is_castable(source, target) or not isinstance(target, AtomicType):
        return False
    whole_text = target.root is TypeRoot.VARCHAR and target.length == MAX_LENGTH
    return whole_text or kind_of(target) != "text" or kind_of(source) not in ("date", "time", "timestamp")


_IMPLICIT: Final = {
    TypeRoot.SMALLINT: frozenset({TypeRoot.TINYINT}),
    TypeRoot.INT: frozenset({TypeRoot.TINYINT, TypeRoot.SMALLINT}),
    TypeRoot.BIGINT: frozenset({TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT}),
    TypeRoot.FLOAT: INTEGER_ROOTS | {TypeRoot.DECIMAL},
    TypeRoot.VARCHAR: frozenset({TypeRoot.CHAR}),
    TypeRoot.VARBINARY: frozenset({TypeRoot.BINARY}),
    TypeRoot.DATE: frozenset({TypeRoot.TIMESTAMP}),
    TypeRoot.TIME: frozenset({TypeRoot.TIMESTAMP}),
    TypeRoot.TIMESTAMP: frozenset({TypeRoot.TIMESTAMP_LTZ}),
    TypeRoot.TIMESTAMP_LTZ: frozenset({TypeRoot.TIMESTAMP}),
}


def is_implicit(source: DataType, target: DataType) -> bool:
    """Whether Java treats the cast as lossless, so that `disable-explicit-type-casting` allows it."""
    if not (isinstance(source, AtomicType) and isinstance(target, AtomicType)):
        return False
    if source.nullable and not target.nullable:
        return False
    if target.root in (TypeRoot.DECIMAL, TypeRoot.DOUBLE):
        return is_numeric(source)
    return source.root is target.root or source.root in _IMPLICIT.get(target.root, ())


def _has_text(data_type: DataType) -> bool:
    return is_castable(data_type, STRING)


def cast(values: pa.Array, source: DataType, target: DataType) -> pa.Array:
    """Values of the type `source` in the Arrow type of `target`; null stays null.

    Raises: UnsupportedError if the cast does not exist; InvalidArgumentError naming a value that it cannot convert.
    """
    if not is_castable(source, target):
        raise UnsupportedError(f"there is no cast from {type_to_json(source)} to {type_to_json(target)}")
    try:
        made = _RULES[kind_of(source), kind_of(target)](values, source, target)
    except (ValueError, OverflowError, pa.ArrowException) as error:
        raise InvalidArgumentError(
            f"a value of type {type_to_json(source)} cannot become {type_to_json(target)}: {error}"
        ) from error
    arrow_type = to_arrow(target)
    return made if made.type == arrow_type else made.cast(arrow_type, safe=False)


# ── numbers ─────────────────────────────────────────────────────────────────────────────────────


def _numbers_to_numbers(values: pa.Array, source: AtomicType, target: AtomicType) -> pa.Array:
    numbers, mask = plain_numbers(values)
    arrow_type = to_arrow(target)
    if kind_of(source) == "float" and kind_of(target) == "integer":
        numbers = _saturated(numbers.astype(np.float64), np.int64 if target.root is TypeRoot.BIGINT else np.int32)
    with np.errstate(over="ignore", under="ignore"):
        return pa.array(numbers.astype(arrow_type.to_pandas_dtype()), arrow_type, mask=mask)


def _saturated(numbers: npt.NDArray[np.float64], kind: type[np.signedinteger[Any]]) -> npt.NDArray[Any]:
    """Java's `(int)` and `(long)`: towards zero, clamped to the limits, 0 for NaN."""
    limits = np.iinfo(kind)
    too_low, too_high = numbers <= float(limits.min), numbers >= float(limits.max)
    inside = np.where(too_low | too_high | np.isnan(numbers), 0.0, numbers).astype(kind)
    return np.where(too_low, limits.min, np.where(too_high, limits.max, inside))


def _numbers_to_boolean(values: pa.Array, _source: AtomicType, _target: AtomicType) -> pa.Array:
    numbers, mask = plain_numbers(values)
    return pa.array(numbers.astype(np.int32) != 0, mask=mask)


def _boolean_to_numbers(values: pa.Array, _source: AtomicType, target: AtomicType) -> pa.Array:
    return values.cast(pa.int8()).cast(to_arrow(target))


def _boolean_to_decimal(values: pa.Array, _source: AtomicType, target: AtomicType) -> pa.Array:
    return _fit_decimals(values.cast(pa.int64()).cast(pa.decimal128(_INTEGER_DIGITS, 0)), target)


def _integers_to_decimal(values: pa.Array, _source: AtomicType, target: AtomicType) -> pa.Array:
    return _fit_decimals(values.cast(pa.int64()).cast(pa.decimal128(_INTEGER_DIGITS, 0)), target)


def _floats_to_decimal(values: pa.Array, _source: AtomicType, target: AtomicType) -> pa.Array:
    def convert(value: float) -> Decimal | None:
        if not np.isfinite(value):
            raise ValueError("it is not a number of finite size")
        return cast_text.fit_decimal(Decimal(float_text(np.float64(value))), target.precision, target.scale)

    doubles = values.cast(pa.float64())
    try:
        # Java uses the digits of the text.
        text = cast_text.floats_as_text(doubles)
        return _fit_decimals(text.cast(pa.decimal256(76, _FLOAT_SCALE)), target)
    except pa.ArrowInvalid:
        return cast_text.by_distinct(doubles, convert, to_arrow(target))


def _fit_decimals(values: pa.Array, target: AtomicType) -> pa.Array:
    """Decimals rounded half up to the target's scale; null where they have too many digits."""
    precision, scale = values.type.precision, values.type.scale
    wide = values.cast(pa.decimal256(76, scale))
    if scale > target.scale:
        wide = pc.round(wide, ndigits=target.scale, round_mode="half_towards_infinity")
    if precision - scale >= target.precision - target.scale:
        limit = pa.scalar(Decimal(10) ** (target.precision - target.scale), wide.type)
        wide = pc.if_else(pc.less(pc.abs(wide), limit), wide, pa.scalar(None, wide.type))
    return wide.cast(pa.decimal256(76, target.scale)).cast(to_arrow(target))


def _decimal_to_decimal(values: pa.Array, _source: AtomicType, target: AtomicType) -> pa.Array:
    return _fit_decimals(values, target)


def _decimal_to_integers(values: pa.Array, _source: AtomicType, target: AtomicType) -> pa.Array:
    whole = pc.trunc(values.cast(pa.decimal256(76, values.type.scale))).cast(pa.decimal256(76, 0))
    mask = np.asarray(whole.is_null())
    words = np.frombuffer(whole.buffers()[1], np.int64).reshape(-1, 4)
    # The lowest 64 of 256 bits: what Java keeps of a number that is too large for a long.
    low = words[whole.offset : whole.offset + len(whole), 0]
    arrow_type = to_arrow(target)
    return pa.array(low.astype(arrow_type.to_pandas_dtype()), arrow_type, mask=mask)


def _decimal_to_floats(values: pa.Array, source: AtomicType, target: AtomicType) -> pa.Array:
    def convert(value: Decimal) -> float:
        # Up to 18 digits Java divides a long as a double, which rounds twice.
        if source.precision <= 18:
            return float(int(value.scaleb(source.scale))) / float(10**source.scale)
        return float(value)

    doubles = cast_text.by_distinct(values, convert, pa.float64())
    return doubles if target.root is TypeRoot.DOUBLE else _numbers_to_numbers(doubles, source, target)


# ── text and bytes ──────────────────────────────────────────────────────────────────────────────


def _fit_text(values: pa.Array, target: AtomicType) -> pa.Array:
    """Text cut to the length of its type in code points; blanks fill up a CHAR."""
    if target.length < MAX_LENGTH:
        values = pc.utf8_slice_codeunits(values, 0, target.length)
    return pc.utf8_rpad(values, target.length, " ") if target.root is TypeRoot.CHAR else values


def _atoms_to_text(values: pa.Array, source: AtomicType, target: AtomicType) -> pa.Array:
    """Values as Java's cast to text writes them, then cut or padded to the length of `target`."""
    match kind_of(source):
        case "float":
            text = cast_text.floats_as_text(values)
        case "decimal":
            text = cast_text.decimals_as_text(values)
        case "date":
            text = cast_time.dates_as_text(values)
        case "time":
            text = cast_time.times_as_text(values.view(pa.int32()), source.precision)
        case "timestamp":
            millis, nanos, mask = timestamp_casts.moments(values)
            if source.root is TypeRoot.TIMESTAMP_LTZ:
                millis = cast_time.wall_clock(millis)
            text = cast_time.timestamps_as_text(pa.array(millis, mask=mask), pa.array(nanos), source.precision)
        case _:
            text = values.cast(pa.string())
    return _fit_text(text, target)


def _binary_to_text(values: pa.Array, _source: AtomicType, _target: AtomicType) -> pa.Array:
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return cast_text.by_distinct(values, lambda value: value.decode(errors="replace"), pa.string())


def _to_binary(values: pa.Array, _source: AtomicType, target: AtomicType) -> pa.Array:
    """Bytes cut to the length of their type; zeros fill up a BINARY."""
    values = values.cast(pa.binary())
    if target.length < MAX_LENGTH:
        values = pc.binary_slice(values, 0, target.length)
    if target.root is TypeRoot.BINARY:
        missing = pc.subtract(target.length, pc.binary_length(values))
        values = pc.binary_join_element_wise(values, pc.binary_repeat(pa.scalar(b"\0"), missing), b"")
    return values


def _array_to_text(values: pa.Array, source: ArrayType, target: AtomicType) -> pa.Array:
    offsets, [elements] = list_parts(values)
    return _fit_text(_joined(values, offsets, _part_text(elements, source.element), "[]"), target)


def _map_to_text(values: pa.Array, source: MapType, target: AtomicType) -> pa.Array:
    offsets, [keys, items] = list_parts(values)
    pairs = pc.binary_join_element_wise(_part_text(keys, source.key), _part_text(items, source.value), " -> ")
    return _fit_text(_joined(values, offsets, pairs, "{}"), target)


def _row_to_text(values: pa.Array, source: RowType, target: AtomicType) -> pa.Array:
    parts = [_part_text(part, field.type) for part, field in zip(values.flatten(), source, strict=True)]
    inside = pc.binary_join_element_wise(*parts, ", ")
    text = pc.binary_join_element_wise("{", inside, "}", "")
    return _fit_text(pc.if_else(values.is_valid(), text, pa.scalar(None, pa.string())), target)


def _part_text(values: pa.Array, data_type: DataType) -> pa.Array:
    return pc.fill_null(cast(values, data_type, STRING), "null")


def _joined(values: pa.Array, offsets: npt.NDArray[np.int32], parts: pa.Array, brackets: str) -> pa.Array:
    """The texts of the elements of each list or map, between brackets."""
    text = pc.binary_join(list_of(values, offsets, [parts], pa.list_(pa.string())), ", ")
    return pc.binary_join_element_wise(brackets[0], text, brackets[1], "")


def _from_text(values: pa.Array, _source: AtomicType, target: AtomicType) -> pa.Array:
    """Texts as Java's casts parse them; what cannot be parsed becomes null or an error by the rules of each type."""
    arrow_type = to_arrow(target)
    match kind_of(target):
        case "text":
            return _fit_text(values, target)
        case "integer":
            return cast_text.parse_integers(values, arrow_type)
        case "boolean":
            return cast_text.by_distinct(values, cast_text.parse_boolean, arrow_type)
        case "float":
            return cast_text.parse_floats(values, arrow_type)
        case "decimal":
            precision, scale = target.precision, target.scale
            return cast_text.by_distinct(
                values, lambda text: cast_text.parse_decimal(text, precision, scale), arrow_type
            )
        case "timestamp":
            return timestamp_casts.text_to_timestamp(values, target)
        case "date":
            return _text_to_date(values)
        case _:
            return cast_text.by_distinct(values, _parse_time, pa.int32()).view(arrow_type)


def _text_to_date(values: pa.Array) -> pa.Array:
    if pc.all(pc.match_substring_regex(values, r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"), min_count=0).as_py():
        try:
            return values.cast(pa.date32())
        except pa.ArrowInvalid:
            # No such day; what follows says which.
            pass
    return cast_text.by_distinct(values, _parse_date, pa.int32()).view(pa.date32())


def _parse_date(text: str) -> int:
    """Days since 1970; digits alone are that number. Raises: ValueError."""
    days = cast_text.parse_integer_text(text) if cast_text.is_numeric(text) else cast_time.parse_date(text)
    if days >= 2**31:
        raise ValueError(text)
    return days


def _parse_time(text: str) -> int:
    """Milliseconds of the day; digits alone are that number. Raises: ValueError."""
    millis = cast_text.parse_integer_text(text) if cast_text.is_numeric(text) else cast_time.parse_time(text)
    # Java takes other numbers here, and fails where the value is used.
    if not 0 <= millis < cast_time.MILLIS_PER_DAY:
        raise ValueError(text)
    return millis


_RULES: Final[dict[tuple[str, str], CastRule]] = {
    **{(old, new): _numbers_to_numbers for old in ("integer", "float") for new in ("integer", "float")},
    ("integer", "decimal"): _integers_to_decimal,
    ("float", "decimal"): _floats_to_decimal,
    ("decimal", "decimal"): _decimal_to_decimal,
    ("decimal", "integer"): _decimal_to_integers,
    ("decimal", "float"): _decimal_to_floats,
    ("integer", "boolean"): _numbers_to_boolean,
    ("boolean", "integer"): _boolean_to_numbers,
    ("boolean", "float"): _boolean_to_numbers,
    ("boolean", "decimal"): _boolean_to_decimal,
    **{
        (kind, "text"): _atoms_to_text
        for kind in ("boolean", "integer", "float", "decimal", "date", "time", "timestamp")
    },
    **{
        ("text", kind): _from_text
        for kind in ("text", "boolean", "integer", "float", "decimal", "date", "time", "timestamp")
    },
    ("text", "binary"): _to_binary,
    ("binary", "binary"): _to_binary,
    ("binary", "text"): _binary_to_text,
    ("array", "text"): _array_to_text,
    ("map", "text"): _map_to_text,
    ("row", "text"): _row_to_text,
    ("timestamp", "timestamp"): timestamp_casts.timestamp_to_timestamp,
    ("timestamp", "date"): timestamp_casts.timestamp_to_date,
    ("timestamp", "time"): timestamp_casts.timestamp_to_time,
    ("timestamp", "integer"): timestamp_casts.timestamp_to_integers,
    ("integer", "timestamp"): timestamp_casts.integers_to_timestamp,
    ("date", "timestamp"): timestamp_casts.date_to_timestamp,
    ("time", "timestamp"): timestamp_casts.time_to_timestamp,
}
