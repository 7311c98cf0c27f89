"""Compact a chain table: write what its partitions are made of as complete partitions.

1. Each partition is read as readers of the table see it: the last complete partition before it, and all changes since.
2. Its rows are written to the branch of complete partitions, in one OVERWRITE commit. It applies only if these still
   have the files that were seen, so that nothing is lost that others wrote there meanwhile.
3. If an overwrite has replaced changes of the same partitions meanwhile, which makes complete ones outdated, they are
   dropped again.

Source: `CompactChainTableProcedure` of the Java library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from paimon_engine.action import Context, Result, action
from paimon_engine.errors import ConflictError, InvalidArgumentError, NotFoundError
from paimon_engine.meta.commit_identifier import Maker, identifier_of
from paimon_engine.meta.files_beside import rows_in
from paimon_engine.meta.snapshot import CommitKind, Snapshot
from paimon_engine.specs import DryRun, PartitionValues, Spec
from paimon_engine.table.commit.abort import all_messages, commit_or_delete, interruptible
from paimon_engine.table.commit.commit import CommitRequest, Committed, Conflict, OverwriteScope, commit
from paimon_engine.table.commit.job_commit import JobCommit, conflict_error, look_up_commit
from paimon_engine.table.commit.own_files import WorkBegun, work_begins
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.read.chain_table import (
    ChainBranches,
    chain_branches,
    chain_state,
    merged_splits,
)
from paimon_engine.table.read.read_plan import ReadPart, ReadPlan
from paimon_engine.table.read.reader import RowSelection, check_rows
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import delta_entries
from paimon_engine.table.state.partitions import live_partitions, matching, resolve_partition_spec, texts_of_key
from paimon_engine.table.state.snapshots import latest_snapshot, read_snapshot
from paimon_engine.table.write.source_table import SourceTable, plan_table, write_units
from paimon_engine.table.write.writer import write_state


@dataclass(frozen=True, slots=True)
class CompactChainTable(Spec):
    """Make partitions of a chain table complete: those that have changes and equal one of `partitions`.

    Those that are complete already are left, or with `rebuild` made again of an earlier one and the changes since.
    """

    partitions: Annotated[
        Sequence[PartitionValues], "values by column, all of the columns or some: day=2013-01-01,hour=5"
    ]
    rebuild: Annotated[bool, "make those that are complete already again"] = False
    dry_run: DryRun = False


@dataclass(frozen=True, slots=True)
class CompactChainTableResult(Result):
    """What was made complete; `status` is `committed`, `already_done`, `noop` or `dry_run` (then: what would be).

    `branch_snapshot_id` is one of the branch of complete partitions. `partitions` are values by column, as text, `kept`
    those that were complete already. `bytes_read` is the size of the files that were merged.
    """

    status: str
    branch_snapshot_id: int | None = None
    partitions: tuple[Mapping[str, str | None], ...] = ()
    kept: tuple[Mapping[str, str | None], ...] = ()
    rows: int = 0
    files: int = 0
    bytes: int = 0
    bytes_read: int = 0
    seconds: float = 0.0


@action
def compact_chain_table(context: Context, spec: CompactChainTable) -> CompactChainTableResult:
    """Compacts; with a `commit_user` once, however often it is called. Partitions without changes are fine.

    Raises: UnsupportedError for other tables; InvalidArgumentError for a column that is not a partition column, or a
    value that does not fit its type; ConflictError if others changed the partitions meanwhile; StorageError.
    """
    chain = chain_branches(context.table)
    number = identifier_of(Maker.COMPACT_CHAIN_TABLE)
    job = look_up_commit(chain.complete, context.commit_user, CommitKind.OVERWRITE, number, search=not spec.dry_run)
    if job.done is not None:
        return CompactChainTableResult("already_done", job.done.id)
    with context.phases("plan"):
        plan = _plan(chain, spec)
    kept = tuple(texts_of_key(chain.delta, key) for key in plan.kept)
    if spec.dry_run or not plan.partitions:
        return CompactChainTableResult(
            status="dry_run" if plan.partitions else "noop",
            partitions=tuple(texts_of_key(chain.delta, key) for key in plan.partitions),
            kept=kept,
            bytes_read=plan.source.size_bytes,
        )
    begun = work_begins(chain.complete, plan.complete_snapshot)
    written = _write(context, chain.complete, plan)
    with context.phases("commit"):
        outcome = _commit(chain, plan, job, written, begun)
    done = CompactChainTableResult(outcome.status, outcome.snapshot.id)
    if outcome.by_other_attempt:
        return done
    files = [file for message in written for file in message.new_files]
    return replace(
        done,
        partitions=tuple(texts_of_key(chain.delta, key) for key in plan.partitions),
        kept=kept,
        rows=rows_in(files),
        files=len(files),
        bytes=sum(file.size_bytes for file in files),
        bytes_read=plan.source.size_bytes,
    )


def planned_bytes(table: TableHandle, spec: CompactChainTable) -> int:
    """Bytes of the files that would be merged now, from metadata alone.

    Raises: as `compact_chain_table`, where it plans.
    """
    return _plan(chain_branches(table), spec).source.size_bytes


# ── planning ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _ChainPlan:
    """The partitions to make complete, those that stay, and what is read; `seen` are the files that are replaced."""

    partitions: tuple[bytes, ...]
    kept: tuple[bytes, ...]
    source: SourceTable
    seen: frozenset[str]
    complete_snapshot: Snapshot | None
    delta_snapshot: Snapshot | None


def _plan(chain: ChainBranches, spec: CompactChainTable) -> _ChainPlan:
    """What the branches have now. Raises: as `compact_chain_table`."""
    if not spec.partitions:
        raise InvalidArgumentError("name the partitions to make complete: a list of {column: value}")
    both = chain_state(chain)
    live = live_partitions(chain.delta, both.delta_snapshot)
    named = matching(chain.delta, live, [resolve_partition_spec(chain.delta, live, one) for one in spec.partitions])
    keys = sorted(item.key for item in named)
    chosen = tuple(key for key in keys if spec.rebuild or key not in both.complete)
    splits = merged_splits(chain, both.complete, both.delta, chosen)
    rows = RowSelection()
    schema = check_rows(chain.delta, rows)
    read = ReadPlan(schema, (ReadPart(chain.delta, rows, splits),))
    source = SourceTable(chain.delta.paths.root, read, chain.delta.schema.row_type, None)
    seen = frozenset(entry.file.name for key in chosen for entry in both.complete.get(key, ()))
    kept = tuple(key for key in keys if key not in chosen)
    return _ChainPlan(chosen, kept, source, seen, both.complete_snapshot, both.delta_snapshot)


# ── writing ─────────────────────────────────────────────────────────────────────────────────────


def _write(context: Context, complete: TableHandle, plan: _ChainPlan) -> list[CommitMessage]:
    tasks = plan_table(complete, write_state(complete, replacing=True), plan.source, None)
    with interruptible(complete):
        outcomes = replace(context, table=complete).run_tasks("merge", write_units, tasks)
    return all_messages(complete, outcomes)


def _commit(
    chain: ChainBranches, plan: _ChainPlan, job: JobCommit, written: list[CommitMessage], begun: WorkBegun
) -> Committed:
    """Commits, unless others changed the partitions; takes the rows back if their changes are overwritten by now."""
    complete = chain.complete
    scope = OverwriteScope(partitions=frozenset(plan.partitions), seen=plan.seen)
    request = replace(job.request(written), overwrite=scope, begun=begun)
    outcome = commit_or_delete(complete, request)
    if isinstance(outcome, Conflict):
        raise conflict_error(complete, outcome, "others made the partitions complete meanwhile, run it again")
    if outcome.by_other_attempt:
        return outcome
    outdated = _overwritten_since(chain.delta, plan.delta_snapshot) & frozenset(plan.partitions)
    if outdated:
        ours = frozenset(file.name for message in written for file in message.new_files)
        scope = OverwriteScope(partitions=frozenset(outdated), seen=ours)
        request = CommitRequest([], CommitKind.OVERWRITE, complete.env.new_id(), overwrite=scope)
        is_dropped = isinstance(commit(complete, request), Committed)
        remedy = "it was dropped again; run it again" if is_dropped else "others rewrote it: run it again with rebuild"
        raise ConflictError(
            f"{complete.paths.root}: others overwrote the changes of {texts_of_key(complete, min(outdated))} while it "
            f"was made complete; {remedy}"
        )
    return outcome


def _overwritten_since(delta: TableHandle, seen: Snapshot | None) -> frozenset[bytes]:
    """Partitions whose changes were overwritten by snapshots after the one that was seen.

    What has expired since is not known, and nothing is said about it.
    """
    latest = latest_snapshot(delta)
    found: set[bytes] = set()
    for number in range(seen.id + 1 if seen else 1, latest.id + 1 if latest else 1):
        try:
            snapshot = read_snapshot(delta, number)
            if snapshot.commit_kind is CommitKind.OVERWRITE:
                found.update(entry.partition for entry in delta_entries(delta, snapshot))
        except NotFoundError:
            continue
    return frozenset(found)
