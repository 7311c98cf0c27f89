"""Specs: requests for actions, as frozen dataclasses whose annotations define the values of each field.

    max_bytes: Annotated[Size | None, "rewrite no more files than these together"] = None

is a field of the kind `Size` (`kinds`), which may also be left out, with a line of help. From such fields come the
options of commands, the templates of operators and the schema of jobs.

A spec is read and checked where it is made, so that every way to one (Python, JSON of a job, the command line, Airflow)
meets the same rules, and no action sees a value that its field does not allow: True is not a number, NaN is not a time,
"perhaps" is not a flag. None for a list or a map that may be left out is as if it were left out. `decode` makes one
from named values. What an annotation can say besides kinds: `bool`, `int`, `float`, `str`, None, `Literal`, `Sequence`,
`Mapping`, unions, classes, `Any`, and bounds of numbers.
"""

from __future__ import annotations

import math
import operator
import re
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import lru_cache
from numbers import Integral
from typing import Any, ClassVar, Final, TypeVar

from paimon_engine.errors import InvalidArgumentError, shown
from paimon_engine.specs.kinds import ADDRESS, NAME, Bounds, Edge, Kind, NoValueError, kind_of_type, read_list

DEPTH_MAX: Final = 32
"""Lists in lists: a schema change with a nested column has three, and JSON of thousands would end in a deep stack."""

_LONG: Final = 1 << 63
_NOTHING: Final = ("", "none", "null")
_RENDERED_NOTHING: Final = ("", "None", "null")
_HERE: Final = Edge()

S = TypeVar("S")


class Spec:
    """What specs have in common: a frozen dataclass that derives from this is read and checked where it is made."""

    __slots__ = ()

    spec_name: ClassVar[str] = ""
    """What messages call it; by default the name of the class in small letters."""

    def __post_init__(self) -> None:
        """Raises: InvalidArgumentError naming the field, its value and what is allowed."""
        check_fields(self)


@dataclass(frozen=True, slots=True)
class SpecField:
    """A field of a spec, for those that make options, templates or a schema of it."""

    name: str
    hint: Any
    help: str
    default: Any
    is_shown: bool

    @property
    def is_required(self) -> bool:
        """Whether it must be given."""
        return self.default is MISSING

    @property
    def is_empty_if_none(self) -> bool:
        """Whether it is a list or a map, empty by default, so that None can only mean that it is not given."""
        return isinstance(self.default, tuple | Mapping) and not self.default and not self.is_optional

    @property
    def inner(self) -> Any:
        """The annotation without help and without None."""
        return _inner(self.hint)

    @property
    def is_optional(self) -> bool:
        """Whether None is a value of it."""
        return type(None) in _choices(self.hint)

    @property
    def item(self) -> Any:
        """The annotation of the items, if the field is a list; else None."""
        return next((_items(choice) for choice in _choices(self.hint) if _items(choice) is not None), None)

    @property
    def kind(self) -> Kind | None:
        """The kind of its values, or of the items of its list."""
        return next((found for choice in _choices(self.item or self.hint) if (found := kind_of(choice))), None)


def fields_of(spec: Any) -> tuple[SpecField, ...]:
    """The fields that callers give, in order."""
    return _fields_of(spec)


@lru_cache(maxsize=256)
def _fields_of(spec: Any) -> tuple[SpecField, ...]:
    hints = typing.get_type_hints(spec, include_extras=True)
    return tuple(
        SpecField(item.name, hints[item.name], _help(hints[item.name]), _default(item), item.repr)
        for item in fields(spec)
        if item.init
    )


def _default(item: Any) -> Any:
    return item.default if item.default_factory is MISSING else item.default_factory()


def _help(hint: Any) -> str:
    if typing.get_origin(hint) is not typing.Annotated:
        return ""
    return next((mark for mark in reversed(typing.get_args(hint)) if isinstance(mark, str)), "")


def check_fields(spec: Any) -> None:
    """Reads every field of a dataclass by its kind, and checks it by its annotation.

    Raises: InvalidArgumentError naming the spec, the field, its value and what is allowed.
    """
    kind: Any = type(spec)
    for item in fields_of(kind):
        given = getattr(spec, item.name)
        # A field that is not printed may contain a secret.
        value = _read_field(name_of_spec(kind), item, given, _HERE)
        if value is not given:
            object.__setattr__(spec, item.name, value)


def _read_field(name: str, item: SpecField, given: Any, edge: Edge) -> Any:
    """The value of one field, read by its kind and checked. Raises: InvalidArgumentError that shows no secret value."""
    if given is None and item.is_empty_if_none:
        return type(item.default)()
    problem = _invalid_value_reason(given)
    value = given
    if problem is None:
        try:
            value = _read(given, item.hint, edge)
            problem = _invalid_value_reason(value)
        except NoValueError as error:
            problem = str(error)
        except (ValueError, KeyError, OverflowError, TypeError, RecursionError, InvalidArgumentError):
            problem = f"give {described(item.hint)}"
    if problem is None and not _fits(value, item.hint):
        problem = f"give {described(item.hint)}"
    if problem is None:
        problem = _problem_within(value, item.hint)
    if problem is not None:
        raise InvalidArgumentError(
            f"{name}: {item.name}={shown(given) if item.is_shown else '…'} is not allowed; {problem}"
        )
    return value


def _problem_within(value: Any, hint: Any) -> str | None:
    """What is wrong with a value of the right form, as its kind finds."""
    if value is None:
        return None
    kinds = [kind_of(choice) for choice in _choices(hint) if choice is not type(None)]
    try:
        for kind in kinds:
            if kind is not None and kind.check is not None:
                kind.check(value)
    except InvalidArgumentError as error:
        return str(error)
    return None


def decode(spec: type[S], given: Mapping[str, Any], *, name: str = "", edge: Edge = _HERE) -> S:
    """The spec with these values: texts of people and templates, JSON, or values of Python.

    `name` is what messages call it.

    Raises: InvalidArgumentError naming a field that is unknown, missing or wrong, its value and what is allowed.
    """
    name = name or name_of_spec(spec)
    if not isinstance(given, Mapping):
        raise InvalidArgumentError(f"{name}: {shown(given)} is not allowed; give names and values")
    known = {item.name: item for item in fields_of(spec)}
    for key in given:
        if key not in known:
            raise InvalidArgumentError(f"{name}: unknown field {shown(key)}; the fields are {', '.join(known)}")
    for item in known.values():
        if item.name not in given and item.is_required:
            raise InvalidArgumentError(f"{name}: the field {item.name} is missing")
    return spec(**{key: _read_field(name, known[key], value, edge) for key, value in given.items()})


def name_of_spec(kind: Any) -> str:
    """`expire_snapshots` for the class `ExpireSnapshots`."""
    return getattr(kind, "spec_name", "") or re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


# ── other forms of a value ──────────────────────────────────────────────────────────────────────


def _read(value: Any, hint: Any, edge: Edge) -> Any:
    """The kept form of a value, by the kind of the annotation; what has no other form is returned unchanged.

    Raises: ValueError, InvalidArgumentError and others for a text that is not a value of the kind.
    """
    if value is None:
        return None
    if isinstance(value, Integral) and not isinstance(value, int):
        value = operator.index(value)
    choices = [choice for choice in _choices(hint) if choice is not type(None)]
    is_optional = len(choices) < len(_choices(hint))
    if isinstance(value, str):
        is_text = any(_takes_any_text(choice) for choice in choices)
        if is_optional and _is_nothing(value, is_text=is_text, is_rendered=edge.is_rendered):
            return None
        is_named = any(kind_of(each) in (NAME, ADDRESS) for each in choices)
        if edge.is_rendered and value.strip() in _RENDERED_NOTHING and is_named:
            # A template without a value must not name something, or a file, that is called None.
            raise ValueError(value)
        if is_text:
            return value
    for choice in choices:
        items = _items(choice)
        if items is not None:
            return _read_items(read_list(value, kind_of(items)) if isinstance(value, str) else value, items, edge)
    kinds = [kind for choice in choices if (kind := kind_of(choice)) is not None]
    return kinds[0].read(value, edge) if len(kinds) == 1 else value


def _is_nothing(text: str, *, is_text: bool, is_rendered: bool) -> bool:
    """Whether a text means None. Where a field takes any text, only templates write `None` for nothing."""
    if is_text:
        return is_rendered and text.strip() in _RENDERED_NOTHING
    return text.strip().lower() in _NOTHING


def _read_items(value: Any, hint: Any, edge: Edge) -> Any:
    if not isinstance(value, list | tuple):
        return value
    read = [_read(item, hint, edge) for item in value]
    if all(new is old for new, old in zip(read, value, strict=True)):
        return value
    return tuple(read) if isinstance(value, tuple) else read


def _takes_any_text(choice: Any) -> bool:
    plain = _plain(choice)
    return plain is str or plain is Any or typing.get_origin(plain) is typing.Literal


def kind_of(hint: Any) -> Kind | None:
    """The kind that an annotation without None has; None for maps, lists and classes without a mark."""
    if typing.get_origin(hint) is typing.Annotated:
        inner, *marks = typing.get_args(hint)
        return next((mark for mark in marks if isinstance(mark, Kind)), None) or kind_of(inner)
    return kind_of_type(hint)


def _inner(hint: Any) -> Any:
    if typing.get_origin(hint) is typing.Annotated and _help(hint):
        hint = typing.get_args(hint)[0]
    left = [choice for choice in _choices(hint) if choice is not type(None)]
    return left[0] if len(left) == 1 else hint


def _plain(hint: Any) -> Any:
    return typing.get_args(hint)[0] if typing.get_origin(hint) is typing.Annotated else hint


def _choices(hint: Any) -> list[Any]:
    """The parts of a union, with their marks."""
    match typing.get_origin(hint):
        case typing.Annotated if (
            isinstance(_plain(hint), types.UnionType) or typing.get_origin(_plain(hint)) is typing.Union
        ):
            return _choices(_plain(hint))
        case typing.Union | types.UnionType:
            return [kind for choice in typing.get_args(hint) for kind in _choices(choice)]
        case _:
            return [hint]


def _items(choice: Any) -> Any:
    """The annotation of the items of a list; None if it is not a list."""
    plain = _plain(choice)
    origin = typing.get_origin(plain)
    is_list = isinstance(origin, type) and not issubclass(origin, Mapping)
    return typing.get_args(plain)[0] if is_list and typing.get_args(plain) else None


# ── what a value may be ─────────────────────────────────────────────────────────────────────────


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
    # A text is a sequence of texts to Python, but not to callers.
    return not isinstance(value, str | bytes) and all(_fits(item, args[0]) for item in value)


def described(hint: Any) -> str:
    """What an annotation allows, in words."""
    match typing.get_origin(hint):
        case typing.Annotated:
            inner, *marks = typing.get_args(hint)
            kind = next((mark.takes for mark in marks if isinstance(mark, Kind)), None)
            # A kind that is kept as a number says what is taken; its bounds go without saying, but for the least.
            bounds = [str(mark) for mark in marks if isinstance(mark, Bounds) and (kind is None or not mark.words)]
            return ", ".join([kind or described(inner), *bounds])
        case typing.Union | types.UnionType:
            parts = list(dict.fromkeys(described(choice) for choice in typing.get_args(hint)))
            return (", or " if any("," in part for part in parts) else " or ").join(parts)
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
    int: "an integer",
    float: "a number",
    str: "a text",
    type(None): "nothing (None)",
    Any: "a value",
    Mapping: "names with values",
    Sequence: "a list",
}


# ── values that no field may have ───────────────────────────────────────────────────────────────


def _invalid_value_reason(value: Any) -> str | None:
    """What is wrong with a value, or anything in it, whatever the field; looks inside without a deep stack."""
    if not isinstance(value, str | float | list | tuple | Mapping):
        return None
    for item, depth in _everything_in(value):
        if depth > DEPTH_MAX:
            return f"nest lists and objects at most {DEPTH_MAX} deep"
        if isinstance(item, float) and not math.isfinite(item):
            return "NaN and infinity are not allowed"
        if isinstance(item, str) and not item.isascii():
            try:
                item.encode()
            except UnicodeEncodeError:
                return "the text contains a lone surrogate"
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
