"""Commands on a table's files: verify, compatibility, remove-orphans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import typer

from paimon_engine.cli.faces import add_faces, face
from paimon_engine.cli.terminal import count, hint, print_grid, say, warn
from paimon_engine.units import size_text as size

ROWS_SHOWN: Final = 20


def add_commands(app: typer.Typer) -> None:
    """Adds the commands of this module."""
    add_faces(app, "verify", "compatibility", "remove-orphans")


@face(
    "remove-orphans",
    "`paimon-engine remove-orphans db.t -w /lake --dry-run`",
    "`paimon-engine remove-orphans /lake/db.db/t --older-than 2013-01-31`",
    action="remove_orphan_files",
    doing="looking for orphan files",
)
def remove_orphans(details: Mapping[str, Any], _: Any) -> None:
    """Delete old files that nothing names, such as those that killed jobs left.

    Files that changed within the last day stay, unless --older-than is given. Nothing is deleted if snapshots,
    tags or branches seem to be missing, as while a table is copied; --confirm-latest-snapshot says that all are
    visible.
    """
    _print_files(details["deleted"])
    say(_line(details))
    for reason in details["stopped"]:
        warn(f"left alone: {reason}")
    for note in details["notes"]:
        hint(note)


def _print_files(files: Sequence[Mapping[str, Any]]) -> None:
    if not files:
        return
    rows = [{"file": item["path"], "size": size(item["size_bytes"])} for item in files[:ROWS_SHOWN]]
    print_grid(rows, empty="", flexible=("file",))
    if len(files) > ROWS_SHOWN:
        hint(f"and {count(len(files) - ROWS_SHOWN, 'more file')} (--json lists all)")


def _line(details: Mapping[str, Any]) -> str:
    """One line for people about an orphan clean-up; `details` are the result's `to_dict()`."""
    files = f"{count(details['files_deleted'], 'file')}, {size(details['bytes_deleted'])}"
    checked = f"of {count(details['files_checked'], 'old file')}"
    match details["status"]:
        case "dry_run":
            return f"dry run: would remove {files}, {checked}"
        case "deleted":
            return f"deleted {files}, {checked}"
        case "quarantined":
            return f"moved {files}, {checked}, to quarantine {details['quarantine']}"
        case "stopped":
            where = f", in quarantine {details['quarantine']}" if details["quarantine"] else ""
            return f"stopped after {files}, {checked}{where}"
        case _:
            return f"nothing to remove: {count(details['files_checked'], 'old file')} checked"


@face("verify", "`paimon-engine verify /lake/db.db/t`", "`paimon-engine verify db.t -w /lake --depth rows --json`")
def verify(details: Mapping[str, Any], _: Any) -> None:
    """Check that a table is complete and not damaged. Nothing is written; the exit code is 1 if something is wrong."""
    for problem in details["problems"]:
        say(f"{problem['where']}: {problem['what']}")
    for note in details["notes"]:
        warn(f"{note['where']}: {note['what']}")
    say(_looked_at(details))
    if details["closed"]:
        outside = count(details["closed"], "file")
        warn(f"not checked: {outside} outside the table; 'external-paths.allowed' = '<directory>' allows it")


@face(
    "compatibility", "`paimon-engine compatibility /lake/db.db/t`", "`paimon-engine compatibility db.t -w /lake --json`"
)
def compatibility(details: Mapping[str, Any], _: Any) -> None:
    """Say which engines read a table right, wrongly or not at all, because of what, and what to change for them."""
    print_grid([{"engine": one["engine"], "reads": one["reads"]} for one in details["engines"]], empty="")
    remedies: dict[tuple[str, str], list[str]] = {}
    for one in details["engines"]:
        for reason in one["reasons"]:
            remedies.setdefault((reason["what"], reason["change"]), []).append(one["engine"])
    for (what, change), engines in remedies.items():
        warn(f"{', '.join(engines)}: {what}; {change}")


def _looked_at(details: Mapping[str, Any]) -> str:
    verdict = count(len(details["problems"]), "problem") if details["problems"] else "sound"
    looked = [count(details["roots"], "version"), count(details["manifests"], "manifest")]
    if details["depth"] != "metadata":
        looked.append(count(details["data_files"], "data file"))
    if details["depth"] == "rows":
        looked.append(count(details["rows"], "row"))
    return f"{verdict}: {', '.join(looked)}"
