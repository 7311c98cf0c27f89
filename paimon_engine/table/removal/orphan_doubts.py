"""Whether orphan files may belong to versions (snapshots, tags, changelogs) that exist but are not listed.

An orphan is a file that no listed root names. It may only be deleted if all roots are listed. Signs that some are not,
in addition to those that `table.reach.completeness` finds in each branch:

1. A table with files, but without any snapshot, tag or changelog.
2. Old orphans that are newer than the newest commit. They were left by a job that died since then, or they belong to
   newer commits that are not listed. After the next commit this can be decided.
3. Orphan metadata that makes a complete version: its manifests and all data files live in it exist. An unlisted tag or
   snapshot looks like this; but so does what a job leaves that died just before its commit, or what newer Java releases
   leave after a rollback or the deletion of a branch. It is certainly unneeded in two cases: the headers of its base
   lists say for which snapshot ids of which branch they were written (`MetadataWriter`), and other commits have these
   ids; or an interrupted deletion of this engine removed its version (`table.reach.deletion_records`).
4. Data files that commits have removed and that no root reaches any more. An expiry deletes such files together with
   the snapshots before; if they still exist, these snapshots may exist, too. Again, unless a record of an interrupted
   deletion names them.
5. Data files that roots need, or schemas that they name, that are missing from the listings.

A user who knows better may confirm the id of the latest snapshot; orphans are deleted then. But what certainly exists
without being listed (`is_certain`) cannot be overruled.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from paimon_engine.errors import CorruptTableError, NotFoundError
from paimon_engine.meta.file_set import live_files
from paimon_engine.meta.manifest import FileKind
from paimon_engine.meta.paths import MAIN_BRANCH
from paimon_engine.storage.base import FileInfo
from paimon_engine.table.reach.completeness import WAIT, MissingVersions, shown
from paimon_engine.table.reach.observation import files_of_interrupted_deletions
from paimon_engine.table.reach.reachability import Root, missing_versions, observe_branches, with_branch_paths
from paimon_engine.table.state.handle import SCHEMA_PREFIX, TableHandle, numbered
from paimon_engine.table.state.manifests import commit_note, read_manifest, read_manifest_list, writer_of
from paimon_engine.table.state.side_by_side import in_threads

_LIST: Final = "manifest-list-"
_MANIFEST: Final = "manifest-"


@dataclass(frozen=True)
class OrphanScan:
    """What a search for orphans has found.

    `roots` are all roots that were read. `orphans` are old files that would be deleted; `removed` are the paths of
    those that commits have removed. `needed` are names of data files that are live in some root, `named` all file names
    in the metadata of roots, `stored` the names of all files in the directories of data and metadata, however young.
    """

    roots: Sequence[Root]
    orphans: Sequence[FileInfo]
    removed: Collection[str] = ()
    needed: Collection[str] = ()
    named: Collection[str] = ()
    stored: Collection[str] = ()


def orphan_doubts(table: TableHandle, seen: OrphanScan) -> list[MissingVersions]:
    """Why the orphans may belong to versions that are not listed; empty if they certainly do not."""
    found = missing_versions(observe_branches(table))
    found += _without_schema(table, seen.roots)
    files = [info for info in seen.orphans if _is_of_a_commit(info)]
    if not files:
        return found
    if not seen.roots:
        what = f"there are {len(files)} files ({shown([_name(info.path) for info in files])}) but no snapshot"
        return [*found, _doubt(f"{what}: they were left by a first commit that failed, or {_OUT}")]
    if lost := sorted(set(seen.needed) - set(seen.stored)):
        what = f"{len(lost)} data files that snapshots need ({shown(lost)}) are not in the listing"
        found.append(_doubt(f"{what}; {WAIT}, or run remove_unexisting_files if they are lost", is_certain=True))
    found += _newer_than_commits(seen.roots, files)
    known = files_of_interrupted_deletions(table)
    found += _removed_but_existing(seen, known)
    found += _unnamed_versions(table, seen, known)
    return found


_OUT: Final = f"snapshots, tags or branches are missing from the listing; {WAIT}"


def _doubt(reason: str, *, is_certain: bool = False) -> MissingVersions:
    return MissingVersions(MAIN_BRANCH, reason, is_certain=is_certain)


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _is_of_a_commit(info: FileInfo) -> bool:
    """Whether it is a data, index or metadata file, not a temporary file of a snapshot, tag or the like."""
    directory = info.path.split("/")[-2]
    return directory.startswith("bucket-") or directory in ("manifest", "index", "statistics")


def _without_schema(table: TableHandle, roots: Sequence[Root]) -> Iterator[MissingVersions]:
    if table.schema_service is not None:
        return
    for branch in dict.fromkeys(root.branch for root in roots):
        existing = set(numbered(table.env, with_branch_paths(table, branch).paths.schema_dir, SCHEMA_PREFIX))
        named = {root.snapshot.schema_id for root in roots if root.branch == branch}
        if lost := sorted(named - existing):
            of = "" if branch == MAIN_BRANCH else f" of branch {branch!r}"
            yield MissingVersions(branch, f"schema {shown(lost)}{of} is missing, but a snapshot names it; {WAIT}")


def _newer_than_commits(roots: Sequence[Root], files: Sequence[FileInfo]) -> Iterator[MissingVersions]:
    newest = max(roots, key=lambda root: root.snapshot.time_ms)
    newer = [info for info in files if info.modified_ms > newest.snapshot.time_ms]
    if newer:
        what = f"{len(newer)} orphan files ({shown([_name(info.path) for info in newer])})"
        yield _doubt(
            f"{what} are newer than {newest.label}, the newest commit listed: a job that died left them (then this "
            f"is resolved by the next commit), or {_OUT}"
        )


def _removed_but_existing(seen: OrphanScan, known: set[str]) -> Iterator[MissingVersions]:
    left = sorted(_name(path) for path in set(seen.removed) - known)
    if left:
        yield _doubt(
            f"{len(left)} files ({shown(left)}) were removed by listed commits and still exist, although no "
            f"listed snapshot needs them: an expiry left them, or {_OUT}"
        )


# ── metadata that no root names ─────────────────────────────────────────────────────────────────


@dataclass
class _Unnamed:
    """Manifest lists and manifests that no root names, and what is known of them."""

    table: TableHandle
    seen: OrphanScan
    lists: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _whole: dict[str, bool] = field(default_factory=dict)

    def dead_commits(self) -> set[str]:
        """Writers (by the id in their file names) all of whose base lists were for snapshot ids of other commits."""
        taken = {f"{root.branch}/{root.snapshot.id}" for root in self.seen.roots}
        lists = [name for name in self.seen.stored if name.startswith(_LIST) and name not in self.seen.named]
        tries: dict[str, list[bool]] = {}
        for name, note in zip(lists, in_threads(self.table, commit_note, lists), strict=True):
            if note is not None:
                tries.setdefault(writer_of(name), []).append(note in taken)
        return {writer for writer, found in tries.items() if all(found)}

    def manifests_of(self, name: str) -> tuple[str, ...] | None:
        """Names of a list's manifests; None if it cannot be read, so that no version can use it."""
        try:
            return tuple(manifest.name for manifest in read_manifest_list(self.table, name))
        except (CorruptTableError, NotFoundError):
            return None

    def is_complete_list(self, name: str) -> bool:
        """Whether all files of the list exist: its manifests, and the data files that are live in them."""
        if name not in self._whole:
            self._whole[name] = self._check_complete_list(name)
        return self._whole[name]

    def _check_complete_list(self, name: str) -> bool:
        # The first two lists of a writer are the base and the delta list of one commit.
        base = f"{name.removesuffix('-1')}-0" if name.endswith("-1") else name
        if base != name and base in self.lists and not self.is_complete_list(base):
            return False
        manifests = self.lists[name]
        if any(manifest not in self.seen.stored for manifest in manifests):
            return False
        try:
            live = live_files(entry for one in manifests for entry in read_manifest(self.table, one))
            return all(item.file.external_path is not None or item.file.name in self.seen.stored for item in live)
        except (CorruptTableError, NotFoundError):
            # A delta list alone may remove files that other manifests add: their existence cannot be checked here.
            return True


def _unnamed_versions(table: TableHandle, seen: OrphanScan, known: set[str]) -> Iterator[MissingVersions]:
    """Signs of versions that exist and are not visible: complete manifest lists, and manifests, that no root names."""
    metadata = [info.path for info in seen.orphans if info.path.startswith(f"{table.paths.root}/manifest/")]
    names = [_name(path) for path in metadata if path not in known]
    unnamed = _Unnamed(table, seen)
    dead = unnamed.dead_commits() if names else set()
    names = [name for name in names if writer_of(name) not in dead]
    lists = [name for name in names if name.startswith(_LIST)]
    found = dict(zip(lists, in_threads(table, lambda _, name: unnamed.manifests_of(name), lists), strict=True))
    unnamed.lists |= {name: manifests for name, manifests in found.items() if manifests is not None}
    whole = next((name for name in sorted(unnamed.lists) if unnamed.is_complete_list(name)), None)
    if whole is not None:
        yield _doubt(
            f"manifest list {whole} makes a complete version of the table, but no snapshot or tag names it: a commit "
            f"that died or a rollback of another engine left it, or {_OUT}"
        )
        return
    named = {manifest for name in lists for manifest in unnamed.lists.get(name, ())}
    alone = [name for name in names if name.startswith(_MANIFEST) and name not in lists and name not in named]
    data = {_name(info.path) for info in seen.orphans if "/bucket-" in info.path}
    adding = [name for name, adds in _adding(table, alone).items() if adds & data]
    if adding:
        yield _doubt(
            f"manifest {shown(adding)} adds files that exist, but no list names it: a commit that died left it, "
            f"or {_OUT}"
        )


def _adding(table: TableHandle, manifests: Sequence[str]) -> Mapping[str, set[str]]:
    """Names of the data files that each manifest adds; empty for one that cannot be read."""

    def adds(on_branch: TableHandle, name: str) -> set[str]:
        try:
            return {entry.file.name for entry in read_manifest(on_branch, name) if entry.kind is FileKind.ADD}
        except (CorruptTableError, NotFoundError):
            return set()

    return dict(zip(manifests, in_threads(table, adds, manifests), strict=True))
