"""Commands that delete old versions: expire, expire-changelogs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import typer

from paimon_engine.cli.faces import add_faces, face
from paimon_engine.cli.outcome import deleted_text, print_deleted, print_quarantine
from paimon_engine.cli.terminal import count, hint, say, warn

TAGS_SHOWN: Final = 4


def add_commands(app: typer.Typer) -> None:
    """Adds the commands of this module."""
    add_faces(app, "expire", "expire-changelogs")


@face(
    "expire",
    "`paimon-engine expire db.t -w /lake --retain-max 10 --dry-run`",
    "`paimon-engine expire /lake/db.db/t --older-than 2013-01-31`",
    action="expire_snapshots",
)
def expire(details: Mapping[str, Any], _: Any) -> None:
    """Delete old snapshots and the files that nothing else needs. Tags keep theirs.

    What is not given comes from the table's options.
    """
    _print_expired(details)


@face(
    "expire-changelogs",
    "`paimon-engine expire-changelogs db.t -w /lake --dry-run`",
    doing="expiring changelogs",
    options={"delete_all": "--all"},
)
def expire_changelogs(details: Mapping[str, Any], _: Any) -> None:
    """Delete old changelogs of expired snapshots. Consumers keep what they have not read.

    What is not given comes from the table's options.
    """
    _print_expired(details)


def _print_expired(details: Mapping[str, Any]) -> None:
    """Prints an expiry's result, given as its `to_dict()`; hints and warnings go to standard error."""
    print_deleted(details["deleted"])
    if kept := details["kept_by_tags"]:
        names = list(kept)
        some = ", ".join(names) if len(names) <= TAGS_SHOWN else f"{names[0]}, {names[1]} … {names[-1]}"
        hint(f"files kept for {count(len(kept), 'tag')}: {some}")
    if kept := details.get("kept_changelogs"):
        hint(f"changelogs kept: {_span(kept)}")
    say(_expire_line(details))
    if remaining := details["remaining"]:
        warn(f"old enough to delete, but left for now: {remaining:,}")
    print_quarantine(details)
    if len(aside := details["quarantines"]) > 1:
        hint(f"one quarantine per round; restore them in this order: {', '.join(aside)}")
    for reason in details["stopped"]:
        warn(f"left alone: {reason}")


def _expire_line(details: Mapping[str, Any]) -> str:
    parts = [
        f"{count(len(ids), what)} ({_span(ids)})"
        for what in ("snapshot", "changelog")
        if (ids := details.get(f"expired_{what}s"))
    ]
    if not parts:
        return "nothing to expire"
    verb = "dry run: would expire" if details["status"] == "dry_run" else "expired"
    return f"{verb} {' and '.join(parts)}: {deleted_text(details)}"


def _span(ids: Sequence[int]) -> str:
    return f"{ids[0]}" if len(ids) == 1 else f"{ids[0]} to {ids[-1]}"
