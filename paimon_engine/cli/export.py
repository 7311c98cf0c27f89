"""The command that writes rows to files for other programs: export."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from paimon_engine.cli.faces import add_faces, face
from paimon_engine.cli.terminal import count, say
from paimon_engine.units import size_text as size


def add_commands(app: typer.Typer) -> None:
    """Adds the commands of this module."""
    add_faces(app, "export")


@face(
    "export",
    "`paimon-engine export db.t orders.parquet -w /lake --tag 2024-02-29`",
    "`paimon-engine export db.t /out/orders -w /lake --partition-by day --if-exists replace`",
    action="export_files",
    doing="exporting rows",
    arguments=("target",),
)
def export_files(details: Mapping[str, Any], _: Any) -> None:
    """Write the rows of a table, tag or snapshot to files: there completely or not at all, and never half replaced."""
    if details["status"] == "exists":
        say(f"left {details['target']} as it is: it is there already")
        return
    number = details["snapshot_id"]
    rows = f"{count(details['rows'], 'row')} in {count(details['files'], 'file')}, {size(details['bytes'])}"
    of = "an empty table" if number is None else f"snapshot {number}"
    say(f"exported {of} to {details['target']}: {rows}")
