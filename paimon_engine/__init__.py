"""Apache Paimon tables in Python: read, write, compact, tag, expire, roll back; no Paimon, Flink or Hadoop jar.

Public names are imported when they are first used: a DAG file or `--help` should not wait for Arrow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from paimon_engine.actions.alter_table import AlterResult, AlterTable
    from paimon_engine.actions.analyze import Analyze, AnalyzeResult
    from paimon_engine.actions.branches import BranchResult, CreateBranch, DeleteBranch, FastForward, RenameBranch
    from paimon_engine.actions.cluster import Cluster, ClusterResult
    from paimon_engine.actions.commit import AbortResult, CommitResult
    from paimon_engine.actions.compact import Compact, CompactResult
    from paimon_engine.actions.compact_chain_table import CompactChainTable, CompactChainTableResult
    from paimon_engine.actions.compact_manifests import CompactManifests, CompactManifestsResult
    from paimon_engine.actions.compatibility import Compatibility, CompatibilityResult
    from paimon_engine.actions.consumers import ClearConsumers, ConsumersResult, ExpireConsumers, ResetConsumer
    from paimon_engine.actions.create_day_tags import CreateDayTags, DayTagsResult
    from paimon_engine.actions.create_due_tags import CreateDueTags, DueTagsResult
    from paimon_engine.actions.create_table import CreateTable, CreateTableResult
    from paimon_engine.actions.delete_rows import DeleteRows, DeleteRowsResult
    from paimon_engine.actions.drop_partition import DropPartition, DropPartitionResult, ExpirePartitions
    from paimon_engine.actions.expire_changelogs import ExpireChangelogs, ExpireChangelogsResult
    from paimon_engine.actions.expire_snapshots import ExpireResult, ExpireSnapshots
    from paimon_engine.actions.expire_tags import ExpireTags, ExpireTagsResult
    from paimon_engine.actions.export_files import ExportFiles, ExportResult
    from paimon_engine.actions.mark_partition_done import MarkPartitionDone, MarkPartitionDoneResult
    from paimon_engine.actions.merge_branch import MergeBranch, MergeBranchResult
    from paimon_engine.actions.purge_files import PurgeFiles, PurgeFilesResult
    from paimon_engine.actions.remove_orphan_files import RemoveOrphanFiles, RemoveOrphanFilesResult
    from paimon_engine.actions.remove_unexisting_files import RemoveUnexistingFiles, RemoveUnexistingFilesResult
    from paimon_engine.actions.remove_unexisting_manifests import (
        RemoveUnexistingManifests,
        RemoveUnexistingManifestsResult,
    )
    from paimon_engine.actions.repair_earliest_snapshot import RepairEarliestSnapshot, RepairEarliestSnapshotResult
    from paimon_engine.actions.rescale import Rescale, RescaleResult
    from paimon_engine.actions.restore import EmptyQuarantine, EmptyQuarantineResult, Restore, RestoreResult
    from paimon_engine.actions.rewrite_file_index import RewriteFileIndex, RewriteFileIndexResult
    from paimon_engine.actions.rollback import Rollback, RollbackResult
    from paimon_engine.actions.rollback_to_as_latest import RollbackToAsLatest, RollbackToAsLatestResult
    from paimon_engine.actions.tags import CreateTag, DeleteTag, DeleteTagResult, RenameTag, TagResult
    from paimon_engine.actions.update_columns import UpdateColumnsResult
    from paimon_engine.actions.verify import Verify, VerifyResult
    from paimon_engine.actions.write import Write, WriteResult
    from paimon_engine.api import Table
    from paimon_engine.catalog import Catalog, open_table
    from paimon_engine.env import EnvConfig
    from paimon_engine.errors import (
        AlreadyExistsError,
        CallbackError,
        ConflictError,
        CorruptTableError,
        InsufficientMemoryError,
        InvalidArgumentError,
        NotFoundError,
        OutcomeUnknownError,
        PaimonError,
        SparkError,
        StorageError,
        UnsupportedError,
    )
    from paimon_engine.executor import Executor, LocalExecutor
    from paimon_engine.inspect.doctor import Finding, examine_programs
    from paimon_engine.inspect.waits import Wait, read_wait
    from paimon_engine.meta.schema import TableSchema
    from paimon_engine.meta.schema_change import (
        AddColumn,
        DropColumn,
        MoveColumn,
        RemoveOption,
        RenameColumn,
        SetOption,
        UpdateColumnComment,
        UpdateColumnDefault,
        UpdateColumnNullability,
        UpdateColumnType,
        UpdateComment,
    )
    from paimon_engine.predicate import Condition, col
    from paimon_engine.progress import Progress
    from paimon_engine.storage import MemoryStorage
    from paimon_engine.table.branches_tags.tag_callbacks import TagCallback, TagEvent
    from paimon_engine.table.commit.commit_callbacks import CommitCallback, CommitEvent
    from paimon_engine.table.files.commit_message import CommitMessage
    from paimon_engine.types import RowType

__all__ = [
    "AbortResult",
    "AddColumn",
    "AlreadyExistsError",
    "AlterResult",
    "AlterTable",
    "Analyze",
    "AnalyzeResult",
    "BranchResult",
    "CallbackError",
    "Catalog",
    "ClearConsumers",
    "Cluster",
    "ClusterResult",
    "CommitCallback",
    "CommitEvent",
    "CommitMessage",
    "CommitResult",
    "Compact",
    "CompactChainTable",
    "CompactChainTableResult",
    "CompactManifests",
    "CompactManifestsResult",
    "CompactResult",
    "Compatibility",
    "CompatibilityResult",
    "Condition",
    "ConflictError",
    "ConsumersResult",
    "CorruptTableError",
    "CreateBranch",
    "CreateDayTags",
    "CreateDueTags",
    "CreateTable",
    "CreateTableResult",
    "CreateTag",
    "DayTagsResult",
    "DeleteBranch",
    "DeleteRows",
    "DeleteRowsResult",
    "DeleteTag",
    "DeleteTagResult",
    "DropColumn",
    "DropPartition",
    "DropPartitionResult",
    "DueTagsResult",
    "EmptyQuarantine",
    "EmptyQuarantineResult",
    "EnvConfig",
    "Executor",
    "ExpireChangelogs",
    "ExpireChangelogsResult",
    "ExpireConsumers",
    "ExpirePartitions",
    "ExpireResult",
    "ExpireSnapshots",
    "ExpireTags",
    "ExpireTagsResult",
    "ExportFiles",
    "ExportResult",
    "FastForward",
    "Finding",
    "InsufficientMemoryError",
    "InvalidArgumentError",
    "LocalExecutor",
    "MarkPartitionDone",
    "MarkPartitionDoneResult",
    "MemoryStorage",
    "MergeBranch",
    "MergeBranchResult",
    "MoveColumn",
    "NotFoundError",
    "OutcomeUnknownError",
    "PaimonError",
    "Progress",
    "PurgeFiles",
    "PurgeFilesResult",
    "RemoveOption",
    "RemoveOrphanFiles",
    "RemoveOrphanFilesResult",
    "RemoveUnexistingFiles",
    "RemoveUnexistingFilesResult",
    "RemoveUnexistingManifests",
    "RemoveUnexistingManifestsResult",
    "RenameBranch",
    "RenameColumn",
    "RenameTag",
    "RepairEarliestSnapshot",
    "RepairEarliestSnapshotResult",
    "Rescale",
    "RescaleResult",
    "ResetConsumer",
    "Restore",
    "RestoreResult",
    "RewriteFileIndex",
    "RewriteFileIndexResult",
    "Rollback",
    "RollbackResult",
    "RollbackToAsLatest",
    "RollbackToAsLatestResult",
    "RowType",
    "SetOption",
    "SparkError",
    "StorageError",
    "Table",
    "TableSchema",
    "TagCallback",
    "TagEvent",
    "TagResult",
    "UnsupportedError",
    "UpdateColumnComment",
    "UpdateColumnDefault",
    "UpdateColumnNullability",
    "UpdateColumnType",
    "UpdateColumnsResult",
    "UpdateComment",
    "Verify",
    "VerifyResult",
    "Wait",
    "Write",
    "WriteResult",
    "col",
    "examine_programs",
    "open_table",
    "read_wait",
]

_MODULES: Final = {
    "actions.alter_table": ("AlterResult", "AlterTable"),
    "actions.analyze": ("Analyze", "AnalyzeResult"),
    "actions.branches": ("BranchResult", "CreateBranch", "DeleteBranch", "FastForward", "RenameBranch"),
    "actions.cluster": ("Cluster", "ClusterResult"),
    "actions.commit": ("AbortResult", "CommitResult"),
    "actions.compact": ("Compact", "CompactResult"),
    "actions.compact_chain_table": ("CompactChainTable", "CompactChainTableResult"),
    "actions.compact_manifests": ("CompactManifests", "CompactManifestsResult"),
    "actions.compatibility": ("Compatibility", "CompatibilityResult"),
    "actions.consumers": ("ClearConsumers", "ConsumersResult", "ExpireConsumers", "ResetConsumer"),
    "actions.create_day_tags": ("CreateDayTags", "DayTagsResult"),
    "actions.create_due_tags": ("CreateDueTags", "DueTagsResult"),
    "actions.create_table": ("CreateTable", "CreateTableResult"),
    "actions.delete_rows": ("DeleteRows", "DeleteRowsResult"),
    "actions.drop_partition": ("DropPartition", "DropPartitionResult", "ExpirePartitions"),
    "actions.expire_changelogs": ("ExpireChangelogs", "ExpireChangelogsResult"),
    "actions.expire_snapshots": ("ExpireResult", "ExpireSnapshots"),
    "actions.expire_tags": ("ExpireTags", "ExpireTagsResult"),
    "actions.export_files": ("ExportFiles", "ExportResult"),
    "actions.mark_partition_done": ("MarkPartitionDone", "MarkPartitionDoneResult"),
    "actions.merge_branch": ("MergeBranch", "MergeBranchResult"),
    "actions.purge_files": ("PurgeFiles", "PurgeFilesResult"),
    "actions.remove_orphan_files": ("RemoveOrphanFiles", "RemoveOrphanFilesResult"),
    "actions.remove_unexisting_files": ("RemoveUnexistingFiles", "RemoveUnexistingFilesResult"),
    "actions.remove_unexisting_manifests": ("RemoveUnexistingManifests", "RemoveUnexistingManifestsResult"),
    "actions.repair_earliest_snapshot": ("RepairEarliestSnapshot", "RepairEarliestSnapshotResult"),
    "actions.rescale": ("Rescale", "RescaleResult"),
    "actions.restore": ("EmptyQuarantine", "EmptyQuarantineResult", "Restore", "RestoreResult"),
    "actions.rewrite_file_index": ("RewriteFileIndex", "RewriteFileIndexResult"),
    "actions.rollback": ("Rollback", "RollbackResult"),
    "actions.rollback_to_as_latest": ("RollbackToAsLatest", "RollbackToAsLatestResult"),
    "actions.tags": ("CreateTag", "DeleteTag", "DeleteTagResult", "RenameTag", "TagResult"),
    "actions.update_columns": ("UpdateColumnsResult",),
    "actions.verify": ("Verify", "VerifyResult"),
    "actions.write": ("Write", "WriteResult"),
    "api": ("Table",),
    "catalog": ("Catalog", "open_table"),
    "env": ("EnvConfig",),
    "executor": ("Executor", "LocalExecutor"),
    "inspect.doctor": ("Finding", "examine_programs"),
    "inspect.waits": ("Wait", "read_wait"),
    "meta.schema": ("TableSchema",),
    "meta.schema_change": (
        "AddColumn",
        "DropColumn",
        "MoveColumn",
        "RemoveOption",
        "RenameColumn",
        "SetOption",
        "UpdateColumnComment",
        "UpdateColumnDefault",
        "UpdateColumnNullability",
        "UpdateColumnType",
        "UpdateComment",
    ),
    "predicate": ("Condition", "col"),
    "progress": ("Progress",),
    "storage": ("MemoryStorage",),
    "table.branches_tags.tag_callbacks": ("TagCallback", "TagEvent"),
    "table.commit.commit_callbacks": ("CommitCallback", "CommitEvent"),
    "table.files.commit_message": ("CommitMessage",),
    "types": ("RowType",),
}
_HOMES: Final = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """The public name, from its module."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Here, because a DAG file loads this package for its errors alone.
    from paimon_engine.collection import without_collection

    # Importing makes many objects that stay: searches for cycles among them took a tenth of the time.
    with without_collection():
        value = getattr(importlib.import_module(f"{__name__}.{_HOMES.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
