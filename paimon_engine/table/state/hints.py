"""The hints `EARLIEST` and `LATEST`: files that name the ends of a row of snapshots, or of changelogs.

They spare readers a listing, and are never needed. A wrong one does harm, though: Java trusts `LATEST` if no snapshot
follows it, and `EARLIEST` if its file exists; and a clean-up that meets one which names a missing file must believe
that others are missing, too. A process that writes a hint may have been paused before, so it looks again afterwards.

Source: `HintFileUtils`, `SnapshotManager`, `ChangelogManager` of the Java library.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from itertools import count

from paimon_engine.errors import NotFoundError, StorageError
from paimon_engine.table.state.handle import TableHandle, numbered


def hint_of(table: TableHandle, path: str) -> int | None:
    """The number in a hint; None if there is none that can be parsed."""
    try:
        text = table.env.storage.read(path).decode(errors="replace").strip()
    except (NotFoundError, StorageError):
        return None
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


def write_hint(table: TableHandle, path: str, snapshot_id: int) -> None:
    """Best effort: a hint that cannot be written costs readers a listing, no more."""
    try:
        table.env.storage.overwrite(path, str(snapshot_id).encode())
    except StorageError:
        return


def lower_latest_hint(table: TableHandle, snapshot_id: int) -> None:
    """Before newer snapshots go, lets the hint name the one that will be the latest.

    Where that is not there yet there is no hint for a while: Java would take it for the latest.
    """
    if table.env.storage.exists(table.paths.snapshot(snapshot_id)):
        write_hint(table, table.paths.latest_hint, snapshot_id)
    else:
        table.env.storage.delete([table.paths.latest_hint])


def stale_latest_hint(table: TableHandle) -> int | None:
    """The snapshot that the hint names, if neither it nor the next one exists: nothing continues from it."""
    storage, paths = table.env.storage, table.paths
    hint = hint_of(table, paths.latest_hint)
    if hint is None or storage.exists(paths.snapshot(hint)) or storage.exists(paths.snapshot(hint + 1)):
        return None
    return hint


def repair_latest_hint(table: TableHandle) -> None:
    """Lets the hint name the newest snapshot if it names one that is missing. Raises: StorageError."""
    path = table.paths.latest_hint
    _settle(table, path, hint_of(table, path), -1)


def write_earliest_hint(table: TableHandle, directory: str, number: int) -> None:
    """Says which snapshot or changelog of a directory is the oldest; if others have removed it, which one is now.

    Best effort. If this process was paused before it wrote the hint, it may have replaced a newer one, and nobody would
    know why those from its number on are missing.
    """
    path = f"{directory}/EARLIEST"
    write_hint(table, path, number)
    with suppress(StorageError):
        _settle(table, path, number, 0)


def settle_hints(table: TableHandle, directory: str) -> None:
    """Lets both hints of a directory of snapshots or changelogs name files that are there; in an empty one, none is.

    Best effort.
    """
    earliest, latest = f"{directory}/EARLIEST", f"{directory}/LATEST"
    with suppress(StorageError):
        settled = [_settle(table, path, hint_of(table, path), end) for path, end in ((earliest, 0), (latest, -1))]
        if not all(settled):
            table.env.storage.delete([earliest, latest])


def bring_hints_past(table: TableHandle, directory: str, removed: Collection[int]) -> None:
    """Lets the hint EARLIEST of a directory name none of those that a deletion removed. Best effort.

    It goes on to the next number only: what is missing for another reason is still noticed. Where no changelog is left,
    hints that name removed ones are deleted.
    """
    kind = directory.rpartition("/")[2]
    paths = [f"{directory}/EARLIEST", *([f"{directory}/LATEST"] if kind == "changelog" else [])]
    hints = {path: hint for path in paths if (hint := hint_of(table, path)) is not None}
    if not any(hint in removed for hint in hints.values()):
        return
    with suppress(StorageError):
        listed = numbered(table.env, directory, f"{kind}-")
        earliest = hints.get(paths[0], 0)
        if listed:
            if earliest in removed and not table.env.storage.exists(f"{directory}/{kind}-{earliest}"):
                following = next(number for number in count(earliest) if number not in removed)
                if following < listed[0]:
                    write_hint(table, paths[0], following)
                else:
                    write_earliest_hint(table, directory, listed[0])
        elif kind == "changelog" and all(hint in removed for hint in hints.values()):
            table.env.storage.delete(list(hints))


def _settle(table: TableHandle, path: str, named: int | None, end: int) -> bool:
    """Lets a hint name the file at that end of the row if the one that it names is missing; False if there is none.

    It looks again until the one named is there, since others may remove that, too.
    """
    directory = path.rpartition("/")[0]
    prefix = f"{directory.rpartition('/')[2]}-"
    while named is not None and not table.env.storage.exists(f"{directory}/{prefix}{named}"):
        ids = numbered(table.env, directory, prefix)
        if not ids:
            return False
        if ids[end] == named:
            break
        named = ids[end]
        write_hint(table, path, named)
    return True
