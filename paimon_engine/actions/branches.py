"""Branches: create, delete with the files that only they need, rename; and let main continue from a branch.

Fast-forward, in this order, so that a reader finds snapshot ids without a gap and a run that was interrupted may be
repeated from the branch, which stays as it is:

1. Main's tags and changelogs that the branch lacks are deleted, then main's snapshots after the branch's newest one.
2. Schemas of the branch are written over main's.
3. From the first one that differs, the branch's snapshots replace main's; then main's newer schemas are deleted, and
   the branch's changelogs of expired snapshots and its tags are copied.
4. Files that only the replaced snapshots and tags reached are deleted.

Source: `FileSystemBranchManager` of the Java library. Differences: files that nothing reaches any more are deleted,
not left; snapshots that both have are not touched; main is never left with a gap.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from paimon_engine.action import Context, Result, action
from paimon_engine.errors import AlreadyExistsError, ConflictError, InvalidArgumentError, NotFoundError
from paimon_engine.executor import Executor
from paimon_engine.meta.names import check_branch_name, check_inside_directory
from paimon_engine.meta.paths import MAIN_BRANCH, OTHER_BRANCHES
from paimon_engine.meta.snapshot import Snapshot, snapshot_to_json
from paimon_engine.meta.tag import Tag, tag_to_json
from paimon_engine.specs import DryRun, IfExists, Index, Name, Spec
from paimon_engine.storage.publication import create_own
from paimon_engine.table.branches_tags.branch_schemas import (
    all_schema_bytes,
    check_schemas_of,
    check_schemas_stay,
    remove_schemas,
    same_schemas,
    take_schemas,
)
from paimon_engine.table.branches_tags.branching import (
    branch_files,
    branch_root_files,
    check_origin_exists,
    existing_branch,
    finish_branch,
    is_unfinished,
    move_branch,
    refuse_server,
    remove_branch_files,
    write_branch,
)
from paimon_engine.table.branches_tags.forwarding import (
    check_sources,
    existing_snapshot_ids,
    remove_from,
    tags_without_source,
)
from paimon_engine.table.branches_tags.merges import keep_markers, mark_forward, prepare_forward
from paimon_engine.table.branches_tags.tag_notifications import TagNotifier, notifying
from paimon_engine.table.branches_tags.tagging import (
    check_no_branch_from,
    named_tags,
    plan_removal,
    remove_tags,
    tag_files,
)
from paimon_engine.table.commit.records import take_back_records, take_over_records
from paimon_engine.table.reach.reachability import Root, all_roots, with_branch_paths
from paimon_engine.table.removal.deletion_plan import (
    DeletedFile,
    Deletion,
    DeletionPlan,
    PreparedDeletion,
    carry_out,
    finish_interrupted,
    prepare,
    with_deletion,
)
from paimon_engine.table.removal.file_removal import Disposal
from paimon_engine.table.state.changelogs import (
    changelog_ids,
    forget_newest,
    hint_kept,
    without_lost_changelog,
    write_changelog,
)
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.hints import repair_latest_hint, write_earliest_hint, write_hint
from paimon_engine.table.state.schema_commit import stored_schema
from paimon_engine.table.state.snapshots import (
    branch_exists,
    branches,
    consumers,
    list_tags,
    read_snapshot,
    read_tag,
    same_commit,
    snapshot_ids,
    snapshots_newest_first,
)
from paimon_engine.table.state.vanished import check_is_there

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CreateBranch(Spec):
    """Create a branch: empty, from a tag of main, or from one of main's snapshots.

    Java's expiry keeps the files of a branch only if it was created from a tag, since it checks tags and not branches.
    If the branch exists: `error` raises ConflictError, `ignore` leaves it as it is.
    """

    branch: Annotated[Name, "name of the branch"]
    tag: Annotated[Name | None, "name of the tag to begin with"] = None
    snapshot: Annotated[Index | None, "id of the snapshot to begin with"] = None
    if_exists: Annotated[IfExists, "error fails if the branch exists; ignore leaves it as it is"] = "error"


@dataclass(frozen=True, slots=True)
class DeleteBranch(Disposal):
    """Delete a branch, and the files that only it needed; a dry run says which."""

    branch: Annotated[Name, "name of the branch"]
    dry_run: DryRun = False


@dataclass(frozen=True, slots=True)
class RenameBranch(Spec):
    """Give a branch another name."""

    branch: Annotated[Name, "name of the branch"]
    to: Annotated[Name, "its new name"]


@dataclass(frozen=True, slots=True)
class FastForward(Disposal):
    """Make main what the branch is, from the branch's first snapshot on; a dry run says what would be removed."""

    branch: Annotated[Name, "name of the branch"]
    dry_run: DryRun = False


@dataclass(frozen=True, slots=True)
class BranchResult(Result):
    """Outcome of an action on a branch.

    `status` is `created`, `deleted`, `renamed`, `forwarded`, `already_done` or `dry_run`; `snapshot_id` is the
    latest snapshot of the branch concerned. `removed_snapshots`, `removed_tags` and `removed_changelogs` are main's;
    `consumers_ahead` names consumers of main that would continue from a snapshot that was removed. `stopped` says why
    files were left.
    """

    status: str
    branch: str
    snapshot_id: int | None = None
    removed_snapshots: tuple[int, ...] = ()
    removed_tags: tuple[str, ...] = ()
    files_deleted: int = 0
    bytes_deleted: int = 0
    deleted: tuple[DeletedFile, ...] = ()
    quarantine: str | None = None
    consumers_ahead: tuple[str, ...] = ()
    stopped: tuple[str, ...] = ()
    seconds: float = 0.0
    removed_changelogs: tuple[int, ...] = ()


# ── create and rename ───────────────────────────────────────────────────────────────────────────


@action
def create_branch(context: Context, spec: CreateBranch) -> BranchResult:
    """Creates the branch. If it was interrupted, it may be repeated.

    Raises: ConflictError if the branch exists and may not, if its snapshot expired meanwhile, or if the table is
    another one since it was opened; NotFoundError if it is gone, or the tag or snapshot does not exist;
    InvalidArgumentError; UnsupportedError if a server manages the branches.
    """
    table = context.table
    refuse_server(table)
    check_branch_name(spec.branch)
    if spec.if_exists not in ("error", "ignore"):
        raise InvalidArgumentError(f"if_exists={spec.if_exists!r}; choose one of error, ignore")
    if spec.tag is not None and spec.snapshot is not None:
        raise InvalidArgumentError("give a tag or a snapshot, not both")
    check_is_there(table)
    main = with_branch_paths(table, MAIN_BRANCH)
    tag = None if spec.tag is None else read_tag(main, spec.tag)
    origin = tag.snapshot if tag is not None else None if spec.snapshot is None else read_snapshot(main, spec.snapshot)
    files = branch_files(table, spec.branch, origin, tag)
    origin_text = json.dumps({"tag": spec.tag, "snapshot": spec.snapshot})
    if branch_exists(table, spec.branch) and not is_unfinished(table, spec.branch, origin_text):
        if spec.if_exists == "error":
            raise AlreadyExistsError(f"branch {spec.branch!r} of {table.paths.root} exists already")
        return _result("already_done", table, spec.branch)
    write_branch(table, spec.branch, files, origin_text)
    if origin is not None:
        check_origin_exists(main, spec.branch, origin, spec.tag, files)
    return _result("created", table, spec.branch)


@action
def rename_branch(context: Context, spec: RenameBranch) -> BranchResult:
    """Renames the branch. Safe to repeat; no writer may use it meanwhile.

    Raises: NotFoundError; ConflictError if the new name is taken; InvalidArgumentError for a bad name, or if the table
    falls back on the branch; UnsupportedError if a server manages the branches.
    """
    table = context.table
    refuse_server(table)
    check_inside_directory("branch", spec.branch)
    check_branch_name(spec.to)
    _check_not_main(spec.branch)
    if branch_exists(table, spec.to):
        unfinished = is_unfinished(table, spec.to, spec.branch)
        if spec.to == spec.branch or not branch_exists(table, spec.branch):
            if unfinished:
                finish_branch(table, spec.to)
            return _result("already_done", table, spec.to)
        if not unfinished:
            raise AlreadyExistsError(f"branch {spec.to!r} of {table.paths.root} exists already; delete it first")
    existing_branch(table, spec.branch)
    _check_no_fallback(table, spec.branch)
    # First, so that what is interrupted in between can be repeated.
    keep_markers(table, spec.branch, spec.to)
    move_branch(table, spec.branch, spec.to)
    return _result("renamed", table, spec.to)


def _check_not_main(name: str) -> None:
    if name == MAIN_BRANCH:
        raise InvalidArgumentError(f"{MAIN_BRANCH!r} is the table itself, not one of its branches")


def _check_no_fallback(table: TableHandle, name: str) -> None:
    for option in (*OTHER_BRANCHES, "scan.fallback-snapshot-branch", "scan.fallback-delta-branch"):
        if table.options.raw.get(option) == name:
            raise InvalidArgumentError(
                f"the table reads partitions from branch {name!r}; remove its option '{option}' first"
            )


def _result(status: str, table: TableHandle, branch: str) -> BranchResult:
    newest = next(iter(snapshot_ids(with_branch_paths(table, branch))[::-1]), None)
    return BranchResult(status, branch, newest)


# ── delete ──────────────────────────────────────────────────────────────────────────────────────


@action
def delete_branch(context: Context, spec: DeleteBranch) -> BranchResult:
    """Deletes the branch and the files that only it needed. Safe to repeat.

    Files that an unreadable version might need are kept, and `stopped` says so.

    Raises: InvalidArgumentError for main, or if the table falls back on the branch; UnsupportedError; StorageError.
    """
    table, executor = context.table, context.executor
    refuse_server(table)
    check_inside_directory("branch", spec.branch)
    _check_not_main(spec.branch)
    if spec.branch not in branches(table):
        done = BranchResult("already_done", spec.branch)
        if not spec.dry_run:
            done = with_deletion(done, finish_interrupted(table, executor, spec))
        return done
    _check_no_fallback(table, spec.branch)
    roots = all_roots(table)
    removed = [root for root in roots if root.branch == spec.branch]
    kept = roots.settled(lambda doubt: doubt.branch == spec.branch)
    plan = plan_removal(table, kept, removed, executor)
    left = (f"files that only it names are left: {doubt.reason}" for doubt in roots.doubts if doubt not in kept.doubts)
    plan = replace(plan, stopped=(*left, *plan.stopped))
    result = with_deletion(_result("dry_run", table, spec.branch), Deletion(plan.files, plan.stopped))
    if not spec.dry_run:
        prepared = prepare(table, plan, spec, "delete_branch", roots=branch_root_files(table, spec.branch))
        remove_branch_files(table, spec.branch)
        result = _carried_out(replace(result, status="deleted"), table, plan, executor, prepared)
        logger.info("deleted branch %s of %s", spec.branch, table.paths.root)
    return result


def _carried_out(
    result: BranchResult, table: TableHandle, plan: DeletionPlan, executor: Executor, prepared: PreparedDeletion
) -> BranchResult:
    return with_deletion(result, carry_out(table, plan, executor, prepared))


# ── fast-forward ────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Forward:
    """`first` is the first snapshot id that differs; `snapshots` are the branch's from it on, `schema_id` its schema.

    `changelogs` are those of the branch that main lacks.
    """

    first: int
    snapshots: tuple[Snapshot, ...]
    tags: tuple[Tag, ...]
    removed: tuple[Root, ...]
    schema_id: int
    changelogs: tuple[Snapshot, ...] = ()


@action
def fast_forward(context: Context, spec: FastForward) -> BranchResult:
    """Replaces main by the branch. No writer may use main meanwhile; an interrupted run may be repeated.

    Raises: NotFoundError; InvalidArgumentError if the branch has no snapshot, begins so late that main would have a
    gap, or lacks a schema that main still needs; CorruptTableError if a snapshot or tag cannot be parsed;
    ConflictError if others keep committing to main; UnsupportedError, CallbackError as in
    `table.branches_tags.tag_notifications`.
    """
    table, executor = context.table, context.executor
    refuse_server(table)
    check_inside_directory("branch", spec.branch)
    _check_not_main(spec.branch)
    main, branch = with_branch_paths(table, MAIN_BRANCH), existing_branch(table, spec.branch)
    roots = all_roots(table)
    forward = _forward(branch, roots.checked())
    check_no_branch_from([root for root in roots if root.branch != spec.branch], forward.removed)
    removed_ids = {root.identity for root in forward.removed}
    staying = [root for root in roots if root.branch == MAIN_BRANCH and root.identity not in removed_ids]
    check_schemas_of(main, branch, staying, forward.schema_id)
    newest = existing_snapshot_ids(main, branch)[-1]
    is_done = not forward.snapshots and not forward.removed and not forward.changelogs
    is_done = is_done and _has_tags(main, forward) and same_schemas(main, branch)
    plan = plan_removal(table, roots, forward.removed, executor)
    result = BranchResult(
        status="already_done" if is_done else "dry_run",
        branch=spec.branch,
        snapshot_id=newest,
        removed_snapshots=tuple(sorted(root.snapshot.id for root in forward.removed if root.is_snapshot)),
        removed_tags=tuple(sorted(root.tag for root in forward.removed if root.tag is not None)),
        consumers_ahead=tuple(name for name, next_id in consumers(main).items() if next_id > newest + 1),
        removed_changelogs=tuple(sorted(root.snapshot.id for root in forward.removed if root.is_changelog)),
    )
    result = with_deletion(result, Deletion(plan.files, plan.stopped))
    if is_done and not spec.dry_run:
        mark_forward(main, branch, newest)
        result = with_deletion(result, finish_interrupted(table, executor, spec))
    if not spec.dry_run and not is_done:
        if spec.quarantine:
            check_schemas_stay(main, branch)
        hidden = [main.paths.snapshot(number) for number in result.removed_snapshots]
        hidden += tag_files(main, result.removed_tags)
        hidden += [main.paths.changelog(number) for number in result.removed_changelogs]
        with notifying(main, dry_run=not (result.removed_tags or forward.tags)) as notifier:
            prepared = prepare(main, plan, spec, "fast_forward", roots=hidden)
            _replace_main(main, branch, forward, result, notifier)
            mark_forward(main, branch, newest)
            # Main's own newest schema, which workers would read, may have been removed.
            now = table.newest()
            if now.entry is not None:
                now.entry.follow(now, main.schema, stored_schema(now))
            result = _carried_out(replace(result, status="forwarded"), now, plan, executor, prepared)
        logger.info("main of %s continues from branch %s, snapshot %d", table.paths.root, spec.branch, newest)
    return result


def _forward(branch: TableHandle, roots: list[Root]) -> _Forward:
    """The changes that main lacks, and the changes of main that the branch lacks. Raises: InvalidArgumentError."""
    theirs = {snapshot.id: snapshot for snapshot in list(snapshots_newest_first(branch))[::-1]}
    if not theirs:
        raise InvalidArgumentError(f"branch {branch.paths.branch!r} has no snapshot for main to continue from")
    begin = min(theirs)
    ours = {root.snapshot.id: root.snapshot for root in roots if root.branch == MAIN_BRANCH and root.is_snapshot}
    below = [number for number in ours if number < begin]
    if below and max(below) != begin - 1:
        raise InvalidArgumentError(
            f"branch {branch.paths.branch!r} begins with snapshot {begin} and main ends with {max(below)}: "
            "what is between has expired, and main would have a gap"
        )
    first = next(
        (number for number in theirs if number not in ours or not same_commit(ours[number], theirs[number])),
        max(theirs) + 1,
    )
    tags = {tag.name: tag for tag in list_tags(branch)}
    # A tag to be deleted is looked up by its name: listings of some stores are out of date.
    late = {root.tag for root in roots if root.branch == MAIN_BRANCH and root.snapshot.id >= begin} - {None, *tags}
    tags |= {name: tag for name in sorted(filter(None, late)) if (tag := _read_tag_if_exists(branch, name)) is not None}
    removed, changelogs = _changelogs(branch, theirs, roots)
    for root in roots:
        if root.branch != MAIN_BRANCH or root.is_changelog:
            continue
        if root.tag is None:
            is_removed = root.snapshot.id >= first
        else:
            same = root.tag in tags and same_commit(tags[root.tag].snapshot, root.snapshot)
            is_removed = root.snapshot.id >= begin and not same
        removed += [root] if is_removed else []
    snapshots = tuple(snapshot for number, snapshot in theirs.items() if number >= first)
    return _Forward(first, snapshots, tuple(tags.values()), tuple(removed), theirs[begin].schema_id, changelogs)


def _changelogs(
    branch: TableHandle, snapshots: Mapping[int, Snapshot], roots: Sequence[Root]
) -> tuple[list[Root], tuple[Snapshot, ...]]:
    """Main's changelogs of commits that the branch does not have, and the branch's that main does not have."""
    ours, theirs = (
        {root.snapshot.id: root for root in roots if root.branch == name and root.is_changelog}
        for name in (MAIN_BRANCH, branch.paths.branch)
    )
    history = {**{number: root.snapshot for number, root in theirs.items()}, **snapshots}
    removed = [
        root
        for number, root in ours.items()
        if number >= min(history) and not (number in history and same_commit(history[number], root.snapshot))
    ]
    lost = {root.snapshot.id for root in removed}
    missing = [root.snapshot for number, root in theirs.items() if number not in ours or number in lost]
    return removed, tuple(missing)


def _read_tag_if_exists(branch: TableHandle, name: str) -> Tag | None:
    try:
        return read_tag(branch, name)
    except NotFoundError:
        return None


def _has_tags(main: TableHandle, forward: _Forward) -> bool:
    there = list_tags(main)
    return all(tag in there for tag in forward.tags)


def _replace_main(
    main: TableHandle, branch: TableHandle, forward: _Forward, result: BranchResult, notifier: TagNotifier
) -> None:
    """Gives main the schemas, snapshots, changelogs and tags of the branch; a reader finds a snapshot at any time."""
    storage, paths = main.env.storage, main.paths
    newest = existing_snapshot_ids(main, branch)[-1]
    prepare_forward(main, branch, newest)
    take_back_records(main, forward.first - 1)
    remove_tags(main, named_tags(forward.removed), notifier)
    forget_newest(main, list(result.removed_changelogs))
    remove_from(main, newest + 1)
    theirs = all_schema_bytes(branch)
    lost = {number for number, data in all_schema_bytes(main).items() if theirs.get(number) != data}
    take_schemas(main, branch, forward.schema_id)
    snapshots = (without_lost_changelog(main, snapshot) for snapshot in forward.snapshots)
    files = {snapshot.id: snapshot_to_json(snapshot).encode() for snapshot in snapshots}
    present = [number for number in snapshot_ids(main) if number in files]
    # Where main has a snapshot of that number it is overwritten, so that no reader ever finds the table empty.
    for number in reversed(present):
        storage.overwrite(paths.snapshot(number), files[number])
    for number, data in files.items():
        path = paths.snapshot(number)
        if number not in present and not create_own(storage, path, data):
            raise ConflictError(
                f"others keep committing to {paths.root} during the fast-forward; stop them and run it again"
            )
    check_sources(main, branch, [snapshot.id for snapshot in forward.snapshots])
    remove_from(main, newest + 1)
    _remove_late_tags(main, forward, lost, notifier)
    remove_schemas(main, branch)
    # An expiry may have put changelogs in place of removed snapshots meanwhile.
    history = {snapshot.id: snapshot for snapshot in snapshots_newest_first(branch)}
    late, _ = _changelogs(branch, history, all_roots(main))
    forget_newest(main, [root.snapshot.id for root in late])
    for changelog in forward.changelogs:
        write_changelog(main, changelog)
    if forward.changelogs:
        hint_kept(main, changelog_ids(main)[-1])
    there = list_tags(main)
    new = {tag.name: tag.snapshot.id for tag in forward.tags if tag not in there}
    notifier.expect(new)
    for tag in forward.tags:
        storage.overwrite(paths.tag(tag.name), tag_to_json(tag).encode())
    notifier.made(new)
    remove_tags(main, tags_without_source(main, branch, forward.tags), notifier)
    take_over_records(main, branch)
    ids = snapshot_ids(main)
    write_hint(main, paths.latest_hint, ids[-1])
    write_earliest_hint(main, main.paths.snapshot_dir, ids[0])
    repair_latest_hint(main)


def _remove_late_tags(main: TableHandle, forward: _Forward, lost: set[int], notifier: TagNotifier) -> None:
    """Deletes tags that others created meanwhile on removed snapshots and that need a removed schema."""
    kept = {tag.name for tag in forward.tags}
    for tag in list_tags(main):
        if tag.name not in kept and tag.snapshot.id >= forward.first and tag.snapshot.schema_id in lost:
            logger.warning("tag %s of %s is deleted: main continues from the branch", tag.name, main.paths.root)
            remove_tags(main, {tag.name: tag.snapshot.id}, notifier)
