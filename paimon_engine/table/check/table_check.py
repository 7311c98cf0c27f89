"""Is a stored table valid? Every invariant of its files, checked for every snapshot and tag of every branch.

1. Snapshots of a branch follow each other without a gap, each from the files of the one before (`table.check.chain`);
   schemas exist and can be read, those of data files too; the hint of the latest one names an existing snapshot.
2. Lists, manifests, index files and statistics files exist with their sizes and can be read; no file is added twice,
   or removed without having been added; manifests have as many entries as lists say, in the partitions that they say.
3. Live data files exist, with the size that their manifest says; Parquet footers count as many rows,
   and no page in them unpacks to more than readers accept.
4. In levels above 0, files of a bucket do not overlap in their keys; a partition has one number of buckets.
   Consumers say where they continue.
5. Record counts of a snapshot are the sums over its files. Changelogs that outlive their snapshots have their files.
6. The indexes of data files, in manifests and in files next to the data files, are complete.
7. Index files hold the deletion vectors that their index manifest says, of rows that the data files have.
8. Each dynamic bucket has a hash index, and a hash is in one bucket of its partition.
9. Rows of data files (`table.check.rows`): number, order and range of keys, sequence numbers, statistics, and that
   they belong to the file's partition and bucket.

`Depth` says which of them are checked. Nothing is written. Files outside the table are checked where reading them is
allowed (`table.files.external`), and counted where it is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import numpy as np

from paimon_engine.errors import CorruptTableError, NotFoundError, naming
from paimon_engine.executor import Executor, LocalExecutor
from paimon_engine.format.bitmaps import RowBitmap
from paimon_engine.format.deletion_vector import decode_index_file
from paimon_engine.meta.conflict import find_conflicts
from paimon_engine.meta.file_set import live_files
from paimon_engine.meta.files_beside import rows_in
from paimon_engine.meta.index_manifest import DELETION_VECTORS, IndexFile
from paimon_engine.meta.manifest import FileIdentity, FileKind, ManifestEntry, ManifestFile
from paimon_engine.meta.paths import MAIN_BRANCH
from paimon_engine.meta.schema import BucketMode
from paimon_engine.meta.snapshot import CommitKind
from paimon_engine.meta.snapshot_order import number_problem
from paimon_engine.progress import OnProgress
from paimon_engine.table.check.chain import Chain, latest_roots, miscounted, outside_statistics
from paimon_engine.table.check.findings import FINDINGS, Problem, problem_at
from paimon_engine.table.check.footers import footer_problem
from paimon_engine.table.check.locations import FileLocations
from paimon_engine.table.check.repeated_keys import repeated_keys
from paimon_engine.table.check.rows import FileToRead, read_rows
from paimon_engine.table.files.file_index import check_indexes
from paimon_engine.table.files.hash_index import hash_files, read_hashes
from paimon_engine.table.reach.reachability import (
    Root,
    RootFiles,
    changelog_files,
    every_root,
    gaps,
    root_files,
    with_branch_paths,
)
from paimon_engine.table.state.changelogs import is_change
from paimon_engine.table.state.handle import SCHEMA_PREFIX, TableHandle, bucket_path, numbered, read_schema_file
from paimon_engine.table.state.hints import stale_latest_hint
from paimon_engine.table.state.manifests import lists_of, live_index_files, read_manifest, read_manifest_list
from paimon_engine.table.state.side_by_side import in_threads
from paimon_engine.table.state.snapshots import consumers
from paimon_engine.table.state.statistics import read_statistics

_LOOKS_MAX: Final = 3
"""How often a table is checked before files that an expiry may be removing are reported as missing."""


class Depth(StrEnum):
    """How much is checked: metadata; also that files exist, complete, with their indexes; also all rows."""

    METADATA = "metadata"
    FILES = "files"
    ROWS = "rows"


@dataclass(frozen=True)
class Examination:
    """What was checked, and what is wrong; data files are counted once, however many snapshots share them."""

    problems: tuple[Problem, ...]
    roots: int
    manifests: int
    data_files: int
    rows: int
    closed: int
    """Files outside the table that may not be read; they were not checked."""
    notes: tuple[Problem, ...]
    """What is wrong in files that every reader nevertheless accepts."""


def check_table(table: TableHandle, *, depth: Depth = Depth.FILES, footers: bool = True) -> list[Problem]:
    """All problems found, [] for a sound table. `footers` opens every Parquet file to compare its row count."""
    return list(examine_table(table, LocalExecutor(env=table.env), depth=depth, footers=footers).problems)


def examine_table(
    table: TableHandle,
    executor: Executor,
    *,
    depth: Depth = Depth.FILES,
    footers: bool = True,
    on_progress: OnProgress | None = None,
) -> Examination:
    """Looks at every snapshot, tag and changelog of every branch; rows are read as tasks.

    Where snapshots vanish meanwhile, as an expiry has it, the look is taken again.
    """
    for _ in range(_LOOKS_MAX - 1):
        found, roots = _examine(table, executor, depth, on_progress, footers=footers)
        if not found.problems or all(_is_there(table, root) for root in roots):
            return found
    return _examine(table, executor, depth, on_progress, footers=footers)[0]


def _is_there(table: TableHandle, root: Root) -> bool:
    paths = with_branch_paths(table, root.branch).paths
    if root.is_changelog:
        return table.env.storage.exists(paths.changelog(root.snapshot.id))
    return table.env.storage.exists(paths.snapshot(root.snapshot.id) if root.tag is None else paths.tag(root.tag))


def _examine(
    table: TableHandle, executor: Executor, depth: Depth, on_progress: OnProgress | None, *, footers: bool
) -> tuple[Examination, list[Root]]:
    """All findings at that depth, and the roots that were checked."""
    roots, unreadable = every_root(table)
    check = _Check(table, depth, roots, footers=footers)
    problems = [problem_at(where, what) for where, what in unreadable]
    problems += [
        *_schemas(table, roots),
        *_consumers(table, roots),
        *_gaps(roots),
        *_ahead(roots),
        *_hints(table, roots),
    ]
    for root in roots:
        try:
            problems += check.problems_of_changelog(root) if root.is_changelog else check.problems_of(root)
        except FINDINGS as error:
            problems.append(Problem(root.label, str(error)))
    rows, notes = 0, list[Problem]()
    if depth is Depth.ROWS:
        for file in read_rows(table, check.to_read, executor, on_progress=on_progress):
            problems += [Problem(file.path, what) for what in file.problems]
            notes += [Problem(file.path, what) for what in file.notes]
        rows = rows_in(file.entry.file for file in check.to_read)
        for root in latest_roots(roots):
            on_branch = with_branch_paths(table, root.branch)
            problems += [Problem(root.label, what) for what in repeated_keys(on_branch, root.snapshot, executor)]
    found = tuple(dict.fromkeys(problems))
    counted = check.manifest_count, check.data_file_count, rows, len(check.locations.closed)
    return Examination(found, len(roots), *counted, tuple(notes)), roots


def _schemas(table: TableHandle, roots: Sequence[Root]) -> Iterator[Problem]:
    for branch in dict.fromkeys([MAIN_BRANCH, *(root.branch for root in roots)]):
        paths = with_branch_paths(table, branch).paths
        stored = numbered(table.env, paths.schema_dir, SCHEMA_PREFIX)
        needed = {root.snapshot.schema_id for root in roots if root.branch == branch}
        known = {*stored, *needed}
        for schema_id in range(min(known), max(known) + 1) if known else ():
            try:
                read_schema_file(table.env, paths, schema_id, {})
            except FINDINGS as error:
                yield Problem(paths.schema(schema_id), str(error))


def _consumers(table: TableHandle, roots: Sequence[Root]) -> Iterator[Problem]:
    for branch in dict.fromkeys([MAIN_BRANCH, *(root.branch for root in roots)]):
        on_branch = with_branch_paths(table, branch)
        try:
            consumers(on_branch)
        except CorruptTableError as error:
            yield Problem(on_branch.paths.consumer_dir, str(error))


def _ahead(roots: Sequence[Root]) -> Iterator[Problem]:
    latest = {root.branch: root.snapshot.id for root in latest_roots(roots)}
    for root in roots:
        if root.is_changelog and root.snapshot.id > latest.get(root.branch, root.snapshot.id):
            yield Problem(root.label, "is newer than the latest snapshot")


def _hints(table: TableHandle, roots: Sequence[Root]) -> Iterator[Problem]:
    """Java trusts a LATEST hint if the next snapshot does not exist, even if the hint's own does not exist either."""
    if table.snapshot_service is not None:
        return
    for branch in dict.fromkeys(root.branch for root in roots if root.is_snapshot):
        on_branch = with_branch_paths(table, branch)
        hint = stale_latest_hint(on_branch)
        # Another look, since it may move on between two calls.
        if hint is not None and stale_latest_hint(on_branch) == hint:
            yield Problem(on_branch.paths.latest_hint, f"names snapshot {hint}, which is not there")


def _gaps(roots: Sequence[Root]) -> Iterator[Problem]:
    for one, following in gaps(roots):
        yield Problem(following.label, f"follows snapshot {one.snapshot.id}: those between are missing")


class _Check:
    """Looks at each manifest, directory and data file once, not once per root."""

    def __init__(self, table: TableHandle, depth: Depth, roots: Sequence[Root], *, footers: bool) -> None:
        self.to_read: list[FileToRead] = []
        self.data_file_count = 0
        self._table = table
        self._depth = depth
        self._footers = footers
        self.locations = FileLocations(table)
        self._manifests: dict[str, list[ManifestEntry]] = {}
        self._checked: set[str] = set()
        self._noted: set[str] = set()
        self._seen: set[str] = set()
        self._indexed: set[FileIdentity] = set()
        self._described: set[FileIdentity] = set()
        self._schemas: set[tuple[str, int]] = set()
        self._hash_indexes_checked: set[tuple[str, ...]] = set()
        self._vectors: dict[str, dict[str, RowBitmap]] = {}
        self._chain = Chain(roots)

    @property
    def manifest_count(self) -> int:
        """Manifests that were read."""
        return len(self._manifests)

    def problems_of(self, root: Root) -> list[Problem]:
        """Problems of what a root reaches, as far as no earlier root reached it.

        Raises: PaimonError if its metadata cannot be read.
        """
        files = root_files(self._table, root.snapshot)
        problems = list(self._sizes(root, files.metadata))
        with naming(lists_of(self._table, root.snapshot)):
            live = live_files(entry for manifest in files.manifests for entry in self._entries(manifest))
        problems += self._chain_of(root, live) if root.is_snapshot else ()
        problems += self._manifests_of([*files.manifests, *files.changelog_manifests])
        problems += self._counts(root, live)
        problems += self._buckets(root, live)
        changelog = [entry for manifest in files.changelog_manifests for entry in self._entries(manifest)]
        problems += self._changelog_count(root, files, changelog)
        problems += self._manifest_problems(live, root, are_ordered=self._table.options.snapshot_ordering)
        problems += self._manifest_problems(changelog, root)
        self._note(root, live)
        if self._depth is Depth.METADATA:
            return problems
        problems += self._data(root, [*live, *changelog])
        problems += self._file_indexes(root, live)
        problems += self._statistics(root)
        return [*problems, *self._deletion_vectors(root, live), *self._hash_indexes(root, live)]

    def problems_of_changelog(self, root: Root) -> list[Problem]:
        """Problems of what a changelog names that outlives its snapshot, without the files that expiry has deleted.

        Raises: PaimonError if its metadata cannot be read.
        """
        snapshot, files = root.snapshot, changelog_files(self._table, root)
        needed = [] if snapshot.changelog_manifest_list is None else [snapshot.changelog_manifest_list]
        is_delta = root.keeps_delta and not needed and snapshot.commit_kind is CommitKind.APPEND
        needed += [snapshot.delta_manifest_list] if is_delta else []
        paths = [self._table.paths.manifest(name) for name in needed]
        problems = [Problem(root.label, f"{path} is missing") for path in paths if path not in files.metadata]
        changelog = [entry for manifest in files.changelog_manifests for entry in self._entries(manifest)]
        problems += self._changelog_count(root, files, changelog)
        if is_delta:
            delta = (entry for manifest in files.delta_manifests for entry in self._entries(manifest))
            changelog += [entry for entry in delta if entry.kind is FileKind.ADD and is_change(entry)]
        return problems if self._depth is Depth.METADATA else [*problems, *self._data(root, changelog)]

    def _changelog_count(self, root: Root, files: RootFiles, changelog: Sequence[ManifestEntry]) -> Iterator[Problem]:
        records = sum(entry.file.row_count for entry in changelog)
        stated = root.snapshot.changelog_record_count
        # Java's expiry deletes the list of tagged snapshots, and the snapshot still names it.
        is_known = files.changelog_manifests or root.snapshot.changelog_manifest_list is None
        if is_known and (stated or 0) != records and (stated is not None or not records):
            yield Problem(root.label, f"says {stated} changelog records, its files have {records}")

    def _note(self, root: Root, live: Sequence[ManifestEntry]) -> None:
        is_dynamic = self._depth is Depth.ROWS and self._table.schema.bucket_mode is BucketMode.DYNAMIC
        indexes = hash_files(live_index_files(self._table, root.snapshot)) if is_dynamic else {}
        for entry in live:
            if entry.file.name in self._noted or "$" in entry.file.name or self.locations.directory(entry) is None:
                continue
            self._noted.add(entry.file.name)
            self.data_file_count += 1
            if self._depth is Depth.ROWS:
                index = indexes.get((entry.partition, entry.bucket))
                self.to_read.append(FileToRead(root.branch, entry, index))

    def _entries(self, manifest: ManifestFile) -> list[ManifestEntry]:
        if manifest.name not in self._manifests:
            self._manifests[manifest.name] = read_manifest(self._table, manifest.name, manifest)
        return self._manifests[manifest.name]

    def _chain_of(self, root: Root, live: Sequence[ManifestEntry]) -> Iterator[Problem]:
        base = read_manifest_list(self._table, root.snapshot.base_manifest_list)
        reason = self._chain.broken(root, (entry for item in base for entry in self._entries(item)), live)
        if reason is not None:
            yield Problem(root.label, reason)

    def _sizes(self, root: Root, metadata: Mapping[str, int | None]) -> Iterator[Problem]:
        changelog = root.snapshot.changelog_manifest_list
        # Java's expiry deletes the changelog of a snapshot although a tag still names it.
        may_miss = None if root.tag is None or changelog is None else self._table.paths.manifest(changelog)
        for path, stated in metadata.items():
            found = self.locations.size_bytes(path)
            if found is None and path != may_miss:
                yield Problem(root.label, f"{path} is missing")
            elif found is not None and stated not in (None, found):
                yield Problem(root.label, f"{path} has {found} bytes, and should have {stated}")

    def _manifests_of(self, manifests: Sequence[ManifestFile]) -> Iterator[Problem]:
        """Contradictions between lists and manifests; several lists may name the same manifest."""
        for manifest in manifests:
            stated = str(replace(manifest, unknown={}))
            if stated in self._seen:
                continue
            self._seen.add(stated)
            entries = self._entries(manifest)
            for reason in (miscounted(manifest, entries), outside_statistics(self._table, manifest, entries)):
                if reason is not None:
                    yield Problem(self._table.paths.manifest(manifest.name), reason)

    def _manifest_problems(
        self, entries: Sequence[ManifestEntry], root: Root, *, are_ordered: bool = False
    ) -> Iterator[Problem]:
        """Problems of manifest entries that are found without opening a file."""
        for entry in entries:
            if entry.identity in self._described:
                continue
            self._described.add(entry.identity)
            file = entry.file
            if file.min_sequence_number > file.max_sequence_number:
                what = f"has sequence numbers {file.min_sequence_number} to {file.max_sequence_number}"
                yield Problem(root.label, f"{file.name} {what}")
            if are_ordered and (wrong := number_problem(file)) is not None:
                yield Problem(root.label, wrong)
            if (root.branch, file.schema_id) not in self._schemas:
                self._schemas.add((root.branch, file.schema_id))
                paths = with_branch_paths(self._table, root.branch).paths
                try:
                    read_schema_file(self._table.env, paths, file.schema_id, {})
                except FINDINGS as error:
                    yield Problem(paths.schema(file.schema_id), str(error))

    def _counts(self, root: Root, live: Sequence[ManifestEntry]) -> Iterator[Problem]:
        snapshot = root.snapshot
        total = sum(entry.file.row_count for entry in live)
        if snapshot.total_record_count not in (None, total):
            yield Problem(root.label, f"says {snapshot.total_record_count} records, its files have {total}")
        if snapshot.delta_record_count is None:
            return
        delta = sum(
            entry.file.row_count if entry.kind is FileKind.ADD else -entry.file.row_count
            for manifest in read_manifest_list(self._table, snapshot.delta_manifest_list)
            for entry in self._entries(manifest)
        )
        if snapshot.delta_record_count != delta:
            yield Problem(root.label, f"says {snapshot.delta_record_count} records more, its delta has {delta}")

    def _buckets(self, root: Root, live: Sequence[ManifestEntry]) -> Iterator[Problem]:
        """Problems of the live files of one root with each other: overlapping keys, and several numbers of buckets."""
        key_type = self._table.schema.run_key_type
        # Each live file alone fits into an empty bucket: any conflict is one between live files.
        with naming(lists_of(self._table, root.snapshot)):
            conflicts = find_conflicts([], live, key_type=key_type, overwrite=False)
        for conflict in conflicts:
            yield Problem(root.label, f"bucket {conflict.bucket}: {conflict.reason}")
        totals: dict[bytes, set[int]] = {}
        for entry in live:
            if entry.total_buckets > 0:
                totals.setdefault(entry.partition, set()).add(entry.total_buckets)
        for numbers in totals.values():
            if len(numbers) > 1:
                yield Problem(root.label, f"a partition has {sorted(numbers)} buckets")

    def _deletion_vectors(self, root: Root, live: Sequence[ManifestEntry]) -> Iterator[Problem]:
        """Problems of the vectors of a snapshot: missing, damaged, or of files that are not live."""
        owners = {entry.file.name: entry for entry in live}
        for file in live_index_files(self._table, root.snapshot):
            path = self.locations.of_index(file) if file.kind == DELETION_VECTORS else None
            if path is None or self._is_missing(path, file):
                continue
            try:
                vectors = self._vectors_of(file, path)
            except FINDINGS as error:
                yield Problem(root.label, str(error))
                continue
            if len(vectors) != file.row_count:
                yield Problem(root.label, f"{path} has {len(vectors)} vectors, its manifest says {file.row_count}")
            for vector in file.vectors:
                deleted = vectors[vector.data_file]
                if vector.cardinality not in (None, len(deleted)):
                    what = f"marks {len(deleted)} rows as deleted, its manifest says {vector.cardinality}"
                    yield Problem(root.label, f"{path}: the vector of {vector.data_file} {what}")
                # Vectors of missing files mark nothing.
                if (owner := owners.get(vector.data_file)) is None:
                    continue
                rows = owner.file.row_count
                if deleted.last >= rows:
                    what = f"marks row {deleted.last} as deleted, the file has {rows} rows"
                    yield Problem(root.label, f"{path}: the vector of {vector.data_file} {what}")
                if (owner.partition, owner.bucket) != (file.partition, file.bucket):
                    what = f"is stored for bucket {file.bucket}, but the file is in {owner.bucket} or another partition"
                    yield Problem(root.label, f"{path}: the vector of {vector.data_file} {what}")

    def _hash_indexes(self, root: Root, live: Sequence[ManifestEntry]) -> Iterator[Problem]:
        """Problems of hash indexes; a set of them is checked once, however many snapshots share it."""
        indexes = hash_files(live_index_files(self._table, root.snapshot))
        if self._table.schema.bucket_mode is BucketMode.DYNAMIC:
            without = {(entry.partition, entry.bucket) for entry in live} - indexes.keys()
            for _, bucket in sorted(without):
                yield Problem(root.label, f"bucket {bucket} has files but no hash index")
        partitions: dict[bytes, list[IndexFile]] = {}
        for (partition, _), file in indexes.items():
            path = self.locations.of_index(file)
            if path is not None and not self._is_missing(path, file):
                partitions.setdefault(partition, []).append(file)
        for files in partitions.values():
            names = tuple(sorted(file.name for file in files))
            if names in self._hash_indexes_checked:
                continue
            self._hash_indexes_checked.add(names)
            try:
                hashes = np.sort(np.concatenate([read_hashes(self._table, file) for file in files]))
            except FINDINGS as error:
                yield Problem(root.label, str(error))
                continue
            if (hashes[1:] == hashes[:-1]).any():
                yield Problem(root.label, f"a hash is in two of the hash indexes {', '.join(names)}")

    def _is_missing(self, path: str, file: IndexFile) -> bool:
        """Whether it is missing, which is reported with the metadata if it belongs in the table."""
        return file.external_path is None and self.locations.size_bytes(path) is None

    def _vectors_of(self, file: IndexFile, path: str) -> dict[str, RowBitmap]:
        if path not in self._vectors:
            ranges = {vector.data_file: (vector.offset, vector.length) for vector in file.vectors}
            self._vectors[path] = decode_index_file(self.locations.store(path).read(path), ranges, path)
        return self._vectors[path]

    def _data(self, root: Root, entries: Sequence[ManifestEntry]) -> list[Problem]:
        """Problems of the data files of these entries: existence, size, Parquet footers. Each path is checked once."""
        problems: list[Problem] = []
        to_open: list[tuple[str, int]] = []
        for entry in entries:
            # Byte ranges of other files have no path.
            if "$" in entry.file.name:
                continue
            for path, size_bytes in self.locations.of(entry):
                if path in self._checked:
                    continue
                self._checked.add(path)
                found = self.locations.size_bytes(path)
                if found is None:
                    problems.append(Problem(root.label, f"{path} is missing"))
                elif size_bytes not in (None, found):
                    problems.append(Problem(root.label, f"{path} has {found} bytes, its manifest says {size_bytes}"))
                elif self._footers and path.endswith(".parquet"):
                    to_open.append((path, entry.file.row_count))
        return problems + [
            Problem(*item) for item in in_threads(self._table, footer_problem, to_open) if item is not None
        ]

    def _statistics(self, root: Root) -> Iterator[Problem]:
        name = root.snapshot.statistics
        if name is None or name in self._seen or self.locations.size_bytes(self._table.paths.statistics(name)) is None:
            return
        self._seen.add(name)
        try:
            read_statistics(self._table, name)
        except FINDINGS as error:
            yield Problem(root.label, str(error))

    def _file_indexes(self, root: Root, live: Sequence[ManifestEntry]) -> Iterator[Problem]:
        fresh = [entry for entry in live if entry.identity not in self._indexed and self.locations.directory(entry)]
        self._indexed.update(entry.identity for entry in fresh)
        with_index = [entry for entry in fresh if entry.file.embedded_file_index is not None or entry.file.extra_files]
        for reason in in_threads(self._table, _index_problem, with_index):
            if reason is not None:
                yield Problem(root.label, reason)


def _index_problem(table: TableHandle, entry: ManifestEntry) -> str | None:
    try:
        check_indexes(table, bucket_path(table, entry.partition, entry.bucket), entry.file)
    except NotFoundError:
        return None  # reported already, as a missing file
    except FINDINGS as error:
        return str(error)
    return None
