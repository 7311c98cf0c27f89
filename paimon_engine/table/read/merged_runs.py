"""Merging the runs of a section: the order of its runs, and the function of the table's merge engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from paimon_engine.lsm.sections import Section, arrived_in_order, files_of, sequence_range, written_at_once
from paimon_engine.merge.deduplicate import deduplicate
from paimon_engine.merge.frontier import merge_runs
from paimon_engine.merge.functions import merge_function, sequence_order
from paimon_engine.merge.repeated import merge_repeated_runs
from paimon_engine.merge.rounds import merge_rounds, without_older_of_upper
from paimon_engine.meta.manifest import DataFile

if TYPE_CHECKING:
    from paimon_engine.table.read.reader import SectionFiles

RUNS_BYTES: Final = 64 << 20
"""Decoded bytes of one batch of each run; where they are joined and merged it takes some times as much."""


def merged_runs(files: SectionFiles, section: Section, *, equal_sequences: bool) -> Iterator[pa.RecordBatch]:
    """One row per key of a section of several runs, as `merge_section` gives them.

    With `equal_sequences` the order of the runs decides between records of equal sequence. A run may then contain a key
    several times, and as many rows of the key are returned.
    """
    table = files.table
    if files.epochs:
        files, section = _numbered_on(files, section)
        equal_sequences = written_at_once(files_of([section]))
    files = replace(files, limit=files.limit.shared(RUNS_BYTES, len(section)))
    if equal_sequences:
        yield from _rounds(files, section)
        return
    order, merge = sequence_order(table.options), merge_function(table.schema)
    holds_older = table.options.levels_hold_older_versions
    if written_at_once(files_of([section])):
        runs = [files.run_rows(run, with_levels=holds_older) for run in section]
        windows = merge_runs(runs, table.schema.key_type, replace(order, has_ties=True))
        yield from map(merge, map(without_older_of_upper, windows) if holds_older else windows)
        return
    oldest_first = tuple(sorted(section, key=sequence_range))
    if holds_older:
        runs = _newest_of_levels(files, oldest_first)
    else:
        runs = [files.run_rows(run) for run in oldest_first]
        order = replace(order, by_arrival=arrived_in_order(oldest_first))
    # Unlike a loop, this keeps no window in memory while the next one is read.
    yield from map(merge, merge_runs(runs, table.schema.key_type, order))


def _rounds(files: SectionFiles, section: Section) -> Iterator[pa.RecordBatch]:
    """Rows of runs that contain a key several times; the order of the runs decides between equal sequence numbers."""
    schema, options = files.table.schema, files.table.options
    runs = [files.run_rows(run, alone=True, with_levels=True) for run in section]
    merge = merge_function(schema, lone=True)
    for window in merge_repeated_runs(runs, schema.key_type, sequence_order(options)):
        yield merge_rounds(
            window,
            merge,
            upper_is_complete=options.levels_hold_older_versions,
            # An aggregation retracts them nevertheless: the option only drops deletes when they are written.
            ignores_retracts=options.ignore_delete and options.merge_engine != "aggregation",
        )


def _newest_of_levels(files: SectionFiles, section: Sequence[Sequence[DataFile]]) -> list[Iterator[pa.RecordBatch]]:
    """The runs, those above level 0 joined to one: the newest record of a key in it already includes all older ones."""
    upper = [[file for file in run if file.level > 0] for run in section]
    lowest = [[file for file in run if file.level == 0] for run in section]
    joined, apart = ([files.run_rows(run) for run in runs] for runs in (upper, lowest))
    windows = merge_runs(joined, files.table.schema.key_type, sequence_order(files.table.options))
    return [(deduplicate(window) for window in windows), *apart]


def _numbered_on(files: SectionFiles, section: Section) -> tuple[SectionFiles, Section]:
    """The section with higher sequence numbers in newer epochs, and how to read its files so.

    Records are merged one by one then, as if numbers had not begun again: a retraction concerns what came before that.
    """
    added: dict[str, int] = {}
    newest = -1
    members = files_of([section])
    for epoch in sorted({files.epochs[file.name] for file in members}):
        of_epoch = [file for file in members if files.epochs[file.name] == epoch]
        low, high = sequence_range(of_epoch)
        more = max(0, newest + 1 - low)
        newest = max(newest, high + more)
        added |= dict.fromkeys((file.name for file in of_epoch), more)
    numbered = tuple(tuple(file.with_numbers_added(added[file.name]) for file in run) for run in section)
    return replace(files, epochs={}, added_numbers=added), numbered
