"""Every action there is, by name: the table that jobs, the command line and Airflow look into."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from paimon_engine.actions.alter_table import AlterTable, alter_table
from paimon_engine.actions.analyze import Analyze, analyze
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
from paimon_engine.actions.compact import Compact, compact
from paimon_engine.actions.compact_manifests import CompactManifests, compact_manifests
from paimon_engine.actions.consumers import (
    ClearConsumers,
    ExpireConsumers,
    ResetConsumer,
    clear_consumers,
    expire_consumers,
    reset_consumer,
)
from paimon_engine.actions.create_due_tags import CreateDueTags, create_due_tags
from paimon_engine.actions.delete_rows import DeleteRows, delete_rows
from paimon_engine.actions.drop_partition import (
    DropPartition,
    ExpirePartitions,
    drop_partition,
    expire_partitions,
)
from paimon_engine.actions.expire_changelogs import ExpireChangelogs, expire_changelogs
from paimon_engine.actions.expire_snapshots import ExpireSnapshots, expire_snapshots
from paimon_engine.actions.expire_tags import ExpireTags, expire_tags
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
from paimon_engine.actions.restore import EmptyQuarantine, Restore, empty_quarantine, restore
from paimon_engine.actions.rewrite_file_index import RewriteFileIndex, rewrite_file_index
from paimon_engine.actions.rollback import Rollback, rollback
from paimon_engine.actions.rollback_to_as_latest import RollbackToAsLatest, rollback_to_as_latest
from paimon_engine.actions.tags import CreateTag, DeleteTag, RenameTag, create_tag, delete_tag, rename_tag
from paimon_engine.actions.verify import Verify, verify
from paimon_engine.actions.write import CommitName, Write, write
from paimon_engine.errors import InvalidArgumentError
from paimon_engine.executor import Executor
from paimon_engine.progress import OnProgress
from paimon_engine.table.state.handle import TableHandle

Action = (
    Write
    | Compact
    | Cluster
    | Rescale
    | RewriteFileIndex
    | CompactManifests
    | Analyze
    | DeleteRows
    | CreateTag
    | DeleteTag
    | ExpireSnapshots
    | ExpireChangelogs
    | Rollback
    | AlterTable
    | RemoveOrphanFiles
    | Restore
    | EmptyQuarantine
    | PurgeFiles
    | RemoveUnexistingFiles
    | RemoveUnexistingManifests
    | RepairEarliestSnapshot
    | MergeBranch
    | Verify
    | DropPartition
    | ExpirePartitions
    | MarkPartitionDone
    | RenameTag
    | CreateDueTags
    | ExpireTags
    | RollbackToAsLatest
    | CreateBranch
    | DeleteBranch
    | RenameBranch
    | FastForward
    | ResetConsumer
    | ClearConsumers
    | ExpireConsumers
)


@dataclass(frozen=True, slots=True)
class Context:
    """What an action of a job works with."""

    table: TableHandle
    executor: Executor
    commit_user: str
    on_progress: OnProgress | None
    earlier_user: str | None = None


@dataclass(frozen=True, slots=True)
class ActionInfo:
    """One line of the table of what exists; `on_tasks` says whether the work runs as tasks, worth a cluster."""

    spec: type
    run: Callable[[Context, Any], Any]
    summary: str
    on_tasks: bool = False


def _write(context: Context, spec: Write) -> Any:
    name = CommitName(
        context.commit_user, watermark=spec.watermark, properties=spec.properties, earlier_user=context.earlier_user
    )
    return write(context.table, spec, context.executor, name=name, on_progress=context.on_progress)


def _on_tasks(run: Callable[..., Any]) -> Callable[[Context, Any], Any]:
    """An action whose work runs as tasks and ends in commits."""

    def call(context: Context, spec: Any) -> Any:
        user = context.commit_user
        return run(context.table, spec, context.executor, commit_user=user, on_progress=context.on_progress)

    return call


ACTIONS: Final[Mapping[str, ActionInfo]] = {
    "write": ActionInfo(Write, _write, "append, upsert or overwrite rows from files", on_tasks=True),
    "compact": ActionInfo(Compact, _on_tasks(compact), "merge small files and sorted runs", on_tasks=True),
    "cluster": ActionInfo(
        Cluster, _on_tasks(cluster), "order rows of append tables by columns that are filtered", on_tasks=True
    ),
    "delete_rows": ActionInfo(
        DeleteRows, _on_tasks(delete_rows), "delete rows that match, by deletion vectors", on_tasks=True
    ),
    "rescale": ActionInfo(
        Rescale, _on_tasks(rescale), "bring partitions to the table's number of buckets", on_tasks=True
    ),
    "rewrite_file_index": ActionInfo(
        RewriteFileIndex,
        _on_tasks(rewrite_file_index),
        "give data files the indexes that options ask for",
        on_tasks=True,
    ),
    "compact_manifests": ActionInfo(
        CompactManifests,
        lambda c, s: compact_manifests(c.table, s, commit_user=c.commit_user),
        "rewrite the lists of files to few large ones",
    ),
    "analyze": ActionInfo(Analyze, _on_tasks(analyze), "compute statistics of rows and columns", on_tasks=True),
    "create_tag": ActionInfo(CreateTag, lambda c, s: create_tag(c.table, s, c.executor), "name a snapshot and keep it"),
    "delete_tag": ActionInfo(DeleteTag, lambda c, s: delete_tag(c.table, s, c.executor), "delete a tag and its files"),
    "expire_snapshots": ActionInfo(
        ExpireSnapshots,
        lambda c, s: expire_snapshots(c.table, s, c.executor, on_progress=c.on_progress),
        "delete old snapshots and their files",
    ),
    "expire_changelogs": ActionInfo(
        ExpireChangelogs,
        lambda c, s: expire_changelogs(c.table, s, c.executor),
        "delete old changelogs of expired snapshots",
    ),
    "rollback": ActionInfo(
        Rollback, lambda c, s: rollback(c.table, s, c.executor), "make an earlier snapshot or tag the latest"
    ),
    "alter_table": ActionInfo(
        AlterTable, lambda c, s: alter_table(c.table, s, may_repeat=True), "change columns, options or comments"
    ),
    "remove_orphan_files": ActionInfo(
        RemoveOrphanFiles,
        lambda c, s: remove_orphan_files(c.table, s, c.executor),
        "delete old files that nothing names",
    ),
    "restore": ActionInfo(Restore, lambda c, s: restore(c.table, s, c.executor), "bring back what was moved aside"),
    "empty_quarantine": ActionInfo(
        EmptyQuarantine, lambda c, s: empty_quarantine(c.table, s), "delete for good what was moved aside"
    ),
    "purge_files": ActionInfo(
        PurgeFiles,
        lambda c, s: purge_files(c.table, s, c.executor, commit_user=c.commit_user),
        "empty a table and delete all that it has been",
    ),
    "remove_unexisting_files": ActionInfo(
        RemoveUnexistingFiles,
        lambda c, s: remove_unexisting_files(c.table, s, c.executor, commit_user=c.commit_user),
        "take data files that are gone out of the lists",
    ),
    "remove_unexisting_manifests": ActionInfo(
        RemoveUnexistingManifests,
        lambda c, s: remove_unexisting_manifests(c.table, s, commit_user=c.commit_user),
        "take manifests that are gone out of the lists",
    ),
    "repair_earliest_snapshot": ActionInfo(
        RepairEarliestSnapshot,
        lambda c, s: repair_earliest_snapshot(c.table, s, c.executor),
        "mend a row of snapshots with gaps",
    ),
    "verify": ActionInfo(
        Verify,
        lambda c, s: verify(c.table, s, c.executor, on_progress=c.on_progress),
        "check that a table is whole",
        on_tasks=True,
    ),
    "drop_partition": ActionInfo(
        DropPartition, lambda c, s: drop_partition(c.table, s, commit_user=c.commit_user), "drop named partitions"
    ),
    "expire_partitions": ActionInfo(
        ExpirePartitions,
        lambda c, s: expire_partitions(c.table, s, commit_user=c.commit_user),
        "drop partitions that are too old",
    ),
    "mark_partition_done": ActionInfo(
        MarkPartitionDone, lambda c, s: mark_partition_done(c.table, s), "tell that partitions are complete"
    ),
    "rename_tag": ActionInfo(RenameTag, lambda c, s: rename_tag(c.table, s), "give a tag another name"),
    "create_due_tags": ActionInfo(
        CreateDueTags, lambda c, s: create_due_tags(c.table, s, c.executor), "make the tags that the options ask for"
    ),
    "expire_tags": ActionInfo(
        ExpireTags, lambda c, s: expire_tags(c.table, s, c.executor), "delete tags whose time is over"
    ),
    "rollback_to_as_latest": ActionInfo(
        RollbackToAsLatest,
        lambda c, s: rollback_to_as_latest(c.table, s, commit_user=c.commit_user),
        "make a new snapshot of an earlier one",
    ),
    "create_branch": ActionInfo(CreateBranch, lambda c, s: create_branch(c.table, s), "make a branch"),
    "delete_branch": ActionInfo(
        DeleteBranch, lambda c, s: delete_branch(c.table, s, c.executor), "delete a branch and its files"
    ),
    "rename_branch": ActionInfo(RenameBranch, lambda c, s: rename_branch(c.table, s), "give a branch another name"),
    "fast_forward": ActionInfo(
        FastForward, lambda c, s: fast_forward(c.table, s, c.executor), "make main what a branch is"
    ),
    "merge_branch": ActionInfo(
        MergeBranch,
        lambda c, s: merge_branch(c.table, s, commit_user=c.commit_user),
        "bring what a branch has changed into the table",
    ),
    "reset_consumer": ActionInfo(ResetConsumer, lambda c, s: reset_consumer(c.table, s), "move or forget a consumer"),
    "clear_consumers": ActionInfo(
        ClearConsumers, lambda c, s: clear_consumers(c.table, s), "forget consumers by their names"
    ),
    "expire_consumers": ActionInfo(
        ExpireConsumers, lambda c, s: expire_consumers(c.table, s), "forget consumers by their age"
    ),
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
    """Name of an action's spec."""
    return next(name for name, info in ACTIONS.items() if isinstance(action, info.spec))
