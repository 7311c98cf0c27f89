"""Values as text and text as values, as Java's casts read and write them; each distinct value is converted once.

Source: `BinaryStringUtils`, `Double.toString`, `Double.parseDouble`, `BigDecimal` of Java and its Paimon library.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.meta.java_floats import float_text

_TRUE: Final = frozenset({"t", "true", "y", "yes", "1"})
_FALSE: Final = frozenset({"f", "false", "n", "no", "0"})
_BLANKS: Final = "".join(map(chr, range(33)))
_WHOLE: Final = re.compile(r"[+-]?[0-9]*(\.[0-9]*)?")
_FLOATING: Final = re.compile(r"[+-]?(NaN|Infinity|(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)[fFdD]?)")
_HEXADECIMAL: Final = re.compile(
    r"[+-]?0[xX]([0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+(?P<suffix>[fFdD])?"
)
_DECIMAL: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,10})?")
_EXACT: Final = Context(prec=500)
_DIGITS_MAX: Final = 38


def by_distinct(values: pa.Array, function: Callable[[Any], Any], arrow_type: pa.DataType) -> pa.Array:
    """What `function` makes of each value, called once for each distinct one; null stays null.

    Raises: ValueError naming the first value that `function` raises ValueError for.
    """
    encoded = values.dictionary_encode()
    made = []
    for value in encoded.dictionary.to_pylist():
        try:
            made.append(function(value))
        except ValueError as error:
            raise ValueError(f"{value!r} does not fit") from error
    return pa.array(made, arrow_type).take(encoded.indices)


# ── to text ─────────────────────────────────────────────────────────────────────────────────────


def floats_as_text(values: pa.Array) -> pa.Array:
    """FLOAT or DOUBLE as Java writes it: `1.0`, `1.0E10`, `NaN`, `Infinity`."""
    numbers = values.cast(pa.float64())
    size = pc.abs(numbers)
    # Between these, Arrow and Java write the same digits, but for the `.0` of integers.
    is_plain = pc.fill_null(pc.and_(pc.greater_equal(size, 1e-3), pc.less(size, 1e7)), fill_value=True)
    text = values.cast(pa.string())
    text = pc.if_else(pc.match_substring(text, "."), text, pc.binary_join_element_wise(text, "0", "."))
    others = pc.invert(is_plain)
    return pc.replace_with_mask(text, others, _other_floats_as_text(values.filter(others)))


def _other_floats_as_text(values: pa.Array) -> pa.Array:
    wide = pa.types.is_float64(values.type)
    kind = np.float64 if wide else np.float32
    # As bits: for hashing, 0.0 equals -0.0.
    bits = values.view(pa.int64() if wide else pa.int32())
    bits_kind = np.int64 if wide else np.int32
    return by_distinct(bits, lambda one: float_text(bits_kind(one).view(kind)), pa.string())


def decimals_as_text(values: pa.Array) -> pa.Array:
    """DECIMAL with all digits of its scale, never with an exponent."""
    text = values.cast(pa.string())
    small = pc.fill_null(pc.match_substring(text, "E"), fill_value=False)
    plain = by_distinct(values.filter(small), lambda value: format(value, "f"), pa.string())
    return pc.replace_with_mask(text, small, plain)


# ── from text ───────────────────────────────────────────────────────────────────────────────────


def parse_boolean(text: str) -> bool:
    """Raises: ValueError."""
    lower = text.lower()
    if lower not in _TRUE | _FALSE:
        raise ValueError(text)
    return lower in _TRUE


def parse_integers(values: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    """Integers of text; a fraction is cut off.

    Raises: ValueError naming a text that is not a number, or too large for the type.
    """
    limits = np.iinfo(arrow_type.to_pandas_dtype())
    plain = pc.all(pc.match_substring_regex(values, r"^-?[0-9]{1,18}$"), min_count=0).as_py()
    if plain:
        numbers = values.cast(pa.int64())
        extremes = pc.min_max(numbers).as_py()
        if extremes["min"] is None or (extremes["min"] >= limits.min and extremes["max"] <= limits.max):
            return numbers.cast(arrow_type)

    def parse(text: str) -> int:
        number = parse_integer_text(text)
        if not limits.min <= number <= limits.max:
            raise ValueError(text)
        return number

    return by_distinct(values, parse, arrow_type)


def parse_integer_text(text: str) -> int:
    """Sign, digits, and a fraction that is checked and cut off; any of them may be missing, but not all.

    Raises: ValueError.
    """
    if text in ("", "+", "-") or _WHOLE.fullmatch(text) is None:
        raise ValueError(text)
    digits = text.partition(".")[0]
    return 0 if digits in ("", "+", "-") else int(digits)


def is_numeric(text: str) -> bool:
    """Whether the text is digits and nothing else."""
    return text != "" and all(char.isdecimal() for char in text)


def parse_double(text: str) -> float:
    """What Java's `Double.parseDouble` takes, hexadecimal numbers and suffixes included.

    Raises: ValueError.
    """
    text = text.strip(_BLANKS)
    if match := _HEXADECIMAL.fullmatch(text):
        try:
            return float.fromhex(text[:-1] if match["suffix"] else text)
        except OverflowError:
            return math.inf if text[0] != "-" else -math.inf
    if _FLOATING.fullmatch(text) is None:
        raise ValueError(text)
    return float(text if text.endswith(("NaN", "Infinity")) else text.rstrip("fFdD"))


def parse_floats(values: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    """FLOAT or DOUBLE numbers of text.

    Raises: ValueError naming a text that is not a number.
    """
    plain = r"^-?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,2})?$"
    if pc.all(pc.match_substring_regex(values, plain), min_count=0).as_py():
        try:
            return values.cast(arrow_type)
        except pa.ArrowInvalid:
            # Too large or too small: Java gives infinity or zero.
            pass
    parse = parse_double if pa.types.is_float64(arrow_type) else parse_float
    return by_distinct(values, parse, arrow_type)


def parse_float(text: str) -> float:
    """The FLOAT nearest to the number in the text, not to the DOUBLE nearest to it.

    Raises: ValueError.
    """
    wide = parse_double(text)
    with np.errstate(over="ignore", under="ignore"):
        near = np.float32(wide)
    if not np.isfinite(near) or float(near) == wide or _HEXADECIMAL.fullmatch(text.strip(_BLANKS)):
        return float(near)
    exact = Fraction(Decimal(text.strip(_BLANKS).rstrip("fFdD")))
    other = np.nextafter(near, np.float32(math.inf if wide > float(near) else -math.inf))
    if not np.isfinite(other):
        return float(near)
    return float(min((near, other), key=lambda one: (abs(Fraction(float(one)) - exact), one is not near)))


def parse_decimal(text: str, precision: int, scale: int) -> Decimal | None:
    """The number of a text, rounded to the scale; None if it has too many digits.

    Raises: ValueError.
    """
    if _DECIMAL.fullmatch(text) is None:
        raise ValueError(text)
    return fit_decimal(Decimal(text), precision, scale)


def fit_decimal(number: Decimal, precision: int, scale: int) -> Decimal | None:
    """The number rounded half up to the scale; None if that has more digits than `precision`."""
    if number.adjusted() > _DIGITS_MAX and number:
        return None
    if number.adjusted() < -_DIGITS_MAX - 2 or not number:
        number = Decimal(0)
    rounded = number.quantize(Decimal((0, (1,), -scale)), ROUND_HALF_UP, _EXACT)
    return rounded if len(rounded.as_tuple().digits) <= precision or not rounded else None
