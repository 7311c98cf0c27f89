"""What the engine can do: one file per action, each with its spec, its function and its result.

Each module is imported when it is first used as a part of this package: who reads some rows does not wait for all of
them, half of the engine.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paimon_engine.actions import (
        alter_table as alter_table,
    )
    from paimon_engine.actions import (
        analyze as analyze,
    )
    from paimon_engine.actions import (
        branches as branches,
    )
    from paimon_engine.actions import (
        cluster as cluster,
    )
    from paimon_engine.actions import (
        commit as commit,
    )
    from paimon_engine.actions import (
        compact as compact,
    )
    from paimon_engine.actions import (
        compact_manifests as compact_manifests,
    )
    from paimon_engine.actions import (
        consumers as consumers,
    )
    from paimon_engine.actions import (
        create_day_tags as create_day_tags,
    )
    from paimon_engine.actions import (
        create_due_tags as create_due_tags,
    )
    from paimon_engine.actions import (
        create_table as create_table,
    )
    from paimon_engine.actions import (
        delete_rows as delete_rows,
    )
    from paimon_engine.actions import (
        drop_partition as drop_partition,
    )
    from paimon_engine.actions import (
        expire_changelogs as expire_changelogs,
    )
    from paimon_engine.actions import (
        expire_snapshots as expire_snapshots,
    )
    from paimon_engine.actions import (
        expire_tags as expire_tags,
    )
    from paimon_engine.actions import (
        export_files as export_files,
    )
    from paimon_engine.actions import (
        mark_partition_done as mark_partition_done,
    )
    from paimon_engine.actions import (
        merge_branch as merge_branch,
    )
    from paimon_engine.actions import (
        purge_files as purge_files,
    )
    from paimon_engine.actions import (
        remove_orphan_files as remove_orphan_files,
    )
    from paimon_engine.actions import (
        remove_unexisting_files as remove_unexisting_files,
    )
    from paimon_engine.actions import (
        remove_unexisting_manifests as remove_unexisting_manifests,
    )
    from paimon_engine.actions import (
        repair_earliest_snapshot as repair_earliest_snapshot,
    )
    from paimon_engine.actions import (
        rescale as rescale,
    )
    from paimon_engine.actions import (
        restore as restore,
    )
    from paimon_engine.actions import (
        rewrite_file_index as rewrite_file_index,
    )
    from paimon_engine.actions import (
        rollback as rollback,
    )
    from paimon_engine.actions import (
        rollback_to_as_latest as rollback_to_as_latest,
    )
    from paimon_engine.actions import (
        tags as tags,
    )
    from paimon_engine.actions import (
        verify as verify,
    )
    from paimon_engine.actions import (
        write as write,
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
