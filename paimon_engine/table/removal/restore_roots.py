"""Roots out of a quarantine: what can come back to its place, and in which order.

A root that is there already, since the run that hid it was cut short or an earlier restore brought it back, is left.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

from paimon_engine.errors import ConflictError, CorruptTableError, NotFoundError
from paimon_engine.meta.names import check_stays_inside, check_tag_name
from paimon_engine.meta.paths import MAIN_BRANCH, TablePaths
from paimon_engine.meta.snapshot import parse_snapshot
from paimon_engine.table.reach.quarantine import Quarantine
from paimon_engine.table.reach.reachability import Root, with_branch_paths
from paimon_engine.table.removal.restore_checks import Restorable
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.snapshots import branch_exists, read_snapshot, snapshot_ids, write_hint

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
class RootsBack:
    """Files to be written: `files` in order, then the `rows` of snapshots by branch.

    `snapshots`, `tags` and `branches` tell what that brings back, `conflicts` what is in the way, `left` the
    versions that stay away; `tagged` are the tags of branches that are there, with their snapshots.
    """

    files: tuple[_File, ...] = ()
    rows: Mapping[str, Mapping[int, _File]] = field(default_factory=dict)
    snapshots: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    tagged: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


def plan_roots(table: TableHandle, quarantine: Quarantine, *, as_tags: bool) -> RootsBack:
    """What has to be written, and what is in the way. With `as_tags` snapshots and tags get names of their own."""
    found = [_file(table, path, text) for path, text in quarantine.roots.items()]
    # Hints are no roots; they are written for the snapshots that there are.
    found = [item for item in found if item.kind != "snapshot" or _SNAPSHOT.fullmatch(item.name)]
    gone = {name for name in {item.branch for item in found} if not _is_there(table, name)}
    if as_tags:
        found = [item if item.branch in gone else _as_tag(table, item) for item in found]
    conflicts = [] if as_tags else _changed_neighbours(table, quarantine)
    rows: dict[str, dict[int, _File]] = {}
    files: list[_File] = []
    whole, torn = _whole(table, quarantine, found)
    if torn and (not as_tags or not whole):
        conflicts += torn
    elif torn:
        found = whole
    for item in found:
        there = _stored(table, item.path)
        match = _SNAPSHOT.fullmatch(item.name) if item.kind == "snapshot" else None
        if there is not None:
            if item.kind != "consumer" and not _same(item, there):
                conflicts.append(f"{item.path} is another one by now")
        elif match is not None:
            rows.setdefault(item.branch, {})[int(match[1])] = item
        else:
            files.append(item)
    for branch, row in rows.items():
        conflicts += _torn(table, branch, row) or _strangers(table, quarantine, branch, row)
    return RootsBack(
        files=tuple(sorted(files, key=_place)),
        rows=rows,
        snapshots=tuple(sorted(rows.get(MAIN_BRANCH, ()))),
        tags=tuple(sorted(item.name.removeprefix("tag-") for item in files if _is_tag_of(item, MAIN_BRANCH))),
        branches=tuple(sorted(gone - {MAIN_BRANCH})),
        conflicts=tuple(conflicts),
        left=tuple(torn),
        tagged=_tagged([item for item in files if item.branch not in gone]),
    )


def _tagged(files: Iterable[_File]) -> dict[str, dict[str, int]]:
    tagged: dict[str, dict[str, int]] = {}
    for item in files:
        root = _root(item)
        if root is not None and root.tag is not None:
            tagged.setdefault(item.branch, {})[root.tag] = root.snapshot.id
    return tagged


def _whole(table: TableHandle, quarantine: Quarantine, found: Sequence[_File]) -> tuple[list[_File], list[str]]:
    """The files whose versions have all that they need, if they are versions; and why others must not come back."""
    roots = {
        item.path: root for item in found if (root := _root(item)) is not None and _stored(table, item.path) is None
    }
    reasons = dict(zip(roots, Restorable(table, quarantine).lacking(list(roots.values())), strict=True))
    whole = [item for item in found if reasons.get(item.path) is None]
    return whole, [reason for reason in reasons.values() if reason is not None]


def _root(item: _File) -> Root | None:
    """The version that a file is, if it is one that can be understood."""
    name = item.name.removeprefix("tag-") if item.kind == "tag" and item.name.startswith("tag-") else None
    if name is None and (item.kind not in ("snapshot", "changelog") or not item.name.startswith(f"{item.kind}-")):
        return None
    try:
        snapshot = parse_snapshot(item.data, item.path)
    except CorruptTableError:
        # What nobody understands comes back byte by byte.
        return None
    return Root(item.branch, snapshot, name, is_changelog=item.kind == "changelog")


def _is_there(table: TableHandle, branch: str) -> bool:
    return branch == MAIN_BRANCH or branch_exists(table, branch)


def _is_tag_of(item: _File, branch: str) -> bool:
    return item.kind == "tag" and item.branch == branch and item.name.startswith("tag-")


def _file(table: TableHandle, relative: str, text: str) -> _File:
    match = _ROOT.fullmatch(relative)
    branch, kind, name = (match["branch"] or MAIN_BRANCH, match["kind"], match["name"]) if match else ("", "", relative)
    if not match and relative.startswith("branch/branch-"):
        branch = relative.split("/")[1].removeprefix("branch-")
    kind = kind if kind in (*_ORDER, "snapshot") else ""
    path = f"{table.paths.root}/{relative}"
    return _File(branch or MAIN_BRANCH, kind, name, path, text.encode("utf-8", "surrogateescape"))


def _as_tag(table: TableHandle, item: _File) -> _File:
    match = _SNAPSHOT.fullmatch(item.name) if item.kind == "snapshot" else None
    if match is None and not _is_tag_of(item, item.branch):
        return item
    name = f"restored-{match[1] if match else item.name.removeprefix('tag-')}"
    check_tag_name(name)
    path = TablePaths(table.paths.root, item.branch).tag(name)
    return replace(item, kind="tag", name=f"tag-{name}", path=path)


def _place(item: _File) -> tuple[int, int, str]:
    """Schemas first, the newest before all: nobody ever takes an old one for a branch's latest."""
    number = item.name.rpartition("-")[2]
    newest_first = -int(number) if item.kind == "schema" and number.isdigit() else 0
    return _ORDER.index(item.kind), newest_first, item.path


def _stored(table: TableHandle, path: str) -> bytes | None:
    try:
        return table.env.storage.read(path)
    except NotFoundError:
        return None


def _same(item: _File, there: bytes) -> bool:
    return item.data == there or (item.kind == "snapshot" and _same_commit(item.data, there, item.path))


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
        there = _stored(table, path)
        if there is not None and not _same_commit(text.encode("utf-8", "surrogateescape"), there, path):
            found.append(f"{path} is another commit by now (as_tags=True brings the versions back as tags)")
    return found


def _torn(table: TableHandle, branch: str, row: Mapping[int, _File]) -> list[str]:
    """Why these snapshots and those that are there make no unbroken row."""
    ids = snapshot_ids(with_branch_paths(table, branch))
    if table.snapshot_service is not None and ids and max(row) > max(ids):
        return [f"a server keeps the snapshots of {table.paths.root} and takes none back (as_tags=True makes tags)"]
    if not ids or _gaps((*ids, *row)) <= _gaps(ids):
        return []
    what = f"snapshots {min(row)} to {max(row)} do not reach up to those that are there, {ids[0]} to {ids[-1]}"
    return [f"{what}: bring back first what was moved aside later, or bring them back as tags (as_tags=True)"]


def _strangers(table: TableHandle, quarantine: Quarantine, branch: str, row: Mapping[int, _File]) -> list[str]:
    """Why these snapshots are of another history than those that would stand next to them."""
    line, look = with_branch_paths(table, branch), Restorable(table, quarantine)
    there = set(snapshot_ids(line)) - set(row)
    found = []
    for number in sorted(there | set(row)):
        if (number in row) == (number + 1 in row) or not {number, number + 1} <= there | set(row):
            continue
        pair = [
            _root(row[item]) if item in row else Root(branch, read_snapshot(line, item))
            for item in (number, number + 1)
        ]
        older, newer = pair
        why = None if older is None or newer is None else look.torn(older, newer)
        found += [] if why is None else [f"{why} (as_tags=True brings the versions back as tags)"]
    return found


def _gaps(ids: Iterable[int]) -> int:
    return sum(following != one + 1 for one, following in pairwise(sorted(set(ids))))


def bring_back(table: TableHandle, roots: RootsBack) -> None:
    """Writes the roots; safe to repeat.

    Raises: ConflictError if somebody else has written one of them meanwhile.
    """
    for item in roots.files:
        _create(table, item)
    for branch, row in roots.rows.items():
        check_stays_inside("branch", branch)
        line = with_branch_paths(table, branch)
        ids = snapshot_ids(line)
        # From the snapshots that are there outwards, so that the row is unbroken at any moment.
        for number in _outwards(ids, sorted(row)):
            _create(table, row[number])
        # A listing may come late.
        after = sorted({*snapshot_ids(line), *row})
        write_hint(line, line.paths.earliest_hint, after[0])
        write_hint(line, line.paths.latest_hint, after[-1])


def _outwards(there: Sequence[int], back: Sequence[int]) -> list[int]:
    if not there:
        return list(back)
    older = [number for number in back if number < there[0]]
    return [*reversed(older), *(number for number in back if number >= there[0])]


def _create(table: TableHandle, item: _File) -> None:
    created = table.env.storage.create(item.path, item.data)
    if not created and item.kind != "consumer" and not _same(item, _stored(table, item.path) or b""):
        raise ConflictError(f"{item.path} is another one by now; run it again to see what is in the way")
