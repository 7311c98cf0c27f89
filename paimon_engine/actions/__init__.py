"""What the engine can do: one file per action, each with its spec, its function and its result.

Each module is imported when it is first used as a part of this package: who reads some rows does not wait for all of
them, half of the engine.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paimon_engine.actions import (  # noqa: F401 - attributes for those who import the package
        alter_table,
        analyze,
        branches,
        cluster,
        commit,
        compact,
        compact_chain_table,
        compact_manifests,
        compatibility,
        consumers,
        create_day_tags,
        create_due_tags,
        create_table,
        delete_rows,
        drop_partition,
        expire_changelogs,
        expire_snapshots,
        expire_tags,
        export_files,
        mark_partition_done,
        merge_branch,
        purge_files,
        remove_orphan_files,
        remove_unexisting_files,
        remove_unexisting_manifests,
        repair_earliest_snapshot,
        rescale,
        restore,
        rewrite_file_index,
        rollback,
        rollback_to_as_latest,
        tags,
        update_columns,
        verify,
        write,
    )


def __getattr__(name: str) -> ModuleType:
    """A module of this package."""
    if name.startswith("_"):
        raise AttributeError(name)
    try:
        return importlib.import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{name}":
            raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from error
