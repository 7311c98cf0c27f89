"""Aggregate functions `sum` and `product`, with the results of Java's arithmetic.

Integers wrap around; floating-point numbers are taken one after another, in their own precision. A DECIMAL that no
longer fits its type becomes null, and what comes then begins again; but a sum of up to 18 digits is kept as an integer
of 64 bits, and may have more digits than its type. Products of decimals, and products from which something is taken
back, depend on the order of every step, and are computed key by key.

Source: `FieldSumAgg`, `FieldProductAgg`, `DecimalUtils` of the Java library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import ROUND_HALF_UP, Context, Decimal, Inexact
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.merge.gather import array_of, numbers_of, validity
from paimon_engine.merge.versions import Mask, Step, VersionRows, Versions

_SHORT_DIGITS: Final = 18
_EXACT: Final = Context(prec=400, traps=[Inexact])
_LOW: Final = np.uint64(0xFFFFFFFF)
_HALF: Final = np.uint64(32)


def sum_of(versions: Versions, column: str) -> pa.Array:
    """Sum per key; nulls do not count, a retract subtracts."""
    if pa.types.is_decimal(versions.rows[column].type):
        counted = versions.only(versions.valid(column))
        return _sum_of_decimals(counted, counted.values(column))
    # No number changes when −0.0 is added to it, −0.0 included.
    return _folded(np.add, versions, column, -0.0)


def product_of(versions: Versions, column: str) -> pa.Array:
    """Product per key; nulls do not count, a retract divides.

    Raises: InvalidArgumentError where a retract divides by zero, or a DECIMAL has no finite quotient.
    """
    kind = versions.rows[column].type
    if pa.types.is_decimal(kind) or versions.retracts.any():
        counted = versions.only(versions.valid(column))
        histories = _histories(counted, counted.values(column))
        return pa.array([_step_by_step(steps, kind, column) for steps in histories], kind)
    return _folded(np.multiply, versions, column, 1)


def _folded(ufunc: np.ufunc, versions: Versions, column: str, neutral: float) -> pa.Array:
    """A left fold per key, in the column's own type; a null counts as `neutral`, which changes nothing."""
    stored = versions.rows[column]
    numbers, valid = numbers_of(stored), validity(stored) if stored.null_count else None
    result = np.full(len(versions.starts), neutral, dtype=numbers.dtype)
    some = np.zeros(len(result), dtype=bool)

    def taken(rows: VersionRows) -> tuple[npt.NDArray[Any], Mask | bool]:
        found = numbers.take(rows.positions)
        if rows.retracts is not None:
            found = np.where(rows.retracts, -found, found)
        if valid is None:
            return found, True
        present = valid.take(rows.positions)
        _make_neutral(found, present, neutral)
        return found, present

    side_by_side, long = versions.turns
    with np.errstate(over="ignore", invalid="ignore"):
        for rows in side_by_side:
            found, present = taken(rows)
            result[rows.keys] = ufunc(result[rows.keys], found, out=found)
            some[rows.keys] |= present
        for rows in long:
            found, present = taken(rows)
            result[rows.keys] = ufunc.accumulate(np.append(result[rows.keys], found))[-1:]
            some[rows.keys] |= np.any(present)
    return array_of(result, some, stored.type)


def _make_neutral(numbers: npt.NDArray[Any], valid: Mask, neutral: float) -> None:
    """Overwrites numbers that are not valid.

    A multiplication of the bits takes a fifth of the time in which `where` chooses among nulls that lie at random.
    """
    bits = numbers.view(f"i{numbers.itemsize}")
    other = numbers.dtype.type(neutral).view(bits.dtype)
    bits ^= other
    bits *= valid
    bits ^= other


# ── decimals ────────────────────────────────────────────────────────────────────────────────────


def _sum_of_decimals(versions: Versions, values: pa.Array) -> pa.Array:
    """Sums of DECIMALs per key, exactly: 128-bit integers are added as three parts that cannot overflow 64 bits.

    Null for keys without values. The overflow of a declared precision is found by `_overflows_on_the_way`.
    """
    some = versions.ends > versions.starts
    if not some.any():
        return pa.nulls(len(some), values.type)
    starts = versions.starts[some]
    words = np.frombuffer(values.buffers()[1], dtype="<u8")
    words = words[2 * values.offset : 2 * (values.offset + len(values))].reshape(-1, 2)
    low, high = words[:, 0], words[:, 1].view(np.int64)
    sign = np.where(versions.retracts, -1, 1)
    # 32 bits of the lower half at a time, so that 64 hold the sums of 2³¹ of them.
    parts = [(low & _LOW).view(np.int64), (low >> _HALF).view(np.int64), high]
    lowest, middle, top = (np.add.reduceat(part * sign, starts) for part in parts)
    middle = middle + (lowest >> 32)
    top = top + (middle >> 32)
    result = np.zeros((len(some), 2), dtype="<u8")
    low_half = ((middle & 0xFFFFFFFF) << 32) | (lowest & 0xFFFFFFFF)
    if values.type.precision <= _SHORT_DIGITS:
        top = low_half >> 63
    result[some] = np.stack([low_half.view(np.uint64), top.view(np.uint64)], axis=1)
    bits = pa.array(some).buffers()[1]
    summed = pa.Array.from_buffers(values.type, len(some), [bits, pa.py_buffer(result.tobytes())])
    return summed if values.type.precision <= _SHORT_DIGITS else _overflows_on_the_way(versions, values, summed)


def _overflows_on_the_way(versions: Versions, values: pa.Array, summed: pa.Array) -> pa.Array:
    """The sums, computed step by step for keys in which one of the steps may leave the type's range."""
    some = versions.ends > versions.starts
    sizes = np.abs(np.asarray(values.cast(pa.float64())))
    limit = 10.0 ** (values.type.precision - values.type.scale) * 0.999
    risky = np.zeros(len(some), dtype=bool)
    risky[some] = np.add.reduceat(sizes, versions.starts[some]) >= limit
    if not risky.any():
        return summed
    kept = risky[versions.keys]
    histories = _histories(versions.only(kept), values.filter(pa.array(kept)))
    exact = pa.array([_sum_step_by_step(steps, values.type) for steps in histories], values.type)
    places = np.where(risky, len(summed) + np.arange(len(summed)), np.arange(len(summed)))
    return pa.concat_arrays([summed, exact]).take(pa.array(places))


_History = list[tuple[Any, bool]]
"""Values of a key that are not null, oldest first, and which of them are taken back."""


def _histories(versions: Versions, values: pa.Array) -> Iterator[_History]:
    steps = list(zip(values.to_pylist(), (versions.steps == Step.RETRACT).tolist(), strict=True))
    for begin, end in zip(versions.starts.tolist(), versions.ends.tolist(), strict=True):
        yield steps[begin:end]


def _sum_step_by_step(history: _History, arrow_type: pa.DataType) -> Decimal | None:
    total = None
    for value, taken_back in history:
        # A minus sign, as abs, would round to the 28 digits of Python's context.
        signed = value.copy_negate() if taken_back else value
        total = signed if total is None else _fitting(_EXACT.add(total, signed), arrow_type)
    return total


def _fitting(value: Decimal, arrow_type: pa.DataType) -> Decimal | None:
    """The value rounded to the type's scale; None if it has too many digits."""
    rounded = value.quantize(Decimal(1).scaleb(-arrow_type.scale), ROUND_HALF_UP, Context(prec=400))
    return rounded if rounded.copy_abs() < Decimal(10) ** (arrow_type.precision - arrow_type.scale) else None


# ── products step by step ───────────────────────────────────────────────────────────────────────


def _step_by_step(history: _History, arrow_type: pa.DataType, column: str) -> Any:
    multiply, divide = _operations(arrow_type)
    total = None
    try:
        for value, taken_back in history:
            total = value if total is None else (divide if taken_back else multiply)(total, value)
    except (ArithmeticError, ValueError) as error:
        raise InvalidArgumentError(
            f"column {column!r}: a retract divides its product by {value}, which has no result; "
            f"set 'fields.{column}.ignore-retract' = 'true' to leave the product as it is"
        ) from error
    return total


_Operation = Callable[[Any, Any], Any]


def _operations(arrow_type: pa.DataType) -> tuple[_Operation, _Operation]:
    """Multiplication and division of Java."""
    if pa.types.is_decimal(arrow_type):
        return (
            lambda a, b: _fitting(_EXACT.multiply(a, b), arrow_type),
            lambda a, b: _fitting(_EXACT.divide(a, b), arrow_type),
        )
    if pa.types.is_floating(arrow_type):
        number = np.float32 if pa.types.is_float32(arrow_type) else np.float64

        def quiet(ufunc: np.ufunc) -> _Operation:
            def operation(a: Any, b: Any) -> Any:
                with np.errstate(all="ignore"):
                    return ufunc(number(a), number(b))

            return operation

        return quiet(np.multiply), quiet(np.divide)
    half = 1 << (arrow_type.bit_width - 1)

    def wrapped(value: int) -> Any:
        return (value + half) % (2 * half) - half

    def quotient(a: int, b: int) -> Any:
        return wrapped(abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1))

    return lambda a, b: wrapped(a * b), quotient
