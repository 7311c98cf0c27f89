"""Makes many instances of a frozen dataclass from columns of its fields' values."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import fields
from functools import cache
from itertools import repeat
from typing import Any, Final, TypeVar, cast

_T = TypeVar("_T")

_AT_ONCE: Final = 1_000
"""Instances whose fields are set together, so that these are still in the processor's cache."""


class Same:
    """A column that has one value for all instances."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def at(self, _places: object) -> Same:
        """The column of the instances at these places."""
        return self


FieldValues = Sequence[Any] | Same
"""Of one field, for all instances."""


@cache
def _setters(kind: Hashable) -> tuple[Any, ...]:
    """What sets each field, in order, past the check that instances are frozen."""
    assert isinstance(kind, type)
    if hasattr(kind, "__post_init__") or "__slots__" not in vars(kind):
        raise TypeError(f"{kind.__name__} has a __post_init__, which would not run, or no slots")
    return tuple(getattr(kind, field.name).__set__ for field in fields(kind))


def instances(kind: type[_T], count: int, columns: Sequence[FieldValues]) -> list[_T]:
    """So many instances of a dataclass with slots; `columns` have the values of each of its fields, in order.

    They equal those of `kind(...)`, whose `__init__` takes more than twice as long for 20 fields (measured).

    Raises: TypeError if the class has a `__post_init__` or no slots; ValueError for columns of other lengths.
    """
    setters = _setters(cast(Hashable, kind))
    if any(not isinstance(column, Same) and len(column) != count for column in columns):
        raise ValueError(f"columns that have not {count} values each")
    made: list[_T] = []
    for begin in range(0, count, _AT_ONCE):
        some = list(map(object.__new__, repeat(kind, min(_AT_ONCE, count - begin))))
        for setter, column in zip(setters, columns, strict=True):
            values = repeat(column.value) if isinstance(column, Same) else column[begin : begin + _AT_ONCE]
            deque(map(setter, some, values), maxlen=0)
        made += some
    return made
