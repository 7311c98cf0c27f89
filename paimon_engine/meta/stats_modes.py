"""How much is kept of each column's statistics, and which columns the record in a manifest has.

A column's own mode comes first, then the limit of columns, then the mode of the file: that of its level, of changelog
files, or of the table. Key columns have the table's mode, as in 0.9; tables that use statistics options of later
releases cut them at 128 as those do, but in Avro files, since they are what a search by key looks at.

Source: `StatsCollectorFactories`, `SimpleStatsConverter` of the Java library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from paimon_engine.meta.stats import (
    UNKNOWN_STATS,
    ColumnStats,
    SimpleStats,
    StatsKind,
    StatsMode,
    parse_stats_mode,
    to_simple_stats,
)
from paimon_engine.options import TableOptions
from paimon_engine.types import RowType

_KEY_MODE_OF_LATER_RELEASES: Final = "truncate(128)"
_NONE: Final = StatsMode(StatsKind.NONE)
_SYSTEM_COLUMNS: Final = 2


@dataclass(frozen=True, slots=True)
class FileTraits:
    """What of a data file matters for its statistics."""

    level: int
    format: str
    is_changelog: bool = False


def stats_modes(
    options: TableOptions, file: FileTraits, *, keys: Sequence[str], values: Sequence[str]
) -> tuple[list[StatsMode], list[StatsMode]]:
    """Statistics modes of a file's key columns (none on append tables) and of its table columns.

    Raises: InvalidArgumentError for a mode that does not exist.
    """
    of_file = parse_stats_mode(_mode_of(options, file))
    limit = options.stats_columns_max
    is_avro = file.format == "avro"
    # Java counts the key and system columns of Avro files too, and treats their keys like any column.
    before = len(keys) + _SYSTEM_COLUMNS if keys and is_avro else 0

    def limited(position: int) -> StatsMode:
        return _NONE if limit is not None and position >= limit else of_file

    of_keys = [limited(position) if is_avro else of_file for position in range(len(keys))]
    if options.thin_files or (options.stats_dense and not is_avro):
        of_keys = [parse_stats_mode(_KEY_MODE_OF_LATER_RELEASES)] * len(keys)
    of_values = []
    for position, column in enumerate(values, before):
        own = options.stats_mode_of(column)
        if own is None and options.thin_files and column in keys:
            own = _KEY_MODE_OF_LATER_RELEASES  # the column replaces the key, which the file does not store
        of_values.append(limited(position) if own is None else parse_stats_mode(own))
    return of_keys, of_values


def _mode_of(options: TableOptions, file: FileTraits) -> str:
    of_changelog = options.changelog_stats_mode if file.is_changelog else None
    return of_changelog or options.stats_mode_of_level(file.level)


def stored_stats(
    row_type: RowType, columns: Sequence[ColumnStats], *, dense: bool
) -> tuple[SimpleStats, tuple[str, ...] | None]:
    """The record for the statistics of all columns, and the columns that are in it; None: all of them."""
    known = [
        (field, stats) for field, stats in zip(row_type, columns, strict=True) if not dense or stats != UNKNOWN_STATS
    ]
    stats = to_simple_stats([field.type for field, _ in known], [item for _, item in known])
    return stats, None if len(known) == len(columns) else tuple(field.name for field, _ in known)
