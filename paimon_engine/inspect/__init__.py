"""System tables as Arrow: what a table's metadata says, in the columns of the Java library's system tables.

The functions are imported when they are first used: who opens a table does not wait for them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from paimon_engine.inspect.branch_tables import (
        aggregation_fields,
        branch_table,
        consumer_table,
        options,
        schemas,
        snapshots,
        statistics,
        tags,
    )
    from paimon_engine.inspect.file_tables import (
        buckets,
        file_key_ranges,
        files,
        manifests,
        partitions,
        table_indexes,
    )

__all__ = [
    "aggregation_fields",
    "branch_table",
    "buckets",
    "consumer_table",
    "file_key_ranges",
    "files",
    "manifests",
    "options",
    "partitions",
    "schemas",
    "snapshots",
    "statistics",
    "table_indexes",
    "tags",
]

_OF_FILES: Final = frozenset({"buckets", "file_key_ranges", "files", "manifests", "partitions", "table_indexes"})


def __getattr__(name: str) -> Any:
    """A function of one of the modules."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{'file_tables' if name in _OF_FILES else 'branch_tables'}"), name)
