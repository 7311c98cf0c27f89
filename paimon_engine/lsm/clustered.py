"""What to compact where files above level 0 are in the order of other columns than the key.

The rows of level 0 are merged by key, put into that order, and added to level 1; older rows of their keys are
marked in the other files. These files may be joined in any choice, as each key is valid in one of them only:

1. where ranges overlap: as universal compaction joins runs, the small ones first, once there are so many of them as
   `num-sorted-run.compaction-trigger` says;
2. as many small neighbours;
3. each file of which a large share of the rows is deleted, alone.

A full compaction joins everything; without rows in level 0, only what overlaps, is small or has deleted rows.
Java joins whatever overlaps in every compaction, so that most of the bucket is written each time.

Source: `ClusteringCompactManager`, `ClusteringFileRewriter.pickMergeCandidates` of the Java library.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from paimon_engine.format.binary_row import encode_row
from paimon_engine.lsm.append import small_file_bytes
from paimon_engine.lsm.levels import SortedRun, key_order
from paimon_engine.lsm.pick import NothingToDo, runs_of_similar_size
from paimon_engine.lsm.sections import Section, SectionGroup, files_of, section_size_bytes, sections
from paimon_engine.meta.clustered_keys import has_same_order, order_columns
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.schema import TableSchema
from paimon_engine.options import TableOptions

SchemaOf = Callable[[int], TableSchema]


@dataclass(frozen=True, slots=True)
class ClusteredBucket:
    """The files of a bucket: new ones, those in the order of today's columns, by their ranges, and `others`."""

    level_0: tuple[Section, ...]
    ordered: tuple[Section, ...]
    others: tuple[DataFile, ...]

    @property
    def upper(self) -> tuple[DataFile, ...]:
        """The files above level 0."""
        return (*files_of(self.ordered), *self.others)

    @property
    def run_count(self) -> int:
        """Runs that a merge of all files would read at the same time."""
        depth = max(map(len, self.ordered), default=0)
        return len(files_of(self.level_0)) + depth + len(self.others)

    @property
    def everything(self) -> SectionGroup:
        """All files as one group, those of level 0 first."""
        others: SectionGroup = ((*((file,) for file in self.others),),) if self.others else ()
        return (*self.level_0, *self.ordered, *others)


def clustered_bucket(files: Sequence[DataFile], schema: TableSchema, schema_of: SchemaOf) -> ClusteredBucket:
    """The files of a bucket as a compaction sees them. Raises: CorruptTableError for keys of other types."""
    columns = order_columns(schema)
    assert columns is not None
    level_0, upper = ([file for file in files if bool(file.level) is above] for above in (False, True))
    same = {schema_id: has_same_order(schema_of(schema_id), schema) for schema_id in {file.schema_id for file in upper}}
    return ClusteredBucket(
        tuple(sections(level_0, key_order(schema.key_type), schema.table_options.sort_spill_threshold)),
        tuple(sections([file for file in upper if same[file.schema_id]], key_order(columns))),
        tuple(file for file in upper if not same[file.schema_id]),
    )


def pick_clustered_full(bucket: ClusteredBucket, options: TableOptions, stale: Collection[str]) -> list[SectionGroup]:
    """Groups of a full compaction; `stale` are the files with deleted rows, or all that are to be rewritten anyway."""
    if bucket.level_0 or bucket.others:
        return [bucket.everything]

    def is_stale(section: Section) -> bool:
        return any(file.name in stale for file in files_of([section]))

    small_bytes = small_file_bytes(options)
    groups = _neighbours(
        bucket, lambda section: len(section) > 1 or section_size_bytes(section) < small_bytes or is_stale(section)
    )
    return [group for group in groups if len(files_of(group)) > 1 or is_stale(group[0])]


def pick_clustered_minor(bucket: ClusteredBucket, options: TableOptions, stale: Collection[str]) -> list[SectionGroup]:
    """Groups of any other compaction; `stale` are the files with many deleted rows."""
    trigger = max(2, options.num_sorted_run_compaction_trigger)
    found: list[SectionGroup] = [bucket.level_0] if bucket.level_0 else []
    for section in bucket.ordered:
        if len(section) >= trigger:
            runs = sorted((SortedRun(1, run) for run in section), key=lambda run: run.size_bytes)
            least = max(2, len(runs) - trigger + 1)
            count = runs_of_similar_size(runs, least, options.compaction_size_ratio_percent)
            found.append(((*(run.files for run in runs[:count]),),))
    small_bytes = small_file_bytes(options)
    small = _neighbours(bucket, lambda section: len(section) < trigger and section_size_bytes(section) < small_bytes)
    found += [group for group in small if len(files_of(group)) >= trigger]
    taken = {file.name for group in found for file in files_of(group)}
    return found + [(((file,),),) for file in bucket.upper if file.name in stale and file.name not in taken]


def _neighbours(bucket: ClusteredBucket, is_wanted: Callable[[Section], bool]) -> list[SectionGroup]:
    """Wanted sections, those side by side together."""
    grouped = groupby(bucket.ordered, key=is_wanted)
    return [tuple(members) for wanted, members in grouped if wanted]


def clustered_amplification(bucket: ClusteredBucket) -> float:
    """Files that overlap at a place of the order, as a mean over the bytes; rows of level 0 may be at any place."""
    waiting = [*files_of(bucket.level_0), *bucket.others]
    total_bytes = sum(file.size_bytes for file in (*bucket.upper, *files_of(bucket.level_0)))
    depth = max(map(len, bucket.ordered), default=0)
    if not total_bytes:
        return float(depth + len(waiting))
    ordered = sum(len(one) * file.size_bytes for one in bucket.ordered for file in files_of([one]))
    weighted = ordered + depth * sum(file.size_bytes for file in waiting)
    return weighted / total_bytes + len(waiting)


def expected_in_order(groups: Sequence[SectionGroup], bucket: ClusteredBucket, schema: TableSchema) -> list[DataFile]:
    """What becomes of each group, as far as a plan can say: a file of all its bytes, with all values of the bucket."""
    columns = order_columns(schema)
    assert columns is not None
    order, known = key_order(columns), files_of(bucket.ordered)
    anything = encode_row([field.type for field in columns], [None] * len(columns.names), reserve_null=True)
    low = min((file.min_key for file in known), key=order, default=anything)
    high = max((file.max_key for file in known), key=order, default=anything)
    found = []
    for group in groups:
        inputs = files_of(group)
        size_bytes = sum(file.size_bytes for file in inputs)
        made = replace(inputs[0], size_bytes=size_bytes, min_key=low, max_key=high, level=1, schema_id=schema.id)
        found.append(made)
    return found


def too_little_to_do(bucket: ClusteredBucket, options: TableOptions, *, full: bool) -> NothingToDo:
    """Why no group was picked."""
    if not bucket.run_count:
        return NothingToDo("the bucket is empty")
    if full:
        return NothingToDo("everything is in order already")
    trigger = max(2, options.num_sorted_run_compaction_trigger)
    return NothingToDo(f"overlapping runs: {bucket.run_count}, compaction begins at {trigger}")
