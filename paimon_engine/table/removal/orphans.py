"""Finds orphan files: files of a table that no snapshot, tag or changelog names.

1. `list_files` lists the directories that engines write to; only files that are old enough may be deleted. Files of a
   commit that is being prepared are not named yet: before the fence (`table.removal.fence`), only their age protects
   them.
2. `NameScan.update` lists all snapshots, tags and long-lived changelogs of all branches, and reads every file name in
   their metadata: lists, manifests, index files, statistics, and the files of all manifest entries, ADD and DELETE.
3. A second `update` reads the roots that were added since the first.
4. `unreachable_removed_files` finds files that are still named, by a DELETE entry, but that no root reaches any more.
5. `table.removal.orphan_doubts` checks whether orphans may belong to versions that exist but are not listed.

The order matters. Files are listed before roots are read: an old file in that listing that any root needs is named by
a root that step 2 or 3 reads. An incomplete scan proves nothing; `NameScan.doubts` says why it is incomplete: a
snapshot or tag vanished before it was read, metadata cannot be read, snapshot ids have a gap. Then no file is deleted.

File names are compared without their directories, since they are unique. Source: `OrphanFilesClean` of the Java
library. Differences: a gap in the snapshots, or a snapshot that vanished, stops the clean-up; files that are named only
by DELETE entries are deleted, too, once no root reaches them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from paimon_engine.env import Env
from paimon_engine.errors import NotFoundError, PaimonError
from paimon_engine.executor import Executor, Failed, LocalExecutor
from paimon_engine.meta.manifest import FileKind, ManifestEntry, ManifestFile
from paimon_engine.meta.paths import MAIN_BRANCH
from paimon_engine.storage.base import FileInfo
from paimon_engine.storage.locations import leads_out
from paimon_engine.table.reach.clean_up_plan import plan_directory
from paimon_engine.table.reach.list_check import Lists, mismatched
from paimon_engine.table.reach.reachability import (
    LOCAL_MANIFESTS_MAX,
    MANIFESTS_PER_TASK,
    Root,
    RootIdentity,
    every_root,
    gaps,
    with_branch_paths,
)
from paimon_engine.table.reach.still_needed import protected
from paimon_engine.table.removal.orphan_doubts import OrphanScan, orphan_doubts
from paimon_engine.table.state.changelogs import CHANGELOG_PREFIX
from paimon_engine.table.state.handle import DELETION_DIRECTORY, PlainTable, TableHandle
from paimon_engine.table.state.manifests import live_index_files, read_manifest, read_manifest_list
from paimon_engine.table.state.side_by_side import in_threads
from paimon_engine.table.state.snapshots import SNAPSHOT_PREFIX, branches

_HINTS: Final = ("EARLIEST", "LATEST")
_BUCKET_PREFIX: Final = "bucket-"
_SHARED_DIRECTORIES: Final = ("manifest", "index", "statistics")
_TEMPORARY: Final = re.compile(r"\..+\.[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.tmp")
"""Name of a temporary file, of this engine and of Java: it is renamed when it is completely written."""


# ── existing files ──────────────────────────────────────────────────────────────────────────────


def older_files(files: Iterable[FileInfo], older_than_ms: int) -> list[FileInfo]:
    """Those last modified before `older_than_ms`. A file whose time the storage does not give is not old."""
    return [info for info in files if 0 < info.modified_ms < older_than_ms]


def list_files(table: TableHandle) -> tuple[list[FileInfo], bool]:
    """The files that may be orphans, of any age, sorted by path; and whether all data files are among them.

    Not included are schemas, tags, consumers, snapshots, changelogs and hints (but temporary files of these are), files
    in directories that do not belong to a table, and files behind symbolic links that lead out of the table.
    """
    root = table.paths.root
    buckets, partitions = _bucket_directories(table)
    directories = [f"{root}/{name}" for name in _SHARED_DIRECTORIES] + buckets
    # Files behind a link belong to another owner, even if their names fit.
    inside = [path for path in directories if not leads_out(f"{path}/.", root)]
    is_all, directories = inside == directories, inside
    lists = in_threads(table, _files_in, directories)
    named = [*partitions, f"{root}/{DELETION_DIRECTORY}", plan_directory(table)]
    for branch in (MAIN_BRANCH, *branches(table)):
        paths = with_branch_paths(table, branch).paths
        for directory, prefix in ((paths.snapshot_dir, SNAPSHOT_PREFIX), (paths.changelog_dir, CHANGELOG_PREFIX)):
            if leads_out(f"{directory}/.", root):
                continue
            lists.append([info for info in _files_in(table, directory) if not _is_numbered(info, prefix)])
        named += [paths.schema_dir, paths.tag_dir, paths.tag_success("").rpartition("/")[0]]
        named += [*paths.pending_notification_dirs, paths.pending_commit_dir]
        named += [paths.consumer_dir, paths.commit_dir, paths.branch_root]
    for found in in_threads(table, _files_in, list(dict.fromkeys(named))):
        lists.append([info for info in found if _TEMPORARY.fullmatch(_name(info.path))])
    return sorted((info for found in lists for info in found), key=lambda info: info.path), is_all


def _bucket_directories(table: TableHandle) -> tuple[list[str], list[str]]:
    """Directories of buckets, as many levels down as there are partition columns; and directories of partitions."""
    directories = ["/".join(part for part in (table.paths.root, table.options.data_file_directory) if part)]
    for _ in table.schema.partition_type:
        lists = in_threads(table, _directories_in, directories)
        directories = [path for found in lists for path in found if "=" in _name(path)]
    lists = in_threads(table, _directories_in, directories)
    return [path for found in lists for path in found if _name(path).startswith(_BUCKET_PREFIX)], directories


def _directories_in(table: TableHandle, directory: str) -> list[str]:
    return [info.path for info in table.env.storage.list(directory) if info.is_dir]


def _files_in(table: TableHandle, directory: str) -> list[FileInfo]:
    return [info for info in table.env.storage.list(directory) if not info.is_dir]


def _is_numbered(info: FileInfo, prefix: str) -> bool:
    name = _name(info.path)
    return name in _HINTS or name.startswith(prefix)


def _name(path: str) -> str:
    return path.rpartition("/")[2]


# ── names in metadata ───────────────────────────────────────────────────────────────────────────


@dataclass
class NameScan:
    """All file names in the metadata of the roots read so far; `doubts` is empty if all of it could be read.

    `removed` maps names in DELETE entries to the data files that they belong to: no root may need these any more.
    `added` are data files inside the table that snapshots and tags add.
    """

    names: set[str] = field(default_factory=set)
    removed: dict[str, str] = field(default_factory=dict)
    added: set[str] = field(default_factory=set)
    doubts: list[str] = field(default_factory=list)
    roots: list[Root] = field(default_factory=list)
    _roots: set[RootIdentity] = field(default_factory=set)
    _lists: list[Lists] = field(default_factory=list)
    _manifests: set[str] = field(default_factory=set)

    @property
    def needed(self) -> set[str]:
        """Names of data files that are certainly live in a snapshot or tag: added, and in no DELETE entry."""
        return self.added - self.removed.keys()

    def update(self, table: TableHandle, executor: Executor) -> None:
        """Reads the names of all roots that were not read before."""
        roots, unreadable = every_root(table)
        self.doubts += (f"{where}: {what.reason}" for where, what in unreadable)
        self._gaps(roots)
        fresh = [root for root in roots if root.identity not in self._roots]
        self._roots.update(root.identity for root in fresh)
        self.roots += fresh
        strict: dict[str, ManifestFile] = {}
        lenient: dict[str, ManifestFile] = {}
        live: set[str] = set()
        read = partial(_names_or_error, lacking=_may_lack_changelog(roots))
        for root, found in zip(fresh, in_threads(table, read, fresh), strict=True):
            if isinstance(found, str):
                self.doubts.append(f"{root.label} cannot be read: {found}")
                continue
            self.names |= found.names
            self._lists += [] if root.is_changelog else [found.lists]
            live |= set() if root.is_changelog else found.live
            # An expiry has deleted some of the manifests that a long-lived changelog names, but not those of its
            # changelog list: only the latter must exist.
            strict |= {item.name: item for item in found.changelog}
            (lenient if root.is_changelog else strict).update({item.name: item for item in found.manifests})
        self.doubts += mismatched(self._lists).values()
        lenient = {name: item for name, item in lenient.items() if name not in strict}
        for manifests, may_miss in ((strict, False), (lenient, True)):
            wanted = [item for name, item in sorted(manifests.items()) if name not in self._manifests]
            self._manifests.update(manifests)
            self._read(table, wanted, executor, may_miss=may_miss, live=live)

    def _gaps(self, roots: Sequence[Root]) -> None:
        for one, following in gaps(roots):
            self.doubts.append(f"{following.label} follows {one.label}: the snapshots between them are missing")

    def _read(
        self,
        table: TableHandle,
        manifests: Sequence[ManifestFile],
        executor: Executor,
        *,
        may_miss: bool,
        live: Collection[str],
    ) -> None:
        """Adds the names in these manifests to what is known; one that cannot be read is a doubt."""
        step = MANIFESTS_PER_TASK
        if len(manifests) <= LOCAL_MANIFESTS_MAX:
            step, executor = 1, LocalExecutor(table.env.reader_threads, env=table.env)
        plain = table.plain()
        chunks = [tuple(manifests[start : start + step]) for start in range(0, len(manifests), step)]
        tasks = [
            _NamesTask(plain, chunk, may_miss, frozenset(item.name for item in chunk if item.name in live))
            for chunk in chunks
        ]
        for task, outcome in zip(tasks, executor.map(_entry_names, tasks, config=table.config), strict=True):
            if isinstance(outcome, Failed):
                which = ", ".join(manifest.name for manifest in task.manifests)
                self.doubts.append(f"manifest {which} cannot be read: {outcome.message}")
            else:
                names, removed, added = outcome.value
                self.names |= names
                self.removed |= removed
                self.added |= added


@dataclass(frozen=True)
class _RootNames:
    names: frozenset[str]
    manifests: tuple[ManifestFile, ...]
    lists: Lists
    changelog: tuple[ManifestFile, ...]

    @property
    def live(self) -> frozenset[str]:
        """Names of the manifests of base and delta list."""
        return frozenset(manifest.name for manifest in (*self.lists.base, *self.lists.delta))


def _may_lack_changelog(roots: Sequence[Root]) -> frozenset[RootIdentity]:
    """Tags, and the snapshots that were made of one: Java's expiry deletes the changelog although these still name it.

    A branch begins with such a snapshot, and so does main after a rollback to a tag whose snapshot had expired.
    """
    tags = [root for root in roots if root.tag is not None]
    tagged = {(tag.snapshot.id, tag.snapshot.delta_manifest_list) for tag in tags}
    newest_first = sorted((root for root in roots if root.is_snapshot), key=lambda root: -root.snapshot.id)
    oldest = {root.branch: root for root in newest_first}.values()
    made = [one for one in oldest if (one.snapshot.id, one.snapshot.delta_manifest_list) in tagged]
    return frozenset(root.identity for root in (*tags, *made))


def _names_or_error(table: TableHandle, root: Root, *, lacking: Collection[RootIdentity]) -> _RootNames | str:
    """File names in the metadata of a root, except the entries of its manifests; or why they cannot be read.

    Those that are `lacking` may miss their changelog.
    """
    try:
        return _root_names(table, root, may_lack_changelog=root.identity in lacking)
    except PaimonError as error:
        return str(error)


def _root_names(table: TableHandle, root: Root, *, may_lack_changelog: bool) -> _RootNames:
    """File names in the metadata of a root, except the entries of its manifests.

    Raises: NotFoundError, CorruptTableError.
    """
    snapshot = root.snapshot
    # A later release may keep other files, and name them in a snapshot field that is unknown here.
    names = {value for value in snapshot.extras.values() if isinstance(value, str)}
    names.update(name for name in (snapshot.index_manifest, snapshot.statistics) if name is not None)
    parts: list[list[ManifestFile]] = []
    lists = [
        (snapshot.base_manifest_list, snapshot.base_manifest_list_size, root.is_changelog),
        (snapshot.delta_manifest_list, snapshot.delta_manifest_list_size, root.is_changelog),
        (snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size, may_lack_changelog),
    ]
    for name, size_bytes, may_miss in lists:
        parts.append([])
        if name is None:
            continue
        names.add(name)
        try:
            parts[-1] = read_manifest_list(table, name, size_bytes)
        except NotFoundError:
            if not may_miss:
                raise
    manifests = [manifest for part in parts for manifest in part]
    names.update(manifest.name for manifest in manifests)
    try:
        names.update(file.name for file in live_index_files(table, snapshot))
    except NotFoundError:
        if not root.is_changelog:
            raise
    return _RootNames(frozenset(names), tuple(manifests), Lists(root, parts[0], parts[1]), tuple(parts[2]))


@dataclass(frozen=True)
class _NamesTask:
    table: PlainTable
    manifests: tuple[ManifestFile, ...]
    may_miss: bool
    must_have: frozenset[str]
    """Manifests of base and delta lists: a file in an ADD entry without a DELETE entry must exist."""


def _entry_names(env: Env, task: _NamesTask) -> tuple[set[str], dict[str, str], set[str]]:
    """From the manifests: all file names; those of DELETE entries, with their data files; those of ADD entries."""
    table = task.table.load(env)
    names: set[str] = set()
    removed: dict[str, str] = {}
    added: set[str] = set()
    for manifest in task.manifests:
        for entry in _entries_in(table, manifest, may_miss=task.may_miss):
            names.update((entry.file.name, *entry.file.extra_files))
            if entry.kind is FileKind.DELETE:
                removed.update(dict.fromkeys((entry.file.name, *entry.file.extra_files), entry.file.name))
            elif entry.file.external_path is None and manifest.name in task.must_have:
                added.add(entry.file.name)
    return names, removed, added


def _entries_in(table: TableHandle, manifest: ManifestFile, *, may_miss: bool) -> Sequence[ManifestEntry]:
    try:
        return read_manifest(table, manifest.name, manifest)
    except NotFoundError:
        if not may_miss:
            raise
        return ()


# ── files that are named, but reached by no root ────────────────────────────────────────────────


def unreachable_removed_files(
    table: TableHandle, look: NameScan, files: Sequence[FileInfo], executor: Executor
) -> set[str]:
    """Paths of the files that are named by DELETE entries and that no root reaches any more.

    An expiry that dies after it removed snapshots leaves such files. Empty if a root cannot be read.
    """
    owners = {info.path: look.removed[name] for info in files if (name := _name(info.path)) in look.removed}
    if not owners:
        return set()
    roots, unreadable = every_root(table)
    protection = protected(table, roots, metadata=(), data=owners, executor=executor)
    return set() if unreadable or protection.unknown else owners.keys() - protection.paths


def orphans_among(
    table: TableHandle, look: NameScan, files: Sequence[FileInfo], executor: Executor
) -> tuple[tuple[FileInfo, ...], frozenset[str]]:
    """The files that no root names, or only by DELETE entries without reaching them; and the paths of the latter."""
    dead = frozenset(unreachable_removed_files(table, look, files, executor))
    return tuple(info for info in files if info.path in dead or _name(info.path) not in look.names), dead


# ── orphans ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Orphans:
    """The orphan `files`, or the reasons (`stopped`) why none may be deleted.

    `dead` are the paths of those that commits have removed. `old` are the files that were checked, `look` the names in
    the table's metadata.
    """

    look: NameScan
    old: Sequence[FileInfo]
    files: tuple[FileInfo, ...] = ()
    dead: frozenset[str] = frozenset()
    stopped: tuple[str, ...] = ()

    @property
    def checked(self) -> int:
        """Number of files that were checked."""
        return len(self.old)


def find_orphans(
    table: TableHandle, older_than_ms: int, executor: Executor, *, confirmed: int | None = None
) -> Orphans:
    """Files last modified before `older_than_ms` that no version of the table needs.

    `confirmed` is the id of main's latest snapshot (0: it has none) as confirmed by the user. It overrules doubts that
    files may belong to versions that are not listed, unless such a version is known to exist.
    """
    everything, is_all = list_files(table)
    found = older_files(everything, older_than_ms)
    look = NameScan()
    look.update(table, executor)
    look.update(table, executor)
    if look.doubts:
        return Orphans(look, found, stopped=tuple(dict.fromkeys(look.doubts)))
    newest = max(
        (root.snapshot.id for root in look.roots if root.branch == MAIN_BRANCH and root.is_snapshot), default=0
    )
    if confirmed not in (None, newest):
        return Orphans(look, found, stopped=(f"the latest snapshot listed is {newest}, but {confirmed} is confirmed",))
    files, dead = orphans_among(table, look, found, executor)
    stored = {_name(info.path) for info in everything}
    needed = look.needed if is_all else set()
    if files and not needed <= stored:
        # Other processes may have committed since the files were listed.
        stored |= {_name(info.path) for info in list_files(table)[0]}
    doubts = orphan_doubts(table, OrphanScan(look.roots, files, dead, needed, look.names, stored))
    if confirmed is not None:
        doubts = [doubt for doubt in doubts if doubt.is_certain]
    way = f"; if nothing is missing, confirm that by confirm_latest_snapshot={newest}"
    stopped = tuple(dict.fromkeys(doubt.reason + ("" if doubt.is_certain else way) for doubt in doubts))
    return Orphans(look, found, () if stopped else files, dead, stopped)
