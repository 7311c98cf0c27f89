"""Which files of a table does nothing name?

1. `list_files` lists what lies in the directories that the engine writes to; only what is old enough may go. Files of
   commits that are being prepared are named by nothing yet: their age alone protects them.
2. `Look.take` lists all snapshots, tags and long-lived changelogs of all branches, and reads every file name in their
   metadata: lists, manifests, index files, statistics, and the files of all manifest entries, added or removed.
3. A second look reads what is new since the first.
4. `live_nowhere` finds what commits have removed and is still named, but no root reaches any more.
5. `table.removal.orphan_doubts` says whether what nothing in sight names may belong to versions that are out of sight.

The order matters: a file that was there before the first look, and is old, is named by what the looks see, or by
nothing. A look that is not complete proves nothing. `Look.doubts` says why it is not: a snapshot or tag vanished before
it was read, metadata cannot be read, ids of snapshots have a gap. Then no file at all may go.

Names are compared without their directories, since they are unique. Source: `OrphanFilesClean` of the Java library.
Differences: a gap in the snapshots and a snapshot that vanished stop the clean-up; files that are named as removed
go too, once no root reaches them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from paimon_engine.env import Env
from paimon_engine.errors import NotFoundError, PaimonError
from paimon_engine.executor import Executor, Failed, LocalExecutor
from paimon_engine.meta.manifest import FileKind, ManifestEntry, ManifestFile
from paimon_engine.meta.paths import MAIN_BRANCH
from paimon_engine.storage.base import FileInfo
from paimon_engine.storage.places import leads_out
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
from paimon_engine.table.removal.orphan_doubts import OrphansSeen, orphan_doubts
from paimon_engine.table.state.changelogs import CHANGELOG_PREFIX
from paimon_engine.table.state.handle import DELETION_DIRECTORY, PlainTable, TableHandle
from paimon_engine.table.state.manifests import live_index_files, read_manifest, read_manifest_list
from paimon_engine.table.state.side_by_side import READER_THREADS, in_threads
from paimon_engine.table.state.snapshots import SNAPSHOT_PREFIX, branches

_HINTS: Final = ("EARLIEST", "LATEST")
_BUCKET_PREFIX: Final = "bucket-"
_SHARED_DIRECTORIES: Final = ("manifest", "index", "statistics")
_TEMPORARY: Final = re.compile(r"\..+\.[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.tmp")
"""What a file is called, by this engine and by Java, before it is whole and gets its name."""


# ── what is there ───────────────────────────────────────────────────────────────────────────────


def older_files(files: Iterable[FileInfo], older_than_ms: int) -> list[FileInfo]:
    """Those last changed before `older_than_ms`. A file whose time the store does not tell is not old."""
    return [info for info in files if 0 < info.modified_ms < older_than_ms]


def list_files(table: TableHandle) -> tuple[list[FileInfo], bool]:
    """The files that may be orphans, however young, sorted by path; and whether all data files are among them.

    Schemas, tags, consumers, snapshots, changelogs and hints are not among them (but what a process that died had half
    written of them is), nor is what lies in directories that do not belong to a table, nor what lies behind symbolic
    links out of the table.
    """
    root = table.paths.root
    buckets, partitions = _bucket_directories(table)
    directories = [f"{root}/{name}" for name in _SHARED_DIRECTORIES] + buckets
    # What lies behind a link belongs to somebody else, whatever it is called.
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
        named += paths.pending_notification_dirs
        named += [paths.consumer_dir, paths.commit_dir, paths.branch_root]
    for found in in_threads(table, _files_in, list(dict.fromkeys(named))):
        lists.append([info for info in found if _TEMPORARY.fullmatch(_name(info.path))])
    return sorted((info for found in lists for info in found), key=lambda info: info.path), is_all


def _bucket_directories(table: TableHandle) -> tuple[list[str], list[str]]:
    """Directories of buckets, as deep as the table has partition columns; and those of partitions."""
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


# ── what is named ───────────────────────────────────────────────────────────────────────────────


@dataclass
class Look:
    """File names that roots name, as far as looks have come; `doubts` is empty if they saw everything.

    `removed` are those of files that a commit has removed, with the data files they belong to: they are named, and may
    be live nowhere. `added` are data files of the table's directory that snapshots and tags add.
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
        """Names of data files that are live in a snapshot or tag: added, and removed by none."""
        return self.added - self.removed.keys()

    def take(self, table: TableHandle, executor: Executor) -> None:
        """Reads the names of all roots that no earlier look has read."""
        roots, unreadable = every_root(table)
        self.doubts += (f"{where}: {what}" for where, what in unreadable)
        self._gaps(roots)
        fresh = [root for root in roots if root.identity not in self._roots]
        self._roots.update(root.identity for root in fresh)
        self.roots += fresh
        strict: dict[str, ManifestFile] = {}
        lenient: dict[str, ManifestFile] = {}
        live: set[str] = set()
        for root, found in zip(fresh, in_threads(table, _try_names, fresh), strict=True):
            if isinstance(found, str):
                self.doubts.append(f"{root.label} cannot be read: {found}")
                continue
            self.names |= found.names
            self._lists += [] if root.is_changelog else [found.lists]
            live |= set() if root.is_changelog else found.live
            # Expiry has taken some of what a long-lived changelog names, but for its changelog list.
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
            self.doubts.append(f"{following.label} follows {one.label}: those between are missing")

    def _read(
        self,
        table: TableHandle,
        manifests: Sequence[ManifestFile],
        executor: Executor,
        *,
        may_miss: bool,
        live: Collection[str],
    ) -> None:
        step = MANIFESTS_PER_TASK
        if len(manifests) <= LOCAL_MANIFESTS_MAX:
            step, executor = 1, LocalExecutor(READER_THREADS, env=table.env)
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


def _try_names(table: TableHandle, root: Root) -> _RootNames | str:
    """What the metadata of a root names, without the entries of its manifests; or why that is not known."""
    try:
        return _root_names(table, root)
    except PaimonError as error:
        return str(error)


def _root_names(table: TableHandle, root: Root) -> _RootNames:
    snapshot = root.snapshot
    # What a release that we do not know keeps beside the table may be named by a key that we do not know.
    names = {value for value in snapshot.extras.values() if isinstance(value, str)}
    names.update(name for name in (snapshot.index_manifest, snapshot.statistics) if name is not None)
    parts: list[list[ManifestFile]] = []
    lists = [
        (snapshot.base_manifest_list, snapshot.base_manifest_list_size, root.is_changelog),
        (snapshot.delta_manifest_list, snapshot.delta_manifest_list_size, root.is_changelog),
        # Java's expiry takes the changelog from snapshots that are tagged.
        (snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size, root.tag is not None),
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
    """Manifests of base and delta lists: what they add and nobody removes is there."""


def _entry_names(env: Env, task: _NamesTask) -> tuple[set[str], dict[str, str], set[str]]:
    """Names of the files in the task's manifests; of those that were removed, with their data files; of those added."""
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


# ── what is named, and live nowhere ─────────────────────────────────────────────────────────────


def live_nowhere(table: TableHandle, look: Look, files: Sequence[FileInfo], executor: Executor) -> set[str]:
    """Those of the files' paths that commits have removed and that no root reaches any more, though some name them.

    Such files an expiry leaves that dies after it has hidden snapshots. None where a root cannot be read.
    """
    owners = {info.path: look.removed[name] for info in files if (name := _name(info.path)) in look.removed}
    if not owners:
        return set()
    roots, unreadable = every_root(table)
    protection = protected(table, roots, metadata=(), data=owners, executor=executor)
    return set() if unreadable or protection.unknown else owners.keys() - protection.paths


def orphans_among(
    table: TableHandle, look: Look, files: Sequence[FileInfo], executor: Executor
) -> tuple[tuple[FileInfo, ...], frozenset[str]]:
    """Those of the files that nothing names or no root reaches any more; and the paths of the latter."""
    dead = frozenset(live_nowhere(table, look, files, executor))
    return tuple(info for info in files if info.path in dead or _name(info.path) not in look.names), dead


# ── what is certainly an orphan ─────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Orphans:
    """Files that may go, `dead` those among them that commits have removed; or the `stopped` reasons why none may.

    `old` are the files that were looked at, `look` what the table names.
    """

    look: Look
    old: Sequence[FileInfo]
    files: tuple[FileInfo, ...] = ()
    dead: frozenset[str] = frozenset()
    stopped: tuple[str, ...] = ()

    @property
    def checked(self) -> int:
        """Number of files that were looked at."""
        return len(self.old)


def find_orphans(
    table: TableHandle, older_than_ms: int, executor: Executor, *, confirmed: int | None = None
) -> Orphans:
    """Files last changed before `older_than_ms` that no version of the table needs.

    `confirmed` is the number of main's latest snapshot (0: it has none) for which somebody vouches: what then seems to
    belong to versions out of sight is dead, but for what is known to be there.
    """
    everything, is_all = list_files(table)
    found = older_files(everything, older_than_ms)
    look = Look()
    look.take(table, executor)
    look.take(table, executor)
    if look.doubts:
        return Orphans(look, found, stopped=tuple(dict.fromkeys(look.doubts)))
    newest = max(
        (root.snapshot.id for root in look.roots if root.branch == MAIN_BRANCH and root.is_snapshot), default=0
    )
    if confirmed not in (None, newest):
        return Orphans(
            look, found, stopped=(f"the latest snapshot in sight is {newest}, and {confirmed} is confirmed",)
        )
    files, dead = orphans_among(table, look, found, executor)
    stored = {_name(info.path) for info in everything}
    needed = look.needed if is_all else set()
    if files and not needed <= stored:
        # Others may have committed since.
        stored |= {_name(info.path) for info in list_files(table)[0]}
    doubts = orphan_doubts(table, OrphansSeen(look.roots, files, dead, needed, look.names, stored))
    if confirmed is not None:
        doubts = [doubt for doubt in doubts if doubt.is_certain]
    way = f"; if nothing is out of sight, confirm_latest_snapshot={newest} says so"
    stopped = tuple(dict.fromkeys(doubt.reason + ("" if doubt.is_certain else way) for doubt in doubts))
    return Orphans(look, found, () if stopped else files, dead, stopped)
