"""Commands on a table's metadata: compact-manifests, analyze."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from paimon_engine.cli.faces import add_faces, face
from paimon_engine.cli.terminal import count, print_grid, say
from paimon_engine.units import size_text as size


def add_commands(app: typer.Typer) -> None:
    """Adds the commands of this module."""
    add_faces(app, "compact-manifests", "analyze")


@face("compact-manifests", "`paimon-engine compact-manifests /lake/db.db/t --dry-run`", doing="rewriting manifests")
def compact_manifests(details: Mapping[str, Any], _: Any) -> None:
    """Rewrite a table's manifests to few large ones. No data file is touched."""
    before = f"{count(details['manifests_before'], 'manifest')}, {size(details['bytes_before'])}"
    after = f"{count(details['manifests_after'], 'manifest')}, {size(details['bytes_after'])}"
    match details["status"]:
        case "committed":
            say(f"committed snapshot {details['snapshot_id']}: {before} → {after}")
        case "dry_run":
            say(f"dry run: would turn {before} into {after}")
        case "already_done":
            say(f"already done in snapshot {details['snapshot_id']}")
        case _:
            say(f"nothing to rewrite: {before}")


@face("analyze", "`paimon-engine analyze /lake/db.db/t`", "`paimon-engine analyze db.t -w /lake --columns k,day`")
def analyze(details: Mapping[str, Any], _: Any) -> None:
    """Count rows and compute statistics of columns, for query planners."""
    print_grid([_row(name, found) for name, found in details["columns"].items()], empty="no columns were analyzed")
    if details["status"] == "committed":
        say(f"committed snapshot {details['snapshot_id']}: {count(details['rows'], 'row')}, {size(details['bytes'])}")
    elif details["status"] == "already_done":
        say(f"already done in snapshot {details['snapshot_id']}")
    else:
        say("nothing to analyze: the table has no snapshot")


def _row(name: str, found: dict[str, Any]) -> dict[str, Any]:
    return {
        "column": name,
        "distinct": found.get("distinctCount"),
        "nulls": found.get("nullCount"),
        "min": found.get("min"),
        "max": found.get("max"),
        "average length": found.get("avgLen"),
        "max length": found.get("maxLen"),
    }
