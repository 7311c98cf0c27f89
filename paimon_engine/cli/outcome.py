"""What actions did, as lines for people: the status, what was deleted, what was left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from paimon_engine.cli.terminal import count, hint, print_grid, say, warn
from paimon_engine.units import size_text as size

ROWS_SHOWN: Final = 20


def print_outcome(details: Mapping[str, Any], text: str) -> None:
    """The line, what a dry run would delete, and why things were left."""
    if details["status"] == "dry_run":
        print_deleted(details.get("deleted", ()))
    say(text)
    print_quarantine(details)
    for reason in (*details.get("skipped", ()), *details.get("stopped", ())):
        warn(f"left alone: {reason}")


def print_plainly(details: Mapping[str, Any], _: Any) -> None:
    """The status, and all numbers and names of the result."""
    found = [
        f"{name.replace('_', ' ')}: {value:,}" if isinstance(value, int) else f"{name.replace('_', ' ')}: {value}"
        for name, value in details.items()
        if isinstance(value, int | str) and not isinstance(value, bool) and name not in ("status", "quarantine")
    ]
    print_outcome(details, f"{words(details)}; {', '.join(found)}" if found else words(details))


def failed(details: Mapping[str, Any]) -> None:
    """Why parts of the work failed."""
    for reason in details["failed"]:
        warn(f"failed: {reason}")


def print_quarantine(details: Mapping[str, Any]) -> None:
    """Where the files are that were quarantined."""
    if details.get("quarantine"):
        hint(f"quarantined as {details['quarantine']}: restore restores it, empty-quarantine deletes it permanently")


def words(details: Mapping[str, Any]) -> str:
    """The status in words."""
    return "dry run, would be" if details["status"] == "dry_run" else str(details["status"]).replace("_", " ")


def deleted_text(details: Mapping[str, Any]) -> str:
    """Number and size of the deleted files."""
    return f"{count(details['files_deleted'], 'file')}, {size(details['bytes_deleted'])}"


def print_deleted(deleted: Sequence[Mapping[str, Any]]) -> None:
    """The files to delete, and why; only the first ones if there are many."""
    if not deleted:
        return
    rows = [
        {"file": _short(item["path"]), "size": size(item["size_bytes"]), "why": item["why"]}
        for item in deleted[:ROWS_SHOWN]
    ]
    print_grid(rows, empty="", flexible=("file", "why"))
    if len(deleted) > ROWS_SHOWN:
        hint(f"and {count(len(deleted) - ROWS_SHOWN, 'more file')} (--json lists all)")


def _short(path: str) -> str:
    """The last two parts of a path."""
    return "/".join(path.rsplit("/", 2)[-2:])
