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

from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from paimon_engine.table.state.callbacks import CallbackKind


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


TAG_CALLBACKS: Final[CallbackKind[TagCallback]] = CallbackKind(
    "tag", "tag.callbacks", "tag.callback.#.param", TagCallback, "tag_created or tag_deleted"
)
