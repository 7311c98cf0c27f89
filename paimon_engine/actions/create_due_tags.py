"""Create the tags that a table's options require, and delete the oldest when there are too many.

1. `tag.automatic-creation` says by which clock. With `process-time` and `watermark`, `meta.tag_periods` works out
   from the existing tags and snapshots which periods have ended; with `batch`, the tag of today moves to the latest
   snapshot, so this is to run after each batch job.
2. The tags are made, oldest first. A run that was interrupted may be repeated: it continues after the newest tag.
3. Of more automatic tags than `tag.num-retained-max` the oldest are deleted, with the files that only they needed.

A dry run is step 1, and the plan of step 3.

Source: `TagAutoCreation`, `TagBatchCreation` of the Java library. Difference: with `batch` too, only automatic tags are
counted and dropped, as the option says; Java then drops any tags.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from paimon_engine.action import Context, Result, action
from paimon_engine.executor import Executor
from paimon_engine.meta.names import check_tag_name
from paimon_engine.meta.tag import Tag
from paimon_engine.meta.tag_periods import (
    DueTag,
    DueTags,
    automatic_tags,
    batch_tag_name,
    batch_tags,
    due_tags,
    tag_periods,
)
from paimon_engine.specs import DryRun
from paimon_engine.table.branches_tags.tag_notifications import TagNotifier, notifying
from paimon_engine.table.branches_tags.tagging import (
    branches_from,
    check_no_branch_from,
    make_tag,
    move_tag,
    named_tags,
    new_tag,
    plan_removal,
    remove_tags,
    tag_files,
)
from paimon_engine.table.reach.reachability import Root, all_roots
from paimon_engine.table.removal.deletion_plan import DeletedFile, Deletion, carry_out, prepare
from paimon_engine.table.removal.file_removal import Disposal
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.snapshots import latest_snapshot, list_tags, same_commit, snapshots_newest_first

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CreateDueTags(Disposal):
    """Create the tags that the table's options require by now; a dry run says which."""

    dry_run: DryRun = False


@dataclass(frozen=True, slots=True)
class DueTagsResult(Result):
    """What was made and dropped; `status` is `created`, `noop` or `dry_run` (then: what would be).

    `created` maps tags to their snapshots, oldest first; `tag` and `snapshot_id` are the newest of them. `skipped` says
    which snapshots got no tag, or which tags stay beyond the number, and why; `stopped` why files were left.
    """

    status: str
    created: dict[str, int]
    tag: str | None = None
    snapshot_id: int | None = None
    deleted_tags: tuple[str, ...] = ()
    files_deleted: int = 0
    bytes_deleted: int = 0
    deleted: tuple[DeletedFile, ...] = ()
    quarantine: str | None = None
    skipped: tuple[str, ...] = ()
    stopped: tuple[str, ...] = ()
    seconds: float = 0.0


@action
def create_due_tags(context: Context, spec: CreateDueTags) -> DueTagsResult:
    """Creates the tags that are due. Safe to repeat, and concurrently with writers and expiry.

    `expire_tags` expires tags by age.

    Raises: InvalidArgumentError if an option cannot be parsed, or a branch was made from a batch tag that moves;
    ConflictError if a snapshot expired while its tag was made; CorruptTableError if a tag cannot be parsed;
    UnsupportedError, CallbackError as in `table.branches_tags.tag_notifications`.
    """
    table, executor = context.table, context.executor
    with notifying(table, dry_run=spec.dry_run) as notifier:
        return _created(table, spec, executor, notifier)


def _created(table: TableHandle, spec: CreateDueTags, executor: Executor, notifier: TagNotifier) -> DueTagsResult:
    """Creates the due tags, oldest first, then deletes those that are too many; the result of both.

    A dry run counts the tags that it would create, so that it also shows which ones would be too many.
    """
    tags = list_tags(table)
    due = _due(table, tags)
    moved = [_make(table, tags, one, spec, executor, notifier=notifier) for one in due.tags]
    if not spec.dry_run:
        tags = list_tags(table)
    else:
        made = {one.name: Tag(one.name, one.snapshot) for one in due.tags}
        tags = [*(tag for tag in tags if tag.name not in made), *made.values()]
    result = DueTagsResult(
        status="dry_run" if spec.dry_run else "created" if due.tags else "noop",
        created={one.name: one.snapshot.id for one in due.tags},
        tag=due.tags[-1].name if due.tags else None,
        snapshot_id=due.tags[-1].snapshot.id if due.tags else None,
        skipped=(*due.skipped, *_kept_by_mistake(table)),
        files_deleted=sum(len(one.files) for one in moved),
        bytes_deleted=sum(one.size_bytes for one in moved),
        deleted=tuple(file for one in moved for file in one.files),
        quarantine=next((one.quarantine for one in moved if one.quarantine is not None), None),
        stopped=tuple(reason for one in moved for reason in one.stopped),
    )
    return _drop(table, _superfluous(table, tags), result, spec, executor, notifier=notifier)


# ── make ────────────────────────────────────────────────────────────────────────────────────────


def _due(table: TableHandle, tags: Sequence[Tag]) -> DueTags:
    periods = tag_periods(table.options)
    if periods is not None:
        automatic = automatic_tags(periods, tags)
        seen = automatic[-1].snapshot.id if automatic else 0
        return due_tags(periods, tags, list(snapshots_newest_first(table, newer_than=seen))[::-1])
    latest = latest_snapshot(table)
    if table.options.tag_automatic_creation != "batch" or latest is None:
        return DueTags()
    name = batch_tag_name(table.options, latest)
    check_tag_name(name)
    if any(tag.name == name and same_commit(tag.snapshot, latest) for tag in tags):
        return DueTags()
    return DueTags((DueTag(name, latest),))


def _make(
    table: TableHandle,
    tags: Sequence[Tag],
    due: DueTag,
    spec: CreateDueTags,
    executor: Executor,
    *,
    notifier: TagNotifier,
) -> Deletion:
    """Creates one due tag; a tag of that name (of `batch`) is moved, and files that only it needed are deleted.

    The deletion of these files, in a dry run their plan; empty for a new tag. Raises: InvalidArgumentError if a branch
    was created from the tag.
    """
    tag = new_tag(table, due.name, due.snapshot)
    existing = next((other for other in tags if other.name == due.name), None)
    if existing is None:
        # If another process made the same tag, the work is done.
        if not spec.dry_run and make_tag(table, tag, notifier):
            logger.info("made tag %s of %s on snapshot %d", tag.name, table.paths.root, due.snapshot.id)
        return Deletion()
    root, roots = Root(table.paths.branch, existing.snapshot, existing.name), all_roots(table)
    check_no_branch_from(roots, [root])
    plan = plan_removal(table, roots, [root], executor)
    if spec.dry_run:
        return Deletion(plan.files, plan.stopped)
    prepared = prepare(table, plan, spec, "create_due_tags", roots=[table.paths.tag(existing.name)])
    move_tag(table, existing, tag, notifier)
    return carry_out(table, plan, executor, prepared)


# ── drop ────────────────────────────────────────────────────────────────────────────────────────


def _superfluous(table: TableHandle, tags: Sequence[Tag]) -> list[Tag]:
    most = table.options.tag_num_retained_max
    if most is None or most < 1 or table.options.tag_automatic_creation == "none":
        return []
    periods = tag_periods(table.options)
    automatic = batch_tags(table.options, tags) if periods is None else automatic_tags(periods, tags)
    return automatic[: max(0, len(automatic) - most)]


def _kept_by_mistake(table: TableHandle) -> tuple[str, ...]:
    """What is said where the table's limit would delete every automatic tag, also the new one, as in Java."""
    most = table.options.tag_num_retained_max
    if most is None or most > 0 or table.options.tag_automatic_creation == "none":
        return ()
    what = f"'tag.num-retained-max' = '{most}' would delete every automatic tag"
    return (f"no tag is deleted: {what}; set a positive number, or remove the option",)


def _drop(
    table: TableHandle,
    expiring: Sequence[Tag],
    result: DueTagsResult,
    spec: CreateDueTags,
    executor: Executor,
    *,
    notifier: TagNotifier,
) -> DueTagsResult:
    """Deletes the tags whose time to live has ended, and adds what went to the result; tags with branches stay."""
    if not expiring:
        return result
    roots = all_roots(table)
    wanted = [Root(table.paths.branch, tag.snapshot, tag.name) for tag in expiring]
    branched = {root.tag: found for root in wanted if (found := branches_from(roots, root))}
    skipped = tuple(f"tag {tag!r} stays: branch {names[0]!r} was made from it" for tag, names in branched.items())
    removed = [root for root in wanted if root.tag not in branched]
    plan = plan_removal(table, roots, removed, executor)
    names = tuple(named_tags(removed))
    files, stopped, quarantine = plan.files, plan.stopped, None
    if not spec.dry_run:
        prepared = prepare(table, plan, spec, "create_due_tags", roots=tag_files(table, names))
        remove_tags(table, named_tags(removed), notifier)
        deletion = carry_out(table, plan, executor, prepared)
        files, stopped, quarantine = deletion.files, deletion.stopped, deletion.quarantine
    both = quarantine is not None and result.quarantine is not None
    other = (f"files of tags that have moved are in quarantine {result.quarantine}",) if both else ()
    return replace(
        result,
        deleted_tags=names,
        files_deleted=result.files_deleted + len(files),
        bytes_deleted=result.bytes_deleted + sum(file.size_bytes for file in files),
        deleted=(*result.deleted, *files),
        quarantine=quarantine or result.quarantine,
        skipped=(*result.skipped, *skipped, *other),
        stopped=(*result.stopped, *stopped),
    )
