"""Which of the files in question roots still reach.

Every root is checked. Roots share most of their manifests, so each manifest is read once, in this process, or as tasks
if there are many. Only entries of the files in question are kept in memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from paimon_engine.env import Env
from paimon_engine.errors import CorruptTableError, NotFoundError, StorageError
from paimon_engine.executor import Done, Executor, Failed, LocalExecutor
from paimon_engine.meta.file_set import live_files
from paimon_engine.meta.manifest import FileKind, ManifestEntry, ManifestFile
from paimon_engine.table.reach.doubts import Doubt
from paimon_engine.table.reach.list_check import Lists, commit_of, lists_of, mismatched
from paimon_engine.table.reach.reachability import (
    LOCAL_MANIFESTS_MAX,
    MANIFESTS_PER_TASK,
    DataPaths,
    Root,
    RootFiles,
    RootIdentity,
    Unreadable,
    try_root_files,
)
from paimon_engine.table.state.changelogs import is_change
from paimon_engine.table.state.handle import PlainTable, TableHandle
from paimon_engine.table.state.manifests import read_manifest
from paimon_engine.table.state.side_by_side import in_threads

Entries = Mapping[str, Sequence[ManifestEntry] | Failed]
"""Entries by manifest name; a manifest that cannot be read is a failure."""


@dataclass(frozen=True)
class _ScanTask:
    table: PlainTable
    manifests: tuple[ManifestFile, ...]
    names: frozenset[str]
    may_miss: frozenset[str]


def _scan(env: Env, task: _ScanTask) -> list[tuple[str, list[ManifestEntry]]]:
    table = task.table.load(env)
    return [(manifest.name, _entries_of(table, manifest, task)) for manifest in task.manifests]


def _entries_of(table: TableHandle, manifest: ManifestFile, task: _ScanTask) -> list[ManifestEntry]:
    try:
        return [entry for entry in read_manifest(table, manifest.name, manifest) if entry.file.name in task.names]
    except NotFoundError:
        if manifest.name not in task.may_miss:
            raise
        return []


def _read_manifests(
    table: TableHandle, known: Sequence[tuple[Root, RootFiles]], names: frozenset[str], executor: Executor
) -> dict[str, list[ManifestEntry] | Failed]:
    """Entries of the named data files, by manifest name; a failure for each manifest that cannot be read."""
    strict, lenient = (
        {
            item.name: item
            for root, found in known
            if root.is_changelog is is_changelog
            for item in (*found.manifests, *found.changelog_manifests, *found.delta_manifests)
        }
        for is_changelog in (False, True)
    )
    # Manifests that only changelogs name may be missing: when a tag is deleted, Java also deletes manifests that a
    # changelog still needs.
    may_miss = frozenset(lenient.keys() - strict.keys())
    wanted = sorted({**lenient, **strict}.values(), key=lambda item: item.name)
    if len(wanted) <= LOCAL_MANIFESTS_MAX:
        step, executor = 1, LocalExecutor(table.env.reader_threads, env=table.env)
    else:
        step = MANIFESTS_PER_TASK
    plain = table.plain()
    chunks = [tuple(wanted[start : start + step]) for start in range(0, len(wanted), step)]
    tasks = [_ScanTask(plain, chunk, names, may_miss) for chunk in chunks]
    found: dict[str, list[ManifestEntry] | Failed] = {}
    for task, outcome in zip(tasks, executor.map(_scan, tasks, config=table.config), strict=True):
        if isinstance(outcome, Done):
            found.update(outcome.value)
        else:
            found.update({manifest.name: outcome for manifest in task.manifests})
    return found


# ── protection ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Protection:
    """Which of the paths in question roots still reach.

    `holders` is the number of these paths by root. `unknown` are roots that could not be read: they may reach any of
    the other paths.
    """

    paths: frozenset[str] = frozenset()
    holders: Mapping[RootIdentity, int] = field(default_factory=dict)
    unknown: tuple[Doubt, ...] = ()


def protected(
    table: TableHandle,
    roots: Sequence[Root],
    *,
    metadata: Collection[str],
    data: Mapping[str, str],
    executor: Executor,
    beside: Sequence[Lists] = (),
) -> Protection:
    """Those of the `metadata` and `data` paths that a root reaches.

    `data` maps a path to the name of the data file that it belongs to: its own, or for an extra file that of its data
    file. `beside` are manifest lists of other roots, so that the lists of their neighbours can be checked
    (`table.reach.list_check`).
    """
    found = list(zip(roots, in_threads(table, try_root_files, roots), strict=True))
    unknown = [
        _doubt(root, item.reason, may_pass=item.may_pass) for root, item in found if isinstance(item, Unreadable)
    ]
    known = [(root, item) for root, item in found if isinstance(item, RootFiles)]
    strange = mismatched([*beside, *(lists_of(root, item) for root, item in known if not root.is_changelog)])
    entries: dict[str, list[ManifestEntry] | Failed] = {}
    if data:
        entries = _read_manifests(table, known, frozenset(data.values()), executor)
    paths = DataPaths(table)
    holders: dict[RootIdentity, int] = {}
    reached: set[str] = set()
    for root, item in known:
        # Also files named by snapshot fields that are unknown here: those of a later release, or a known field whose
        # name is damaged.
        extras = {value for value in root.snapshot.extras.values() if isinstance(value, str)}
        needed = {path for path in metadata if path in item.metadata or path.rpartition("/")[2] in extras}
        failed = next(((name, entries[name]) for name in item.names if isinstance(entries.get(name), Failed)), None)
        if failed is not None:
            name, outcome = failed
            assert isinstance(outcome, Failed)
            reason = f"manifest {name} cannot be read: {outcome.message}"
            unknown.append(_doubt(root, reason, may_pass=isinstance(outcome.error(), StorageError)))
            reached |= needed
            continue
        try:
            needed.update(path for path in _reached(item, entries, paths) if path in data)
        except CorruptTableError as error:
            unknown.append(_doubt(root, f"{root.label} cannot be read: {error}"))
        else:
            why = None if root.is_changelog else strange.get(commit_of(root))
            if why is None:
                holders[root.identity] = len(needed)
            else:
                unknown.append(_doubt(root, why))
        reached |= needed
    unsure = _beside_missing(table, [item for _, item in known], metadata)
    return Protection(frozenset(reached | unsure), holders, tuple(unknown))


def _doubt(root: Root, reason: str, *, may_pass: bool = False) -> Doubt:
    return Doubt(root.branch, root.snapshot.id, reason, may_pass)


def _beside_missing(table: TableHandle, files: Sequence[RootFiles], metadata: Collection[str]) -> set[str]:
    """Those of the paths in whose directory (`statistics` or `index`) a root names a file that does not exist.

    Such a file is named in one place and not read here. If that name were damaged, the file with the correct name would
    look unneeded. So nothing in a directory is deleted while a named file is missing there.
    """
    directories = {f"{table.paths.root}/statistics", f"{table.paths.root}/index"}
    relevant = directories & {_directory(path) for path in metadata}
    stored = {info.path for directory in relevant for info in table.env.storage.list(directory)}
    named = {path for item in files for path in item.metadata if _directory(path) in relevant}
    doubtful = {_directory(path) for path in named - stored}
    return {path for path in metadata if _directory(path) in doubtful}


def _directory(path: str) -> str:
    return path.rpartition("/")[0]


def _reached(files: RootFiles, entries: Entries, paths: DataPaths) -> Iterator[str]:
    """Paths of the data files that a root reaches. Raises: CorruptTableError if its entries contradict each other."""

    def named(manifests: Iterable[ManifestFile]) -> Iterator[ManifestEntry]:
        for manifest in manifests:
            found = entries.get(manifest.name, ())
            assert not isinstance(found, Failed)
            yield from found

    # `live_files` raises if a DELETE entry has no ADD entry before it: then a manifest does not hold what it should.
    delta = (entry for entry in named(files.delta_manifests) if entry.kind is FileKind.ADD and is_change(entry))
    for entry in (*live_files(named(files.manifests)), *named(files.changelog_manifests), *delta):
        for path, _ in paths.of(entry):
            yield path
