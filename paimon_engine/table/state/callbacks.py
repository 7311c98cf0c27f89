"""Classes that an option of a table names, and the Python objects for them: callbacks of tags and commits.

A table is shared, and every user who may write its schema may name any class, so a name from a table is never imported.
It is looked up among the installed entry points of a group, whose names are those that the option uses.

Source: `CallbackUtils` of the Java library.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from paimon_engine.errors import UnsupportedError
from paimon_engine.options import TableOptions

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

logger = logging.getLogger(__name__)

_SHOWN_MAX: Final = 200
"""Characters of a name that messages show."""

C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class CallbackKind(Generic[C]):
    """`word` is `tag` or `commit`; `protocol` is what a callback has to be, with the methods that `lacks` names.

    `option` names the classes; `parameter` is the option with the parameter of a class, with `#` for its name.
    """

    word: str
    option: str
    parameter: str
    protocol: type
    lacks: str

    @property
    def group(self) -> str:
        """The group of entry points."""
        return f"paimon_engine.{self.word}_callbacks"

    def parameter_key(self, name: str) -> str:
        """The option with the parameter of a class."""
        return self.parameter.replace("#", name)


@dataclass(frozen=True, slots=True)
class NamedCallback(Generic[C]):
    """A callback, the class that the table names it by, and its parameter, which may contain a password."""

    name: str
    callback: C
    parameter: str | None = field(default=None, repr=False)

    def text_of(self, error: Exception) -> str:
        """What the callback raised, as a message may say it."""
        text = f"{type(error).__name__}: {error}"
        return text.replace(self.parameter, "***") if self.parameter else text

    def close(self) -> None:
        """Closes the callback, if it can be closed; what it raises then is too late to matter, as in Java."""
        try:
            close = getattr(self.callback, "close", None)
            if callable(close):
                close()
        except Exception as error:  # noqa: BLE001 - whatever others raise
            logger.warning("callback %s could not be closed: %s", self.name, self.text_of(error))


def callback_names(kind: CallbackKind[C], options: TableOptions) -> list[str]:
    """The classes that a table names, in order, each once."""
    names = (name.strip() for name in options.raw.get(kind.option, "").split(","))
    return list(dict.fromkeys(filter(None, names)))


def make_callbacks(kind: CallbackKind[C], options: TableOptions) -> list[NamedCallback[C]]:
    """New instances of the callbacks of a table.

    Raises: UnsupportedError if no installed package provides one of them, or if it cannot be created.
    """
    names = callback_names(kind, options)
    installed: Iterable[EntryPoint] = ()
    if names:
        from importlib.metadata import entry_points

        installed = entry_points(group=kind.group)
    points = [(name, _point_of(kind, name, installed)) for name in names]
    made: list[NamedCallback[C]] = []
    try:
        for name, point in points:
            made.append(_made(kind, name, point, _parameter(kind, name, options)))
    except BaseException:
        for callback in made:
            callback.close()
        raise
    return made


def _point_of(kind: CallbackKind[C], name: str, installed: Iterable[EntryPoint]) -> EntryPoint:
    points = {point.value: point for point in installed if point.name == name}
    shown = name if len(name) <= _SHOWN_MAX else f"{name[:_SHOWN_MAX]}…"
    if len(points) == 1:
        return next(iter(points.values()))
    if points:
        what = f"several packages provide {shown!r}: {', '.join(sorted(points))}; leave one installed"
    else:
        what = f"{shown!r} is not installed: install a package with an entry point of that name in {kind.group!r}"
    raise UnsupportedError(
        f"'{kind.option}' requires notifications of {kind.word}s, and {what}, "
        "or set the option to '' for this run, or in the table, if no notification is needed"
    )


def _made(kind: CallbackKind[C], name: str, point: EntryPoint, parameter: str | None) -> NamedCallback[C]:
    """The callback that an entry point makes of the parameter.

    Raises: UnsupportedError if it is not one of this kind, or cannot be loaded or made; without the cause where that
    could show the parameter.
    """
    where = f"'{kind.option}': {name!r} ({point.value})"
    try:
        factory: Callable[[str | None], Any] = point.load()
        made = factory(parameter)
    except Exception as error:  # noqa: BLE001 - whatever others raise
        # Its text may contain the parameter, and thereby a password.
        raise UnsupportedError(
            f"{where} cannot be created: {type(error).__name__}; repair it or the option '{kind.parameter_key(name)}'"
        ) from (None if parameter and parameter in str(error) else error)
    if not isinstance(made, kind.protocol):
        raise UnsupportedError(
            f"{where} makes a {type(made).__name__}, which is not a {kind.protocol.__name__}: it lacks {kind.lacks}"
        )
    return NamedCallback(name, cast("C", made), parameter)


def _parameter(kind: CallbackKind[C], name: str, options: TableOptions) -> str | None:
    """The parameter of a class; some catalogs keep keys in lower case."""
    key = kind.parameter_key(name)
    return options.raw.get(key, options.raw.get(key.lower()))
