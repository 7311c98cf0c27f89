"""Commands that repair, empty and restore: restore, empty-quarantine, purge, remove-lost, repair-earliest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from paimon_engine.cli.arguments import (
    CatalogOption,
    JsonOption,
    StorageOption,
    TableArgument,
    WarehouseOption,
    open_named,
)
from paimon_engine.cli.faces import add_faces, face
from paimon_engine.cli.outcome import deleted_text, print_deleted, print_outcome, words
from paimon_engine.cli.terminal import count, print_grid, print_json, warn
from paimon_engine.units import size_text as size


def add_commands(app: typer.Typer) -> None:
    """Adds the commands of this module."""
    add_faces(app, "restore", "empty-quarantine", "purge", "remove-lost-files", "remove-lost-manifests")
    add_faces(app, "repair-earliest")
    app.command("quarantines", epilog="Examples:\n\n`paimon-engine quarantines db.t -w /lake`")(quarantines)


@face("restore", "`paimon-engine restore /lake/db.db/t 6f1d…`", doing="restoring files", arguments=("quarantine",))
def restore(details: Mapping[str, Any], _: Any) -> None:
    """Restore what a command with --quarantine has moved to a quarantine: files, snapshots, tags, branches."""
    roots = [f"snapshot {number}" for number in details["snapshots"]]
    roots += [f"tag {name}" for name in details["tags"]] + [f"branch {name}" for name in details["branches"]]
    text = f"{words(details)}: {count(details['files'], 'file')} of {details['action']}"
    print_outcome({**details, "quarantine": None}, f"{text}; {', '.join(roots)}" if roots else text)


def quarantines(
    table: TableArgument,
    warehouse: WarehouseOption = None,
    storage: StorageOption = None,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
) -> None:
    """List what was quarantined and can be restored, in every state."""
    found = open_named(table, warehouse, storage, catalog).quarantines()
    if as_json:
        print_json(list(found))
        return
    rows = [
        {
            "quarantine": item["quarantine"],
            "action": item["action"] or "unknown",
            "state": item["state"].replace("_", " "),
            "size": size(item["bytes"]),
        }
        for item in found
    ]
    print_grid(rows, empty="no quarantines")
    for item in found:
        if item["problem"]:
            warn(f"{item['quarantine']}: {item['problem']}")


@face(
    "empty-quarantine",
    "`paimon-engine empty-quarantine db.t -w /lake --dry-run`",
    doing="deleting files",
    arguments=("quarantine",),
)
def empty_quarantine(details: Mapping[str, Any], _: Any) -> None:
    """Delete permanently what was quarantined more than 30 days ago, or as given."""
    print_outcome(
        details, f"{words(details)}: {count(len(details['quarantines']), 'quarantine')}, {deleted_text(details)}"
    )


@face(
    "purge",
    "`paimon-engine purge db.t -w /lake --quarantine`",
    action="purge_files",
    doing="purging the table",
    question="Delete all rows and all versions of {table}?",
)
def purge(details: Mapping[str, Any], _: Any) -> None:
    """Empty a table: delete all rows, older snapshots, tags, branches, consumers and files. Schema and options stay."""
    kinds = {"snapshot": "snapshots", "tag": "tags", "branch": "branches", "consumer": "consumers"}
    found = {kind: len(details[f"removed_{kinds[kind]}"]) for kind in kinds}
    removed = ", ".join(f"{number:,} {kind if number == 1 else kinds[kind]}" for kind, number in found.items())
    print_outcome(details, f"{words(details)}: {removed}, {deleted_text(details)}")


@face(
    "remove-lost-files",
    "`paimon-engine remove-lost-files db.t -w /lake --dry-run`",
    action="remove_unexisting_files",
    doing="looking for files",
)
def remove_lost_files(details: Mapping[str, Any], _: Any) -> None:
    """Remove missing data files from the manifests, so that the rest can be read. Their rows are lost."""
    print_deleted([{**item, "why": "missing"} for item in details["removed"]])
    lost = f"{count(details['files'], 'file')} with {count(details['rows'], 'row')}"
    text = f"{words(details)}: removed {lost}, of {count(details['files_checked'], 'file')}"
    print_outcome(details, text if details["files"] else "no file is lost")


@face(
    "remove-lost-manifests",
    "`paimon-engine remove-lost-manifests db.t -w /lake --dry-run`",
    action="remove_unexisting_manifests",
    doing="looking for manifests",
)
def remove_lost_manifests(details: Mapping[str, Any], _: Any) -> None:
    """Remove missing manifests from the lists. The files that only they named are lost."""
    lost = details["removed"]
    rows = f"{details['rows_before']} rows before, {details['rows_after']} after"
    text = f"{words(details)}: removed {count(len(lost), 'manifest')}; {rows}"
    print_outcome(details, text if lost else "no manifest is lost")


@face(
    "repair-earliest",
    "`paimon-engine repair-earliest db.t -w /lake --dry-run`",
    "`paimon-engine repair-earliest db.t -w /lake --snapshot 4`",
    action="repair_earliest_snapshot",
    doing="looking at snapshots",
)
def repair_earliest(details: Mapping[str, Any], _: Any) -> None:
    """Let the table begin after a gap in its snapshots, or after a damaged one. Those before it are deleted.

    A lost snapshot looks the same as one that is not visible, as while a table is copied: so a run says first which
    one the table would begin with, and deletes only if --snapshot names it.
    """
    removed = count(len(details["removed_snapshots"]), "snapshot")
    verb = "would begin" if details["status"] in ("dry_run", "stopped") else "begins"
    first = f"{verb} with snapshot {details['earliest_snapshot_id']}"
    text = f"{words(details)}: the table {first}; removed {removed}, {deleted_text(details)}"
    print_outcome(details, "nothing to repair" if details["status"] == "noop" else text)
