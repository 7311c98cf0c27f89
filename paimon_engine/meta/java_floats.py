"""FLOAT and DOUBLE as text, digit by digit as Java up to release 18 writes them: those releases run Paimon 0.9.

They are mostly the fewest digits that give the number again, but now and then one more, since that Java

1. takes the exponent of the first digit from an estimate of the logarithm,
2. removes digits of a fraction until the rest is within half of the distance to the next number, which it takes
   to be the same on both sides, and half of that for powers of two,
3. gives at least two digits where it writes an exponent,
4. writes integers below 2⁶³ from all their digits, less those that the number is too coarse for.

Source: the comments of `jdk.internal.math.FloatingDecimal`, and what Java prints.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np


@dataclass(frozen=True, slots=True)
class _Width:
    """Bits of the stored fraction, and the bias of the exponent."""

    fraction_bits: int
    bias: int


_FLOAT: Final = _Width(23, 127)
_DOUBLE: Final = _Width(52, 1023)
_HIGHEST_BIT: Final = 52
_SMALL_EXPONENTS: Final = range(-21, 63)
_POWERS_OF_FIVE: Final = 27
"""Powers of five that fit into 64 bits, and how Java counts the bits of larger ones."""
_PLAIN: Final = range(-2, 8)
"""Positions of the point, after so many digits, that are written without an exponent."""


def float_text(value: np.floating) -> str:
    """The number as `Float.toString` or `Double.toString` gives it."""
    number = float(value)
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    minus = "-" if math.copysign(1.0, number) < 0 else ""
    if number == 0:
        return f"{minus}0.0"
    digits, point = _digits(value)
    if point in _PLAIN:
        whole, fraction = (
            (digits[:point].ljust(point, "0"), digits[point:]) if point > 0 else ("0", "0" * -point + digits)
        )
        return f"{minus}{whole}.{fraction or '0'}"
    return f"{minus}{digits[0]}.{digits[1:] or '0'}E{point - 1}"


def _digits(value: np.floating) -> tuple[str, int]:
    """Digits of a number, and how many of them are before the point."""
    fraction, exponent, significant = _parts(value)
    # The first one bit is at bit 52 now, as in a DOUBLE.
    zeros = (fraction & -fraction).bit_length() - 1
    used = _HIGHEST_BIT + 1 - zeros
    behind_point = max(0, used - exponent - 1)
    if exponent in _SMALL_EXPONENTS and behind_point == 0:
        shift = exponent - _HIGHEST_BIT
        whole = fraction << shift if shift >= 0 else fraction >> -shift
        return _whole_number(whole, exponent - significant - 1 if exponent > significant else 0)
    return _fraction(fraction >> zeros, exponent, used, behind_point, significant)


def _parts(value: np.floating) -> tuple[int, int, int]:
    """Fraction with its highest bit at 52, exponent of that bit, and number of bits that mean something."""
    width = _FLOAT if isinstance(value, np.float32) else _DOUBLE
    bits = int(value.view(np.uint32 if width is _FLOAT else np.uint64))
    fraction = bits & ((1 << width.fraction_bits) - 1)
    exponent = bits >> width.fraction_bits & (2 * width.bias + 1)
    significant = width.fraction_bits + 1
    if exponent == 0:
        significant = fraction.bit_length()
        fraction <<= width.fraction_bits + 1 - significant
        exponent = 1 - (width.fraction_bits + 1 - significant)
    else:
        fraction |= 1 << width.fraction_bits
    return fraction << (_HIGHEST_BIT - width.fraction_bits), exponent - width.bias, significant


def _whole_number(number: int, coarse_bits: int) -> tuple[str, int]:
    """Digits of an integer that is too coarse for the last ones, which are rounded away."""
    coarse = len(str(1 << coarse_bits)) - 1 if coarse_bits > 1 else 0
    unit = 10**coarse
    number, rest = divmod(number, unit)
    number += bool(coarse) and rest >= unit >> 1
    text = str(number)
    return text.rstrip("0"), len(text) + coarse


def _fraction(fraction: int, exponent: int, used: int, behind_point: int, significant: int) -> tuple[str, int]:
    """Digits of any number: those of `rest / scale`, until what is left is below `half`."""
    digit_exponent = _estimated_exponent(fraction, exponent, used)
    fives, scale_fives = max(0, -digit_exponent), max(0, digit_exponent)
    twos = fives + behind_point + exponent
    scale_twos, half_twos = scale_fives + behind_point, twos - significant
    twos -= used - 1
    shared = min(twos, scale_twos)
    twos, scale_twos, half_twos = twos - shared, scale_twos - shared, half_twos - shared
    half_twos -= used == 1
    if half_twos < 0:
        twos, scale_twos, half_twos = twos - half_twos, scale_twos - half_twos, 0
    needed = max(used + twos + _bits_of_five(fives), scale_twos + 1 + _bits_of_five(scale_fives + 1))
    word_bits = 32 if needed < 32 else 64 if needed < 64 else None
    return _taken_off(
        fraction * 5**fives << twos, 5**scale_fives << scale_twos, 5**fives << half_twos, digit_exponent, word_bits
    )


def _bits_of_five(power: int) -> int:
    return (5**power).bit_length() if 0 < power < _POWERS_OF_FIVE else 3 * power


def _estimated_exponent(fraction: int, exponent: int, used: int) -> int:
    """Power of ten of the first digit, sometimes one too high."""
    mantissa = math.ldexp(fraction, 1 - used)
    return math.floor((mantissa - 1.5) * 0.289529654 + 0.176091259 + exponent * 0.301029995663981)


def _taken_off(rest: int, scale: int, half: int, digit_exponent: int, word_bits: int | None) -> tuple[str, int]:
    """Digits of `rest / scale`. Java counts in words of so many bits, where `half` may overflow; None: in any number.

    Where words do not do, it ends at equality as well.
    """
    ten = 10 * scale
    digits: list[int] = []
    is_first = True
    while True:
        digit, rest = divmod(rest, scale)
        rest, half = 10 * rest, _in_word(10 * half, word_bits)
        if half > 0 or is_first:
            low = rest < half
            high = rest + half >= ten if word_bits is None else _in_word(rest + half, word_bits) > ten
        else:
            low = high = True
        if is_first and digit == 0 and not high:
            digit_exponent -= 1
        else:
            digits.append(digit)
        if is_first and not -3 <= digit_exponent < 8:
            low = high = False
        is_first = False
        if low or high:
            break
    if high and (not low or 2 * rest > ten or (2 * rest == ten and digits[-1] & 1)):
        return _rounded_up(digits, digit_exponent)
    return "".join(map(str, digits)), digit_exponent + 1


def _in_word(number: int, bits: int | None) -> int:
    if bits is None:
        return number
    return (number + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def _rounded_up(digits: list[int], digit_exponent: int) -> tuple[str, int]:
    text = str(int("".join(map(str, digits))) + 1)
    point = digit_exponent + 1 + len(text) - len(digits)
    return text.rstrip("0"), point
