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

from paimon_engine.errors import CorruptTableError, NotFoundError, naming
from paimon_engine.executor import Executor, LocalExecutor
from paimon_engine.meta.conflict import Bucket, find_conflicts
from paimon_engine.meta.files_beside import rows_in
from paimon_engine.meta.manifest import FileIdentity, FileKind, ManifestEntry, ManifestFile
from paimon_engine.meta.paths import MAIN_BRANCH
from paimon_engine.meta.schema import BucketMode
from paimon_engine.meta.snapshot import CommitKind, Snapshot
from paimon_engine.meta.snapshot_order import number_problem
from paimon_engine.progress import OnProgress
from paimon_engine.table.check.chain import Chain, latest_roots, miscounted, outside_statistics
from paimon_engine.table.check.current_files import CurrentFiles, FilesChanged
from paimon_engine.table.check.findings import FINDINGS, Problem, problem_at
from paimon_engine.table.check.footers import footer_problem
from paimon_engine.table.check.index_files import IndexFilesCheck
from paimon_engine.table.check.locations import FileLocations
from paimon_engine.table.check.repeated_keys import repeated_keys
from paimon_engine.table.check.rows import FileToRead, read_rows
from paimon_engine.table.files.file_index import check_indexes
from paimon_engine.table.files.hash_index import hash_files
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
from paimon_engine.table.state.manifests import lists_of, live_index_files, read_manifest
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
    for root in sorted(roots, key=_place):
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


def _place(root: Root) -> tuple[bool, str, bool, int]:
    """Main first; snapshots of a branch before what outlives them; in the order of time, so that little changes."""
    return root.branch != MAIN_BRANCH, root.branch, not root.is_snapshot, root.snapshot.id


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
    """Looks at each manifest, directory and data file once, not once per root.

    Of a root's live files those are looked at that the root before it has not.
    """

    def __init__(self, table: TableHandle, depth: Depth, roots: Sequence[Root], *, footers: bool) -> None:
        self.to_read: list[FileToRead] = []
        self.data_file_count = 0
        self._table = table
        self._depth = depth
        self._footers = footers
        self.locations = FileLocations(table)
        self._index_files = IndexFilesCheck(table, self.locations)
        self._manifests: dict[str, list[ManifestEntry]] = {}
        self._checked: set[str] = set()
        self._noted: set[str] = set()
        self._seen: set[str] = set()
        self._indexed: set[FileIdentity] = set()
        self._described: set[FileIdentity] = set()
        self._schemas: set[tuple[str, int]] = set()
        self._live = CurrentFiles(self._entries)
        self._conflicts: dict[Bucket, str] = {}
        self._several_counts: dict[bytes, list[int]] = {}
        self._chain = Chain(roots)
        self._sound: dict[tuple[str, int], Snapshot] = {}

    @property
    def manifest_count(self) -> int:
        """Manifests that were read."""
        return len(self._manifests)

    def problems_of(self, root: Root) -> list[Problem]:
        """Problems of what a root reaches, as far as no earlier root reached it.

        Raises: PaimonError if its metadata cannot be read.
        """
        key = root.branch, root.snapshot.id
        # What a tag keeps of a snapshot that is still there has been checked with it.
        if self._sound.get(key) == root.snapshot:
            return []
        problems = self._problems_of(root)
        if root.is_snapshot and not problems:
            self._sound[key] = root.snapshot
        return problems

    def _problems_of(self, root: Root) -> list[Problem]:
        """Goes on to a root. Raises: PaimonError if its metadata cannot be read."""
        files = root_files(self._table, root.snapshot)
        problems = list(self._sizes(root, files.metadata))
        with naming(lists_of(self._table, root.snapshot)):
            if root.is_snapshot:
                broken = self._chain.broken(root, files.manifests[: files.base_count], self._live)
                problems += [] if broken is None else [Problem(root.label, broken)]
            change = self._live.move_to(files.manifests)
        if root.is_snapshot:
            self._chain.saw(root)
        problems += self._manifests_of([*files.manifests, *files.changelog_manifests])
        problems += self._counts(root, files.manifests[files.base_count :])
        problems += self._buckets(root, change)
        changelog = [entry for manifest in files.changelog_manifests for entry in self._entries(manifest)]
        problems += self._changelog_count(root, files, changelog)
        problems += self._manifest_problems(change.added, root, are_ordered=self._table.options.snapshot_ordering)
        problems += self._manifest_problems(changelog, root)
        self._note(root, change.added)
        if self._depth is Depth.METADATA:
            return problems
        problems += self._data(root, [*change.added, *changelog])
        problems += self._file_indexes(root, change.added)
        problems += self._statistics(root)
        index_files = live_index_files(self._table, root.snapshot)
        found = self._index_files.problems_of(index_files, self._live)
        return [*problems, *(Problem(root.label, what) for what in found)]

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

    def _note(self, root: Root, added: Sequence[ManifestEntry]) -> None:
        is_dynamic = self._depth is Depth.ROWS and self._table.schema.bucket_mode is BucketMode.DYNAMIC
        indexes = hash_files(live_index_files(self._table, root.snapshot)) if is_dynamic else {}
        for entry in added:
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

    def _counts(self, root: Root, delta_manifests: Sequence[ManifestFile]) -> Iterator[Problem]:
        snapshot, total = root.snapshot, self._live.rows
        if snapshot.total_record_count not in (None, total):
            yield Problem(root.label, f"says {snapshot.total_record_count} records, its files have {total}")
        if snapshot.delta_record_count is None:
            return
        delta = sum(
            entry.file.row_count if entry.kind is FileKind.ADD else -entry.file.row_count
            for manifest in delta_manifests
            for entry in self._entries(manifest)
        )
        if snapshot.delta_record_count != delta:
            yield Problem(root.label, f"says {snapshot.delta_record_count} records more, its delta has {delta}")

    def _buckets(self, root: Root, change: FilesChanged) -> Iterator[Problem]:
        """Problems of the live files of one root with each other: overlapping keys, and several numbers of buckets."""
        key_type = self._table.schema.run_key_type
        for bucket in change.buckets:
            self._conflicts.pop(bucket, None)
        # Each live file alone fits into an empty bucket: any conflict is one between live files, by their keys.
        touched = [] if key_type is None else [one for bucket in change.buckets for one in self._live.of_bucket(bucket)]
        with naming(lists_of(self._table, root.snapshot)):
            conflicts = find_conflicts([], touched, key_type=key_type, overwrite=False)
        self._conflicts.update({(one.partition, one.bucket): one.reason for one in conflicts})
        for (_, number), reason in self._conflicts.items():
            yield Problem(root.label, f"bucket {number}: {reason}")
        for partition in {partition for partition, _ in change.buckets}:
            counts = self._live.bucket_counts(partition)
            self._several_counts.pop(partition, None)
            if len(counts) > 1:
                self._several_counts[partition] = counts
        for counts in self._several_counts.values():
            yield Problem(root.label, f"a partition has {counts} buckets")

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

    def _file_indexes(self, root: Root, added: Sequence[ManifestEntry]) -> Iterator[Problem]:
        fresh = [entry for entry in added if entry.identity not in self._indexed and self.locations.directory(entry)]
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
