"""What options mean for later work: writes, tags and expiry. Looked at where they are new or changed."""

from __future__ import annotations

from collections.abc import Mapping

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.format.file_index.kinds import check_column, check_settings, index_specs
from paimon_engine.meta.partition_rules import check_partition_options
from paimon_engine.meta.schema import TableSchema
from paimon_engine.meta.stats import parse_stats_mode
from paimon_engine.meta.tag_periods import check_tag_options


def check_changed_settings(schema: TableSchema, before: Mapping[str, str]) -> None:
    """Raises InvalidArgumentError or UnsupportedError for a changed option by which later work would fail."""
    options = schema.options
    changed = {name for name in options.keys() | before.keys() if options.get(name) != before.get(name)}

    def has_changed(begin: str) -> bool:
        return any(name.startswith(begin) for name in changed)

    if has_changed("metadata.stats-mode.per.level"):
        for mode in schema.table_options.stats_modes_of_levels.values():
            check_stats_mode("metadata.stats-mode.per.level", mode)
    if has_changed("tag.") or has_changed("sink."):
        check_tag_options(schema.table_options)
    if has_changed("partition."):
        check_partition_options(schema)
    for index in index_specs(options):
        check_column(index, schema.row_type)
        if has_changed(f"file-index.{index.kind}."):
            check_settings(index, schema.row_type)


def check_stats_mode(key: str, mode: str) -> None:
    """Raises InvalidArgumentError naming the option whose mode does not exist."""
    try:
        parse_stats_mode(mode)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"option '{key}': {error}") from error
