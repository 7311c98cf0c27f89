"""May what nothing in sight names belong to a version of the table that is out of sight?

An orphan is a file that no root names. Whether all roots are in sight is asked here, beyond what
`table.reach.completeness` asks of each branch:

1. A table with files and without any snapshot, tag or changelog.
2. Old files that nothing names and that are newer than the newest commit: the leftovers of a job that died since then,
   or the files of newer commits that are out of sight. The next commit tells.
3. Metadata that no root names and that makes a whole version: its manifests and all data files that are live in it are
   there. A job that dies in the moment of its commit leaves that, a newer Java release after a rollback or the deletion
   of a branch does, and it is what an unseen tag or snapshot looks like. It is certainly dead if the headers of its
   base lists say for which snapshots of which branch they were written (`MetadataWriter`), and other commits have
   become these; or if a deletion of ours that was cut short has hidden its version (`table.reach.deletion_records`).
4. Data files that commits have removed, and no root reaches any more: an expiry would have deleted them with the
   snapshots before, which may be out of sight; again unless a deletion of ours says so.
5. Data files that roots need, and schemas that they name, and that listings lack.

Whoever knows better confirms which snapshot is the latest: what is then found dead goes. What is certainly there and
out of sight (`is_certain`) nobody can confirm away.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from paimon_engine.errors import PaimonError
from paimon_engine.meta.file_set import live_files
from paimon_engine.meta.manifest import FileKind
from paimon_engine.meta.paths import MAIN_BRANCH
from paimon_engine.storage.base import FileInfo
from paimon_engine.table.reach.completeness import WAIT, MissingVersions, find_missing_versions, shown
from paimon_engine.table.reach.observation import files_of_interrupted_deletions, observe_branch
from paimon_engine.table.reach.reachability import Root, with_branch_paths
from paimon_engine.table.state.handle import SCHEMA_PREFIX, TableHandle, numbered
from paimon_engine.table.state.manifests import commit_note, read_manifest, read_manifest_list, writer_of
from paimon_engine.table.state.side_by_side import in_threads
from paimon_engine.table.state.snapshots import branches

_LIST: Final = "manifest-list-"
_MANIFEST: Final = "manifest-"


@dataclass(frozen=True)
class OrphansSeen:
    """What a look for orphans has found.

    `roots` are all that were read. `orphans` are old files that would go, `removed` the paths of those that commits
    have removed. `needed` are names of data files that are live in some root, `named` all names that roots know,
    `stored` those of all files in the directories of data and metadata, however young.
    """

    roots: Sequence[Root]
    orphans: Sequence[FileInfo]
    removed: Collection[str] = ()
    needed: Collection[str] = ()
    named: Collection[str] = ()
    stored: Collection[str] = ()


def orphan_doubts(table: TableHandle, seen: OrphansSeen) -> list[MissingVersions]:
    """Why the orphans may belong to versions that are out of sight; empty if all of them are dead."""
    found: list[MissingVersions] = []
    for branch in (MAIN_BRANCH, *branches(table)):
        found += find_missing_versions(observe_branch(with_branch_paths(table, branch)))
    found += _without_schema(table, seen.roots)
    files = [info for info in seen.orphans if _is_of_a_commit(info)]
    if not files:
        return found
    if not seen.roots:
        what = f"{len(files)} files are there ({shown([_name(info.path) for info in files])}), and no snapshot"
        return [*found, _doubt(f"{what}: they are all that is left of a first commit that failed, or {_OUT}")]
    if lost := sorted(set(seen.needed) - set(seen.stored)):
        what = f"{len(lost)} data files that snapshots need ({shown(lost)}) are not in the listing"
        found.append(_doubt(f"{what}; {WAIT}, or remove_unexisting_files if they are lost", is_certain=True))
    found += _newer_than_commits(seen.roots, files)
    known = files_of_interrupted_deletions(table)
    found += _removed_and_there(seen, known)
    found += _unnamed_versions(table, seen, known)
    return found


_OUT: Final = f"snapshots, tags or branches are out of sight; {WAIT}"


def _doubt(reason: str, *, is_certain: bool = False) -> MissingVersions:
    return MissingVersions(MAIN_BRANCH, reason, is_certain=is_certain)


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _is_of_a_commit(info: FileInfo) -> bool:
    """Whether it is no temporary file of a snapshot, a tag or the like."""
    directory = info.path.split("/")[-2]
    return directory.startswith("bucket-") or directory in ("manifest", "index", "statistics")


def _without_schema(table: TableHandle, roots: Sequence[Root]) -> Iterator[MissingVersions]:
    if table.schema_service is not None:
        return
    for branch in dict.fromkeys(root.branch for root in roots):
        there = set(numbered(table.env, with_branch_paths(table, branch).paths.schema_dir, SCHEMA_PREFIX))
        named = {root.snapshot.schema_id for root in roots if root.branch == branch}
        if lost := sorted(named - there):
            of = "" if branch == MAIN_BRANCH else f" of branch {branch!r}"
            yield MissingVersions(branch, f"schema {shown(lost)}{of} is named by a snapshot and not there; {WAIT}")


def _newer_than_commits(roots: Sequence[Root], files: Sequence[FileInfo]) -> Iterator[MissingVersions]:
    newest = max(roots, key=lambda root: root.snapshot.time_ms)
    newer = [info for info in files if info.modified_ms > newest.snapshot.time_ms]
    if newer:
        what = f"{len(newer)} files that nothing names ({shown([_name(info.path) for info in newer])})"
        yield _doubt(
            f"{what} are newer than {newest.label}, the newest commit in sight: a job that died has left them, which "
            f"the next commit tells, or {_OUT}"
        )


def _removed_and_there(seen: OrphansSeen, known: set[str]) -> Iterator[MissingVersions]:
    left = sorted(_name(path) for path in set(seen.removed) - known)
    if left:
        yield _doubt(
            f"{len(left)} files ({shown(left)}) were removed by commits in sight and are still there, although no "
            f"snapshot in sight needs them: an expiry has left them, or {_OUT}"
        )


# ── metadata that no root names ─────────────────────────────────────────────────────────────────


@dataclass
class _Unnamed:
    """Manifest lists and manifests that no root names, and what is known of them."""

    table: TableHandle
    seen: OrphansSeen
    lists: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _whole: dict[str, bool] = field(default_factory=dict)

    def dead_commits(self) -> set[str]:
        """Ids of writers all of whose tries were for snapshots that other commits have become."""
        taken = {f"{root.branch}/{root.snapshot.id}" for root in self.seen.roots}
        lists = [name for name in self.seen.stored if name.startswith(_LIST) and name not in self.seen.named]
        tries: dict[str, list[bool]] = {}
        for name, note in zip(lists, in_threads(self.table, commit_note, lists), strict=True):
            if note is not None:
                tries.setdefault(writer_of(name), []).append(note in taken)
        return {writer for writer, found in tries.items() if all(found)}

    def manifests_of(self, name: str) -> tuple[str, ...] | None:
        """Names of a list's manifests; None if it cannot be read, so that it serves nobody."""
        try:
            return tuple(manifest.name for manifest in read_manifest_list(self.table, name))
        except PaimonError:
            return None

    def is_whole(self, name: str) -> bool:
        """Whether all that the list names is there: its manifests, and the data files that are live in them."""
        if name not in self._whole:
            self._whole[name] = self._find_whole(name)
        return self._whole[name]

    def _find_whole(self, name: str) -> bool:
        # The first two lists of a writer are the base and the delta list of one commit.
        base = f"{name.removesuffix('-1')}-0" if name.endswith("-1") else name
        if base != name and base in self.lists and not self.is_whole(base):
            return False
        manifests = self.lists[name]
        if any(manifest not in self.seen.stored for manifest in manifests):
            return False
        try:
            live = live_files(entry for one in manifests for entry in read_manifest(self.table, one))
            return all(item.file.external_path is not None or item.file.name in self.seen.stored for item in live)
        except PaimonError:
            # A delta list removes what others add.
            return True


def _unnamed_versions(table: TableHandle, seen: OrphansSeen, known: set[str]) -> Iterator[MissingVersions]:
    metadata = [info.path for info in seen.orphans if info.path.startswith(f"{table.paths.root}/manifest/")]
    names = [_name(path) for path in metadata if path not in known]
    unnamed = _Unnamed(table, seen)
    dead = unnamed.dead_commits() if names else set()
    names = [name for name in names if writer_of(name) not in dead]
    lists = [name for name in names if name.startswith(_LIST)]
    found = dict(zip(lists, in_threads(table, lambda _, name: unnamed.manifests_of(name), lists), strict=True))
    unnamed.lists |= {name: manifests for name, manifests in found.items() if manifests is not None}
    whole = next((name for name in sorted(unnamed.lists) if unnamed.is_whole(name)), None)
    if whole is not None:
        yield _doubt(
            f"manifest list {whole} makes a version of the table that nothing names: a commit that died or a rollback "
            f"of another engine has left it, or {_OUT}"
        )
        return
    named = {manifest for name in lists for manifest in unnamed.lists.get(name, ())}
    alone = [name for name in names if name.startswith(_MANIFEST) and name not in lists and name not in named]
    data = {_name(info.path) for info in seen.orphans if "/bucket-" in info.path}
    adding = [name for name, adds in _adding(table, alone).items() if adds & data]
    if adding:
        yield _doubt(
            f"manifest {shown(adding)} adds files that are there, and nothing names it: a commit that died has left "
            f"it, or {_OUT}"
        )


def _adding(table: TableHandle, manifests: Sequence[str]) -> Mapping[str, set[str]]:
    """Names of the data files that each manifest adds; nothing of one that cannot be read."""

    def adds(line: TableHandle, name: str) -> set[str]:
        try:
            return {entry.file.name for entry in read_manifest(line, name) if entry.kind is FileKind.ADD}
        except PaimonError:
            return set()

    return dict(zip(manifests, in_threads(table, adds, manifests), strict=True))
