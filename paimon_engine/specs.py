"""Specs: what is asked of an action, as frozen dataclasses whose annotations say what each field may hold.

A spec is checked where it is made, so that every way to one (Python, JSON of a job, the command line, Airflow) meets
the same rules, and no action sees a value that its field does not allow: True is no number, NaN is no time, "false"
is no flag. What an annotation can say: `bool`, `int`, `float`, `str`, None, `Literal`, `Sequence`, `Mapping`, unions,
classes, `Any`, and bounds of numbers (`Annotated[int, Bounds(least=1)]`, see `Count` and its like).

Where all values are texts, as after Airflow has rendered its templates, `spec_from_texts` reads them by the same
annotations.
"""

from __future__ import annotations

import math
import operator
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import lru_cache
from numbers import Integral
from typing import Annotated, Any, ClassVar, Final, TypeVar

from paimon_engine.errors import InvalidArgumentError, shown

DEPTH_MAX: Final = 32
"""Lists in lists: a schema change with a nested column has three, and JSON of thousands would end in a deep stack."""

_LONG: Final = 1 << 63
_NOTHING: Final = ("", "none", "null")
_FLAGS: Final = {"true": True, "false": False}


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


Count = Annotated[int, Bounds(least=1)]
"""How many of something, where none at all makes no sense."""

Span = Annotated[int, Bounds(least=1, most=10_000 * 366 * 86_400_000)]
"""Milliseconds of a time span, up to 10,000 years, which libraries can add to a time."""

Index = Annotated[int, Bounds(least=0)]
"""A number that counts from 0, such as that of a bucket or of a snapshot."""

Amount = Annotated[float, Bounds(above=0)]
"""How much of something: seconds, files per second."""

Moment = Annotated[int, Bounds(words="of epoch milliseconds")]
"""Epoch milliseconds; any whole number of 64 bits, since people write very large ones for the end of time.

Actions that remove what is older than a time take none in the future: `table.removal.retention.check_older_than`."""

S = TypeVar("S")


class Spec:
    """What specs have in common: a frozen dataclass that derives from this is checked where it is made."""

    __slots__ = ()

    spec_name: ClassVar[str] = ""
    """What messages call it; by default the name of the class in small letters."""

    def __post_init__(self) -> None:
        """Raises: InvalidArgumentError naming the field, its value and what it may hold."""
        check_fields(self)


def check_fields(spec: Any) -> None:
    """Checks every field of a dataclass by its annotation; whole numbers of other libraries become `int`.

    Raises: InvalidArgumentError naming the spec, the field, its value and what it may hold.
    """
    kind: Any = type(spec)
    for item, hint in _hints(kind):
        value = getattr(spec, item.name)
        if isinstance(value, Integral) and not isinstance(value, int):
            value = operator.index(value)
            object.__setattr__(spec, item.name, value)
        problem = _unfit(value)
        if problem is None and not _fits(value, hint):
            problem = f"give {described(hint)}"
        if problem is not None:
            # A field that is not printed may hold what nobody should see.
            seen = shown(value) if item.repr else "…"
            raise InvalidArgumentError(f"{name_of_spec(kind)}: {item.name}={seen} is not allowed; {problem}")


def spec_from(kind: type[S], arguments: Mapping[str, Any], name: str = "") -> S:
    """The spec with these fields, as they come from JSON; `name` is what messages call it.

    Raises: InvalidArgumentError naming a field that is unknown, missing or wrong.
    """
    name = name or name_of_spec(typing.cast("Any", kind))
    if not isinstance(arguments, Mapping):
        raise InvalidArgumentError(f"{name}: {shown(arguments)} is not allowed; give names and values")
    known = {item.name: item for item in fields(typing.cast("Any", kind))}
    for given in arguments:
        if given not in known:
            raise InvalidArgumentError(f"{name}: there is no field {shown(given)}; there are {', '.join(known)}")
    for item in known.values():
        if item.name not in arguments and item.default is MISSING and item.default_factory is MISSING:
            raise InvalidArgumentError(f"{name}: the field {item.name} is missing")
    return kind(**arguments)


def spec_from_texts(kind: type[S], arguments: Mapping[str, Any], name: str = "") -> S:
    """As `spec_from`, where texts stand for flags, numbers and None, as templates render them.

    A flag is `true` or `false` in any capitals, and nothing else; `None`, `null` or an empty text is None where the
    field may be None and takes no text itself.

    Raises: InvalidArgumentError.
    """
    if not isinstance(arguments, Mapping):
        return spec_from(kind, arguments, name)
    hints = {item.name: hint for item, hint in _hints(typing.cast("Any", kind))}
    read = {key: _read(value, hints[key]) if key in hints else value for key, value in arguments.items()}
    return spec_from(kind, read, name)


@lru_cache(maxsize=256)
def name_of_spec(kind: Any) -> str:
    """`expire_snapshots` for the class `ExpireSnapshots`."""
    return getattr(kind, "spec_name", "") or re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


# ── what a value may be ─────────────────────────────────────────────────────────────────────────


@lru_cache(maxsize=256)
def _hints(kind: Any) -> tuple[tuple[Any, Any], ...]:
    """The fields that callers give, with their annotations resolved."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return tuple((item, hints[item.name]) for item in fields(kind) if item.init)


def _fits(value: Any, hint: Any) -> bool:
    match typing.get_origin(hint):
        case typing.Annotated:
            inner, *marks = typing.get_args(hint)
            return _fits(value, inner) and all(value in mark for mark in marks if isinstance(mark, Bounds))
        case typing.Union | types.UnionType:
            return any(_fits(value, choice) for choice in typing.get_args(hint))
        case typing.Literal:
            return isinstance(value, str) and value in typing.get_args(hint)
        case None:
            return _fits_class(value, hint)
        case origin:
            return isinstance(value, origin) and _fit_inside(value, origin, typing.get_args(hint))


def _fits_class(value: Any, hint: Any) -> bool:
    if hint is Any:
        return True
    if isinstance(hint, TypeVar) or not isinstance(hint, type):
        return value is None if hint is None else True
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool) and -_LONG <= value < _LONG
    if hint is float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and abs(value) < _LONG
    if hint in (Mapping, Sequence, dict, list, tuple):
        return isinstance(value, hint) and not isinstance(value, str | bytes)
    return isinstance(value, hint)


def _fit_inside(value: Any, origin: Any, args: Sequence[Any]) -> bool:
    if issubclass(origin, Mapping):
        return all(_fits(key, args[0]) and _fits(item, args[1]) for key, item in value.items())
    if origin is tuple and args[-1] is not Ellipsis:
        return len(value) == len(args) and all(map(_fits, value, args))
    # A text is a sequence of texts to Python, and to nobody who calls.
    return not isinstance(value, str | bytes) and all(_fits(item, args[0]) for item in value)


def described(hint: Any) -> str:
    """What an annotation allows, in words."""
    match typing.get_origin(hint):
        case typing.Annotated:
            inner, *marks = typing.get_args(hint)
            return ", ".join([described(inner), *(str(mark) for mark in marks)])
        case typing.Union | types.UnionType:
            return " or ".join(dict.fromkeys(described(choice) for choice in typing.get_args(hint)))
        case typing.Literal:
            return " or ".join(repr(choice) for choice in typing.get_args(hint))
        case None:
            return _NAMES.get(hint, getattr(hint, "__name__", "a value"))
        case origin if issubclass(origin, Mapping):
            return f"names with, for each, {described(typing.get_args(hint)[1])}"
        case _:
            return f"a list, each item {described(typing.get_args(hint)[0])}"


_NAMES: Final[Mapping[Any, str]] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    type(None): "nothing (None)",
    Any: "a value",
    Mapping: "names with values",
    Sequence: "a list",
}


# ── texts for values ────────────────────────────────────────────────────────────────────────────


def _read(value: Any, hint: Any) -> Any:
    """The value that a text stands for, by the first kind of the annotation that can read it; else the text itself."""
    kinds = _choices(hint)
    if isinstance(value, list | tuple) and not isinstance(value, str):
        inner = next((args[0] for kind in kinds if (args := _items(kind)) is not None), Any)
        return [_read(item, inner) for item in value]
    if not isinstance(value, str) or any(kind in (str, Any) for kind in kinds):
        return value
    text = value.strip().lower()
    if type(None) in kinds and text in _NOTHING:
        return None
    for kind in kinds:
        reader = _READERS.get(kind)
        if reader is not None:
            try:
                return reader(text)
            except (ValueError, KeyError):
                continue
    return value


def _choices(hint: Any) -> list[Any]:
    match typing.get_origin(hint):
        case typing.Annotated:
            return _choices(typing.get_args(hint)[0])
        case typing.Union | types.UnionType:
            return [kind for choice in typing.get_args(hint) for kind in _choices(choice)]
        case typing.Literal:
            return [str]
        case _:
            return [hint]


def _items(kind: Any) -> tuple[Any, ...] | None:
    origin = typing.get_origin(kind)
    return typing.get_args(kind) if isinstance(origin, type) and not issubclass(origin, Mapping) else None


def _whole(text: str) -> int:
    if not re.fullmatch(r"[+-]?\d{1,19}", text):
        raise ValueError(text)
    return int(text)


_READERS: Final[Mapping[Any, Callable[[str], Any]]] = {bool: _FLAGS.__getitem__, int: _whole, float: float}


# ── values that no field may hold ───────────────────────────────────────────────────────────────


def _unfit(value: Any) -> str | None:
    """What is wrong with a value, or anything in it, whatever the field; looks inside without a deep stack."""
    if not isinstance(value, str | float | list | tuple | Mapping):
        return None
    for item, depth in _everything_in(value):
        if depth > DEPTH_MAX:
            return f"nest lists and objects at most {DEPTH_MAX} deep"
        if isinstance(item, float) and not math.isfinite(item):
            return "NaN and infinity are no values"
        if isinstance(item, str) and not item.isascii():
            try:
                item.encode()
            except UnicodeEncodeError:
                return "the text holds half a character (a lone surrogate)"
    return None


def _everything_in(value: Any) -> Iterator[tuple[Any, int]]:
    left: list[tuple[Any, int]] = [(value, 0)]
    while left:
        item, depth = left.pop()
        yield item, depth
        if depth > DEPTH_MAX:
            return
        if isinstance(item, Mapping):
            left.extend((inner, depth + 1) for pair in item.items() for inner in pair)
        elif isinstance(item, list | tuple):
            left.extend((inner, depth + 1) for inner in item)
