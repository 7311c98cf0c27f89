"""Distinguishes an empty table from one whose snapshots are missing, and from one that others dropped or renamed.

A table that never had a commit has no snapshots. Neither has one whose `snapshot` directory is not copied yet, or whose
storage returns an empty listing by mistake. If that were read as an empty table, the result would be wrong, and a
commit would start again with snapshot 1 among the old files. Signs that there were snapshots:

- a hint, or a tag of main: no action leaves these in a table without snapshots;
- a manifest list that names manifests of an earlier commit. The list of a first commit cannot, so what a failed first
  commit leaves behind does not prevent the next one from being the first.

This is checked only if no snapshot is listed, so it costs other reads and commits nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from paimon_engine.errors import CorruptTableError, NotFoundError
from paimon_engine.meta.paths import MAIN_BRANCH, TablePaths
from paimon_engine.meta.snapshot import parse_snapshot
from paimon_engine.table.state.handle import TableHandle, gone
from paimon_engine.table.state.identity import check_not_recreated
from paimon_engine.table.state.manifests import commit_note, read_manifest_list, writer_of

_LIST: Final = "manifest-list-"
_WAYS: Final = (
    "wait until all files of the table are copied, or restore them; if they are lost, roll back to a tag, or start "
    "with an empty table by remove_orphan_files(confirm_latest_snapshot=0)"
)


def vanished(table: TableHandle, hint: int, newest: int) -> CorruptTableError:
    """The error for a hint that names a snapshot newer than the newest one that is listed (0: none is)."""
    seen = f"the newest one listed is {newest}" if newest else f"{table.paths.snapshot_dir} lists none"
    ways = f"restore it, or make {newest} the latest by rollback(snapshot={newest})" if newest else _WAYS
    return CorruptTableError(f"{table.paths.latest_hint} names snapshot {hint}, but {seen}; {ways}")


def check_never_had_snapshots(table: TableHandle, earliest_hint: int | None) -> None:
    """Checks that a branch without listed snapshots never had any, and is still there.

    Raises: CorruptTableError if it had; NotFoundError, ConflictError as `check_is_there`.
    """
    paths = table.paths
    check_is_there(table)
    if earliest_hint:
        raise CorruptTableError(
            f"{paths.earliest_hint} names snapshot {earliest_hint}, but {paths.snapshot_dir} lists none; {_WAYS}"
        )
    if paths.branch != MAIN_BRANCH:
        return
    if tags := [path for path in _files(table, paths.tag_dir) if path.rpartition("/")[2].startswith("tag-")]:
        raise CorruptTableError(f"{tags[0]} exists, but {paths.snapshot_dir} lists no snapshot; {_WAYS}")
    lists = [
        name for path in _files(table, f"{paths.root}/manifest") if (name := path.rpartition("/")[2]).startswith(_LIST)
    ]
    if lists and (later := _of_later_commit(table, sorted(set(lists) - _of_branches(table)))) is not None:
        seen = f"{paths.snapshot_dir} lists no snapshot"
        raise CorruptTableError(f"{paths.manifest(later)} builds on an earlier commit, but {seen}; {_WAYS}")


def check_is_there(table: TableHandle) -> None:
    """Checks that a table, or branch, that was opened some time ago is still that one, so that it is not merely empty.

    Where a server keeps the schemas, it is the one that knows.

    Raises: NotFoundError if others have dropped or renamed it; ConflictError if they have created another one since.
    """
    if not check_not_recreated(table):
        raise gone(table.paths)


def _files(table: TableHandle, directory: str) -> list[str]:
    return [info.path for info in table.env.storage.list(directory) if not info.is_dir]


def _of_later_commit(table: TableHandle, lists: list[str]) -> str | None:
    """A manifest list that names manifests of an earlier commit; None if there is none.

    A base list of this engine says for which snapshot of which branch it was written. Lists of other engines count if
    they are the first list of their writer (`…-0`, the base list) and not empty, or if they name a manifest that
    another list names.
    """
    ours = {name: note for name in lists if (note := commit_note(table, name)) is not None}
    # A branch that is deleted while main has no snapshot leaves its lists, since main might need them.
    if later := [name for name, note in ours.items() if _is_of_main(note) and not note.endswith("/1")]:
        return later[0]
    # Lists of one writer of ours may name the same manifests: the tries of one commit share them.
    writers = {writer_of(name) for name in ours}
    named: Counter[str] = Counter()
    for name in lists:
        if writer_of(name) in writers:
            continue
        try:
            manifests = {manifest.name for manifest in read_manifest_list(table, name)}
        except (CorruptTableError, NotFoundError):
            continue
        if manifests and name.endswith("-0"):
            return name
        named.update(manifests)
        if any(named[manifest] > 1 for manifest in manifests):
            return name
    return None


def _is_of_main(note: str) -> bool:
    return note.rpartition("/")[0] == MAIN_BRANCH


def _of_branches(table: TableHandle) -> set[str]:
    """Manifest lists that snapshots and tags of branches name."""
    found: set[str] = set()
    root = table.paths.root
    directories = [info.path for info in table.env.storage.list(table.paths.branch_dir) if info.is_dir]
    for directory in directories:
        paths = TablePaths(root, directory.rpartition("/branch-")[2])
        for path in (*_files(table, paths.snapshot_dir), *_files(table, paths.tag_dir)):
            try:
                snapshot = parse_snapshot(table.env.storage.read(path), path)
            except (CorruptTableError, NotFoundError):
                continue
            names = (snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.changelog_manifest_list)
            found |= {name for name in names if name is not None}
    return found
