"""Merge a branch: apply its changes since its start, or since it was last merged, to the table in one commit.

1. The *base* is the state that both have had: the newest snapshot of the branch that is also one of the table's
   snapshots or tags, or the one up to which it was merged before. A branch with a separate history has none.
2. What the branch changed is the difference of its latest state from the base: data files added and removed, index
   files added and removed, and its changelog files in between.
3. Each changed *scope* is looked up in the table: a bucket; a complete partition where keys choose their bucket, or the
   number of buckets changed; all of the table where a key is unique over partitions. A scope in which the table has
   changed too is a conflict, and so is another number of buckets. Other additions to an append table conflict with
   nothing. A branch into which the table, or what was merged into the table, has been merged since is refused: rows
   of both could come twice.
4. One commit adds and removes the files, which both then share. It fails if others write in between, and the
   plan is made again.

A dry run is 1 to 3. The branch is not changed, and may be merged again when it has new snapshots; its tags are not
merged.

Source: `FileSystemBranchManager.mergeBranch` of the Java library, which merges append tables whose complete history
exists and has appends only. Here compactions, overwrites, deletions and primary keys merge too, where the table has
not changed the same buckets, and the histories may be incomplete.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final

from paimon_engine.action import Context, Result, action
from paimon_engine.errors import (
    ConflictError,
    InvalidArgumentError,
    NotFoundError,
)
from paimon_engine.format.binary_row import decode_row
from paimon_engine.meta.commit_identifier import Maker, identifier_of
from paimon_engine.meta.index_manifest import IndexFile
from paimon_engine.meta.manifest import ManifestEntry
from paimon_engine.meta.names import check_inside_directory
from paimon_engine.meta.row_tracking import without_first_row_id
from paimon_engine.meta.schema import BucketMode
from paimon_engine.meta.snapshot import CommitKind, Snapshot
from paimon_engine.specs import DryRun, Name, Spec
from paimon_engine.supported import check_rows_rewritable
from paimon_engine.table.branches_tags.branching import existing_branch, refuse_server
from paimon_engine.table.branches_tags.merges import (
    MERGED,
    commit_of,
    complete_markers,
    describe,
    kept_snapshots,
    merged_commits,
    merged_into_both,
    store_marker,
)
from paimon_engine.table.commit.commit import CommitRequest, Conflict, IndexRead, commit
from paimon_engine.table.commit.job_commit import JobCommit, look_up_commit
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import changelog_entries, live_entries, live_index_files, read_manifest_list
from paimon_engine.table.state.snapshots import (
    latest_snapshot,
    read_snapshot,
)

_ROUNDS_MAX: Final = 5
"""Times that the merge is planned again since others wrote meanwhile."""
_KINDS: Final = (CommitKind.APPEND, CommitKind.OVERWRITE)
_IDENTIFIER: Final = identifier_of(Maker.MERGE_BRANCH)
_CONFLICTS_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class MergeBranch(Spec):
    """Bring what the branch has changed into the table, or into the branch on which the table was opened."""

    branch: Annotated[Name, "name of the branch"]
    dry_run: DryRun = False


@dataclass(frozen=True, slots=True)
class MergeBranchResult(Result):
    """What was merged; `status` is `committed`, `already_done`, `noop` or `dry_run` (then: what would be).

    `base_snapshot` is that of the branch from which on it was merged, None for its complete history; `merged_snapshot`
    the one up to which it is now. `conflicts` of a dry run says why it could not be merged.
    """

    status: str
    branch: str
    snapshot_id: int | None = None
    base_snapshot: int | None = None
    merged_snapshot: int | None = None
    files_added: int = 0
    files_removed: int = 0
    rows_added: int = 0
    rows_removed: int = 0
    conflicts: tuple[str, ...] = ()
    seconds: float = 0.0


@action
def merge_branch(context: Context, spec: MergeBranch) -> MergeBranchResult:
    """Merges the branch; once for a `commit_user`. Safe to run concurrently with readers and writers of both.

    Raises: NotFoundError; InvalidArgumentError if it is the same branch, if columns differ, or if it is not known what
    both have in common; ConflictError naming what both have changed; UnsupportedError.
    """
    table = context.table
    refuse_server(table)
    check_inside_directory("branch", spec.branch)
    if spec.branch == table.paths.branch:
        raise InvalidArgumentError(f"{spec.branch!r} cannot be merged into itself")
    existing_branch(table, spec.branch)
    source = table.on_branch(spec.branch)
    jobs = {
        kind: look_up_commit(table, context.commit_user, kind, _IDENTIFIER, search=not spec.dry_run) for kind in _KINDS
    }
    if not spec.dry_run:
        complete_markers(table, source)
    for job in jobs.values():
        if job.done is not None:
            return MergeBranchResult("already_done", spec.branch, job.done.id)
    for _ in range(_ROUNDS_MAX):
        result = _round(table, source, spec, jobs)
        if result is not None:
            return result
    raise ConflictError(f"{table.paths.root}: others keep writing during the merge; run it again")


def _round(
    table: TableHandle, source: TableHandle, spec: MergeBranch, jobs: Mapping[CommitKind, JobCommit]
) -> MergeBranchResult | None:
    """The result, or None if others wrote meanwhile."""
    ours, theirs = latest_snapshot(table), latest_snapshot(source)
    if theirs is None:
        return MergeBranchResult("noop", spec.branch)
    base = _base(table, source, theirs)
    difference = _difference(source, base, theirs)
    changelog = [] if difference.is_empty else _changelog(table, source, base, theirs)
    _check_schemas(table, source, [*difference.added, *changelog])
    if table.options.row_tracking_enabled:
        check_rows_rewritable(table.options)
        difference = replace(difference, added=_with_other_ids(difference))
    result = MergeBranchResult(
        "noop" if difference.is_empty else "dry_run",
        spec.branch,
        None,
        None if base is None else base.id,
        theirs.id,
        len(difference.added),
        len(difference.removed),
        sum(entry.file.row_count for entry in difference.added),
        sum(entry.file.row_count for entry in difference.removed),
        (
            *merged_into_both(table, source, base),
            *_conflicts(table, source, difference, base, ours),
            *_misfits(table, difference, ours),
        ),
    )
    if difference.is_empty or spec.dry_run:
        return result
    if result.conflicts:
        more = len(result.conflicts) - _CONFLICTS_SHOWN
        some = "; ".join(result.conflicts[:_CONFLICTS_SHOWN]) + (f"; and {more} more" if more > 0 else "")
        raise ConflictError(f"branch {spec.branch!r} cannot be merged into {table.paths.root}: {some}")
    request = _request(table, difference, changelog, ours, jobs)
    described = {MERGED: describe(source, theirs)}
    outcome = commit(table, replace(request, watermark=theirs.watermark, properties=described))
    if isinstance(outcome, Conflict):
        return None
    store_marker(table, source, theirs, outcome.snapshot)
    return replace(result, status=outcome.status, snapshot_id=outcome.snapshot.id)


# ── common snapshots ──────────────────────────────────────────────────────────────────────────


def _base(table: TableHandle, source: TableHandle, newest: Snapshot) -> Snapshot | None:
    """The branch's snapshot from which on it has to be merged; None for its complete history.

    Raises: InvalidArgumentError if it is not known.
    """
    kept = kept_snapshots(table)
    known = {commit_of(snapshot) for snapshot in kept} | merged_commits(table, kept)
    history = kept_snapshots(source)
    for snapshot in sorted(history, key=_age):
        if snapshot.id <= newest.id and commit_of(snapshot) in known:
            return snapshot
    first = min(history, key=lambda snapshot: snapshot.id)
    ids = [snapshot.id for snapshot in kept]
    has_own_history = first.id == 1 and not read_manifest_list(source, first.base_manifest_list)
    if has_own_history and (not ids or min(ids) == 1):
        return None
    raise InvalidArgumentError(
        f"branch {source.paths.branch!r} and {table.paths.branch!r} of {table.paths.root} have no snapshot or tag in "
        "common any more, so the changes of the branch are not known; fast-forward to it, or write its rows"
    )


def _age(snapshot: Snapshot) -> int:
    return -snapshot.id


# ── changes of the branch ───────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _BranchDifference:
    added: tuple[ManifestEntry, ...]
    removed: tuple[ManifestEntry, ...]
    new_index_files: tuple[IndexFile, ...] = ()
    deleted_index_files: tuple[IndexFile, ...] = ()
    rescaled: frozenset[bytes] = field(default_factory=frozenset)

    @property
    def is_empty(self) -> bool:
        return not (self.added or self.removed or self.new_index_files or self.deleted_index_files)


def _difference(source: TableHandle, base: Snapshot | None, newest: Snapshot) -> _BranchDifference:
    """What the branch has changed from `base`, where it began (None: from an empty table), to its newest snapshot.

    Partitions count as rescaled if files of theirs were added, and their number of buckets was not always the same.
    """
    before = {entry.identity: entry for entry in live_entries(source, base)}
    after = {entry.identity: entry for entry in live_entries(source, newest)}
    old = {(file.kind, file.name): file for file in live_index_files(source, base)}
    new = {(file.kind, file.name): file for file in live_index_files(source, newest)}
    added = tuple(entry for identity, entry in after.items() if identity not in before)
    buckets: dict[bytes, set[int]] = {}
    for entry in (*before.values(), *after.values()):
        buckets.setdefault(entry.partition, set()).add(entry.total_buckets)
    changed = {entry.partition for entry in added}
    return _BranchDifference(
        added,
        tuple(entry for identity, entry in before.items() if identity not in after),
        tuple(file for name, file in new.items() if name not in old),
        tuple(file for name, file in old.items() if name not in new),
        frozenset(partition for partition in changed if len(buckets[partition]) > 1),
    )


def _with_other_ids(difference: _BranchDifference) -> tuple[ManifestEntry, ...]:
    """The added files, so that the commit gives their rows ids: others of the table got those that they have.

    Rows that both have keep theirs. Raises: UnsupportedError for files that store ids.
    """
    shared = {entry.file.name for entry in difference.removed}
    return tuple(
        entry if entry.file.name in shared else replace(entry, file=without_first_row_id(entry.file))
        for entry in difference.added
    )


def _check_schemas(table: TableHandle, source: TableHandle, entries: Sequence[ManifestEntry]) -> None:
    """Raises InvalidArgumentError if files of the branch would mean something else in the table."""
    if table.schema.row_type != source.schema.row_type:
        raise InvalidArgumentError(
            f"branch {source.paths.branch!r} has other columns than {table.paths.branch!r}; alter one of them first"
        )
    for number in sorted({entry.file.schema_id for entry in entries}):
        try:
            same = table.schema_of(number).row_type == source.schema_of(number).row_type
        except NotFoundError:
            same = False
        if not same:
            raise InvalidArgumentError(
                f"files of branch {source.paths.branch!r} have schema {number}, which is another one, or missing, in "
                f"{table.paths.branch!r} of {table.paths.root}; their schemas were altered differently"
            )


# ── changes of the table ──────────────────────────────────────────────────────────────────────

_Scope = tuple[bytes | None, int | None]
"""A partition and a bucket; None means all of them."""


def _scopes(table: TableHandle, difference: _BranchDifference) -> set[_Scope]:
    """The scopes that must not have changed in the table."""
    mode = table.schema.bucket_mode
    has_keys = bool(table.schema.primary_keys)
    buckets = [(entry.partition, entry.bucket) for entry in difference.removed]
    buckets += [
        (file.partition, file.bucket) for file in (*difference.new_index_files, *difference.deleted_index_files)
    ]
    if has_keys or difference.rescaled:
        buckets += [
            (entry.partition, entry.bucket)
            for entry in difference.added
            if has_keys or entry.partition in difference.rescaled
        ]
    if mode is BucketMode.CROSS_PARTITION and buckets:
        return {(None, None)}
    by_partition = mode in (BucketMode.DYNAMIC, BucketMode.POSTPONED)
    complete = {partition for partition, _ in buckets if by_partition or partition in difference.rescaled}
    return {(partition, None if partition in complete else bucket) for partition, bucket in buckets}


def _conflicts(
    table: TableHandle,
    source: TableHandle,
    difference: _BranchDifference,
    base: Snapshot | None,
    ours: Snapshot | None,
) -> list[str]:
    """The scopes that both branch (since `base`) and table (`ours`) have changed, as messages; empty if none."""
    scopes = _scopes(table, difference)
    if not scopes:
        return []
    then, now = _states(source, base, scopes), _states(table, ours, scopes)
    found = []
    for scope in sorted(scopes, key=str):
        if then.get(scope, set()) != now.get(scope, set()):
            found.append(
                f"both have changed {_named(table, scope)} since snapshot {base.id if base else 0} of the branch"
            )
    return found


def _misfits(table: TableHandle, difference: _BranchDifference, ours: Snapshot | None) -> list[str]:
    """As messages, why added files do not fit beside those that stay in the table."""
    if not difference.added:
        return []
    gone = {entry.identity for entry in difference.removed}
    stays = [entry for entry in live_entries(table, ours) if entry.identity not in gone]
    twice = {entry.file.name for entry in stays} & {entry.file.name for entry in difference.added}
    found = _other_buckets(table, difference, stays) if table.schema.bucket_mode is BucketMode.FIXED else []
    if twice:
        # A fast-forward has put another history with the same files in place of the one that the branch began from.
        found.append(
            f"{min(twice)} is in {table.paths.branch!r} already, although no snapshot in common has it; fast-forward "
            "to the branch, or write its rows"
        )
    return found


def _other_buckets(table: TableHandle, difference: _BranchDifference, staying: Sequence[ManifestEntry]) -> list[str]:
    """As messages, the partitions whose files would have several numbers of buckets."""
    stays: dict[bytes, set[int]] = {}
    for entry in staying:
        stays.setdefault(entry.partition, set()).add(entry.total_buckets)
    pairs = sorted({(entry.partition, entry.total_buckets) for entry in difference.added})
    return [
        f"rows{_partition_text(table, partition)} have {min(stays[partition])} buckets in {table.paths.branch!r}, and "
        f"{number} in the branch; rescale {table.paths.branch!r} to {number}"
        for partition, number in pairs
        if stays.get(partition, set()) - {number}
    ]


def _states(table: TableHandle, snapshot: Snapshot | None, scopes: set[_Scope]) -> dict[_Scope, set[Any]]:
    """The live files in each of the scopes."""
    found: dict[_Scope, set[Any]] = {}
    items: list[tuple[bytes, int, Any]] = [
        (entry.partition, entry.bucket, entry.identity) for entry in live_entries(table, snapshot)
    ]
    items += [(file.partition, file.bucket, (file.kind, file.name)) for file in live_index_files(table, snapshot)]
    for partition, bucket, identity in items:
        for scope in ((partition, bucket), (partition, None), (None, None)):
            if scope in scopes:
                found.setdefault(scope, set()).add(identity)
    return found


def _named(table: TableHandle, scope: _Scope) -> str:
    partition, bucket = scope
    if partition is None:
        return "the table, whose keys are unique over all partitions"
    where = _partition_text(table, partition)
    return f"all buckets{where}" if bucket is None else f"bucket {bucket}{where}"


def _partition_text(table: TableHandle, partition: bytes) -> str:
    columns = table.schema.partition_type
    values = decode_row([item.type for item in columns], partition)
    return f" of partition {dict(zip(columns.names, values, strict=True))}" if values else ""


# ── the commit ──────────────────────────────────────────────────────────────────────────────────


def _request(
    table: TableHandle,
    difference: _BranchDifference,
    changelog: Sequence[ManifestEntry],
    ours: Snapshot | None,
    jobs: Mapping[CommitKind, JobCommit],
) -> CommitRequest:
    """The commit of the branch's changes: an APPEND if they only add rows, otherwise an OVERWRITE.

    If any scope must not have changed in the table, the commit is refused should another one come first.
    """
    is_exclusive = bool(_scopes(table, difference))
    only_adds = not (difference.removed or difference.deleted_index_files)
    plain = only_adds and (not table.schema.primary_keys or all(entry.file.level == 0 for entry in difference.added))
    job = jobs[CommitKind.APPEND if plain else CommitKind.OVERWRITE]
    return replace(
        job.request(_messages(difference, changelog)),
        adds_old_files=True,
        read=IndexRead(ours, all_keys=True) if is_exclusive else None,
    )


def _changelog(table: TableHandle, source: TableHandle, base: Snapshot | None, theirs: Snapshot) -> list[ManifestEntry]:
    """The branch's changelog files since the base.

    Raises: InvalidArgumentError if some of them have expired.
    """
    if table.options.changelog_producer == "none":
        return []
    found: list[ManifestEntry] = []
    for number in range((base.id if base else 0) + 1, theirs.id + 1):
        try:
            found += changelog_entries(source, read_snapshot(source, number))
        except NotFoundError as error:
            raise InvalidArgumentError(
                f"snapshot {number} of branch {source.paths.branch!r} has expired, and its changelog with it, which "
                "readers of the table's changes would miss"
            ) from error
    return found


def _messages(difference: _BranchDifference, changelog: Sequence[ManifestEntry]) -> list[CommitMessage]:
    """A message for each bucket that the branch has changed, as the table's commit needs them."""
    totals: dict[tuple[bytes, int], int] = {}
    messages: dict[tuple[bytes, int], CommitMessage] = {}

    def message(partition: bytes, bucket: int) -> CommitMessage:
        key = (partition, bucket)
        return messages.setdefault(key, CommitMessage(partition, bucket, totals.get(key, 1)))

    for entry in (*difference.removed, *changelog, *difference.added):
        totals[entry.partition, entry.bucket] = entry.total_buckets
    removes = bool(difference.removed)
    for entry in difference.removed:
        found = message(entry.partition, entry.bucket)
        messages[entry.partition, entry.bucket] = replace(found, compact_before=(*found.compact_before, entry.file))
    for entry in difference.added:
        found = message(entry.partition, entry.bucket)
        changed = (
            replace(found, compact_after=(*found.compact_after, entry.file))
            if removes
            else replace(found, new_files=(*found.new_files, entry.file))
        )
        messages[entry.partition, entry.bucket] = changed
    for entry in changelog:
        found = message(entry.partition, entry.bucket)
        messages[entry.partition, entry.bucket] = replace(found, changelog_files=(*found.changelog_files, entry.file))
    for file in difference.new_index_files:
        found = message(file.partition, file.bucket)
        messages[file.partition, file.bucket] = replace(found, new_index_files=(*found.new_index_files, file))
    for file in difference.deleted_index_files:
        found = message(file.partition, file.bucket)
        messages[file.partition, file.bucket] = replace(found, deleted_index_files=(*found.deleted_index_files, file))
    return list(messages.values())
