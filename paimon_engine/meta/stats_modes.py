"""How much is kept of each column's statistics, and which columns the record in a manifest has.

A column's own mode comes first, then the limit of columns, then the mode of the file: that of its level, of changelog
files, or of the table. Key columns have the table's mode, as in 0.9; tables that use statistics options of later
releases cut them at 128 as those do, since they are what a search by key looks at.

Source: `StatsCollectorFactories`, `SimpleStatsConverter` of the Java library.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from paimon_engine.meta.stats import (
    UNKNOWN_STATS,
    ColumnStats,
    SimpleStats,
    StatsMode,
    parse_stats_mode,
    to_simple_stats,
)
from paimon_engine.options import TableOptions
from paimon_engine.types import RowType

_KEY_MODE_OF_LATER_RELEASES: Final = "truncate(128)"


def value_stats_modes(
    options: TableOptions, columns: Sequence[str], *, level: int, is_changelog: bool = False
) -> list[StatsMode]:
    """Statistics mode of each table column in a file of that level.

    Raises: InvalidArgumentError for a mode that does not exist.
    """
    of_file = (options.changelog_stats_mode if is_changelog else None) or options.stats_mode_of_level(level)
    limit = options.stats_columns_max
    modes = []
    for position, column in enumerate(columns):
        mode = options.stats_mode_of(column)
        if mode is None:
            mode = "none" if limit is not None and position >= limit else of_file
        modes.append(parse_stats_mode(mode))
    return modes


def key_stats_modes(options: TableOptions, count: int, *, level: int, is_changelog: bool = False) -> list[StatsMode]:
    """Statistics mode of each of `count` key columns in a file of that level; they have none of their own.

    Raises: InvalidArgumentError for a mode that does not exist.
    """
    of_file = (options.changelog_stats_mode if is_changelog else None) or options.stats_mode_of_level(level)
    if options.stats_dense:
        of_file = _KEY_MODE_OF_LATER_RELEASES
    return [parse_stats_mode(of_file)] * count


def stored_stats(
    row_type: RowType, columns: Sequence[ColumnStats], *, dense: bool
) -> tuple[SimpleStats, tuple[str, ...] | None]:
    """The record for the statistics of all columns, and the columns that are in it; None: all of them."""
    known = [
        (field, stats) for field, stats in zip(row_type, columns, strict=True) if not dense or stats != UNKNOWN_STATS
    ]
    stats = to_simple_stats([field.type for field, _ in known], [item for _, item in known])
    return stats, None if len(known) == len(columns) else tuple(field.name for field, _ in known)
