"""Random filters over random columns, and which rows they are true of, row by row in plain Python.

`truth` is a second meaning of filters, written without Arrow and without the engine's code, so that a mistake there
cannot hide itself: SQL's three values, NaN equal to itself and larger than all numbers, −0.0 less than 0.0.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Any, Final

import numpy as np
import pyarrow as pa

from paimon_engine import col
from paimon_engine.predicate import And, Compare, In, IsNull, Match, Not, Or, Predicate, TextTest

NANOS: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
DAY_NS: Final = 86_400 * 10**9
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
DEPTH_MAX: Final = 3


# ── literals ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Values:
    """A column in Python: its type, and its values in an order of their own (`order_of`), None where null."""

    kind: pa.DataType
    keys: Sequence[Any]
    plain: Sequence[Any]

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> Values:
        """The values of a column."""
        kind = column.type
        if pa.types.is_temporal(kind):
            integers = column.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).to_pylist()
            unit = DAY_NS if pa.types.is_date(kind) else NANOS[kind.unit]
            keys = [None if one is None else one * unit for one in integers]
            return cls(kind, keys, keys)
        plain = column.to_pylist()
        return cls(kind, [None if one is None else order_of(one, kind) for one in plain], plain)


def order_of(value: Any, kind: pa.DataType) -> Any:
    """What compares as a value or literal does in a column of that type."""
    if pa.types.is_floating(kind):
        number = float(np.float32(value)) if kind == pa.float32() else float(value)
        return (1, 0.0, 0.0) if math.isnan(number) else (0, number, math.copysign(1, number))
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        if isinstance(value, float):
            return Fraction(repr(value)) if math.isfinite(value) else value
        return Fraction(value)
    if pa.types.is_temporal(kind):
        return _nanos(value)
    return value


def _nanos(value: Any) -> int:
    if isinstance(value, np.datetime64):
        return int(value.astype("datetime64[ns]").astype(np.int64))
    if isinstance(value, time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 10**9 + value.microsecond * 1_000
    if isinstance(value, datetime):
        since = (value if value.tzinfo is not None else value.replace(tzinfo=UTC)) - EPOCH
        return ((since.days * 86_400 + since.seconds) * 10**6 + since.microseconds) * 1_000
    return (value - EPOCH.date()).days * DAY_NS


def literal(random: Random, values: Values) -> Any:
    """A value of the column, one near it, or one at a limit, as somebody may write it."""
    kind = values.kind
    known = values.plain[random.randrange(len(values.plain))] if values.plain else None
    if pa.types.is_boolean(kind):
        return random.random() < 0.5
    if pa.types.is_temporal(kind):
        return _point(random, known, kind)
    if pa.types.is_string(kind):
        return _text(random, known)
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return random.choice([known or b"", b"", b"\xff", (known or b"a")[:1]])
    if pa.types.is_floating(kind):
        near = known if known is not None else 1.0
        return random.choice([near, near, 0.0, -0.0, math.nan, math.inf, -math.inf, near + 0.5, 3, Decimal("0.1")])
    return _number(random, known if known is not None else 0, kind)


def _number(random: Random, known: Any, kind: pa.DataType) -> Any:
    step = Decimal(1).scaleb(-kind.scale) if pa.types.is_decimal(kind) else 1
    half = Decimal(known) + Decimal(step) / 2
    edge = 10**38 if pa.types.is_decimal(kind) else 2 ** (kind.bit_width - 1)
    return random.choice([known, known, known + step, known - step, half, edge, -edge - 1, 0, 1.5, known])


def _point(random: Random, known: int | None, kind: pa.DataType) -> Any:
    """In the type that Python has for it; of a timestamp sometimes finer than the column."""
    nanos = known if known is not None else 0
    if pa.types.is_date(kind):
        day = min(max(nanos // DAY_NS + random.choice([0, 0, 1, -1]), -719_162), 2_932_896)
        return date.fromordinal(719_163 + day)
    if pa.types.is_time(kind):
        micros = min(max(nanos // 1_000 + random.choice([0, 0, 1, 1_000, -1_000]), 0), DAY_NS // 1_000 - 1)
        seconds, rest = divmod(micros, 10**6)
        return time(seconds // 3600, seconds // 60 % 60, seconds % 60, rest)
    nanos += random.choice([0, 0, 0, 1, -1, 10**9, -(10**9)])
    zoned = kind.tz is not None
    if abs(nanos) < 2**62 and (kind.unit == "ns" or random.random() < 0.3) and not zoned:
        return np.datetime64(nanos, "ns")
    micros = min(max(nanos // 1_000, -62_135_596_800 * 10**6), 253_402_300_799 * 10**6)
    found = datetime.fromordinal(719_163 + micros // (86_400 * 10**6)) + _rest(micros)
    return found.replace(tzinfo=UTC) if zoned and random.random() < 0.5 else found


def _rest(micros: int) -> Any:
    from datetime import timedelta

    return timedelta(microseconds=micros % (86_400 * 10**6))


def _text(random: Random, known: str | None) -> str:
    text = known or ""
    at = random.randrange(len(text) + 1)
    return random.choice([text, text, text[:at], text[at:], text + "\x00", "", "~", "\U0001f600"])


def _pattern(random: Random, known: str | None) -> str:
    """For LIKE."""
    text = re.sub(r"([%_\\])", r"\\\1", known or "")
    plain = known if known and not set(known) & set("%_\\") else ""
    at = random.randrange(len(plain) + 1)
    return random.choice(
        [text, f"{plain[:at]}%", f"%{plain[at:]}", f"{plain[:at]}_{plain[at + 1 :]}", f"%{plain[:1]}%", "%"]
    )


# ── filters ─────────────────────────────────────────────────────────────────────────────────────


def random_filter(random: Random, columns: dict[str, Values], depth: int = 0) -> Predicate:
    """A filter over some of the columns, most of them true of few rows."""
    if depth == DEPTH_MAX or random.random() < 0.45:
        return _leaf(random, columns)
    a, b = (random_filter(random, columns, depth + 1) for _ in range(2))
    return random.choice([a & b, a & b, a & b, a | b, ~a])


def _leaf(random: Random, columns: dict[str, Values]) -> Predicate:
    name = random.choice(list(columns))
    values = columns[name]
    if pa.types.is_nested(values.kind) or random.random() < 0.07:
        return IsNull(name, negated=random.random() < 0.5)
    if pa.types.is_string(values.kind) and random.random() < 0.3:
        known = random.choice(values.plain) if values.plain else None
        test = random.choice(list(TextTest))
        return Match(test, name, _pattern(random, known) if test is TextTest.LIKE else _text(random, known))
    if random.random() < 0.2:
        listed = [literal(random, values) for _ in range(random.randrange(4))]
        if random.random() < 0.15:
            listed.append(None)
        return random.choice([col(name).is_in(listed), col(name).is_in(listed), col(name).not_in(listed)])
    operator = random.choice(["=", "=", "=", "!=", "<", "<=", ">", ">="])
    return Compare(operator, name, literal(random, values))


# ── which rows match ────────────────────────────────────────────────────────────────────────────


def truth(predicate: Predicate, columns: dict[str, Values], row: int) -> bool | None:
    """Whether the filter is true of a row; None: unknown."""
    match predicate:
        case And(parts):
            found = [truth(part, columns, row) for part in parts]
            return False if False in found else None if None in found else True
        case Or(parts):
            found = [truth(part, columns, row) for part in parts]
            return True if True in found else None if None in found else False
        case Not(part):
            inner = truth(part, columns, row)
            return None if inner is None else not inner
        case IsNull(name, negated):
            return (columns[name].plain[row] is None) is not negated
    values = columns[predicate.column]
    if values.plain[row] is None:
        return None
    match predicate:
        case Match(test, _, text):
            return _matches(test, values.plain[row], text)
        case In(_, listed):
            if any(one is not None and _equal(values, row, one) for one in listed):
                return True
            return None if None in listed else False
        case Compare(operator, _, value):
            return _compared(operator, values.keys[row], order_of(value, values.kind))


def _equal(values: Values, row: int, value: Any) -> bool:
    return _compared("=", values.keys[row], order_of(value, values.kind))


def _compared(operator: str, left: Any, right: Any) -> bool:
    return {
        "=": lambda: left == right,
        "!=": lambda: left != right,
        "<": lambda: left < right,
        "<=": lambda: left <= right,
        ">": lambda: left > right,
        ">=": lambda: left >= right,
    }[operator]()


def _matches(test: TextTest, value: str, text: str) -> bool:
    match test:
        case TextTest.STARTS_WITH:
            return value.startswith(text)
        case TextTest.ENDS_WITH:
            return value.endswith(text)
        case TextTest.CONTAINS:
            return text in value
        case TextTest.LIKE:
            pattern, at = "", 0
            while at < len(text):
                if text[at] == "\\" and at + 1 < len(text):
                    at += 1
                    pattern += re.escape(text[at])
                else:
                    pattern += {"%": ".*", "_": "."}.get(text[at], re.escape(text[at]))
                at += 1
            return re.fullmatch(pattern, value, re.DOTALL) is not None


def matching(predicate: Predicate, columns: dict[str, Values], count: int) -> list[int]:
    """Positions of the rows of which the filter is true."""
    return [row for row in range(count) if truth(predicate, columns, row) is True]
