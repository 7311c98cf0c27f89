"""Commands on tags: tag create, rename, delete, expire, create-due, create-days."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from paimon_engine.cli.faces import add_faces, face
from paimon_engine.cli.outcome import deleted_text, print_outcome, words
from paimon_engine.cli.terminal import count


def add_commands(app: typer.Typer) -> None:
    """Adds the commands of this module."""
    tag = typer.Typer(help="Create, rename, delete and expire tags.", no_args_is_help=True)
    add_faces(tag, "tag create", "tag rename", "tag delete", "tag expire", "tag create-due", "tag create-days")
    app.add_typer(tag, name="tag")


@face(
    "tag create",
    "`paimon-engine tag create /lake/db.db/t 2013-01-01`",
    "`paimon-engine tag create db.t noon -w /lake --timestamp 2013-01-01T12:00 --retain '30 d'`",
    action="create_tag",
    doing="creating the tag",
    arguments=("tag",),
    options={"time_retained": "--retain"},
)
def tag_create(details: Mapping[str, Any], spec: Any) -> None:
    """Name a snapshot, so that expiry keeps it. Safe to repeat."""
    print_outcome(details, f"{words(details)}: tag {spec.tag} on snapshot {details['snapshot_id']}")


@face(
    "tag rename",
    "`paimon-engine tag rename /lake/db.db/t 2013-01-01 new-year`",
    action="rename_tag",
    doing="renaming the tag",
    arguments=("tag", "to"),
)
def tag_rename(details: Mapping[str, Any], spec: Any) -> None:
    """Give a tag another name."""
    print_outcome(details, f"{words(details)}: tag {spec.to} on snapshot {details['snapshot_id']}")


@face(
    "tag delete",
    "`paimon-engine tag delete /lake/db.db/t 2013-01-01 --dry-run`",
    action="delete_tag",
    doing="deleting the tag",
    arguments=("tag",),
)
def tag_delete(details: Mapping[str, Any], spec: Any) -> None:
    """Delete a tag, and the files that only it kept."""
    print_outcome(details, f"{words(details)}: tag {spec.tag}, with {deleted_text(details)} that only it kept")


@face(
    "tag expire",
    "`paimon-engine tag expire db.t -w /lake --older-than 2013-01-31`",
    action="expire_tags",
    doing="expiring tags",
)
def tag_expire(details: Mapping[str, Any], _: Any) -> None:
    """Delete tags whose time to live has ended, and the files that only they needed."""
    expired = list(details["expired"])
    text = f"{words(details)}: {count(len(expired), 'tag')} ({', '.join(expired)}), {deleted_text(details)}"
    print_outcome(details, text if expired else "no tag has expired")


@face(
    "tag create-due",
    "`paimon-engine tag create-due db.t -w /lake --dry-run`",
    action="create_due_tags",
    doing="making tags",
)
def tag_create_due(details: Mapping[str, Any], _: Any) -> None:
    """Make the tags that are due by the table's option tag.automatic-creation."""
    made = [f"{name} on snapshot {number}" for name, number in details["created"].items()]
    text = f"{words(details)}: {', '.join(made)}" if made else "no tag is due"
    if dropped := details["deleted_tags"]:
        text += f"; {count(len(dropped), 'older tag')} dropped, {deleted_text(details)}"
    print_outcome(details, text)


@face(
    "tag create-days",
    "`paimon-engine tag create-days db.t -w /lake --since 2013-01-01 --dry-run`",
    action="create_day_tags",
    doing="making tags",
)
def tag_create_days(details: Mapping[str, Any], _: Any) -> None:
    """Create the missing tags of days, each on the latest snapshot when its day ended; say which cannot be created."""
    made = [f"{name} on snapshot {number}" for name, number in details["created"].items()]
    text = f"{words(details)}: {', '.join(made)}" if made else "no tag can be made"
    if not made and not details["missing"]:
        text = f"all {count(details['days'], 'day')} have their tags"
    for days, reason in details["missing"].items():
        text += f"\nno tag for {days}: {reason}"
    print_outcome(details, text)
