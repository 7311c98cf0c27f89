"""Callbacks for a table's tags: Python counterparts of the classes that `tag.callbacks` names.

A table is shared, and every user who may write its schema may name any class, so a name from a table is never imported.
It is looked up among the installed entry points of the group `paimon_engine.tag_callbacks`, whose names are those that
the table's option uses. A package that provides a counterpart of the Java class `com.acme.NotifyTag` declares

    [project.entry-points."paimon_engine.tag_callbacks"]
    "com.acme.NotifyTag" = "acme_paimon:NotifyTag"

and `acme_paimon.NotifyTag` is called with the table's `tag.callback.com.acme.NotifyTag.param` (None without one) to
make a `TagCallback`. So both engines can notify the same system.

Source: `TagCallback`, `CallbackUtils` of the Java library.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, Protocol, runtime_checkable

from paimon_engine.errors import UnsupportedError
from paimon_engine.options import TableOptions

logger = logging.getLogger(__name__)

ENTRY_POINTS: Final = "paimon_engine.tag_callbacks"
_SHOWN_MAX: Final = 200
"""Characters of a name that messages show."""


@dataclass(frozen=True, slots=True)
class TagEvent:
    """A change of a tag: `table` is the table's directory, `branch` is `main` for the table itself.

    `snapshot_id` is the snapshot that the tag names or named, None where the tag's own file was broken.
    """

    table: str
    branch: str
    tag: str
    snapshot_id: int | None


@runtime_checkable
class TagCallback(Protocol):
    """Is called for tags once they are created or deleted.

    It is called for each tag at least once: a repeated job, or the next one after a job that died, calls again, and
    tags that others create in between may come first. So a second call must do no harm. `tag_created` is also called
    for a tag that has moved to another snapshot. An error stops neither the job nor other callbacks, and is raised as
    `CallbackError` at the end. A method `close`, if there is one, is called after the last notification.
    """

    def tag_created(self, event: TagEvent) -> None:
        """The tag names that snapshot now."""

    def tag_deleted(self, event: TagEvent) -> None:
        """The tag was deleted."""


@dataclass(frozen=True, slots=True)
class NamedCallback:
    """A callback, the class that the table names it by, and its parameter, which may contain a password."""

    name: str
    callback: TagCallback
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
            logger.warning("tag callback %s could not be closed: %s", self.name, self.text_of(error))


def callback_names(options: TableOptions) -> list[str]:
    """The classes that a table names, in order, each once."""
    names = (name.strip() for name in options.raw.get("tag.callbacks", "").split(","))
    return list(dict.fromkeys(filter(None, names)))


def make_callbacks(options: TableOptions) -> list[NamedCallback]:
    """New instances of the callbacks of a table.

    Raises: UnsupportedError if no installed package provides one of them, or if it cannot be created.
    """
    names = callback_names(options)
    installed = entry_points(group=ENTRY_POINTS) if names else ()
    points = [(name, _point_of(name, installed)) for name in names]
    made: list[NamedCallback] = []
    try:
        for name, point in points:
            made.append(_made(name, point, _parameter(name, options)))
    except BaseException:
        for callback in made:
            callback.close()
        raise
    return made


def _point_of(name: str, installed: Iterable[EntryPoint]) -> EntryPoint:
    points = {point.value: point for point in installed if point.name == name}
    shown = name if len(name) <= _SHOWN_MAX else f"{name[:_SHOWN_MAX]}…"
    if len(points) == 1:
        return next(iter(points.values()))
    if points:
        what = f"several packages provide {shown!r}: {', '.join(sorted(points))}; leave one installed"
    else:
        what = f"{shown!r} is not installed: install a package with an entry point of that name in {ENTRY_POINTS!r}"
    raise UnsupportedError(
        f"'tag.callbacks' requires notifications of tags, and {what}, "
        "or set the option to '' for this run, or in the table, if no notification is needed"
    )


def _made(name: str, point: EntryPoint, parameter: str | None) -> NamedCallback:
    where = f"'tag.callbacks': {name!r} ({point.value})"
    try:
        factory: Callable[[str | None], Any] = point.load()
        made = factory(parameter)
    except Exception as error:  # noqa: BLE001 - whatever others raise
        # Its text may contain the parameter, and thereby a password.
        raise UnsupportedError(
            f"{where} cannot be created: {type(error).__name__}; repair it or the option 'tag.callback.{name}.param'"
        ) from (None if parameter and parameter in str(error) else error)
    if not isinstance(made, TagCallback):
        raise UnsupportedError(
            f"{where} makes a {type(made).__name__}, which is not a TagCallback: it lacks tag_created or tag_deleted"
        )
    return NamedCallback(name, made, parameter)


def _parameter(name: str, options: TableOptions) -> str | None:
    """What `tag.callback.#.param` says of a class; some catalogs keep keys in lower case."""
    key = f"tag.callback.{name}.param"
    return options.raw.get(key, options.raw.get(key.lower()))
