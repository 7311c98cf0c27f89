"""Do manifest lists belong to their snapshots? What the lists alone can tell, without any manifest.

A list that is whole, but another snapshot's (after a mishap with a backup), names other manifests than were live, and
what it does not name would look as if nobody needed it. Of lists that go together this holds, whoever wrote them:

1. A snapshot begins with the files with which the one before it ended: the base list of N+1 adds, less what it removes,
   as many files as the base and the delta list of N together. Merging manifests cancels an addition and a removal at a
   time. Only repairs that drop manifests from the list change that; they commit an OVERWRITE without changes.
2. No manifest is in the base and in the delta list of the same snapshot.

Counts of rows would tell more, but a total that one writer once got wrong is carried on in all later snapshots. What
takes as many files away as it adds goes unnoticed here; `verify` compares the files themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from paimon_engine.meta.manifest import ManifestFile
from paimon_engine.meta.snapshot import CommitKind
from paimon_engine.table.reach.reachability import Root, RootFiles

CommitName = tuple[int, str]


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
        """Whether the commit may have dropped manifests that were lost."""
        return self.root.snapshot.commit_kind is CommitKind.OVERWRITE and not self.delta


def lists_of(root: Root, files: RootFiles) -> Lists:
    """The lists of a root whose metadata is known."""
    return Lists(root, files.manifests[: files.base_count], files.manifests[files.base_count :])


def _files(manifests: Iterable[ManifestFile]) -> int:
    return sum(item.added_count - item.deleted_count for item in manifests)


def commit_name(root: Root) -> CommitName:
    """What is the same of all roots on one commit; the delta list's name is unique to it."""
    return root.snapshot.id, root.snapshot.delta_manifest_list


def mismatched(found: Sequence[Lists]) -> dict[CommitName, str]:
    """Commits one of whose lists may be another's, and why."""
    reasons: dict[CommitName, str] = {}
    for item in found:
        if twice := {manifest.name for manifest in item.base} & {manifest.name for manifest in item.delta}:
            what = f"both manifest lists of {item.root.label} name {min(twice)}: one may be another snapshot's"
            reasons.setdefault(commit_name(item.root), what)
    for older, newer in _neighbours(found):
        if older.files_after != newer.files_before and not newer.is_repair:
            what = (
                f"{newer.root.label} begins with {newer.files_before} files, and {older.root.label} ends with "
                f"{older.files_after}: a manifest list of one of them may be another snapshot's"
            )
            reasons.setdefault(commit_name(older.root), what)
            reasons.setdefault(commit_name(newer.root), what)
    return reasons


def _neighbours(found: Sequence[Lists]) -> Iterator[tuple[Lists, Lists]]:
    """Snapshots of a branch that follow on each other.

    A fast-forward replaces main's snapshots one after another. Where one of two is a branch's too and the other is not,
    it is under way, or was cut short: they need not go together.
    """
    owners: dict[CommitName, set[str]] = {}
    rows: dict[str, dict[int, Lists]] = {}
    for item in found:
        if item.root.is_snapshot:
            owners.setdefault(commit_name(item.root), set()).add(item.root.branch)
            rows.setdefault(item.root.branch, {})[item.root.snapshot.id] = item
    for row in rows.values():
        for number, following in pairwise(sorted(row)):
            older, newer = row[number], row[following]
            if following == number + 1 and owners[commit_name(older.root)] == owners[commit_name(newer.root)]:
                yield older, newer
