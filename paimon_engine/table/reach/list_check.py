"""Checks that manifest lists belong to their snapshots, from the lists alone, without reading manifests.

A list may be intact but belong to another snapshot, for example after a wrong restore from a backup. It then names
other manifests than were live, and files that it does not name would look unneeded. Lists that belong together, by
of any engine, satisfy two rules:

1. A snapshot begins with as many files as the one before it ended with: the number of added minus deleted files in the
   base list of N+1 equals that in the base and the delta list of N together. Merging manifests does not change the
   number, as it removes an ADD and its DELETE together. Only repairs that drop lost manifests change it; these commit
   an OVERWRITE without changes.
2. No manifest is in the base list and in the delta list of the same snapshot.

Row counts would show more, but a total that one writer once computed wrongly is carried over into all later snapshots.
A wrong list with the same number of files goes unnoticed here; `verify` compares the files themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from paimon_engine.meta.manifest import ManifestFile
from paimon_engine.meta.snapshot import CommitKind
from paimon_engine.table.reach.reachability import Root, RootFiles

SnapshotCommit = tuple[int, str]


@dataclass(frozen=True)
class Lists:
    """A snapshot or tag, and the manifests that its two lists name."""

    root: Root
    base: Sequence[ManifestFile]
    delta: Sequence[ManifestFile]

    @property
    def files_before(self) -> int:
        """Number of live files that the commit began with."""
        return _files(self.base)

    @property
    def files_after(self) -> int:
        """Number of live files that the commit ended with."""
        return _files(self.base) + _files(self.delta)

    @property
    def is_repair(self) -> bool:
        """Whether the commit may be a repair that dropped lost manifests."""
        return self.root.snapshot.commit_kind is CommitKind.OVERWRITE and not self.delta


def lists_of(root: Root, files: RootFiles) -> Lists:
    """The lists of a root whose metadata is known."""
    return Lists(root, files.manifests[: files.base_count], files.manifests[files.base_count :])


def _files(manifests: Iterable[ManifestFile]) -> int:
    return sum(item.added_count - item.deleted_count for item in manifests)


def commit_of(root: Root) -> SnapshotCommit:
    """The same for all roots of one commit (its snapshot and its tags); the delta list's name is unique to it."""
    return root.snapshot.id, root.snapshot.delta_manifest_list


def mismatched(found: Sequence[Lists]) -> dict[SnapshotCommit, str]:
    """Commits one of whose lists may belong to another snapshot, and why."""
    reasons: dict[SnapshotCommit, str] = {}
    for item in found:
        if twice := {manifest.name for manifest in item.base} & {manifest.name for manifest in item.delta}:
            what = f"both manifest lists of {item.root.label} name {min(twice)}: one may belong to another snapshot"
            reasons.setdefault(commit_of(item.root), what)
    for older, newer in _neighbours(found):
        if older.files_after != newer.files_before and not newer.is_repair:
            what = (
                f"{newer.root.label} begins with {newer.files_before} files, but {older.root.label} ends with "
                f"{older.files_after}: a manifest list of one of them may belong to another snapshot"
            )
            reasons.setdefault(commit_of(older.root), what)
            reasons.setdefault(commit_of(newer.root), what)
    return reasons


def _neighbours(found: Sequence[Lists]) -> Iterator[tuple[Lists, Lists]]:
    """Pairs of consecutive snapshots of a branch.

    A fast-forward replaces the snapshots of main one after another. If one snapshot of a pair is also a snapshot of a
    branch and the other is not, a fast-forward is running or was interrupted, and the two need not belong together.
    """
    owners: dict[SnapshotCommit, set[str]] = {}
    by_branch: dict[str, dict[int, Lists]] = {}
    for item in found:
        if item.root.is_snapshot:
            owners.setdefault(commit_of(item.root), set()).add(item.root.branch)
            by_branch.setdefault(item.root.branch, {})[item.root.snapshot.id] = item
    for by_id in by_branch.values():
        for number, following in pairwise(sorted(by_id)):
            older, newer = by_id[number], by_id[following]
            if following == number + 1 and owners[commit_of(older.root)] == owners[commit_of(newer.root)]:
                yield older, newer
