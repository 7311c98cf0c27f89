"""The verbs of `Table` that maintain it: compaction, indexes, statistics, expiry, clean-up, checks.

Each verb is one call of an action.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from paimon_engine import actions
from paimon_engine.predicate import Condition
from paimon_engine.progress import OnProgress
from paimon_engine.verbs import DurationLike, MomentLike, SizeLike, Verbs

if TYPE_CHECKING:
    from paimon_engine.table.removal.file_removal import DisposalWords


class MaintenanceVerbs(Verbs):
    """What keeps a `Table` healthy."""

    def compact(
        self,
        full: bool = False,  # noqa: FBT001, FBT002 - reads well as compact(full=True), and is in use so
        where: str | Condition | None = None,
        *,
        dry_run: bool = False,
        buckets: Sequence[int] | None = None,
        partition_idle_time: DurationLike | None = None,
        max_bytes: SizeLike | None = None,
        max_buckets: int | None = None,
        max_seconds: float | None = None,
        round_bytes: SizeLike | None = None,
        task_bytes: SizeLike | None = None,
        task_memory_bytes: SizeLike | None = None,
        commit_user: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> actions.compact.CompactResult:
        """Merges sorted runs (small files on append tables); `full` takes everything to the highest level.

        `where` chooses partitions, `partition_idle_time`, such as `1 d`, those to which nothing was written for so
        long, `buckets` numbers of buckets. With `max_bytes` of files to rewrite, `max_buckets` or `max_seconds` the
        buckets that cost readers most are done, in commits of about `round_bytes`, and `buckets_left` in the result
        says how many another run finds work in, unless `max_bytes` is too small for any (`status` is `noop`). A bucket
        is split into tasks of about `task_bytes`, each of which merges in about `task_memory_bytes`; see `Compact`.

        The result has files, bytes, rows and read amplification before and after, per bucket, and why buckets were
        skipped; a dry run plans the same and writes nothing.

        Raises: UnsupportedError, InvalidArgumentError, ConflictError, StorageError.
        """
        return self._act(actions.compact.compact, actions.compact.Compact, locals())

    def compact_chain_table(
        self,
        *partitions: Mapping[str, Any],
        rebuild: bool = False,
        dry_run: bool = False,
        commit_user: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> actions.compact_chain_table.CompactChainTableResult:
        """Makes partitions of a chain table complete: values by column, all of the columns or some of them.

        The rows that readers see there, the last complete partition before it and all changes since, are written to the
        branch of complete partitions. Those that are complete already are left, or with `rebuild` made again.

        Raises: UnsupportedError for other tables, InvalidArgumentError, ConflictError, StorageError.
        """
        given = locals()
        chain = actions.compact_chain_table
        return self._act(chain.compact_chain_table, chain.CompactChainTable, given)

    def cluster(
        self,
        columns: str | Sequence[str] | None = None,
        *,
        order: str | None = None,
        where: str | Condition | None = None,
        dry_run: bool = False,
        partition_idle_time: DurationLike | None = None,
        max_bytes: SizeLike | None = None,
        round_bytes: SizeLike | None = None,
        target_file_bytes: SizeLike | None = None,
        task_bytes: SizeLike | None = None,
        task_memory_bytes: SizeLike | None = None,
        commit_user: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> actions.cluster.ClusterResult:
        """Brings rows of an append table that are near each other in some columns into the same files.

        Filters on these columns then read few files. `order` is `order` (one column after another), `zorder` or
        `hilbert`; columns and order may come from the options `clustering.columns` and `clustering.strategy`. Rows
        that others insert meanwhile are not changed, and rows deleted by vectors are removed; see `Cluster`.

        Raises: UnsupportedError, InvalidArgumentError, ConflictError, StorageError.
        """
        return self._act(actions.cluster.cluster, actions.cluster.Cluster, locals())

    def delete(
        self,
        where: str | Condition,
        *,
        commit_user: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> actions.delete_rows.DeleteRowsResult:
        """Deletes the rows of an append table with deletion vectors that match; no data file is rewritten.

        Rows of primary-key tables are deleted by writing them with the kind -D.

        Raises: UnsupportedError, InvalidArgumentError, ConflictError, StorageError.
        """
        return self._act(actions.delete_rows.delete_rows, actions.delete_rows.DeleteRows, locals())

    def rescale(
        self,
        where: str | Condition | None = None,
        *,
        dry_run: bool = False,
        commit_user: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> actions.rescale.RescaleResult:
        """Gives all partitions, or those that `where` chooses, as many buckets as the option `bucket` says by now.

        Their files are written again in one OVERWRITE commit, which conflicts with what others write meanwhile.

        Raises: UnsupportedError, ConflictError, StorageError.
        """
        return self._act(actions.rescale.rescale, actions.rescale.Rescale, locals())

    def rewrite_file_index(
        self,
        where: str | Condition | None = None,
        *,
        rebuild: bool = False,
        dry_run: bool = False,
        commit_user: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> actions.rewrite_file_index.RewriteFileIndexResult:
        """Gives data files the indexes that `file-index.<type>.columns` require now; no data is rewritten.

        `where` chooses partitions. Files that have exactly these indexes are left, unless `rebuild` is set.

        Raises: InvalidArgumentError, UnsupportedError, ConflictError, StorageError.
        """
        return self._act(
            actions.rewrite_file_index.rewrite_file_index, actions.rewrite_file_index.RewriteFileIndex, locals()
        )

    def compact_manifests(
        self,
        dry_run: bool = False,  # noqa: FBT001, FBT002 - reads well as compact_manifests(dry_run=True)
        *,
        commit_user: str | None = None,
    ) -> actions.compact_manifests.CompactManifestsResult:
        """Rewrites the lists of the table's files to few large ones; no data file is touched.

        The result has manifests, bytes and entries before and after; a dry run plans the same and writes nothing.

        Raises: UnsupportedError, ConflictError, StorageError.
        """
        return self._act(
            actions.compact_manifests.compact_manifests, actions.compact_manifests.CompactManifests, locals()
        )

    def analyze(
        self,
        columns: Sequence[str] | None = None,
        *,
        commit_user: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> actions.analyze.AnalyzeResult:
        """Counts the rows and gathers statistics of these columns, for query planners; a snapshot names them.

        All columns that are not nested by default; `columns=[]` counts rows only. The system table `$statistics`
        shows what was found. Beyond 65,535 distinct values their count is an estimate.

        Raises: InvalidArgumentError for a missing or nested column; UnsupportedError, ConflictError, StorageError.
        """
        return self._act(actions.analyze.analyze, actions.analyze.Analyze, locals())

    def expire_snapshots(
        self,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: MomentLike | None = None,
        dry_run: bool = False,  # noqa: FBT001, FBT002 - reads well as expire_snapshots(dry_run=True), and is in use so
        *,
        limit: int | None = None,
        max_seconds: float | None = None,
        on_progress: OnProgress | None = None,
        **how: Unpack[DisposalWords],
    ) -> actions.expire_snapshots.ExpireResult:
        """Deletes old snapshots and the files that nothing else needs: tags, branches and consumers keep theirs.

        `older_than` is epoch milliseconds, a datetime, or an age such as `7 d`; what is not given comes from the
        table's options. Where these (`changelog.num-retained.min`, `.max`, `changelog.time-retained`) keep
        changelogs longer, the snapshots leave theirs, and changelogs whose time to live has ended are deleted.

        All that may expire expires, in rounds, of which none begins after `max_seconds`; at most `limit` snapshots, or
        as many as the table's option `snapshot.expire.limit` says. `remaining` of the result counts those that are
        left.

        Raises: InvalidArgumentError, UnsupportedError, StorageError.
        """
        return self._act(actions.expire_snapshots.expire_snapshots, actions.expire_snapshots.ExpireSnapshots, locals())

    def expire_changelogs(
        self,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: MomentLike | None = None,
        *,
        limit: int | None = None,
        delete_all: bool = False,
        dry_run: bool = False,
        **how: Unpack[DisposalWords],
    ) -> actions.expire_changelogs.ExpireChangelogsResult:
        """Deletes old changelogs of expired snapshots, and the files that nothing else needs.

        `retain_max` and `retain_min` count snapshots, too; `older_than` is epoch milliseconds, a datetime, or an age
        such as `7 d`; what is not given comes from the table's options. The newest changelog stays, unless `delete_all`
        takes all of them. Consumers keep what they have not read.

        Raises: InvalidArgumentError, UnsupportedError, StorageError.
        """
        return self._act(
            actions.expire_changelogs.expire_changelogs, actions.expire_changelogs.ExpireChangelogs, locals()
        )

    def drop_partition(
        self, *partitions: Mapping[str, Any], dry_run: bool = False, commit_user: str | None = None
    ) -> actions.drop_partition.DropPartitionResult:
        """Drops the partitions that equal one of those: values by column, all of the columns or some of them.

        They go with all that is in them at the commit, rows that others wrote meanwhile too.

        Raises: InvalidArgumentError, ConflictError, StorageError.
        """
        return self._act(actions.drop_partition.drop_partition, actions.drop_partition.DropPartition, locals())

    def expire_partitions(
        self,
        expiration_time: DurationLike | None = None,
        *,
        strategy: str | None = None,
        timestamp_pattern: str | None = None,
        timestamp_formatter: str | None = None,
        max_num: int | None = None,
        dry_run: bool = False,
        commit_user: str | None = None,
    ) -> actions.drop_partition.DropPartitionResult:
        """Drops the partitions older than `expiration_time`; what is not given comes from the options `partition.*`.

        Partitions whose values mean no time are kept; `stopped` of the result names them. With the strategy
        `update-time` a partition that gets rows meanwhile stays; by the time of its values it is dropped with them.

        Raises: InvalidArgumentError, UnsupportedError, ConflictError, StorageError.
        """
        return self._act(actions.drop_partition.expire_partitions, actions.drop_partition.ExpirePartitions, locals())

    def mark_partition_done(
        self, *partitions: Mapping[str, Any], dry_run: bool = False
    ) -> actions.mark_partition_done.MarkPartitionDoneResult:
        """Notifies others that partitions are complete, in the ways that the option `partition.mark-done-action` lists.

        By default a `_SUCCESS` file in the directory of each; each needs a value for every column.

        Raises: InvalidArgumentError, UnsupportedError, StorageError.
        """
        return self._act(
            actions.mark_partition_done.mark_partition_done, actions.mark_partition_done.MarkPartitionDone, locals()
        )

    def compatibility(self) -> actions.compatibility.CompatibilityResult:
        """Which engines read the latest snapshot right, wrongly, or not at all, why, and what to change.

        Raises: NotFoundError, CorruptTableError if metadata cannot be read; StorageError.
        """
        return self._act(actions.compatibility.compatibility, actions.compatibility.Compatibility, locals())

    def verify(self, depth: str = "files", *, on_progress: OnProgress | None = None) -> actions.verify.VerifyResult:
        """Checks that the table is valid; `problems` of the result is empty if it is. Nothing is written.

        `depth` is `metadata`, `files` (also that data files exist, with their size, indexes and deletion vectors)
        or `rows` (also the order, key ranges and statistics of all rows).

        Raises: InvalidArgumentError for another depth; StorageError.
        """
        return self._act(actions.verify.verify, actions.verify.Verify, locals())
