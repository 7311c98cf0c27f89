"""Filters in Python: `(col("k") > 1) & col("name").is_in(["a", "b"]) | ~col("city").like("A%")`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.predicate.tree import (
    Compare,
    Condition,
    In,
    IsNull,
    Match,
    Not,
    Predicate,
    TextTest,
    checked,
    conjunction,
    entry_name,
    with_lists,
)


def col(name: str) -> Column:
    """A column to be compared with values: `col("k") > 1`.

    With dots it is the field of a ROW, `col("address.city") == "Ulm"`; with a key in brackets the value that a MAP has
    for it, `col("tags")["colour"] == "red"`, which is null where the map lacks the key.
    """
    if not isinstance(name, str) or not name:
        raise InvalidArgumentError(f"col({name!r}): give the name of a column")
    return Column(name)


def as_predicate(where: str | Condition | None) -> Predicate | None:
    """The predicate of a SQL condition or of an expression; None for None.

    Raises: InvalidArgumentError.
    """
    if where is None:
        return None
    if isinstance(where, str):
        from paimon_engine.predicate.parse import parse_where

        return with_lists(parse_where(where))
    return with_lists(checked(where))


@dataclass(frozen=True, eq=False)
class Column(Condition):
    """A column in a filter. Comparisons give predicates; a BOOLEAN column is a predicate itself.

    Values are Python's: bool, int, float, Decimal, str, bytes, date, time, datetime, and NumPy's scalars.
    Whether they fit the column's type is known when the table is read.
    """

    name: str

    def __eq__(self, other: object) -> Predicate:  # type: ignore[override]
        return Compare("=", self.name, self._value(other))

    def __ne__(self, other: object) -> Predicate:  # type: ignore[override]
        return Compare("!=", self.name, self._value(other))

    def __lt__(self, other: object) -> Predicate:
        return Compare("<", self.name, self._value(other))

    def __le__(self, other: object) -> Predicate:
        return Compare("<=", self.name, self._value(other))

    def __gt__(self, other: object) -> Predicate:
        return Compare(">", self.name, self._value(other))

    def __ge__(self, other: object) -> Predicate:
        return Compare(">=", self.name, self._value(other))

    __hash__ = None  # type: ignore[assignment]
    __iter__ = None
    """Else Python would take the keys 0, 1, 2 … of a MAP for the items of a sequence."""

    def __getitem__(self, key: object) -> Column:
        """The value of a key, where the column is a MAP."""
        return Column(entry_name(self.name, self._value(key)))

    def as_predicate(self) -> Predicate:
        """The value of a BOOLEAN column is true."""
        return Compare("=", self.name, value=True)

    def is_in(self, values: Iterable[Any]) -> Predicate:
        """The value is one of these; with None among them all other rows are unknown, as in SQL."""
        if isinstance(values, str | bytes):
            raise InvalidArgumentError(f"col({self.name!r}).is_in({values!r}): give a list of values")
        return In(self.name, tuple(None if value is None else self._value(value) for value in values))

    def not_in(self, values: Iterable[Any]) -> Predicate:
        """The value is none of these, and not null."""
        return Not(self.is_in(values))

    def between(self, low: Any, high: Any) -> Predicate:
        """`low <= value <= high`."""
        return conjunction(self >= low, self <= high)

    def is_null(self) -> Predicate:
        """There is no value."""
        return IsNull(self.name)

    def is_not_null(self) -> Predicate:
        """There is a value."""
        return IsNull(self.name, negated=True)

    def starts_with(self, text: str) -> Predicate:
        """The text begins with `text`."""
        return Match(TextTest.STARTS_WITH, self.name, self._text(text))

    def ends_with(self, text: str) -> Predicate:
        """The text ends with `text`."""
        return Match(TextTest.ENDS_WITH, self.name, self._text(text))

    def contains(self, text: str) -> Predicate:
        """The text holds `text` somewhere."""
        return Match(TextTest.CONTAINS, self.name, self._text(text))

    def like(self, pattern: str) -> Predicate:
        """The text is like the pattern: `%` is any text, `_` any character; a backslash takes them literally."""
        return Match(TextTest.LIKE, self.name, self._text(pattern))

    def _text(self, text: object) -> str:
        if not isinstance(text, str):
            raise InvalidArgumentError(f"col({self.name!r}) can be tested for text only, not for {text!r}")
        return text

    def _value(self, value: object) -> Any:
        """The literal of a comparison, as a plain Python value or a datetime64 where nanoseconds need one.

        Raises: InvalidArgumentError for None, which equals nothing, for columns, and for types that have no literal.
        """
        if value is None:
            raise InvalidArgumentError(f"nothing equals None; write col({self.name!r}).is_null() or .is_not_null()")
        if isinstance(value, pa.Scalar):
            value = value.as_py()
        if hasattr(value, "to_datetime64"):
            # A time of pandas may have nanoseconds, which a datetime has not.
            value = value.to_datetime64() if value.nanosecond else value.to_pydatetime()  # type: ignore[attr-defined]
        if isinstance(value, np.generic) and not isinstance(value, np.datetime64):
            value = value.item()
        if isinstance(value, bytearray | memoryview):
            value = bytes(value)
        if isinstance(value, bool | int | float | Decimal | str | bytes | date | time | np.datetime64):
            return value
        if isinstance(value, Column | Condition):
            raise InvalidArgumentError(f"col({self.name!r}) can be compared with values only, not with columns")
        raise InvalidArgumentError(f"col({self.name!r}) cannot be compared with a {type(value).__name__}: {value!r}")
