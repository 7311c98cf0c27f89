"""Every action there is, by name: the table that jobs, the command line and Airflow look into."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from paimon_engine.action import Context
from paimon_engine.actions.alter_table import AlterTable, alter_table
from paimon_engine.actions.analyze import Analyze, analyze
from paimon_engine.actions.analyze import planned_bytes as analyze_bytes
from paimon_engine.actions.branches import (
    CreateBranch,
    DeleteBranch,
    FastForward,
    RenameBranch,
    create_branch,
    delete_branch,
    fast_forward,
    rename_branch,
)
from paimon_engine.actions.cluster import Cluster, cluster
from paimon_engine.actions.cluster import planned_bytes as cluster_bytes
from paimon_engine.actions.compact import Compact, compact
from paimon_engine.actions.compact import planned_bytes as compact_bytes
from paimon_engine.actions.compact_chain_table import CompactChainTable, compact_chain_table
from paimon_engine.actions.compact_chain_table import planned_bytes as compact_chain_table_bytes
from paimon_engine.actions.compact_manifests import CompactManifests, compact_manifests
from paimon_engine.actions.compatibility import Compatibility, compatibility
from paimon_engine.actions.consumers import (
    ClearConsumers,
    ExpireConsumers,
    ResetConsumer,
    clear_consumers,
    expire_consumers,
    reset_consumer,
)
from paimon_engine.actions.create_day_tags import CreateDayTags, create_day_tags
from paimon_engine.actions.create_due_tags import CreateDueTags, create_due_tags
from paimon_engine.actions.create_table import CreateTable, create_table
from paimon_engine.actions.delete_rows import DeleteRows, delete_rows
from paimon_engine.actions.delete_rows import planned_bytes as delete_rows_bytes
from paimon_engine.actions.drop_partition import (
    DropPartition,
    ExpirePartitions,
    drop_partition,
    expire_partitions,
)
from paimon_engine.actions.expire_changelogs import ExpireChangelogs, expire_changelogs
from paimon_engine.actions.expire_snapshots import ExpireSnapshots, expire_snapshots
from paimon_engine.actions.expire_tags import ExpireTags, expire_tags
from paimon_engine.actions.export_files import ExportFiles, export_files
from paimon_engine.actions.mark_partition_done import MarkPartitionDone, mark_partition_done
from paimon_engine.actions.merge_branch import MergeBranch, merge_branch
from paimon_engine.actions.purge_files import PurgeFiles, purge_files
from paimon_engine.actions.remove_orphan_files import RemoveOrphanFiles, remove_orphan_files
from paimon_engine.actions.remove_unexisting_files import RemoveUnexistingFiles, remove_unexisting_files
from paimon_engine.actions.remove_unexisting_manifests import (
    RemoveUnexistingManifests,
    remove_unexisting_manifests,
)
from paimon_engine.actions.repair_earliest_snapshot import RepairEarliestSnapshot, repair_earliest_snapshot
from paimon_engine.actions.rescale import Rescale, rescale
from paimon_engine.actions.rescale import planned_bytes as rescale_bytes
from paimon_engine.actions.restore import EmptyQuarantine, Restore, empty_quarantine, restore
from paimon_engine.actions.rewrite_file_index import RewriteFileIndex, rewrite_file_index
from paimon_engine.actions.rewrite_file_index import planned_bytes as rewrite_file_index_bytes
from paimon_engine.actions.rollback import Rollback, rollback
from paimon_engine.actions.rollback_to_as_latest import RollbackToAsLatest, rollback_to_as_latest
from paimon_engine.actions.tags import CreateTag, DeleteTag, RenameTag, create_tag, delete_tag, rename_tag
from paimon_engine.actions.verify import Verify, verify
from paimon_engine.actions.verify import planned_bytes as verify_bytes
from paimon_engine.actions.write import Write, write
from paimon_engine.actions.write import planned_bytes as write_bytes
from paimon_engine.errors import InvalidArgumentError
from paimon_engine.specs import Spec
from paimon_engine.table.state.handle import TableHandle

Action = Spec
"""A request for an action: the spec of one of those below."""


@dataclass(frozen=True, slots=True)
class ActionInfo:
    """One line of the table of what exists.

    `on_tasks` says whether the work is on rows, and runs as tasks; `is_stream` whether rows pass through the process
    that runs the action, batch by batch, wherever that is. `planned_bytes` says from metadata alone how many bytes of
    files tasks would read now, or None if that is unknown: it decides whether Spark is used.
    """

    spec: type
    run: Callable[[Context, Any], Any]
    summary: str
    on_tasks: bool = False
    is_stream: bool = False
    planned_bytes: Callable[[TableHandle, Any], int | None] | None = None


ACTIONS: Final[Mapping[str, ActionInfo]] = {
    "write": ActionInfo(
        Write, write, "append, upsert or overwrite rows from files", on_tasks=True, planned_bytes=write_bytes
    ),
    "compact": ActionInfo(
        Compact, compact, "merge small files and sorted runs", on_tasks=True, planned_bytes=compact_bytes
    ),
    "compact_chain_table": ActionInfo(
        CompactChainTable,
        compact_chain_table,
        "merge the changes of a chain table into complete partitions",
        on_tasks=True,
        planned_bytes=compact_chain_table_bytes,
    ),
    "cluster": ActionInfo(
        Cluster,
        cluster,
        "order rows of append tables by columns that are filtered",
        on_tasks=True,
        planned_bytes=cluster_bytes,
    ),
    "delete_rows": ActionInfo(
        DeleteRows,
        delete_rows,
        "delete rows that match, by deletion vectors",
        on_tasks=True,
        planned_bytes=delete_rows_bytes,
    ),
    "rescale": ActionInfo(
        Rescale,
        rescale,
        "rewrite partitions to the table's number of buckets",
        on_tasks=True,
        planned_bytes=rescale_bytes,
    ),
    "rewrite_file_index": ActionInfo(
        RewriteFileIndex,
        rewrite_file_index,
        "give data files the indexes that options require",
        on_tasks=True,
        planned_bytes=rewrite_file_index_bytes,
    ),
    "compact_manifests": ActionInfo(
        CompactManifests, compact_manifests, "rewrite the lists of files to few large ones"
    ),
    "analyze": ActionInfo(
        Analyze, analyze, "compute statistics of rows and columns", on_tasks=True, planned_bytes=analyze_bytes
    ),
    "create_tag": ActionInfo(CreateTag, create_tag, "name a snapshot and keep it"),
    "delete_tag": ActionInfo(DeleteTag, delete_tag, "delete a tag and its files"),
    "expire_snapshots": ActionInfo(ExpireSnapshots, expire_snapshots, "delete old snapshots and their files"),
    "expire_changelogs": ActionInfo(ExpireChangelogs, expire_changelogs, "delete old changelogs of expired snapshots"),
    "create_table": ActionInfo(CreateTable, create_table, "create a table, or check the existing one"),
    "rollback": ActionInfo(Rollback, rollback, "make an earlier snapshot or tag the latest"),
    "alter_table": ActionInfo(AlterTable, alter_table, "change columns, options or comments"),
    "remove_orphan_files": ActionInfo(RemoveOrphanFiles, remove_orphan_files, "delete old files that nothing names"),
    "restore": ActionInfo(Restore, restore, "restore what was quarantined"),
    "empty_quarantine": ActionInfo(EmptyQuarantine, empty_quarantine, "delete permanently what was quarantined"),
    "purge_files": ActionInfo(PurgeFiles, purge_files, "empty a table and delete all that it has been"),
    "remove_unexisting_files": ActionInfo(
        RemoveUnexistingFiles, remove_unexisting_files, "remove missing data files from the manifests"
    ),
    "remove_unexisting_manifests": ActionInfo(
        RemoveUnexistingManifests, remove_unexisting_manifests, "remove missing manifests from the lists"
    ),
    "repair_earliest_snapshot": ActionInfo(
        RepairEarliestSnapshot, repair_earliest_snapshot, "repair a row of snapshots with gaps"
    ),
    "verify": ActionInfo(Verify, verify, "check that a table is valid", on_tasks=True, planned_bytes=verify_bytes),
    "compatibility": ActionInfo(
        Compatibility, compatibility, "say which engines read the table right, wrongly or not at all"
    ),
    "export_files": ActionInfo(ExportFiles, export_files, "write rows to files for other programs", is_stream=True),
    "drop_partition": ActionInfo(DropPartition, drop_partition, "drop named partitions"),
    "expire_partitions": ActionInfo(ExpirePartitions, expire_partitions, "drop partitions that are too old"),
    "mark_partition_done": ActionInfo(
        MarkPartitionDone, mark_partition_done, "notify others that partitions are complete"
    ),
    "rename_tag": ActionInfo(RenameTag, rename_tag, "give a tag another name"),
    "create_day_tags": ActionInfo(CreateDayTags, create_day_tags, "make the missing tags of days"),
    "create_due_tags": ActionInfo(CreateDueTags, create_due_tags, "create the tags that the options require"),
    "expire_tags": ActionInfo(ExpireTags, expire_tags, "delete tags whose time to live has ended"),
    "rollback_to_as_latest": ActionInfo(
        RollbackToAsLatest, rollback_to_as_latest, "make a new snapshot of an earlier one"
    ),
    "create_branch": ActionInfo(CreateBranch, create_branch, "make a branch"),
    "delete_branch": ActionInfo(DeleteBranch, delete_branch, "delete a branch and its files"),
    "rename_branch": ActionInfo(RenameBranch, rename_branch, "give a branch another name"),
    "fast_forward": ActionInfo(FastForward, fast_forward, "make main what a branch is"),
    "merge_branch": ActionInfo(MergeBranch, merge_branch, "apply the changes of a branch to the table"),
    "reset_consumer": ActionInfo(ResetConsumer, reset_consumer, "move or delete a consumer"),
    "clear_consumers": ActionInfo(ClearConsumers, clear_consumers, "delete consumers by their names"),
    "expire_consumers": ActionInfo(ExpireConsumers, expire_consumers, "delete consumers by their age"),
}
"""Everything that a job can do, by name."""


def action_type(name: str) -> type:
    """Spec type of an action.

    Raises: InvalidArgumentError naming the actions that exist.
    """
    if name not in ACTIONS:
        raise InvalidArgumentError(f"no action {name!r}; there are {', '.join(ACTIONS)}")
    return ACTIONS[name].spec


def name_of(action: Action) -> str:
    """Name of an action's spec.

    Raises: InvalidArgumentError for a spec that is not one of an action.
    """
    for name, info in ACTIONS.items():
        if type(action) is info.spec:
            return name
    raise InvalidArgumentError(f"{type(action).__name__} is not the spec of an action; there are {', '.join(ACTIONS)}")
