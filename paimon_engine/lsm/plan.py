"""Turning a pick into a task: what is rewritten, what moves without a rewrite, whether delete records are dropped.

Small files and overlapping sections are merged; a large file that overlaps nothing only changes its level.
The same plan serves a dry run and the real one.

Source: `MergeTreeCompactManager`, `MergeTreeCompactTask` of the Java library.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, Literal

from paimon_engine.format.layout import BATCH_BYTES_MIN, BATCH_LIMIT, ROW_GROUP_BYTES_MAX, BatchLimit
from paimon_engine.lsm.append import pack_small_files, small_file_bytes
from paimon_engine.lsm.clustered import (
    ClusteredBucket,
    clustered_bucket,
    pick_clustered_full,
    pick_clustered_minor,
    too_little_to_do,
)
from paimon_engine.lsm.column_packs import ColumnPack, pack_column_groups
from paimon_engine.lsm.delete_records import may_have_deletes, only_rows_can_tell
from paimon_engine.lsm.levels import KeyOrder, SortedRun, key_order, level_count, sorted_runs
from paimon_engine.lsm.pick import NothingToDo, Pick, pick_full, pick_minor
from paimon_engine.lsm.sections import Section, files_of, sections, written_at_once
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.schema import TableSchema
from paimon_engine.options import TableOptions

ChangeDetection = Literal["full-compaction", "lookup", "first-row"]
"""Which changes a compaction must find as well: of rows in the highest level, or of rows in levels above 0."""

_NOTHING_DELETED: Final[Mapping[str, int]] = MappingProxyType({})
BATCH_ROWS_MIN: Final = 1_024
"""With fewer rows in a batch the work per batch would outweigh that per row, if the rows are short."""
_ROW_GROUP_BYTES_MIN: Final = 4 << 20
_MEMORY_FACTOR = 8
"""Working memory per run is about this many decoded batches: decoded, joined, sorted and encoded copies."""


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Keys above `low` up to `high`, as rows of bytes; None for an open end."""

    low: bytes | None = None
    high: bytes | None = None


@dataclass(frozen=True, slots=True)
class CompactTask:
    """Work of one bucket. Each member of `rewrites` is a group of sections to be merged into new files in one go.

    Append tables have groups of one section with one run: files to be concatenated in order.

    `changes` is which changes must be found, None if nobody needs them; `lookups` are the files above the output level
    that may contain older rows, all above level 0 if `is_clustered`. Each run is read in batches within `limit`. With
    `keys` the task is the part of a larger one that concerns these keys. `run_count` is how many sorted runs the bucket
    has, or files if `is_append`.
    """

    partition: bytes
    bucket: int
    total_buckets: int
    output_level: int
    drop_deletes: bool
    rewrites: tuple[tuple[Section, ...], ...]
    upgrades: tuple[DataFile, ...]
    reason: str
    run_count: int
    changes: ChangeDetection | None = None
    lookups: tuple[DataFile, ...] = ()
    limit: BatchLimit = BATCH_LIMIT
    row_group_bytes: int = ROW_GROUP_BYTES_MAX
    is_append: bool = False
    is_clustered: bool = False
    """Whether rows come into the order of other columns than the key; sections above level 0 are then by these."""
    keys: KeyRange | None = None
    changes_needed: tuple[bool, ...] | None = None
    """Only in a part: for each group of `rewrites`, whether the group that it was cut from needs its changes."""
    uncounted: tuple[DataFile, ...] = ()
    """Files alone in a group of `rewrites` whose delete count proves nothing: upgraded if no row is a delete."""
    around: tuple[Section, ...] = ()
    """Sections of all files of the bucket, of which some are picked that were written at once: all of their keys decide
    between equal sequence numbers."""

    @property
    def rewritten_files(self) -> tuple[DataFile, ...]:
        """Files whose rows go into new files."""
        return tuple(file for group in self.rewrites for file in files_of(group))

    @property
    def is_move(self) -> bool:
        """Whether no row needs to be read."""
        return not self.rewrites and not any(map(self.must_read, self.upgrades))

    def must_read(self, file: DataFile) -> bool:
        """Whether the changes that a file makes are needed: then it is read, even if it only changes its level."""
        return self.changes == "full-compaction" or (self.changes is not None and file.level == 0)

    def needs_changes(self, group: int) -> bool:
        """Whether the rewrite of that group must find the changes that it makes.

        Merging rows above level 0 with each other changes nothing. If some of a group are newer, though, all of it goes
        through the merge function, as in Java: `partial-update` applies its sequence groups to keys with one row, too.
        """
        if self.changes is None or self.changes_needed is not None:
            return self.changes_needed is not None and self.changes_needed[group]
        return any(self.must_read(file) for section in self.rewrites[group] for run in section for file in run)

    def upgrading(self, names: Collection[str]) -> CompactTask:
        """The task that moves `uncounted` files of these names to their new level instead of rewriting them."""
        moved = tuple(file for file in self.uncounted if file.name in names)
        if not moved:
            return self
        alone = [_alone(file) for file in moved]
        rewrites = tuple(group for group in self.rewrites if group not in alone)
        return replace(self, rewrites=rewrites, upgrades=(*self.upgrades, *moved), uncounted=())

    @property
    def input_files(self) -> tuple[DataFile, ...]:
        """All files that the task replaces."""
        return (*self.rewritten_files, *self.upgrades)

    @property
    def is_divisible(self) -> bool:
        """Whether some groups may be done without the others: in append tables, whose files have no levels."""
        return self.is_append and not self.upgrades

    @property
    def bytes_to_rewrite(self) -> int:
        """Compressed bytes to be read."""
        return sum(file.size_bytes for file in self.rewritten_files)

    @property
    def rows_to_rewrite(self) -> int:
        """Rows to be read, delete records included."""
        return sum(file.row_count for file in self.rewritten_files)

    @property
    def memory_bytes(self) -> int:
        """Estimated working memory: runs × batch, or less where all rows are less.

        How well rows are compressed is not known here; in any case a batch respects `limit` when it is read.
        """
        row_bytes = self._row_bytes
        decoded = min(self._runs_at_once * row_bytes * self.limit.rows_of(row_bytes), row_bytes * self._rows_to_read)
        return decoded * _MEMORY_FACTOR

    def within(self, memory_bytes: int) -> CompactTask | NothingToDo:
        """The task with batches and row groups so small that it needs about that memory, or why that is impossible."""
        needed_bytes = self._runs_at_once * self._least_batch_bytes * _MEMORY_FACTOR
        if needed_bytes > memory_bytes and self.memory_bytes > memory_bytes:
            return NothingToDo(f"needs about {needed_bytes:,} bytes of memory, and a task may take {memory_bytes:,}")
        return self.in_memory_of(memory_bytes)

    def in_memory_of(self, memory_bytes: int) -> CompactTask:
        """The task as `within` that memory, or in as little more as possible."""
        if not self._rows_to_read:
            return self
        batch_bytes = max(memory_bytes // (self._runs_at_once * _MEMORY_FACTOR), self._least_batch_bytes)
        row_group_bytes = min(ROW_GROUP_BYTES_MAX, max(_ROW_GROUP_BYTES_MIN, memory_bytes // _MEMORY_FACTOR))
        limit = BatchLimit(size_bytes=min(BATCH_LIMIT.size_bytes, batch_bytes))
        return replace(self, limit=limit, row_group_bytes=row_group_bytes)

    def in_smaller_batches(self) -> CompactTask:
        """The task for two threads, of which the second one waits for the first batch: batches are half as large."""
        if not self._rows_to_read:
            return self
        batch_bytes = max(self.limit.size_bytes // 2, self._least_batch_bytes)
        return replace(self, limit=replace(self.limit, size_bytes=min(self.limit.size_bytes, batch_bytes)))

    @property
    def _least_batch_bytes(self) -> int:
        row_bytes = self._row_bytes
        return min(BATCH_ROWS_MIN * row_bytes, max(BATCH_BYTES_MIN, row_bytes))

    @property
    def _files_to_read(self) -> tuple[DataFile, ...]:
        return (*self.rewritten_files, *filter(self.must_read, self.upgrades))

    @property
    def _rows_to_read(self) -> int:
        return sum(file.row_count for file in self._files_to_read)

    @property
    def _row_bytes(self) -> int:
        """Decoded bytes of a row: about twice the compressed ones."""
        return 2 * sum(file.size_bytes for file in self._files_to_read) // max(1, self._rows_to_read) + 1

    @property
    def _runs_at_once(self) -> int:
        """Runs that are read at the same time."""
        runs = max(map(len, (*self.around, *(section for group in self.rewrites for section in group))), default=1)
        return runs + len({file.level for file in self.lookups})


def section_around(task: CompactTask, section: Section) -> Section | None:
    """The runs that readers merge with those of a section of the task, where they may decide between its records.

    None for a part of a task, which has not all keys.
    """
    names = {file.name for file in section[0]}
    found = (one for one in task.around if not names.isdisjoint(file.name for file in files_of([one])))
    return None if task.keys is not None else next(found, None)


def plan_bucket(
    partition: bytes,
    bucket: int,
    total_buckets: int,
    files: Sequence[DataFile],
    *,
    schema: TableSchema,
    full: bool,
    now_ms: int,
    deleted_counts: Mapping[str, int] = _NOTHING_DELETED,
    schema_of: Callable[[int], TableSchema] | None = None,
) -> CompactTask | NothingToDo:
    """The compaction of one bucket at `now_ms`, given its live files, and how many rows of each are marked as deleted.

    A full compaction rewrites every file with deleted rows, or simply every file where the options say so; any other
    those of which a large share is deleted.
    `schema_of` gives the schemas of files with some of the columns; without it they have that of the table.
    """
    options = schema.table_options
    forced = full and options.compaction_rewrites_all
    threshold = -1.0 if forced else 0.0 if full else options.compaction_delete_ratio_threshold
    if schema.primary_keys and options.clustering_overrides_keys:
        # Java leaves delete records in such files.
        deleted_counts = {
            file.name: deleted_counts.get(file.name, 0) + (file.delete_row_count or 0) for file in files if file.level
        }
    stale = _stale_files(files, deleted_counts, threshold)
    if not schema.primary_keys:
        if options.data_evolution_enabled:
            found = pack_column_groups(files, options, schema_of or (lambda _: schema), full=full)
            return _columns_task(partition, bucket, total_buckets, found, len(files))
        return _plan_append(partition, bucket, total_buckets, files, options=options, stale=stale, full=full)
    if options.clustering_overrides_keys:
        found_bucket = clustered_bucket(files, schema, schema_of or (lambda _: schema))
        return _clustered_task(partition, bucket, total_buckets, found_bucket, options, stale=stale, full=full)
    order = key_order(schema.key_type)
    runs = sorted_runs(files, order)
    level_max = level_count(files, options.levels_of_keys()) - 1
    pick = pick_full(runs, level_max) if full else pick_minor(runs, level_max, options, now_ms=now_ms)
    if isinstance(pick, NothingToDo):
        upper_runs = [run for run in runs if run.level > 0 and any(file.name in stale for file in run.files)]
        if not upper_runs:
            return pick
        # Only the highest such level now: a key is live in one file only, so each level can be rewritten separately.
        with_deleted_rows = tuple(file for file in upper_runs[-1].files if file.name in stale)
        reason = "all files" if forced else "deleted rows"
        pick = Pick((SortedRun(upper_runs[-1].level, with_deleted_rows),), upper_runs[-1].level, reason)
    highest_used = max(run.level for run in runs)
    drop_deletes = pick.output_level != 0 and (pick.output_level >= highest_used or options.deletion_vectors_enabled)
    # Those of a chain table delete rows of other partitions, in another branch.
    drop_deletes = drop_deletes and not options.is_chain_table
    to_highest = pick.output_level == level_max
    names = {file.name for run in pick.runs for file in run.files}
    is_whole = len(names) == len(files) and not written_at_once(files)
    changes = _changes(pick, options, to_highest=to_highest, is_whole=is_whole)
    # In order of commit: it decides where sequence numbers are equal.
    merged = sections([file for file in files if file.name in names], order, options.sort_spill_threshold)
    rewrites, upgrades, uncounted = _split(pick, merged, options, changes, stale, to_highest=to_highest)
    if not rewrites and not upgrades:
        return NothingToDo("every picked file is at its level already")
    return CompactTask(
        partition=partition,
        bucket=bucket,
        total_buckets=total_buckets,
        output_level=pick.output_level,
        drop_deletes=drop_deletes,
        rewrites=rewrites,
        upgrades=upgrades,
        reason=pick.reason,
        run_count=len(runs),
        changes=changes,
        lookups=tuple(file for run in runs if run.level > pick.output_level for file in run.files)
        if changes in ("lookup", "first-row")
        else (),
        uncounted=uncounted,
        around=_around(files, names, order, options, changes),
    )


def _around(
    files: Sequence[DataFile],
    names: Collection[str],
    order: KeyOrder,
    options: TableOptions,
    changes: ChangeDetection | None,
) -> tuple[Section, ...]:
    """Sections in which some files have these names and others have not, and equal records may have to be ordered.

    Where changes are looked for, these may be in the others, too. With vectors, readers do not merge level 0.
    """
    merges_levels = not options.hides_level_0 and not options.deletion_vectors_enabled
    looks_enough = changes is not None or not options.levels_hold_older_versions
    if len(names) == len(files) or not (merges_levels and looks_enough and written_at_once(files)):
        return ()

    def is_partly(section: Section) -> bool:
        every = files_of([section])
        members = [file for file in every if file.name in names]
        return 0 < len(members) < len(every) and written_at_once(members if changes is None else every)

    return tuple(filter(is_partly, sections(files, order, options.sort_spill_threshold)))


def _changes(pick: Pick, options: TableOptions, *, to_highest: bool, is_whole: bool) -> ChangeDetection | None:
    """Which changes a compaction must find, of all files in order of their numbers if it `is_whole`; None for none."""
    if options.changelog_producer == "full-compaction":
        # Whether or not `force-lookup` is set: the changelog is what changes at the highest level.
        return "full-compaction" if to_highest else None
    if is_whole and options.merge_engine == "deduplicate" and options.changelog_producer != "lookup":
        return None  # No changelog is written, and no other file has rows that are replaced.
    if options.needs_lookup and any(run.level == 0 for run in pick.runs):
        return "first-row" if options.merge_engine == "first-row" else "lookup"
    return None


def _split(
    pick: Pick,
    merged: Sequence[Section],
    options: TableOptions,
    changes: ChangeDetection | None,
    stale: Collection[str],
    *,
    to_highest: bool,
) -> tuple[tuple[tuple[Section, ...], ...], tuple[DataFile, ...], tuple[DataFile, ...]]:
    """Groups of the `merged` sections to rewrite, files that only change their level, and files that are `uncounted`.

    The latter are in the groups, and have no delete records by their manifest entries, which do not prove it.
    """
    small_bytes = small_file_bytes(options)
    rewrites: list[tuple[Section, ...]] = []
    upgrades: list[DataFile] = []
    uncounted: list[DataFile] = []
    candidates: list[Section] = []  # neighbours that become one group

    def upgrade_or_rewrite(file: DataFile) -> None:
        if file.name in stale:
            rewrites.append(_alone(file))
            return
        if file.level == pick.output_level:
            return
        merges_above = changes is not None and file.level == 0 and not to_highest and not _newest_wins(options)
        # Delete records must not reach the highest level, nor any where readers merge nothing.
        is_read_unmerged = to_highest or (options.deletion_vectors_enabled and file.level == 0)
        drops = is_read_unmerged and may_have_deletes(file, options) and not options.is_chain_table
        if drops or merges_above:
            rewrites.append(_alone(file))
            if not merges_above and only_rows_can_tell(file, options):
                uncounted.append(file)
        else:
            upgrades.append(file)

    def flush() -> None:
        if len(candidates) == 1 and len(candidates[0]) == 1:
            for file in candidates[0][0]:
                upgrade_or_rewrite(file)
        elif candidates:
            rewrites.append(tuple(candidates))
        candidates.clear()

    for section in merged:
        if len(section) > 1:
            candidates.append(section)
            continue
        for file in section[0]:
            if file.size_bytes < small_bytes:
                candidates.append(((file,),))
            else:
                flush()
                upgrade_or_rewrite(file)
    flush()
    return tuple(rewrites), tuple(upgrades), tuple(uncounted)


def _alone(file: DataFile) -> tuple[Section, ...]:
    """The group of one file."""
    return (((file,),),)


def _stale_files(files: Sequence[DataFile], deleted_counts: Mapping[str, int], threshold: float) -> frozenset[str]:
    """Names of files of which more than that share of the rows is marked as deleted; all, if it is negative."""
    return frozenset(
        file.name for file in files if deleted_counts.get(file.name, 0) > threshold * max(1, file.row_count)
    )


def _newest_wins(options: TableOptions) -> bool:
    """Whether a newer row always replaces an older one."""
    return options.merge_engine == "deduplicate" and not options.sequence_fields


def _plan_append(
    partition: bytes,
    bucket: int,
    total_buckets: int,
    files: Sequence[DataFile],
    *,
    options: TableOptions,
    stale: Collection[str],
    full: bool,
) -> CompactTask | NothingToDo:
    """Packs of small files, and each file in `stale` alone; an append table has no levels."""
    # Without buckets all files are in bucket 0, and their entries say −1 for the number of buckets.
    found = pack_small_files(files, options, in_order=total_buckets > 0, full=full)
    packs = [] if isinstance(found, NothingToDo) else found
    packed = {file.name for pack in packs for file in pack}
    alone = [(file,) for file in files if file.name in stale and file.name not in packed]
    if isinstance(found, NothingToDo) and not alone:
        return found
    return CompactTask(
        partition=partition,
        bucket=bucket,
        total_buckets=total_buckets,
        output_level=0,
        drop_deletes=False,
        rewrites=tuple(((pack,),) for pack in [*packs, *alone]),
        upgrades=(),
        reason="small files" if packs else "all files" if full and options.compaction_rewrites_all else "deleted rows",
        run_count=len(files),
        is_append=True,
    )


def _columns_task(
    partition: bytes, bucket: int, total_buckets: int, found: list[ColumnPack] | NothingToDo, file_count: int
) -> CompactTask | NothingToDo:
    """Packs of files with columns of the same rows, and of their neighbours; each becomes one file."""
    if isinstance(found, NothingToDo):
        return found
    return CompactTask(
        partition=partition,
        bucket=bucket,
        total_buckets=total_buckets,
        output_level=0,
        drop_deletes=False,
        rewrites=tuple(found),
        upgrades=(),
        reason="files of the same rows, and small files",
        run_count=file_count,
        is_append=True,
    )


def _clustered_task(
    partition: bytes,
    bucket: int,
    total_buckets: int,
    found: ClusteredBucket,
    options: TableOptions,
    *,
    stale: Collection[str],
    full: bool,
) -> CompactTask | NothingToDo:
    """Rows of level 0 into the order of other columns than the key, and files in that order joined."""
    groups = (pick_clustered_full if full else pick_clustered_minor)(found, options, stale)
    if not groups:
        return too_little_to_do(found, options, full=full)
    merges = "full compaction" if full else "level 0 is waited for" if found.level_0 else "overlapping or small files"
    return CompactTask(
        partition=partition,
        bucket=bucket,
        total_buckets=total_buckets,
        output_level=1,
        drop_deletes=True,
        rewrites=tuple(groups),
        upgrades=(),
        reason=merges,
        run_count=found.run_count,
        lookups=found.upper if found.level_0 else (),
        is_clustered=True,
    )


def plan_clustering(
    partition: bytes, bucket: int, total_buckets: int, files: Sequence[DataFile]
) -> CompactTask | NothingToDo:
    """The clustering of one bucket of an append table, given its live files: all of them, in one group."""
    if not any(file.row_count for file in files):
        return NothingToDo("the bucket is empty")
    return CompactTask(
        partition=partition,
        bucket=bucket,
        total_buckets=total_buckets,
        output_level=0,
        drop_deletes=False,
        rewrites=(((tuple(files),),),),
        upgrades=(),
        reason="clustering",
        run_count=len(files),
        is_append=True,
    )
