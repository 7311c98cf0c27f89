"""The kinds of values of fields of specs, and how each is read from values of people, JSON and templates.

A kind is a mark in an annotation: `Size = Annotated[int, Bounds(least=1), SIZE]`. Values of a kind are kept in one
form, here the number of bytes, and may be given in others, here also as `50 gb`. A kind reads these other forms and
says in words what it accepts. The value read is checked by the annotation: its type and its `Bounds`.

    kind         kept as            given as
    flag         bool               true or false, as text too
    count …      int                also the digits of it
    amount       float              also the digits of it
    size         bytes              50 gb, 64 mb, or a number
    duration     milliseconds       30 days, PT1H, a timedelta, or a number of milliseconds
    moment       epoch milliseconds a datetime, an ISO time, epoch milliseconds, or an age: 7 d, a timedelta
    condition    SQL text           also an expression of columns
    partition    values by column   also day=2013-01-01,hour=5, or a JSON object
    list, map    list, map          also JSON, and texts with commas between
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta, tzinfo
from typing import Annotated, Any, Final, Literal

from paimon_engine.env import now_ms
from paimon_engine.predicate.tree import Condition as ConditionTree
from paimon_engine.units import moment_ms, parse_duration_ms, parse_size_bytes, timedelta_ms

_FLAGS: Final = {"true": True, "false": False, "yes": True, "no": False, "1": True, "0": False}
_LITERAL_MAX: Final = 100_000
"""Characters of a list or map as Python writes it: longer ones are JSON."""
_INTEGER: Final = re.compile(r"\s*[+-]?\d{1,19}\s*")
_SPAN: Final = re.compile(
    r"(?:(?P<days>-?\d{1,9}) days?, )?(?P<hours>\d{1,2}):(?P<minutes>\d{2}):(?P<seconds>\d{2}(?:\.\d{1,6})?)"
)


class NoValueError(ValueError):
    """A template left no value where one is needed; the text says where, and what to do."""


@dataclass(frozen=True, slots=True)
class Edge:
    """Where a value comes from, and so how it is read.

    Ages are counted back from `now_ms`, by default from now. A time without a zone is one of `zone`, by default local.
    With `is_rendered` values come from templates, which write `None` or nothing where there is no value.
    """

    now_ms: int | None = None
    zone: tzinfo | None = None
    is_rendered: bool = False


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of a number, both within; with `above` the number must be greater than that. `words` are for messages."""

    least: float | None = None
    most: float | None = None
    above: float | None = None
    words: str = ""

    def __contains__(self, number: float) -> bool:
        return (
            (self.least is None or number >= self.least)
            and (self.most is None or number <= self.most)
            and (self.above is None or number > self.above)
        )

    def __str__(self) -> str:
        if self.words:
            return self.words
        named = ((self.least, "at least"), (self.above, "greater than"), (self.most, "at most"))
        return " and ".join(f"{words} {bound}" for bound, words in named if bound is not None)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of value: its name, what it takes in words, and how it is written on the command line.

    `read` returns the stored form of the given value, and a value of an unknown form unchanged.
    Raises: ValueError or InvalidArgumentError for a text that means no value.

    `check` raises InvalidArgumentError for a value of the right form that means nothing, with the reason.
    """

    name: str
    takes: str
    metavar: str
    read: Callable[[Any, Edge], Any]
    check: Callable[[Any], None] | None = None


def _read_flag(value: Any, _: Edge) -> Any:
    if not isinstance(value, str):
        return value
    text = value.strip().lower()
    if text not in _FLAGS:
        raise ValueError(value)
    return _FLAGS[text]


def _read_integer(value: Any, _: Edge) -> Any:
    if not isinstance(value, str):
        return value
    if not _INTEGER.fullmatch(value):
        raise ValueError(value)
    return int(value)


def _read_amount(value: Any, _: Edge) -> Any:
    return float(value) if isinstance(value, str) else value


def _read_size(value: Any, _: Edge) -> Any:
    return parse_size_bytes(value) if isinstance(value, str) else value


def _read_duration(value: Any, edge: Edge) -> Any:
    value = _rendered_span(value, edge)
    if isinstance(value, timedelta):
        return timedelta_ms(value)
    return parse_duration_ms(value) if isinstance(value, str) else value


def _read_moment(value: Any, edge: Edge) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    value = _rendered_span(value, edge)
    return moment_ms("time", value, now_ms=now_ms() if edge.now_ms is None else edge.now_ms, zone=edge.zone)


def _rendered_span(value: Any, edge: Edge) -> Any:
    """The timedelta of which a template has made the text `3 days, 1:00:00`; all else unchanged."""
    found = _SPAN.fullmatch(value.strip()) if edge.is_rendered and isinstance(value, str) else None
    return value if found is None else timedelta(**{unit: float(part) for unit, part in found.groupdict("0").items()})


def _read_condition(value: Any, _: Edge) -> Any:
    return str(value) if isinstance(value, ConditionTree) else value


def _check_condition(value: Any) -> None:
    # Importing operators must not load the parser of SQL.
    from paimon_engine.predicate.parse import parse_where

    parse_where(value)


def _read_map(value: Any, _: Edge) -> Any:
    """A map of `{"day": "2013-01-01"}` or `day=2013-01-01,hour=5`."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("{"):
        return _literal(value)
    pairs = [item.partition("=") for item in value.split(",")]
    if not all(name.strip() and sign for name, sign, _ in pairs):
        raise ValueError(value)
    return {name.strip(): text for name, _, text in pairs}


def _read_partition(value: Any, edge: Edge) -> Any:
    """As `_read_map`. Raises: NoValueError where a template has left no value for a column."""
    found = _read_map(value, edge)
    if edge.is_rendered and isinstance(found, Mapping):
        for column, item in found.items():
            if isinstance(item, str) and item.strip() == "None":
                raise NoValueError(
                    f"a template left no value for {column}. Where null is meant, give {{{column!r}: None}} without "
                    "a template; a partition that is called None can be named from the shell and from Python"
                )
    return found


def _read_texts(value: Any, edge: Edge) -> Any:
    """A map as `_read_map` reads it; numbers and flags that a text has without quotes are texts, too."""
    found = _read_map(value, edge)
    if isinstance(value, str) and isinstance(found, dict):
        return {name: json.dumps(item) if isinstance(item, int | float) else item for name, item in found.items()}
    return found


def _read_as_given(value: Any, _: Edge) -> Any:
    return value


FLAG: Final = Kind("flag", "true or false", "", _read_flag)
INTEGER: Final = Kind("integer", "an integer", "N", _read_integer)
AMOUNT: Final = Kind("amount", "a number", "N", _read_amount)
TEXT: Final = Kind("text", "a text", "TEXT", _read_as_given)
SIZE: Final = Kind("size", "a size such as '50 gb', or a number of bytes", "SIZE", _read_size)
DURATION: Final = Kind(
    "duration", "a duration such as '30 days' or 'PT1H', or a number of milliseconds", "TIME", _read_duration
)
MOMENT: Final = Kind(
    "moment", "a datetime, an ISO time, epoch milliseconds, or an age such as '7 d'", "TIME", _read_moment
)
NAME: Final = Kind("name", "a name as text", "NAME", _read_as_given)
CONDITION: Final = Kind(
    "condition", "a SQL condition as text, or an expression of columns", "CONDITION", _read_condition, _check_condition
)
PATTERN: Final = Kind("pattern", "a regular expression as text", "REGEX", _read_as_given)
ADDRESS: Final = Kind("address", "a path or an address as text", "PATH", _read_as_given)
PARTITION: Final = Kind(
    "partition", "values by column, such as 'day=2013-01-01,hour=5' or a map", "COLUMN=VALUE", _read_partition
)
TEXTS: Final = Kind("map", "names with values, such as 'a=1,b=2' or a map", "NAME=VALUE", _read_texts)

Count = Annotated[int, Bounds(least=1)]
"""How many of something, where none at all makes no sense."""

Index = Annotated[int, Bounds(least=0)]
"""A number that counts from 0, such as that of a bucket or of a snapshot."""

Amount = Annotated[float, Bounds(above=0)]
"""How much of something: seconds, files per second."""

Size = Annotated[int, Bounds(least=1), SIZE]
"""Bytes."""

Duration = Annotated[int, Bounds(least=0, most=10_000 * 366 * 86_400_000), DURATION]
"""Milliseconds of a time span, up to 10,000 years, which libraries can add to a time."""

Span = Annotated[int, Bounds(least=1, most=10_000 * 366 * 86_400_000), DURATION]
"""As `Duration`, where none at all makes no sense."""

Moment = Annotated[int, Bounds(words="of epoch milliseconds"), MOMENT]
"""Epoch milliseconds; any integer of 64 bits, since people write very large ones for the end of time.

Actions that remove what is older than a time take none in the future: `check_older_than`."""

Name = Annotated[str, NAME]
"""Name of a tag, a branch, a column, a consumer, a quarantine."""

ConditionText = Annotated[str, CONDITION]
"""A SQL condition over columns."""

Pattern = Annotated[str, PATTERN]
"""A regular expression."""

Address = Annotated[str, ADDRESS]
"""A path or an address of files."""

PartitionValues = Annotated[Mapping[str, Any], PARTITION]
"""Values of partition columns, by their names."""

Texts = Annotated[Mapping[str, str], TEXTS]
"""Names with texts."""

IfExists = Literal["error", "ignore"]
"""What to do if a name is taken: fail, or leave the existing one."""

DryRun = Annotated[bool, "say what would be done, and do nothing"]
"""The flag of every action that can plan without doing."""

ToQuarantine = Annotated[bool, "move it to a quarantine instead of deleting it, so that restore can restore it"]
"""The flag of every action that deletes."""

Where = Annotated[ConditionText | None, "SQL condition over partition columns; all partitions without one"]
"""A choice of partitions."""

_BY_TYPE: Final[Mapping[Any, Kind]] = {bool: FLAG, int: INTEGER, float: AMOUNT, str: TEXT}


def kind_of_type(hint: Any) -> Kind | None:
    """The kind of a plain type without a mark."""
    return _BY_TYPE.get(hint)


def read_list(text: str, item: Kind | None) -> Sequence[Any]:
    """The items of `["a", "b"]`, `['a', 'b']` or `a, b`; a partition or an address is one item, also if it has commas.

    Raises: ValueError if it is not a list.
    """
    if text.strip().startswith(("[", "(")):
        found = _literal(text)
        if not isinstance(found, list | tuple):
            raise ValueError(text)
        return found
    if item in (PARTITION, TEXTS, ADDRESS):
        return [text]
    if item is None:
        raise ValueError(text)
    return [name for part in text.split(",") if (name := part.strip())]


def _literal(text: str) -> Any:
    """The value of a JSON text, or of a list or map of Python as a template renders it.

    Raises: ValueError.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    if len(text) > _LITERAL_MAX:
        raise ValueError(text)
    try:
        return ast.literal_eval(text.strip())
    except (SyntaxError, MemoryError, RecursionError, TypeError) as error:
        raise ValueError(text) from error
