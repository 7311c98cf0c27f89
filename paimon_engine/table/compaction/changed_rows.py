"""Merging a section while finding out what that changes, with the older rows outside the compaction.

What Java looks up key by key comes here as one more sorted run that is read along: the files above the output level
whose keys overlap the section's. No index on disk is needed, and memory stays bounded by runs × batch. If only
the positions or the existence of the older rows matter, only their keys are read.

Source: `LookupMergeTreeCompactRewriter`, `FullChangelogMergeTreeCompactRewriter`, `LookupLevels` of the Java library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_engine.format.bitmaps import RowBitmap
from paimon_engine.lsm.levels import KeyOrder, key_order
from paimon_engine.lsm.plan import CompactTask, KeyRange, section_around
from paimon_engine.lsm.sections import Section, files_of, written_at_once
from paimon_engine.merge.changes import POSITION, SOURCE, Changed, ChangeRule, changes_of
from paimon_engine.merge.expiry import record_expiry
from paimon_engine.merge.frontier import merge_runs
from paimon_engine.merge.functions import merge_function, sequence_order
from paimon_engine.merge.records import LEVEL, drop_retracts
from paimon_engine.merge.window import Window, kept_rows
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.schema import SEQUENCE_NUMBER, VALUE_KIND
from paimon_engine.predicate import Predicate
from paimon_engine.storage import Opener
from paimon_engine.table.files.bucket_vectors import BucketVectors
from paimon_engine.table.files.data_file import RowMask, ScanOptions, bucket_location, read_data_file
from paimon_engine.table.files.files_ahead import files_ahead
from paimon_engine.table.files.key_range import RangeReader
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.types import to_arrow

_INPUT = -1
_BESIDE = -2
"""A file of another section."""


@dataclass(frozen=True, slots=True)
class _RunFiles:
    """Files of one run; `sources` has the number of each among the files to be looked up, −1 for input."""

    files: tuple[DataFile, ...]
    sources: tuple[int, ...]

    @property
    def sequence_range(self) -> tuple[int, int]:
        low = min(file.min_sequence_number for file in self.files)
        return low, max(file.max_sequence_number for file in self.files)


class ChangedRows:
    """Merges the sections of a task whose changes matter."""

    def __init__(self, table: TableHandle, task: CompactTask, vectors: BucketVectors) -> None:
        """Nothing is read before `of` is called. Replaced older rows are marked in `vectors`."""
        assert task.changes is not None
        self._vectors = vectors
        self._marks = table.options.deletion_vectors_enabled
        self._table = table
        self._task = task
        self._location = bucket_location(table, task.partition, task.bucket)
        self._order = key_order(table.schema.key_type)
        self._keys = None if task.keys is None else RangeReader(table.schema, task.keys)
        self._merge = merge_function(table.schema, lone=task.changes == "lookup")
        options = table.options
        compared = None
        if options.changelog_row_deduplicate:
            ignored = options.changelog_row_deduplicate_ignore_fields
            compared = tuple(name for name in table.schema.row_type.names if name not in ignored)
        emits = options.changelog_producer in ("lookup", "full-compaction")
        self._ahead: Opener | None = None
        self._keep = keep_unexpired(table)
        self._blank = pa.record_batch({})
        self._rule = ChangeRule(task.changes, task.output_level, emits, compared)
        newest_wins = options.merge_engine == "deduplicate" and not options.sequence_fields and not emits
        self._keys_suffice = task.changes == "first-row" or (task.changes == "lookup" and newest_wins)

    def _reads_older_rows(self, source: int) -> bool:
        """Whether rows of the file expire; `first-row` only needs to know if an older row exists, even expired."""
        return source == _INPUT or self._table.options.merge_engine != "first-row"

    def of(self, section: Section, *, rows_wanted: bool = True) -> Iterator[Changed]:
        """Windows of the section in key order, delete records included.

        If the rows are not needed, only the description of changes is valid; the rows may lack columns.

        Raises: as the merge function; NotFoundError, CorruptTableError.
        """
        around = section_around(self._task, section)
        if around is not None:
            yield from self._of_all(section, around)
            return
        looked_up = self._looked_up(section)
        inputs = [_RunFiles(run, (_INPUT,) * len(run)) for run in section]
        has_ties = written_at_once([file for run in (*looked_up, *inputs) for file in run.files])
        if not has_ties:
            inputs.sort(key=lambda run: run.sequence_range)
        runs = [*looked_up, *inputs]
        read = tuple(run.files for run in runs)
        read = read if self._keys is None else self._keys.reached(read)
        self._ahead = files_ahead(self._table, [(self._location.directory, read, {})])
        ranges = [run.sequence_range for run in runs]
        in_order = all(older[1] < newer[0] for older, newer in pairwise(ranges))
        order = replace(sequence_order(self._table.options), by_arrival=in_order, has_ties=has_ties)
        # An older row that is chosen nevertheless (no writer makes such rows) must have all its columns.
        keys_only = self._keys_suffice and in_order
        marks_only = self._marks and keys_only and not (rows_wanted or self._keep)
        within = [] if self._keys is None else self._keys.conjuncts
        near = [*within, *RangeReader(self._table.schema, KeyRange(*_ends(section, self._order))).conjuncts]
        batches = [
            *(self._rows(run, near, keys_only=keys_only, widened=keys_only and not marks_only) for run in looked_up),
            *(self._rows(run, within, keys_only=marks_only) for run in inputs),
        ]
        replaced: list[tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]] = []
        for window in merge_runs(batches, self._table.schema.key_type, order, followers=len(looked_up)):
            changed = changes_of(window, self._merge, self._rule)
            if changed.replaced is not None:
                replaced.append(changed.replaced)
            yield changed
        self._mark(replaced)

    def _of_all(self, section: Section, around: Section) -> Iterator[Changed]:
        """As `of`, of a section that is merged with all runs `around`, whose keys decide between its records."""
        schema, names = self._table.schema, {file.name for file in files_of([section])}
        sources = {file.name: number for number, file in enumerate(self._task.lookups)}
        near = RangeReader(schema, KeyRange(high=_ends(section, self._order)[1])).conjuncts
        runs = [
            _RunFiles(run, tuple(_INPUT if file.name in names else sources.get(file.name, _BESIDE) for file in run))
            for run in around
        ]
        self._ahead = files_ahead(self._table, [(self._location.directory, around, {})])
        batches = [self._rows(run, near, keys_only=False) for run in runs]
        order = replace(sequence_order(self._table.options), has_ties=True)
        for window in merge_runs(batches, schema.key_type, order):
            chosen = _with_inputs(window)
            if chosen.rows.num_rows:
                yield changes_of(chosen, self._merge, self._rule)

    def _mark(self, replaced: list[tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]]) -> None:
        if not replaced:
            return
        sources, positions = (np.concatenate(parts) for parts in zip(*replaced, strict=True))
        for source in np.unique(sources):
            rows = RowBitmap.of(positions[sources == source])
            self._vectors.mark(self._task.lookups[source].name, rows)

    def _looked_up(self, section: Section) -> list[_RunFiles]:
        """Runs of the files to be looked up that overlap the section, highest level first: the oldest rows."""
        low, high = map(self._order, _ends(section, self._order))
        found = [
            (number, file)
            for number, file in enumerate(self._task.lookups)
            if self._order(file.min_key) <= high and low <= self._order(file.max_key)
        ]
        found.sort(key=lambda item: (-item[1].level, self._order(item[1].min_key)))
        runs = []
        for _, members in groupby(found, key=lambda item: item[1].level):
            numbers, level = zip(*members, strict=True)
            runs.append(_RunFiles(level, numbers))
        return runs

    def _rows(
        self, run: _RunFiles, where: Sequence[Predicate], *, keys_only: bool, widened: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Rows of the run, possibly without those for which `where` is false; `widened` to have all columns."""
        for file, source in zip(run.files, run.sources, strict=True):
            if self._keys is not None and not self._keys.reaches(file):
                continue
            found = self._file_rows(file, source, where, keys_only=keys_only, widened=widened)
            yield from found if self._keys is None else self._keys.cut(found)

    def _file_rows(
        self, file: DataFile, source: int, where: Sequence[Predicate], *, keys_only: bool, widened: bool
    ) -> Iterator[pa.RecordBatch]:
        """Rows of one file with `LEVEL`, `SOURCE` and, where vectors are written, `POSITION`."""
        schema = self._table.schema
        columns = schema.trimmed_primary_keys if keys_only else schema.row_type.names
        found = read_data_file(
            self._table,
            self._location,
            file,
            columns,
            with_system_columns=not keys_only or self._table.options.ignore_delete,
            mask=RowMask(self._vectors.deleted_rows(file.name)),
            where=where,
            scan=ScanOptions(self._task.limit, ahead=self._ahead),
            position_column=POSITION if self._marks else None,
        )
        for read in found:
            kept = _marked(self._widened(read) if widened else read, {LEVEL: file.level, SOURCE: source})
            if self._table.options.ignore_delete:
                kept = drop_retracts(kept)  # from before the option was set
            if self._keep is not None and self._reads_older_rows(source):
                kept = self._keep(kept)
            if kept.num_rows:
                yield kept

    def _widened(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with zeros and nulls in the columns that were not read, so that they have the schema of others."""
        read, row_type = rows.schema.names, self._table.schema.row_type
        if self._blank.num_rows < rows.num_rows:
            zeros = np.zeros(rows.num_rows, np.int8)
            columns = {SEQUENCE_NUMBER: pa.array(zeros.astype(np.int64)), VALUE_KIND: pa.array(zeros)}
            columns |= {field.name: pa.nulls(rows.num_rows, to_arrow(field.type)) for field in row_type}
            self._blank = pa.record_batch(columns)
        blank = self._blank.slice(0, rows.num_rows)
        names = [*blank.schema.names, *(name for name in read if name not in blank.schema.names)]
        return pa.RecordBatch.from_arrays([rows[name] if name in read else blank[name] for name in names], names=names)


def keep_unexpired(table: TableHandle) -> Callable[[pa.RecordBatch], pa.RecordBatch] | None:
    """What a compaction that begins now leaves of the records that it reads; None if records do not expire.

    Raises: InvalidArgumentError.
    """
    expiry = record_expiry(table.schema) if table.schema.primary_keys else None
    if expiry is None:
        return None
    now_ms = table.env.clock()
    return lambda rows: expiry.keep(rows, now_ms)


def _with_inputs(window: Window) -> Window:
    """The window's keys that a row of the input has."""
    rows = window.rows if window.order is None else window.rows.take(pa.array(window.order))
    is_input = np.asarray(rows[SOURCE]) == _INPUT
    has_input = np.logical_or.reduceat(is_input, window.starts) if len(window.starts) else is_input
    kept = np.repeat(has_input, window.ends - window.starts)
    return kept_rows(Window(rows, None, window.starts), kept)


def _ends(section: Section, order: KeyOrder) -> tuple[bytes, bytes]:
    """Smallest and largest key of the section's files."""
    files = [file for run in section for file in run]
    return min((file.min_key for file in files), key=order), max((file.max_key for file in files), key=order)


def _marked(rows: pa.RecordBatch, marks: dict[str, int]) -> pa.RecordBatch:
    for name, value in marks.items():
        rows = rows.append_column(name, pa.array(np.full(rows.num_rows, value, dtype=np.int32)))
    return rows
