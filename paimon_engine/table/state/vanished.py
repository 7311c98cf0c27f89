"""Is a table without snapshots in sight empty, or have its snapshots vanished?

A table that never had a commit has none. So has one whose `snapshot` directory is not copied yet, or whose store
answers its listing with "not there": reading that as an empty table would be wrong, and a commit would begin again at
snapshot 1 beside the old files. What tells them apart:

- a hint, or a tag of main: nobody leaves these without a snapshot;
- a manifest list that names manifests from before its commit. The first commit has none, so that what one leaves that
  failed does not keep the next one from being the first.

Asked only where no snapshot is in sight, so that neither reads nor commits pay for it otherwise.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from paimon_engine.errors import CorruptTableError, PaimonError
from paimon_engine.meta.paths import MAIN_BRANCH, TablePaths
from paimon_engine.meta.snapshot import parse_snapshot
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import commit_note, read_manifest_list, writer_of

_LIST: Final = "manifest-list-"
_WAYS: Final = (
    "wait until all files of the table are there, or bring them back; if they are lost for good, roll back to a tag, "
    "or remove_orphan_files(confirm_latest_snapshot=0) lets the table begin anew"
)


def vanished(table: TableHandle, hint: int, newest: int) -> CorruptTableError:
    """The error for a hint that names a snapshot above the newest one in sight (0: none is)."""
    seen = f"the newest in sight is {newest}" if newest else f"{table.paths.snapshot_dir} shows none"
    ways = f"bring it back, or rollback(snapshot={newest}) makes that the latest" if newest else _WAYS
    return CorruptTableError(f"{table.paths.latest_hint} names snapshot {hint}, and {seen}; {ways}")


def check_never_had_any(table: TableHandle, earliest_hint: int | None) -> None:
    """Asks whether a branch in which no snapshot is in sight never had any.

    Raises: CorruptTableError if it had.
    """
    paths = table.paths
    if earliest_hint:
        raise CorruptTableError(
            f"{paths.earliest_hint} names snapshot {earliest_hint}, and {paths.snapshot_dir} shows none; {_WAYS}"
        )
    if paths.branch != MAIN_BRANCH:
        return
    if tags := [path for path in _files(table, paths.tag_dir) if path.rpartition("/")[2].startswith("tag-")]:
        raise CorruptTableError(f"{tags[0]} is there, and {paths.snapshot_dir} shows no snapshot; {_WAYS}")
    lists = [
        name for path in _files(table, f"{paths.root}/manifest") if (name := path.rpartition("/")[2]).startswith(_LIST)
    ]
    if lists and (later := _of_later_commit(table, sorted(set(lists) - _of_branches(table)))) is not None:
        seen = f"{paths.snapshot_dir} shows no snapshot"
        raise CorruptTableError(f"{paths.manifest(later)} goes on from an earlier commit, and {seen}; {_WAYS}")


def _files(table: TableHandle, directory: str) -> list[str]:
    return [info.path for info in table.env.storage.list(directory) if not info.is_dir]


def _of_later_commit(table: TableHandle, lists: list[str]) -> str | None:
    """A list that names what an earlier commit has written.

    A base list of ours says of which snapshot it is. Of other engines it is the first list of a writer if that is not
    empty, or one that names a manifest of another list.
    """
    ours = {name: note for name in lists if (note := commit_note(table, name)) is not None}
    if later := [name for name, note in ours.items() if not note.endswith("/1")]:
        return later[0]
    # The tries of one commit of ours share their manifests.
    writers = {writer_of(name) for name in ours}
    named: Counter[str] = Counter()
    for name in lists:
        if writer_of(name) in writers:
            continue
        try:
            manifests = {manifest.name for manifest in read_manifest_list(table, name)}
        except PaimonError:
            continue
        if manifests and name.endswith("-0"):
            return name
        named.update(manifests)
        if any(named[manifest] > 1 for manifest in manifests):
            return name
    return None


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
            except PaimonError:
                continue
            names = (snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.changelog_manifest_list)
            found |= {name for name in names if name is not None}
    return found
