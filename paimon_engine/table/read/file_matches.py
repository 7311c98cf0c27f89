"""Which files can have rows that match a filter, by the statistics of their values and keys in the manifest.

The ranges of many files are looked at side by side, in columns (`format/binary_columns`); what does not fit there, such
as columns of other types than today's, is looked at file by file, with the same result.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paimon_engine.format.binary_columns import BinaryRows, NotInColumns, is_columnar, stored_form
from paimon_engine.meta.cut_bounds import safe_ranges
from paimon_engine.meta.evolution import bare, evolved_stats, same_columns
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.row_tracking import (
    TRACKING_COLUMNS,
    has_tracking,
    statistics_columns,
    tracking_ranges,
    written_columns,
)
from paimon_engine.meta.schema import TableSchema
from paimon_engine.meta.stats import ColumnStats, SimpleStats
from paimon_engine.predicate import And, Compare, In, IsNull, Match, Not, Or, Predicate, columns_of, may_match
from paimon_engine.predicate.range_columns import RangeColumn, may_match_each
from paimon_engine.table.files.file_filter import counts_nan, has_padded_texts
from paimon_engine.table.files.index_filter import embedded_index_excludes, index_filter
from paimon_engine.table.files.internal_values import internal_predicate
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.types import AtomicType, DataField

_ALIKE_MIN: Final = 8
"""Files of one kind below which columns save nothing."""


class FileMatches:
    """The filter of a read for files: all of them are looked at when it is made, and it is then asked about each."""

    def __init__(self, table: TableHandle, conjuncts: Sequence[Predicate], files: Sequence[DataFile]) -> None:
        """`conjuncts` look at stored columns.

        Raises: InvalidArgumentError if one names a missing column or a value that does not fit.
        """
        self._table = table
        self._parts = [internal_predicate(table.schema.row_type, part) for part in conjuncts]
        keys = set(table.schema.key_type.names)
        self._on_keys = [part for part in self._parts if columns_of(part) <= keys]
        self._index = index_filter(table, conjuncts)
        # Ids of objects are theirs as long as these live.
        self._files = files
        self._by_value = self._looked_at(self._parts, _value_columns, files)
        self._by_key = self._looked_at(self._on_keys, _key_columns, files)

    @property
    def excludes_some(self) -> bool:
        """Whether a file may be excluded by its values."""
        return bool(self._parts) or self._index is not None

    @property
    def looks_at_keys(self) -> bool:
        """Whether a file may be excluded by its keys alone."""
        return bool(self._on_keys)

    def key_may_match(self, file: DataFile) -> bool:
        """Whether the range of the file's keys leaves room for a row that matches."""
        left = self._by_key.get(id(file), self._on_keys)
        if left is None:
            return False
        if not left:
            return True
        ranges = key_ranges(self._table, file)
        return all(may_match(part, ranges, file.row_count) for part in left)

    def may_match(self, file: DataFile) -> bool:
        """Whether ranges of the file's columns, and its index in the manifest, leave room for a row that matches."""
        left = self._by_value.get(id(file), self._parts)
        if left is None:
            return False
        if left:
            names = frozenset().union(*map(columns_of, left))
            ranges = _with_nan(file, value_ranges(self._table, file, names))
            if not all(may_match(part, ranges, file.row_count) for part in left):
                return False
        return not embedded_index_excludes(self._table, file, self._index)

    def _looked_at(
        self, parts: Sequence[Predicate], columns: _FindStats, files: Sequence[DataFile]
    ) -> dict[int, Sequence[Predicate] | None]:
        """By id of a file what is left to be asked of it, None if it is excluded; files alone are not in there."""
        found: dict[int, Sequence[Predicate] | None] = {}
        if not parts or len(files) < _ALIKE_MIN:
            return found
        alike: dict[Any, list[DataFile]] = defaultdict(list)
        for file in files:
            alike[file.schema_id, file.value_stats_columns, written_columns(file), counts_nan(file)].append(file)
        for members in alike.values():
            if len(members) < _ALIKE_MIN:
                continue
            try:
                mask, left = matching_of_a_kind(self._table, columns(self._table, members), parts, members)
            except NotInColumns:
                continue
            found.update(zip(map(id, members), [left if may else None for may in mask.tolist()], strict=True))
        return found


def _with_nan(file: DataFile, ranges: Mapping[str, ColumnStats]) -> Mapping[str, ColumnStats]:
    """Ranges that say that NaN may be there, where the file's statistics do not count it."""
    if counts_nan(file):
        return ranges
    return {
        name: replace(known, max=math.nan) if isinstance(known.max, float) else known for name, known in ranges.items()
    }


# ── one file ────────────────────────────────────────────────────────────────────────────────────


def value_ranges(table: TableHandle, file: DataFile, names: Collection[str] | None = None) -> Mapping[str, ColumnStats]:
    """Known ranges of the table's columns in a file, or of those in `names`: others cost time.

    There are none of columns whose values may be in another order today.

    There is one of a partition column only if the file is known to store values of it.
    """
    if not file.value_stats.null_counts:
        return {}
    schema = table.schema_of(file.schema_id)
    columns = list(statistics_columns(schema, file))
    pairs = same_columns(schema, table.schema)
    asked = {stored.name for name, (stored, _) in pairs.items() if names is None or name in names}
    wanted = [index for index, column in enumerate(columns) if column.name in asked]
    known = safe_ranges([field.type for field in columns], file.value_stats, wanted=wanted)
    usable = {columns[index].name: known[index] for index in wanted if not has_padded_texts(file, columns[index].type)}
    # What the file lacks is read as null.
    missing = ColumnStats(None, None, file.row_count)
    ranges = {name: missing for name in table.schema.row_type.names if name not in pairs}
    for name, (stored, today) in pairs.items():
        if stored.name in usable and (stats := evolved_stats(usable[stored.name], stored, today)):
            ranges[name] = stats
    # A file that lacks partition columns may count nulls there, which are not what is read.
    unknown = {name for name in table.schema.partition_keys if name in ranges and ranges[name].min is None}
    ranges = {name: stats for name, stats in ranges.items() if name not in unknown}
    return {**ranges, **tracking_ranges(file)} if has_tracking(table.schema) else ranges


def key_ranges(table: TableHandle, file: DataFile) -> Mapping[str, ColumnStats]:
    """Known ranges of the columns of the trimmed primary key; the file has them in the types of its own schema."""
    schema = table.schema_of(file.schema_id)
    columns = list(schema.key_type)
    if len(file.key_stats.null_counts) != len(columns):
        return {}
    pairs = same_columns(schema, table.schema)
    today = {stored.name: (name, field) for name, (stored, field) in pairs.items()}
    known = safe_ranges([field.type for field in columns], file.key_stats)
    ranges = {}
    for stored, stats in zip(columns, known, strict=True):
        name, field = today[stored.name]
        evolved = None if has_padded_texts(file, stored.type) else evolved_stats(stats, stored, field)
        if evolved is not None:
            ranges[name] = evolved
    return ranges


# ── many files ──────────────────────────────────────────────────────────────────────────────────


class StatsApart(NamedTuple):
    """Statistics of n files in three lists of that length: binary rows of bounds, and null counts of each column."""

    min_values: Sequence[bytes]
    max_values: Sequence[bytes]
    null_counts: Sequence[Sequence[int | None]]


@dataclass(frozen=True, slots=True)
class StatsOfAKind:
    """The statistics of files of one kind: files of a schema, of which the same columns have some.

    `columns` are these, in the files' types; None in `stats` where there is nothing known.
    """

    schema: TableSchema
    columns: Sequence[DataField]
    stats: StatsApart | None


_FindStats = Callable[[TableHandle, Sequence[DataFile]], StatsOfAKind]


def stats_of_values(table: TableHandle, like: DataFile, stats: StatsApart) -> StatsOfAKind:
    """Statistics of values in files like this one.

    Raises: NotInColumns where files differ in what they have.
    """
    schema = table.schema_of(like.schema_id)
    counts = set(map(len, stats.null_counts))
    if counts == {0}:
        return StatsOfAKind(schema, (), None)
    columns = tuple(statistics_columns(schema, like))
    if counts != {len(columns)}:
        raise NotInColumns("other numbers of columns")
    return StatsOfAKind(schema, columns, stats)


def stats_of_keys(table: TableHandle, like: DataFile, stats: StatsApart) -> StatsOfAKind:
    """As `stats_of_values`, of the columns of the primary key."""
    schema = table.schema_of(like.schema_id)
    columns = tuple(schema.key_type)
    if set(map(len, stats.null_counts)) != {len(columns)}:
        raise NotInColumns("other numbers of columns")
    return StatsOfAKind(schema, columns, stats)


def _value_columns(table: TableHandle, files: Sequence[DataFile]) -> StatsOfAKind:
    return stats_of_values(table, files[0], _apart([file.value_stats for file in files]))


def _key_columns(table: TableHandle, files: Sequence[DataFile]) -> StatsOfAKind:
    return stats_of_keys(table, files[0], _apart([file.key_stats for file in files]))


def _apart(stats: Sequence[SimpleStats]) -> StatsApart:
    return StatsApart(
        [one.min_values for one in stats],
        [one.max_values for one in stats],
        [one.null_counts for one in stats],
    )


def matching_of_a_kind(
    table: TableHandle,
    found: StatsOfAKind,
    parts: Sequence[Predicate],
    files: Sequence[DataFile],
    row_counts: NDArray[np.int64] | None = None,
) -> tuple[NDArray[np.bool_], list[Predicate]]:
    """Which files of a kind may match, by the parts that columns can decide, and the other parts.

    With `row_counts` those of the files; `files` then may be one of them alone, unless the table tracks rows.

    Raises: NotInColumns.
    """
    if row_counts is None:
        row_counts = np.fromiter((file.row_count for file in files), np.int64, len(files))
    kept = np.ones(len(row_counts), bool)
    left: list[Predicate] = []
    if found.stats is None and not has_tracking(table.schema):
        # Nothing is known of any column, but a filter may be one that nothing matches.
        return kept & all(may_match(part, {}, 1) for part in parts), left
    ranges = _Ranges(table, found, files, row_counts)
    for part in parts:
        converted = ranges.convert(part)
        if converted is None:
            left.append(part)
        else:
            kept &= may_match_each(converted, ranges.known, row_counts)
    return kept, left


class _Ranges:
    """Ranges of the table's columns in files of one kind, decoded when a part of a filter needs them."""

    def __init__(
        self, table: TableHandle, found: StatsOfAKind, files: Sequence[DataFile], row_counts: NDArray[np.int64]
    ) -> None:
        self._table, self._files, self._row_counts = table, files, row_counts
        self._found = found
        self._pairs = same_columns(found.schema, table.schema)
        self._rows: tuple[BinaryRows, BinaryRows] | None = None
        self.known: dict[str, RangeColumn] = {}
        """Those that a part of the filter needed."""

    def convert(self, part: Predicate) -> Predicate | None:
        """The part with values in the form of columns; None if it has to be decided file by file."""
        match part:
            case Compare(operator, column, value):
                form = self._form(column, (value,))
                return None if form is None else Compare(operator, column, form[0])
            case In(column, values):
                form = self._form(column, values)
                return None if form is None else In(column, tuple(form))
            case IsNull(column) | Match(column=column):
                return None if self._form(column, ()) is None else part
            case And(inner) | Or(inner):
                converted = [self.convert(one) for one in inner]
                known = tuple(one for one in converted if one is not None)
                return type(part)(known) if len(known) == len(converted) else None
            case Not(inner):
                one = self.convert(inner)
                return None if one is None else Not(one)

    def _form(self, name: str, values: Sequence[Any]) -> list[Any] | None:
        """The values as those of the column in `known`, which this provides; None if columns cannot decide.

        Raises: NotInColumns.
        """
        schema = self._table.schema
        if name in schema.partition_keys or name not in schema.row_type.names or self._found.stats is None:
            return None
        if name in TRACKING_COLUMNS and has_tracking(schema):
            self.known[name] = self._tracked(name)
            return list(values)
        if name not in self._pairs:
            self.known[name] = self._missing()
            return list(values)
        stored, today = self._pairs[name]
        if not isinstance(today.type, AtomicType) or bare(stored.type) != bare(today.type):
            return None
        if not is_columnar(stored.type) or has_padded_texts(self._files[0], stored.type):
            return None
        forms = [None if value is None else stored_form(today.type, value) for value in values]
        if any(form is None and value is not None for form, value in zip(forms, values, strict=True)):
            return None
        place = next((place for place, one in enumerate(self._found.columns) if one.name == stored.name), None)
        if place is not None and name not in self.known:
            self.known[name] = self._decoded(place, today.type)
        return forms

    def _missing(self) -> RangeColumn:
        """What the files lack is read as null."""
        none = np.zeros(len(self._row_counts), np.int64)
        return RangeColumn(none, none, none != 0, self._row_counts)

    def _tracked(self, name: str) -> RangeColumn:
        """Ids or sequence numbers of the files' rows, which their entries give."""
        known = [tracking_ranges(file)[name] for file in self._files]
        low, high = (
            np.array([0 if bound is None else bound for bound in bounds], np.int64)
            for bounds in ([one.min for one in known], [one.max for one in known])
        )
        is_known = np.array([one.min is not None and one.max is not None for one in known])
        null_counts = np.array([-1 if one.null_count is None else one.null_count for one in known], np.int64)
        return RangeColumn(low, high, is_known, null_counts)

    def _decoded(self, place: int, data_type: AtomicType) -> RangeColumn:
        """The column at that place of the statistics. Raises: NotInColumns."""
        stats = self._found.stats
        assert stats is not None
        if self._rows is None:
            arity = len(self._found.columns)
            self._rows = BinaryRows(stats.min_values, arity), BinaryRows(stats.max_values, arity)
        low, high = (rows.column(place, data_type) for rows in self._rows)
        counts = [one[place] for one in stats.null_counts]
        null_counts = np.array([-1 if count is None else count for count in counts], np.int64)
        highs = high.values
        if highs.dtype.kind == "f" and not counts_nan(self._files[0]):
            highs = np.where(high.is_set, np.nan, highs)
        return RangeColumn(low.values, highs, low.is_set & high.is_set, null_counts)
