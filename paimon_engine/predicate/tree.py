"""The tree of a row filter, and its text.

A node is a plain value: `Compare(">", "delay", 15)`. Nodes combine with `&`, `|` and `~`; `str(node)` is a SQL
condition that `parse_where` reads back to an equal node, so that jobs can carry filters as text.

A column is a name, a path into ROW columns with dots (`address.city`), or the value of a key of a MAP
(`tags['colour']`). Where a table has a column of just that name, dots and brackets included, the column is meant.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time
from decimal import Decimal
from enum import StrEnum
from math import isfinite
from typing import Any, Final, Literal, NoReturn, TypeVar

import numpy as np

from paimon_engine.errors import InvalidArgumentError

_T = TypeVar("_T")

Operator = Literal["=", "!=", "<", "<=", ">", ">="]

NEGATED: Final[dict[Operator, Operator]] = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
"""What holds for a value that is not null where the comparison does not."""


class Condition:
    """What all nodes can do: be combined, and be written as SQL."""

    __slots__ = ()

    def __and__(self, other: Condition) -> Predicate:
        return conjunction(checked(self), checked(other))

    def __or__(self, other: Condition) -> Predicate:
        return disjunction(checked(self), checked(other))

    def __invert__(self) -> Predicate:
        part = checked(self)
        return IsNull(part.column, not part.negated) if isinstance(part, IsNull) else Not(part)

    def as_predicate(self) -> Predicate:
        """The node itself; of a column, that it is true.

        Raises: InvalidArgumentError.
        """
        if isinstance(self, Compare | In | IsNull | Match | And | Or | Not):
            return self
        raise InvalidArgumentError(f"a {type(self).__name__} is not a filter")

    def __bool__(self) -> NoReturn:
        raise InvalidArgumentError(
            f"a filter is neither true nor false: write & | ~ for and, or, not, between(a, b) for a <= x <= b, and "
            f"parentheses around comparisons (in {self})"
        )

    def __str__(self) -> str:
        """The filter as a SQL condition, which `parse_where` reads back."""
        return _sql_of(checked(self))


@dataclass(frozen=True, slots=True)
class Compare(Condition):
    """`column operator value`; value is never null."""

    operator: Operator
    column: str
    value: Any


@dataclass(frozen=True, slots=True)
class In(Condition):
    """`column IN (values)`; without values no row matches. A null among them makes other rows unknown."""

    column: str
    values: tuple[Any, ...]
    _made: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def made(self, form: Hashable, make: Callable[[], _T]) -> _T:
        """What `make` gives for these values, kept for the next file and batch: a list may have many thousands.

        `form` says what is made. There are to be few of them, such as a type, or a function of a module.
        """
        if form not in self._made:
            self._made[form] = make()
        made: _T = self._made[form]
        return made

    def __reduce__(self) -> tuple[type[In], tuple[str, tuple[Any, ...]]]:
        """What was made of the values is not sent to other processes."""
        return In, (self.column, self.values)


@dataclass(frozen=True, slots=True)
class IsNull(Condition):
    """`column IS NULL`, or `IS NOT NULL` where negated."""

    column: str
    negated: bool = False


class TextTest(StrEnum):
    """What a text may be tested for."""

    STARTS_WITH = "starts_with"
    ENDS_WITH = "ends_with"
    CONTAINS = "contains"
    LIKE = "like"


@dataclass(frozen=True, slots=True)
class Match(Condition):
    """A test of a text column.

    In patterns of LIKE `%` is any text and `_` any character; a backslash takes them literally.
    """

    test: TextTest
    column: str
    text: str

    @property
    def prefix(self) -> str:
        """What every text that matches begins with; empty where that is not known."""
        match self.test:
            case TextTest.STARTS_WITH:
                return self.text
            case TextTest.LIKE:
                return _like_prefix(self.text)
            case _:
                return ""


@dataclass(frozen=True, slots=True)
class And(Condition):
    """All parts hold."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or(Condition):
    """At least one part holds."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Not(Condition):
    """The part is false; unknown stays unknown."""

    part: Predicate


Predicate = Compare | In | IsNull | Match | And | Or | Not


def checked(condition: object) -> Predicate:
    """The condition, if it is one.

    Raises: InvalidArgumentError.
    """
    if isinstance(condition, Condition):
        return condition.as_predicate()
    raise InvalidArgumentError(f"{condition!r} is not a filter; combine comparisons like col('k') > 1, in parentheses")


def conjunction(*parts: Predicate) -> Predicate:
    """All parts hold; parts that are conjunctions are taken apart."""
    flat = _flat(parts, And)
    return flat[0] if len(flat) == 1 else And(flat)


def disjunction(*parts: Predicate) -> Predicate:
    """At least one part holds; parts that are disjunctions are taken apart."""
    flat = _flat(parts, Or)
    return flat[0] if len(flat) == 1 else Or(flat)


def _flat(parts: Iterable[Predicate], kind: type[And | Or]) -> tuple[Predicate, ...]:
    """The parts, those of `kind` taken apart."""
    flat: list[Predicate] = []
    for part in parts:
        # At once: who combines many conditions one by one comes here with all before, each time.
        flat += part.parts if isinstance(part, kind) else (part,)
    return tuple(flat)


def columns_of(predicate: Predicate) -> frozenset[str]:
    """Columns that the predicate looks at, as it names them."""
    match predicate:
        case Compare() | In() | IsNull() | Match():
            return frozenset({predicate.column})
        case And(parts) | Or(parts):
            return frozenset().union(*(columns_of(part) for part in parts))
        case Not(part):
            return columns_of(part)


def root_columns(predicate: Predicate, names: Iterable[str]) -> frozenset[str]:
    """Columns of a table, by `names`, that the predicate may look at: of parts of a ROW or MAP it is the whole."""
    looked_at = columns_of(predicate)
    return frozenset(
        name for name in names for column in looked_at if column == name or column.startswith((f"{name}.", f"{name}["))
    )


def entry_name(column: str, key: Any) -> str:
    """How the value of a key of a MAP column is named."""
    return f"{column}[{literal_sql(key)}]"


def renamed(predicate: Predicate, names: Mapping[str, str]) -> Predicate | None:
    """The predicate over columns of other names; None if it looks at a column that has none, or into one."""
    match predicate:
        case Compare() | In() | IsNull() | Match():
            name = names.get(predicate.column)
            # The same object, where it may be, keeps what was made of its values.
            return predicate if name == predicate.column else None if name is None else replace(predicate, column=name)
        case And(parts) | Or(parts):
            inner = [renamed(part, names) for part in parts]
            known = tuple(part for part in inner if part is not None)
            return None if len(known) < len(inner) else type(predicate)(known)
        case Not(part):
            one = renamed(part, names)
            return None if one is None else Not(one)


def with_values(predicate: Predicate, convert: Callable[[Any], Any]) -> Predicate:
    """The predicate with all values that columns are compared with converted; nulls in lists are left out.

    `convert` is a function of a module: what it makes of a list is kept.
    """
    match predicate:
        case Compare(operator, column, value):
            return Compare(operator, column, convert(value))
        case In(column, values):
            return predicate.made(convert, lambda: In(column, tuple(convert(one) for one in values if one is not None)))
        case IsNull() | Match():
            return predicate
        case And(parts) | Or(parts):
            return type(predicate)(tuple(with_values(part, convert) for part in parts))
        case Not(part):
            return Not(with_values(part, convert))


def with_lists(predicate: Predicate) -> Predicate:
    """The predicate with `k = 1 OR k = 2` as `k IN (1, 2)`: a list is looked up at once, however long it is."""
    match predicate:
        case And(parts):
            return And(tuple(map(with_lists, parts)))
        case Not(part):
            return Not(with_lists(part))
        case Or(parts):
            return _with_lists_of_columns(parts)
        case _:
            return predicate


def _with_lists_of_columns(parts: Sequence[Predicate]) -> Predicate:
    """The disjunction of the parts, with one list for each column that several of them compare with values."""
    values: dict[str, list[Any]] = {}
    places: dict[str, int] = {}
    found: list[Predicate] = []
    for part in parts:
        match part:
            case Compare("=", column, value):
                listed: Sequence[Any] = (value,)
            case In(column, listed):
                pass
            case _:
                found.append(with_lists(part))
                continue
        if column in values:
            found[places[column]] = part
            values[column] += listed
        else:
            values[column], places[column] = [*listed], len(found)
            found.append(part)
    for column, place in places.items():
        if len(values[column]) > 1:
            found[place] = In(column, tuple(values[column]))
    return disjunction(*found)


def conjuncts_of(predicate: Predicate | None) -> list[Predicate]:
    """Predicates that must all hold where `predicate` does; none for None."""
    match predicate:
        case None:
            return []
        case And(parts):
            return [conjunct for part in parts for conjunct in conjuncts_of(part)]
        case _:
            return [predicate]


def _like_prefix(pattern: str) -> str:
    prefix, at = "", 0
    while at < len(pattern) and pattern[at] not in "%_":
        at += pattern[at] == "\\"
        prefix += pattern[at : at + 1]
        at += 1
    return prefix


# ── text ────────────────────────────────────────────────────────────────────────────────────────

_ODD_FLOATS: Final = {"nan": "'NaN'", "inf": "'Infinity'", "-inf": "'-Infinity'"}
_FUNCTIONS: Final = {
    TextTest.STARTS_WITH: "STARTSWITH",
    TextTest.ENDS_WITH: "ENDSWITH",
    TextTest.CONTAINS: "CONTAINS",
}


def _sql_of(predicate: Predicate) -> str:
    """The predicate in SQL that `parse` reads back as an equal one."""
    match predicate:
        case Compare(operator, column, value):
            return f"{_name(column)} {'<>' if operator == '!=' else operator} {literal_sql(value)}"
        case In(column, values):
            # SQL has no empty list; what can never be said of a value, and is unknown of null, is the same.
            listed = ", ".join("NULL" if value is None else literal_sql(value) for value in values)
            return f"{_name(column)} IN ({listed})" if values else f"NOT ({_name(column)} = {_name(column)})"
        case IsNull(column, negated):
            return f"{_name(column)} IS {'NOT ' if negated else ''}NULL"
        case Match(TextTest.LIKE, column, text):
            return f"{_name(column)} LIKE {_quoted(text)}"
        case Match(test, column, text):
            return f"{_FUNCTIONS[test]}({_name(column)}, {_quoted(text)})"
        case And(parts):
            return " AND ".join(_part(part) for part in parts)
        case Or(parts):
            return " OR ".join(_part(part) for part in parts)
        case Not(part):
            return f"NOT ({_sql_of(part)})"


def _part(predicate: Predicate) -> str:
    text = _sql_of(predicate)
    return f"({text})" if isinstance(predicate, And | Or) else text


def _name(column: str) -> str:
    from sqlglot import expressions as sql

    return str(sql.to_identifier(column, quoted=True).sql(dialect="spark"))


def _quoted(text: str) -> str:
    from sqlglot import expressions as sql

    return str(sql.Literal.string(text).sql(dialect="spark"))


def literal_sql(value: Any) -> str:
    """A value as a SQL literal of its own type."""
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value)
        case float():
            return f"CAST({repr(value) if isfinite(value) else _ODD_FLOATS[str(value)]} AS DOUBLE)"
        case Decimal():
            text = f"{value:f}"
            return text if "." in text else f"CAST({_quoted(str(value))} AS DECIMAL)"
        case str():
            return _quoted(value)
        case bytes():
            return f"X'{value.hex()}'"
        case datetime():
            zone = "_NTZ" if value.tzinfo is None else "_LTZ"
            return f"TIMESTAMP{zone} '{value.isoformat(' ')}'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case time():
            return f"TIME '{value.isoformat()}'"
        case np.datetime64():
            return f"TIMESTAMP_NTZ '{str(value.astype('datetime64[ns]')).replace('T', ' ')}'"
        case _:
            raise InvalidArgumentError(f"a {type(value).__name__} cannot be written in a filter: {value!r}")
