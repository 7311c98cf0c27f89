"""Restores the root files of a quarantine: which can be written again, what conflicts with them, in which order.

A root that already exists is not written: the run that was to remove it was interrupted, or an earlier restore wrote
it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

from paimon_engine.errors import ConflictError, CorruptTableError, NotFoundError
from paimon_engine.meta.names import check_inside_directory, check_tag_name
from paimon_engine.meta.paths import MAIN_BRANCH, TablePaths
from paimon_engine.meta.snapshot import parse_snapshot
from paimon_engine.table.reach.quarantine import Quarantine
from paimon_engine.table.reach.reachability import Root, with_branch_paths
from paimon_engine.table.removal.file_removal import LONGEST_PAUSE_MS
from paimon_engine.table.removal.restore_checks import RestoreCheck
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.hints import repair_latest_hint, settle_hints, write_earliest_hint, write_hint
from paimon_engine.table.state.snapshots import branch_exists, read_snapshot, snapshot_ids

_ROOT: Final = re.compile(r"(?:branch/branch-(?P<branch>[^/]+)/)?(?P<kind>[a-z]+)/(?P<name>[^/]+)")
_SNAPSHOT: Final = re.compile(r"snapshot-(\d+)")
_ORDER: Final = ("schema", "", "tag", "changelog", "consumer")


@dataclass(frozen=True, slots=True)
class _File:
    branch: str
    kind: str
    name: str
    path: str
    data: bytes


@dataclass(frozen=True)
class RootsToRestore:
    """Root files to be written: `files` in this order, then `snapshot_files` by branch and id.

    `snapshots`, `tags` and `branches` are what is restored, for the result. `conflicts` are the reasons why
    it cannot be done. `left` are reasons why single versions are not restored. `tagged` are the restored tags of
    existing branches, with their snapshot ids. `check` has found that the versions lack nothing.
    """

    files: tuple[_File, ...] = ()
    snapshot_files: Mapping[str, Mapping[int, _File]] = field(default_factory=dict)
    snapshots: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    tagged: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    check: RestoreCheck | None = None

    def dangers(self) -> list[str]:
        """Why versions may lack files by now, or soon."""
        return [] if self.check is None else self.check.dangers()


def plan_roots(table: TableHandle, quarantine: Quarantine, *, as_tags: bool) -> RootsToRestore:
    """The files to be written, and the conflicts. With `as_tags` snapshots and tags become tags `restored-…`.

    For a branch that was deleted, all of its files are restored as they were, since nothing can conflict with them.
    """
    found = [_file(table, path, text) for path, text in quarantine.roots.items()]
    # Hints (LATEST, EARLIEST) are not restored; they are written for the snapshots that exist in the end.
    found = [item for item in found if item.kind != "snapshot" or _SNAPSHOT.fullmatch(item.name)]
    gone = {name for name in {item.branch for item in found} if not _exists(table, name)}
    if as_tags:
        found = [item if item.branch in gone else _as_tag(table, item) for item in found]
    conflicts = [] if as_tags else _changed_neighbours(table, quarantine)
    whole = {item.branch for item in found if item.kind == "schema"}
    conflicts += [f"branch {name!r} does not exist any more, or has another name" for name in sorted(gone - whole)]
    snapshot_files: dict[str, dict[int, _File]] = {}
    files: list[_File] = []
    check = RestoreCheck(table, quarantine)
    complete, lacking = _complete_versions(table, check, found)
    if lacking and (not as_tags or not complete):
        conflicts += lacking
    elif lacking:
        found = complete
    for item in found:
        existing = _stored(table, item.path)
        match = _SNAPSHOT.fullmatch(item.name) if item.kind == "snapshot" else None
        if existing is not None:
            if item.kind != "consumer" and not _same(item, existing):
                remedy = "" if as_tags else " (as_tags=True restores the versions as tags)"
                conflicts.append(f"{item.path} exists with other content{remedy}")
        elif match is not None:
            snapshot_files.setdefault(item.branch, {})[int(match[1])] = item
        else:
            files.append(item)
    for branch, by_id in snapshot_files.items():
        conflicts += _gap_conflicts(table, branch, by_id) or _history_conflicts(table, quarantine, branch, by_id)
    return RootsToRestore(
        files=tuple(sorted(files, key=_write_order)),
        snapshot_files=snapshot_files,
        snapshots=tuple(sorted(snapshot_files.get(MAIN_BRANCH, ()))),
        tags=tuple(sorted(item.name.removeprefix("tag-") for item in files if _is_tag_of(item, MAIN_BRANCH))),
        branches=tuple(sorted(gone - {MAIN_BRANCH})),
        conflicts=tuple(conflicts),
        left=tuple(lacking),
        tagged=_tagged([item for item in files if item.branch not in gone]),
        check=check,
    )


def roots_in_use(table: TableHandle, quarantine: Quarantine) -> list[str]:
    """Paths of root files of a quarantine that its deletion, if it is still running, may be about to remove.

    The list is written before roots are removed. A root that exists as it was then may be removed after a restore has
    seen it, so the list must stay as long as a run may be paused. An earlier restore that was interrupted looks the
    same.
    """
    if table.env.clock() - quarantine.time_ms >= LONGEST_PAUSE_MS:
        return []
    found = (_file(table, path, text) for path, text in quarantine.roots.items())
    versions = [item for item in found if item.kind != "snapshot" or _SNAPSHOT.fullmatch(item.name)]
    return [item.path for item in versions if _stored(table, item.path) == item.data]


def _tagged(files: Iterable[_File]) -> dict[str, dict[str, int]]:
    """By branch and tag name, the snapshot ids of the tags among the files."""
    tagged: dict[str, dict[str, int]] = {}
    for item in files:
        root = _root(item)
        if root is not None and root.tag is not None:
            tagged.setdefault(item.branch, {})[root.tag] = root.snapshot.id
    return tagged


def _complete_versions(
    table: TableHandle, check: RestoreCheck, found: Sequence[_File]
) -> tuple[list[_File], list[str]]:
    """The files without those of versions that lack files; and for these the reasons."""
    roots = {
        item.path: root for item in found if (root := _root(item)) is not None and _stored(table, item.path) is None
    }
    reasons = dict(zip(roots, check.lacking(list(roots.values())), strict=True))
    complete = [item for item in found if reasons.get(item.path) is None]
    return complete, [reason for reason in reasons.values() if reason is not None]


def _root(item: _File) -> Root | None:
    """The version (snapshot, tag, changelog) in a file; None for other files, and if it cannot be parsed."""
    name = item.name.removeprefix("tag-") if item.kind == "tag" and item.name.startswith("tag-") else None
    if name is None and (item.kind not in ("snapshot", "changelog") or not item.name.startswith(f"{item.kind}-")):
        return None
    try:
        snapshot = parse_snapshot(item.data, item.path)
    except CorruptTableError:
        # A damaged root is restored with exactly the same bytes.
        return None
    return Root(item.branch, snapshot, name, is_changelog=item.kind == "changelog")


def _exists(table: TableHandle, branch: str) -> bool:
    return branch == MAIN_BRANCH or branch_exists(table, branch)


def _is_tag_of(item: _File, branch: str) -> bool:
    return item.kind == "tag" and item.branch == branch and item.name.startswith("tag-")


def _file(table: TableHandle, relative: str, text: str) -> _File:
    """A root file of the quarantine's list, with its branch and kind; kind "" for other files of a branch."""
    match = _ROOT.fullmatch(relative)
    branch, kind, name = (match["branch"] or MAIN_BRANCH, match["kind"], match["name"]) if match else ("", "", relative)
    if not match and relative.startswith("branch/branch-"):
        branch = relative.split("/")[1].removeprefix("branch-")
    kind = kind if kind in (*_ORDER, "snapshot") else ""
    path = f"{table.paths.root}/{relative}"
    return _File(branch or MAIN_BRANCH, kind, name, path, text.encode("utf-8", "surrogateescape"))


def _as_tag(table: TableHandle, item: _File) -> _File:
    """The file as a tag `restored-<id>` or `restored-<tag>`; unchanged if it is neither a snapshot nor a tag."""
    match = _SNAPSHOT.fullmatch(item.name) if item.kind == "snapshot" else None
    if match is None and not _is_tag_of(item, item.branch):
        return item
    name = f"restored-{match[1] if match else item.name.removeprefix('tag-')}"
    check_tag_name(name)
    path = TablePaths(table.paths.root, item.branch).tag(name)
    return replace(item, kind="tag", name=f"tag-{name}", path=path)


def _write_order(item: _File) -> tuple[int, int, str]:
    """Sort key. Schemas first, the newest one before all, so that no reader takes an old schema for the latest."""
    number = item.name.rpartition("-")[2]
    newest_first = -int(number) if item.kind == "schema" and number.isdigit() else 0
    return _ORDER.index(item.kind), newest_first, item.path


def _stored(table: TableHandle, path: str) -> bytes | None:
    try:
        return table.env.storage.read(path)
    except NotFoundError:
        return None


def _same(item: _File, existing: bytes) -> bool:
    return item.data == existing or (item.kind == "snapshot" and _same_commit(item.data, existing, item.path))


def _same_commit(one: bytes, other: bytes, path: str) -> bool:
    try:
        ours, theirs = parse_snapshot(one, path), parse_snapshot(other, path)
    except CorruptTableError:
        return one == other
    return ours.id == theirs.id and ours.delta_manifest_list == theirs.delta_manifest_list


def _changed_neighbours(table: TableHandle, quarantine: Quarantine) -> list[str]:
    found = []
    for relative, text in quarantine.neighbours.items():
        path = f"{table.paths.root}/{relative}"
        existing = _stored(table, path)
        if existing is not None and not _same_commit(text.encode("utf-8", "surrogateescape"), existing, path):
            found.append(f"{path} is now another commit (as_tags=True restores the versions as tags)")
    return found


def _gap_conflicts(table: TableHandle, branch: str, restored: Mapping[int, _File]) -> list[str]:
    """Why the restored snapshots would leave a gap to the existing ones."""
    ids = snapshot_ids(with_branch_paths(table, branch))
    if table.snapshot_service is not None and ids and max(restored) > max(ids):
        return [f"a server keeps the snapshots of {table.paths.root} and cannot restore any (as_tags=True makes tags)"]
    if not ids or _gaps((*ids, *restored)) <= _gaps(ids):
        return []
    what = f"snapshots {min(restored)} to {max(restored)} leave a gap to the existing ones, {ids[0]} to {ids[-1]}"
    return [f"{what}: restore newer quarantines first, or restore these as tags (as_tags=True)"]


def _history_conflicts(
    table: TableHandle, quarantine: Quarantine, branch: str, restored: Mapping[int, _File]
) -> list[str]:
    """Why restored snapshots do not belong to the same history as the existing ones next to them."""
    on_branch, check = with_branch_paths(table, branch), RestoreCheck(table, quarantine)
    existing = set(snapshot_ids(on_branch)) - set(restored)
    found = []
    for number in sorted(existing | set(restored)):
        # Only pairs of one restored and one existing snapshot are compared.
        if (number in restored) == (number + 1 in restored) or not {number, number + 1} <= existing | set(restored):
            continue
        try:
            older, newer = (
                _root(restored[item]) if item in restored else Root(branch, read_snapshot(on_branch, item))
                for item in (number, number + 1)
            )
        except NotFoundError as error:
            found.append(f"others expire snapshots meanwhile, run it again: {error}")
            continue
        why = None if older is None or newer is None else check.history_conflict(older, newer)
        found += [] if why is None else [f"{why} (as_tags=True restores the versions as tags)"]
    return found


def _gaps(ids: Iterable[int]) -> int:
    return sum(following != one + 1 for one, following in pairwise(sorted(set(ids))))


def write_roots(table: TableHandle, roots: RootsToRestore) -> list[str]:
    """Writes the root files. Safe to repeat. Returns the paths of those that `take_back` may remove, in this order.

    Snapshots that are newer than all others are not among them, since a writer may have continued from them.

    Raises: ConflictError if another process has written one of them with other content meanwhile.
    """
    created = [item.path for item in roots.files if _create(table, item)]
    for branch, by_id in roots.snapshot_files.items():
        check_inside_directory("branch", branch)
        on_branch = with_branch_paths(table, branch)
        ids = snapshot_ids(on_branch)
        # Starting next to the existing snapshots, so that ids have no gap at any moment.
        for number in _outwards(ids, sorted(by_id)):
            if _create(table, by_id[number]) and ids and number < ids[-1]:
                created.append(by_id[number].path)
        # A listing may not show the new files at once.
        after = sorted({*snapshot_ids(on_branch), *by_id})
        write_earliest_hint(on_branch, on_branch.paths.snapshot_dir, after[0])
        write_hint(on_branch, on_branch.paths.latest_hint, after[-1])
        repair_latest_hint(on_branch)
    return created


def take_back(table: TableHandle, roots: RootsToRestore, created: Sequence[str]) -> None:
    """Removes what `write_roots` has created, the last one first."""
    for path in reversed(created):
        table.env.storage.delete([path])
    for branch in roots.snapshot_files:
        settle_hints(table, with_branch_paths(table, branch).paths.snapshot_dir)


def _outwards(existing: Sequence[int], restored: Sequence[int]) -> list[int]:
    """The restored ids, older ones descending and newer ones ascending: existing 5, restored 3 4 6 → 4 3 6."""
    if not existing:
        return list(restored)
    older = [number for number in restored if number < existing[0]]
    return [*reversed(older), *(number for number in restored if number >= existing[0])]


def _create(table: TableHandle, item: _File) -> bool:
    """Whether it was not there. Raises: ConflictError."""
    created = table.env.storage.create(item.path, item.data)
    if not created and item.kind != "consumer" and not _same(item, _stored(table, item.path) or b""):
        raise ConflictError(f"{item.path} was written by another process; run it again to see the conflicts")
    return created
