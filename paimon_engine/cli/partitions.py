"""Commands on partitions: drop-partition, expire-partitions, mark-partition-done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import typer

from paimon_engine.cli.faces import add_faces, face
from paimon_engine.cli.terminal import count, hint, say, warn
from paimon_engine.units import size_text as size

PARTITIONS_SHOWN: Final = 20


def add_commands(app: typer.Typer) -> None:
    """Adds the commands of this module."""
    add_faces(app, "drop-partition", "expire-partitions", "mark-partition-done")


@face(
    "drop-partition",
    "`paimon-engine drop-partition /lake/db.db/t day=2013-01-01`",
    doing="dropping partitions",
    arguments=("partitions",),
)
def drop_partition(details: Mapping[str, Any], _: Any) -> None:
    """Drop the rows of partitions. A value for some of the columns drops all that have it."""
    _print_dropped(details)


@face(
    "expire-partitions",
    "`paimon-engine expire-partitions db.t -w /lake --older-than '30 d' --dry-run`",
    doing="expiring partitions",
    options={
        "expiration_time": "--older-than",
        "timestamp_pattern": "--pattern",
        "timestamp_formatter": "--formatter",
    },
)
def expire_partitions(details: Mapping[str, Any], _: Any) -> None:
    """Drop the partitions that are too old. What is not given comes from the table's options."""
    _print_dropped(details)


@face(
    "mark-partition-done",
    "`paimon-engine mark-partition-done /lake/db.db/t day=2013-01-01`",
    doing="marking partitions",
    arguments=("partitions",),
)
def mark_partition_done(details: Mapping[str, Any], spec: Any) -> None:
    """Notify waiting programs that partitions get no more rows."""
    for path in details["files"]:
        say(f"would write {path}" if spec.dry_run else f"wrote {path}")
    for path in details["reported"]:
        say(f"would report {path}" if spec.dry_run else f"reported {path}")


def _print_dropped(details: Mapping[str, Any]) -> None:
    partitions = details["partitions"]
    for values in partitions[:PARTITIONS_SHOWN]:
        say(", ".join(f"{name}={'null' if value is None else value}" for name, value in values.items()))
    if len(partitions) > PARTITIONS_SHOWN:
        hint(f"and {count(len(partitions) - PARTITIONS_SHOWN, 'more partition')} (--json lists all)")
    say(_line(details))
    for reason in details["stopped"]:
        warn(f"left alone: {reason}")


def _line(details: Mapping[str, Any]) -> str:
    dropped_files = (
        f"{count(len(details['partitions']), 'partition')} with {count(details['files'], 'file')}, "
        f"{count(details['rows'], 'record')}, {size(details['bytes'])}"
    )
    match details["status"]:
        case "committed":
            return f"committed snapshot {details['snapshot_id']}: dropped {dropped_files}"
        case "dry_run":
            return f"dry run: would drop {dropped_files}"
        case "already_done":
            return f"already done in snapshot {details['snapshot_id']}"
        case _:
            return "nothing to drop"
