"""Compacting some of the runs that have a key, where all of them decide which of equal records is the newest.

Records of writers side by side may have equal sequence numbers. Readers merge all runs that overlap, and which of such
records they take depends on the keys of each of them (`merge.ties`). A compaction of a few of the runs, which is to
change nothing that is read, therefore looks at the keys of the others, too, if there are such records at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_engine.arrow_values import as_numbers
from paimon_engine.lsm.levels import key_order
from paimon_engine.lsm.plan import KeyRange
from paimon_engine.lsm.sections import Section, files_of
from paimon_engine.merge.frontier import merge_runs
from paimon_engine.merge.functions import merge_function, sequence_order
from paimon_engine.merge.window import SequenceOrder, Window, kept_rows
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.schema import SEQUENCE_NUMBER, VALUE_KIND
from paimon_engine.table.files.key_range import RangeReader
from paimon_engine.table.read.merged_runs import RUNS_BYTES, merged_runs
from paimon_engine.table.read.reader import SectionFiles
from paimon_engine.types import to_arrow

_IS_INPUT: Final = "_IS_INPUT"
"""Column of whether a row is one of those that are compacted."""


def merged_among(files: SectionFiles, section: Section, around: Section) -> Iterator[pa.RecordBatch]:
    """The rows of a section, merged as a reader merges them who reads all runs `around`, which has its files.

    Raises: NotFoundError, CorruptTableError, as the merge function.
    """
    if not _has_ties(files, section):
        yield from merged_runs(files, section, equal_sequences=False)
        return
    schema = files.table.schema
    merge = merge_function(schema)
    files = replace(files, limit=files.limit.shared(RUNS_BYTES, len(around)))
    inputs = files_of([section])
    last = max((file.max_key for file in inputs), key=key_order(schema.key_type))
    beside = _of_keys(replace(files, keys=RangeReader(schema, KeyRange(high=last))))
    names = {file.name for file in inputs}
    runs = [_rows(run, files, beside, names) for run in around]
    order = replace(sequence_order(schema.table_options), has_ties=True)
    for window in merge_runs(runs, schema.key_type, order):
        chosen = _inputs(window)
        if chosen.rows.num_rows:
            yield merge(chosen)


def _of_keys(files: SectionFiles) -> SectionFiles:
    """The same files, of which only what orders records is read."""
    schema = files.table.schema
    columns = (*schema.trimmed_primary_keys, *schema.table_options.sequence_fields)
    return replace(files, columns=tuple(dict.fromkeys(columns)), keep=None, dictionary_columns=())


def _has_ties(files: SectionFiles, section: Section) -> bool:
    """Whether a key has records of equal sequence numbers in these runs."""
    keys = _of_keys(replace(files, limit=files.limit.shared(RUNS_BYTES, len(section))))
    runs = [keys.run_rows(run) for run in section]
    return any(map(_has_equal, merge_runs(runs, files.table.schema.key_type, SequenceOrder())))


def _has_equal(window: Window) -> bool:
    if window.order is None:
        return False
    numbers = as_numbers(window.rows[SEQUENCE_NUMBER])[window.order]
    equal = numbers[1:] == numbers[:-1]
    equal[window.starts[1:] - 1] = False
    return bool(equal.any())


def _rows(
    run: Sequence[DataFile], files: SectionFiles, beside: SectionFiles, names: set[str]
) -> Iterator[pa.RecordBatch]:
    """Rows of a run with `_IS_INPUT`; of files that are not input, nulls in most columns."""
    types = {field.name: to_arrow(field.type) for field in files.table.schema.row_type}
    kinds = {SEQUENCE_NUMBER: pa.int64(), VALUE_KIND: pa.int8()} | {name: types[name] for name in files.columns}
    for file in run:
        is_input = file.name in names
        for rows in (files if is_input else beside).run_rows((file,)):
            known = set(rows.schema.names)
            columns = [rows[name] if name in known else pa.nulls(rows.num_rows, kind) for name, kind in kinds.items()]
            flags = pa.array(np.full(rows.num_rows, is_input))
            yield pa.RecordBatch.from_arrays([*columns, flags], names=[*kinds, _IS_INPUT])


def _inputs(window: Window) -> Window:
    """The window without rows of files that are not input."""
    rows = window.rows if window.order is None else window.rows.take(pa.array(window.order))
    kept = np.asarray(rows[_IS_INPUT])
    return kept_rows(replace(window, rows=rows.drop_columns([_IS_INPUT]), order=None), kept)
