"""What a table's options may say of its partitions: how they expire, and how they are marked as done."""

from __future__ import annotations

from typing import Final

from paimon_engine.errors import InvalidArgumentError, UnsupportedError
from paimon_engine.meta.partition_time import check_formatter
from paimon_engine.meta.schema import TableSchema

STRATEGIES: Final = ("values-time", "update-time")
"""What the age of a partition may be counted from."""


def check_partition_options(schema: TableSchema) -> None:
    """Raises InvalidArgumentError or UnsupportedError for an option by which partitions cannot expire."""
    options = schema.table_options
    if "partition.expiration-time" in options.raw and not schema.partition_keys:
        raise InvalidArgumentError("'partition.expiration-time' needs partition keys; the table has none")
    check_strategy(options.partition_expiration_strategy)
    if options.partition_timestamp_formatter is not None:
        check_formatter(options.partition_timestamp_formatter)


def check_strategy(strategy: str) -> None:
    """Raises UnsupportedError for a way to count ages that the engine lacks."""
    if strategy not in STRATEGIES:
        raise UnsupportedError(
            f"'partition.expiration-strategy' = '{strategy}' is not supported; use one of {', '.join(STRATEGIES)}"
        )
