"""Roots of a table, and the files that each of them reaches.

A *root* is a file that a reader can start from: a snapshot or a tag, of main or of a branch. A root reaches

1. its manifest lists, their manifests, its index manifest with the index files, its statistics file;
2. the data files that are live in it (ADD and DELETE entries of base and delta list applied in order), with their extra
   files;
3. the files of its changelog list.

A changelog that is kept longer than its snapshot is a root, too (`table.state.changelogs`). It reaches 3.; or, if the
data files of its commit are its changelog, its base and delta list and the data files that writers made for that
commit.

A file may be deleted only if no root reaches it. The Java library checks only neighbouring tags. That is enough as long
as a removed file never becomes live again and there are no branches; here every root is checked. The cost is limited,
since roots share most of their manifests: each manifest is read once, and only entries of the files in question are
kept.

Roots are listed in this order: snapshots, tags, changelogs, and main before branches. A tag is made from a snapshot, a
branch from a tag or snapshot. So if a root is created from another one while roots are listed, either the new root is
seen, or the one that it was created from.

Source: `SnapshotDeletion`, `TagDeletion`, `FileDeletionBase` of the Java library.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, TypeVar

from paimon_engine.errors import CorruptTableError, NotFoundError, PaimonError, StorageError
from paimon_engine.meta.manifest import ManifestEntry, ManifestFile
from paimon_engine.meta.paths import MAIN_BRANCH, TablePaths
from paimon_engine.meta.snapshot import Snapshot
from paimon_engine.table.reach.completeness import (
    BranchObservation,
    MissingVersions,
    find_missing_main,
    find_missing_versions,
)
from paimon_engine.table.reach.doubts import Doubt, missing_between
from paimon_engine.table.reach.observation import observe_branch
from paimon_engine.table.state.changelogs import changelog_ids, keeps_delta, read_changelog
from paimon_engine.table.state.handle import TableHandle, bucket_path, index_file_path
from paimon_engine.table.state.manifests import live_index_files, read_manifest_list
from paimon_engine.table.state.side_by_side import in_threads
from paimon_engine.table.state.snapshots import branches, read_snapshot, read_tag, snapshot_ids, tag_names

LOCAL_MANIFESTS_MAX: Final = 256
"""Up to this number of manifests, this process reads them itself: starting tasks on a cluster would take longer."""
MANIFESTS_PER_TASK: Final = 32

T = TypeVar("T")
R = TypeVar("R")
RootIdentity = tuple[str, str | None, int, str, bool]


_ROUNDS_MAX: Final = 5
"""How often versions are looked for again, since some have gone while they were read."""


# ── roots ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Root:
    """A snapshot file (`tag` is None), a tag file, or a changelog that is kept longer than its snapshot."""

    branch: str
    snapshot: Snapshot
    tag: str | None = None
    is_changelog: bool = False
    keeps_delta: bool = False
    """For a changelog: whether the data files of its commit are the changelog."""

    @property
    def is_snapshot(self) -> bool:
        """Whether it is a snapshot file."""
        return self.tag is None and not self.is_changelog

    @property
    def identity(self) -> RootIdentity:
        """Equal only for the same root; the name of the delta list is unique to a commit."""
        return self.branch, self.tag, self.snapshot.id, self.snapshot.delta_manifest_list, self.is_changelog

    @property
    def label(self) -> str:
        """The root as messages name it."""
        kind = "changelog" if self.is_changelog else "snapshot"
        what = f"{kind} {self.snapshot.id}" if self.tag is None else f"tag {self.tag!r}"
        return what if self.branch == MAIN_BRANCH else f"{what} of branch {self.branch!r}"


def with_branch_paths(table: TableHandle, branch: str) -> TableHandle:
    """The table with the paths of a branch and the schema of its own branch; for work on metadata only."""
    if branch == table.paths.branch:
        return table
    # Not shared: schema ids of another branch may name other schemas.
    return replace(table, paths=TablePaths(table.paths.root, branch), _schemas={})


class Roots(list[Root]):
    """Every root of a table, main's first.

    `doubts` are roots that cannot be parsed, and reasons to believe that versions are missing from the listings.
    `earlier` are such reasons that concern only versions older than all listed snapshots; an expiry may ignore them,
    since it would delete those versions, too.
    """

    def __init__(self, found: Iterable[Root] = (), doubts: Iterable[Doubt] = (), earlier: Iterable[Doubt] = ()) -> None:
        super().__init__(found)
        self.doubts = tuple(doubts)
        self.earlier = tuple(earlier)

    def checked(self) -> Roots:
        """The roots themselves.

        Raises: CorruptTableError if there is a doubt. That of a main without snapshots, as it is before its first
        commit, keeps files from being deleted, no more.
        """
        for doubt in self.doubts:
            if not doubt.lasts:
                raise CorruptTableError(doubt.reason)
        return self

    def settled(self, is_gone: Callable[[Doubt], bool]) -> Roots:
        """The same, without doubts about roots that are being removed: once removed, they need no file."""
        doubts = (doubt for doubt in self.doubts if not is_gone(doubt))
        return Roots(self, doubts, (doubt for doubt in self.earlier if not is_gone(doubt)))

    def unread(self, branch: str, path_of: Callable[[int], str]) -> list[int]:
        """Ids of the branch's snapshots or changelogs, depending on `path_of`, that cannot be parsed; ascending."""
        ids = [doubt.snapshot_id for doubt in self.doubts if doubt.branch == branch and doubt.snapshot_id is not None]
        paths = {doubt.path for doubt in self.doubts}
        return sorted({number for number in ids if path_of(number) in paths})


def all_roots(table: TableHandle, known: Collection[RootIdentity] = ()) -> Roots:
    """Every root of the table that can be parsed, and a doubt for every other one.

    `known` are roots that were seen before. Those that the listings lack now are looked up by their names: a listing
    may be older than the one before it. A tag that no listing has shown yet cannot be found that way.

    A version can move while it is looked for: an expired snapshot becomes a changelog, or a tag is made of it. Where it
    moves to may have been listed before, so if any version has gone since, all are looked for again. What is listed
    once more and is not there is a matter of an old listing.

    Raises: StorageError.
    """
    absent: set[RootIdentity | str] = set()
    for _ in range(_ROUNDS_MAX):
        roots, gone = _roots_now(table, known)
        there = {root.identity for root in roots}
        before, absent = absent, {*gone, *(identity for identity in known if identity not in there)}
        if absent <= before:
            return roots
    reason = f"others delete versions of {table.paths.root} while they are read; run again"
    return Roots(roots, (*roots.doubts, Doubt(MAIN_BRANCH, None, reason, may_pass=True)), roots.earlier)


def _roots_now(table: TableHandle, known: Collection[RootIdentity]) -> tuple[Roots, list[str]]:
    """The roots, and the paths of those that were listed and did not exist any more when they were read."""
    found: list[Root] = []
    gone: list[str] = []
    doubts: list[Doubt] = []
    earlier: list[Doubt] = []
    observed = observe_branches(table)
    for unseen in missing_versions(observed):
        doubt = Doubt(
            unseen.branch, None, unseen.reason, may_pass=True, is_certain=unseen.is_certain, lasts=unseen.lasts
        )
        (earlier if unseen.is_earlier else doubts).append(doubt)
    for seen in observed:
        for item in _roots_of(with_branch_paths(table, seen.branch), seen):
            if isinstance(item, Root):
                found.append(item)
            elif isinstance(item, str):
                gone.append(item)
            else:
                doubts.append(item)
    for item in _unlisted(table, {*known} - {root.identity for root in found}):
        if isinstance(item, Root):
            found.append(item)
        elif item not in doubts:
            doubts.append(item)
    return Roots(found, doubts, earlier), gone


def observe_branches(table: TableHandle) -> list[BranchObservation]:
    """What is seen of each branch, main's first. Raises: StorageError."""
    return [observe_branch(with_branch_paths(table, branch)) for branch in (MAIN_BRANCH, *branches(table))]


def missing_versions(observed: Sequence[BranchObservation]) -> list[MissingVersions]:
    """Why versions of the table may exist that the listings do not show; `observed` are all branches."""
    return [*(one for seen in observed for one in find_missing_versions(seen)), *find_missing_main(observed)]


def _unlisted(table: TableHandle, absent: Collection[RootIdentity]) -> list[Root | Doubt]:
    """Those of the roots that exist although no listing shows them."""
    asked = sorted({(branch, tag or "", number, is_changelog) for branch, tag, number, _, is_changelog in absent})
    found = in_threads(table, _root_by_name, asked)
    return [item for item in found if item is not None]


def _root_by_name(table: TableHandle, asked: tuple[str, str, int, bool]) -> Root | Doubt | None:
    branch, tag, number, is_changelog = asked
    on_branch = with_branch_paths(table, branch)
    if tag:
        return _tag_root(on_branch, tag)
    return _changelog_root(on_branch, number) if is_changelog else _snapshot_root(on_branch, number)


def _roots_of(on_branch: TableHandle, seen: BranchObservation) -> list[Root | Doubt | str]:
    """Roots and doubts of one branch, and the paths of roots that have gone between listing and reading.

    If a snapshot has gone for another reason than expiry, there is a gap now, which `lost_roots` finds.
    """
    paths = on_branch.paths
    return [
        *_read_or_path(on_branch, seen.snapshots, paths.snapshot, _snapshot_root),
        *_read_or_path(on_branch, seen.tags, paths.tag, _tag_root),
        *_read_or_path(on_branch, seen.changelogs, paths.changelog, _changelog_root),
    ]


def _read_or_path(
    on_branch: TableHandle,
    names: Sequence[T],
    path_of: Callable[[T], str],
    read: Callable[[TableHandle, T], Root | Doubt | None],
) -> Iterator[Root | Doubt | str]:
    for name, item in zip(names, in_threads(on_branch, read, names), strict=True):
        yield path_of(name) if item is None else item


def _snapshot_root(on_branch: TableHandle, number: int) -> Root | Doubt | None:
    branch, path = on_branch.paths.branch, on_branch.paths.snapshot(number)
    return _parsed_root(branch, number, path, lambda: Root(branch, read_snapshot(on_branch, number)))


def _tag_root(on_branch: TableHandle, name: str) -> Root | Doubt | None:
    branch, path = on_branch.paths.branch, on_branch.paths.tag(name)
    return _parsed_root(branch, None, path, lambda: Root(branch, read_tag(on_branch, name).snapshot, name))


def _changelog_root(on_branch: TableHandle, number: int) -> Root | Doubt | None:
    branch, path = on_branch.paths.branch, on_branch.paths.changelog(number)
    return _parsed_root(branch, number, path, lambda: changelog_root(on_branch, read_changelog(on_branch, number)))


def _parsed_root(branch: str, number: int | None, path: str, read: Callable[[], Root]) -> Root | Doubt | None:
    """The root that `read` gives, a doubt if it cannot be parsed, None if it does not exist any more."""
    try:
        return read()
    except NotFoundError:
        return None
    except CorruptTableError as error:
        return Doubt(branch, number, str(error), path=path)


def changelog_root(on_branch: TableHandle, snapshot: Snapshot) -> Root:
    """The root of a changelog with that snapshot's content; the changelog exists, or will when the snapshot expires."""
    return Root(on_branch.paths.branch, snapshot, is_changelog=True, keeps_delta=keeps_delta(on_branch, snapshot))


def every_root(table: TableHandle) -> tuple[list[Root], list[tuple[str, Unreadable]]]:
    """Every root, long-lived changelogs included, main's first; and each that cannot be read, with its path.

    A root that vanishes between listing and reading counts as one that cannot be read.
    """
    found: list[Root] = []
    unreadable: list[tuple[str, Unreadable]] = []
    for branch in (MAIN_BRANCH, *branches(table)):
        on_branch = with_branch_paths(table, branch)
        paths, ids = on_branch.paths, snapshot_ids(on_branch)
        for snapshot_id, snapshot in zip(ids, in_threads(on_branch, _try_snapshot, ids), strict=True):
            if isinstance(snapshot, Snapshot):
                found.append(Root(branch, snapshot))
            else:
                unreadable.append((paths.snapshot(snapshot_id), snapshot))
        for name in tag_names(on_branch):
            try:
                found.append(Root(branch, read_tag(on_branch, name).snapshot, name))
            except PaimonError as error:
                unreadable.append((paths.tag(name), Unreadable.of(error)))
        for number in changelog_ids(on_branch):
            try:
                found.append(changelog_root(on_branch, read_changelog(on_branch, number)))
            except PaimonError as error:
                unreadable.append((paths.changelog(number), Unreadable.of(error)))
    return found, unreadable


def _try_snapshot(on_branch: TableHandle, snapshot_id: int) -> Snapshot | Unreadable:
    try:
        return read_snapshot(on_branch, snapshot_id)
    except NotFoundError:
        return Unreadable("it vanished while it was read; run again when no expiry or rollback is running")
    except PaimonError as error:
        return Unreadable.of(error)


def gaps(roots: Sequence[Root]) -> Iterator[tuple[Root, Root]]:
    """Pairs of snapshots of a branch between which others are missing."""
    for branch in dict.fromkeys(root.branch for root in roots):
        of_branch = [root for root in roots if root.branch == branch and root.is_snapshot]
        for one, following in pairwise(sorted(of_branch, key=lambda root: root.snapshot.id)):
            if following.snapshot.id != one.snapshot.id + 1:
                yield one, following


def lost_roots(
    table: TableHandle, roots: Roots, *, but_below: Collection[Root] = (), but_earlier: bool = False
) -> tuple[Doubt, ...]:
    """All doubts: roots that cannot be parsed, versions that may be missing, and gaps in the snapshot ids of a branch.

    Gaps directly below a root in `but_below`, which is being removed, are left out. With `but_earlier`, doubts about
    versions before the earliest snapshot of the table's branch are left out.
    """
    removed_ids = {root.identity for root in but_below}
    found = list(roots.doubts)
    found += (doubt for doubt in roots.earlier if not but_earlier or doubt.branch != table.paths.branch)
    for branch in dict.fromkeys(root.branch for root in roots):
        of_branch = [root for root in roots if root.branch == branch and root.is_snapshot]
        ends = {root.snapshot.id - 1 for root in of_branch if root.identity in removed_ids}
        unread = roots.unread(branch, with_branch_paths(table, branch).paths.snapshot)
        gaps = missing_between(branch, sorted({*(root.snapshot.id for root in of_branch), *unread}))
        found += (gap for gap in gaps if gap.snapshot_id not in ends)
    return tuple(found)


# ── metadata files ──────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class RootFiles:
    """The metadata of a root: manifests in order (base, then delta), and path → size in bytes of every metadata file.

    A size is None if no other file states it.
    """

    manifests: tuple[ManifestFile, ...]
    changelog_manifests: tuple[ManifestFile, ...]
    metadata: Mapping[str, int | None]
    delta_manifests: tuple[ManifestFile, ...] = ()
    """For a changelog whose commit's data files are the changelog: the manifests of its delta list."""
    base_count: int = 0
    """How many of the `manifests` are of the base list."""

    @property
    def names(self) -> Iterator[str]:
        """Names of all manifests whose entries are read."""
        return (item.name for item in (*self.manifests, *self.changelog_manifests, *self.delta_manifests))


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A root that cannot be read, or its metadata; `may_pass` says whether a later try may succeed."""

    reason: str
    may_pass: bool = False

    @classmethod
    def of(cls, error: PaimonError) -> Unreadable:
        """What an error says."""
        return cls(str(error), isinstance(error, StorageError))


def root_files(table: TableHandle, snapshot: Snapshot) -> RootFiles:
    """The metadata that a snapshot reaches.

    Raises: NotFoundError, CorruptTableError.
    """
    paths = table.paths
    base = read_manifest_list(table, snapshot.base_manifest_list, snapshot.base_manifest_list_size)
    manifests = [*base, *read_manifest_list(table, snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)]
    metadata: dict[str, int | None] = {
        paths.manifest(snapshot.base_manifest_list): snapshot.base_manifest_list_size,
        paths.manifest(snapshot.delta_manifest_list): snapshot.delta_manifest_list_size,
    }
    changelog: list[ManifestFile] = []
    if snapshot.changelog_manifest_list is not None:
        metadata[paths.manifest(snapshot.changelog_manifest_list)] = None
        changelog = _changelog_manifests(table, snapshot.changelog_manifest_list)
    for manifest in (*manifests, *changelog):
        metadata[paths.manifest(manifest.name)] = manifest.size_bytes
    if snapshot.index_manifest is not None:
        metadata[paths.manifest(snapshot.index_manifest)] = None
        for file in live_index_files(table, snapshot):
            # Files outside the table are never deleted.
            if file.external_path is None:
                metadata[index_file_path(table, file.partition, file.bucket, file.name)] = file.size_bytes
    if snapshot.statistics is not None:
        metadata[paths.statistics(snapshot.statistics)] = None
    return RootFiles(tuple(manifests), tuple(changelog), metadata, base_count=len(base))


def changelog_files(table: TableHandle, root: Root, *, left_behind: bool = False) -> RootFiles:
    """The metadata that a changelog reaches; with `left_behind` also what an interrupted expiry has left.

    Files that an expiry deletes before the changelog itself may be missing.

    Raises: CorruptTableError.
    """
    paths, snapshot = table.paths, root.snapshot
    metadata: dict[str, int | None] = {}

    def listed(name: str | None) -> tuple[ManifestFile, ...]:
        if name is None:
            return ()
        try:
            found = read_manifest_list(table, name)
        except NotFoundError:
            return ()
        metadata[paths.manifest(name)] = None
        metadata.update({paths.manifest(manifest.name): manifest.size_bytes for manifest in found})
        return tuple(found)

    changelog = listed(snapshot.changelog_manifest_list)
    delta: tuple[ManifestFile, ...] = ()
    if root.keeps_delta or left_behind:
        listed(snapshot.base_manifest_list)
        delta = listed(snapshot.delta_manifest_list)
    if left_behind:
        # Without sizes, so that the deletion checks which of the files still exist.
        metadata = dict.fromkeys(metadata)
        metadata.update(_remaining_index(table, snapshot))
    return RootFiles((), changelog, metadata, delta)


def _remaining_index(table: TableHandle, snapshot: Snapshot) -> dict[str, int | None]:
    """Statistics and index files of a snapshot whose deletion was interrupted, without their sizes.

    Of an index manifest that is deleted already the files are not known.
    """
    paths = table.paths
    found: list[str] = [] if snapshot.statistics is None else [paths.statistics(snapshot.statistics)]
    if snapshot.index_manifest is not None:
        found.append(paths.manifest(snapshot.index_manifest))
        try:
            files = live_index_files(table, snapshot)
        except NotFoundError:
            files = []
        found += [
            index_file_path(table, file.partition, file.bucket, file.name)
            for file in files
            if file.external_path is None
        ]
    return dict.fromkeys(found)


def _changelog_manifests(table: TableHandle, name: str) -> list[ManifestFile]:
    """The manifests of a changelog list; none if it is missing: Java's expiry deletes that of a tagged snapshot."""
    try:
        return read_manifest_list(table, name)
    except NotFoundError:
        return []


def try_root_files(table: TableHandle, root: Root) -> RootFiles | Unreadable:
    """The metadata of a root, or why it is not known."""
    try:
        return changelog_files(table, root) if root.is_changelog else root_files(table, root.snapshot)
    except PaimonError as error:
        return Unreadable(f"{root.label} cannot be read: {error}", isinstance(error, StorageError))


# ── data files ──────────────────────────────────────────────────────────────────────────────────


class DataPaths:
    """Paths of the files that manifest entries name; the directory of each bucket is computed once."""

    def __init__(self, table: TableHandle) -> None:
        self._table = table
        self._directories: dict[tuple[bytes, int], str] = {}

    def directory(self, entry: ManifestEntry) -> str:
        """Directory of the entry's file."""
        if entry.file.external_path is not None:
            return entry.file.external_path.rpartition("/")[0]
        bucket = entry.partition, entry.bucket
        if bucket not in self._directories:
            self._directories[bucket] = bucket_path(self._table, *bucket)
        return self._directories[bucket]

    def of(self, entry: ManifestEntry) -> list[tuple[str, int | None]]:
        """Paths of the file and its extra files, with their sizes where known."""
        directory = self.directory(entry)
        extras: list[tuple[str, int | None]] = [(f"{directory}/{name}", None) for name in entry.file.extra_files]
        return [(f"{directory}/{entry.file.name}", entry.file.size_bytes), *extras]
